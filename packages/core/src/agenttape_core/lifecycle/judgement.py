"""The judgement on a run that ended without an error: unused recordings, and names that no boundary has."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from agenttape_core.errors import (
    ChangeNotReachedError,
    ConfigurationError,
    UnmatchedNameWarning,
    UnrecordedCallsError,
    UnrecordedConnectionWarning,
    UnusedInteractionsError,
    UnusedInteractionsWarning,
    counted,
    shown_path,
)
from agenttape_core.lifecycle.start_session import Opened
from agenttape_core.schema import MODEL_KINDS
from agenttape_core.session import NAMES, runs


class Judgement(NamedTuple):
    """The judgement on a run that has ended.

    Args:
        error: The error to raise, if there is one.
        warnings: The warnings to give if there is none.
    """

    error: UnusedInteractionsError | UnrecordedCallsError | ChangeNotReachedError | ConfigurationError | None = None
    warnings: tuple[Warning, ...] = ()


def judged(opened: Opened) -> Judgement:
    """Judge a run that has ended without a failure, by the settings and its report.

    Args:
        opened: The session, which has ended.
    """
    unrecorded = opened.session.report.unrecorded
    if unrecorded and opened.prepared.settings.on_unrecorded == "fail":
        return Judgement(_unrecorded_calls(opened, unrecorded))
    if opened.prepared.request.candidate is not None and not _asks_models(opened):
        return Judgement(_untried(opened))
    if opened.prepared.request.judges_changes and opened.prepared.changes:
        from agenttape_core.lifecycle.changed import unlanded_error  # most sessions change nothing

        unlanded = unlanded_error(opened.session, opened.prepared.changes, opened.prepared.shown)
        if unlanded is not None:
            return Judgement(unlanded)
    warnings: list[Warning] = list(opened.session.warnings.values())
    if opened.session.report.unused and (unused := _unused(opened)) is not None:
        wanted = opened.prepared.settings.judges_unused
        if wanted == "fail":
            return Judgement(unused)
        if wanted == "warn":
            warnings.append(UnusedInteractionsWarning(str(unused)))
    if uncovered := opened.session.report.uncovered:
        warnings.append(UnrecordedConnectionWarning(_uncovered(opened, uncovered)))
    policy = opened.session.policy
    is_named = policy.live or policy.replay_only or policy.step_into
    if is_named and (unmatched := opened.session.extension(NAMES).unmatched()):
        names = ", ".join(unmatched)
        where = f"{opened.prepared.shown}: live, replay_only or step_into names {names}"
        warnings.append(UnmatchedNameWarning(f"{where}, but the run asked for no boundary of that name"))
    return Judgement(warnings=tuple(warnings))


def _asks_models(opened: Opened) -> bool:
    return any(crossed.kind in MODEL_KINDS for crossed in opened.session.report.recorded)


def _untried(opened: Opened) -> ConfigurationError:
    """Return the error about a trial without any sample."""
    return ConfigurationError(
        f"{shown_path(opened.prepared.shown)}: the candidate was not tried: the run asked no model\n"
        "  replay it without candidate= to see which of its recorded calls it no longer makes"
    )


def _unrecorded_calls(opened: Opened, unrecorded: Sequence[str]) -> UnrecordedCallsError:
    more = [f"and {len(unrecorded) - _SHOWN} more"] if len(unrecorded) > _SHOWN else []
    first = f"{shown_path(opened.prepared.shown)}: the run made {counted(len(unrecorded), 'unrecorded call')}"
    remedy = 'to only count such calls:  on_unrecorded="report"; to answer them:  fakes={NAME: FUNCTION}'
    return UnrecordedCallsError("\n  ".join([first, *unrecorded[:_SHOWN], *more, remedy]))


_SHOWN = 10


def _uncovered(opened: Opened, lines: Sequence[str]) -> str:
    """Return the message about connections that no boundary covers."""
    more = [f"and {len(lines) - _SHOWN} more"] if len(lines) > _SHOWN else []
    remedies = ["make the function around it a boundary (@boundary), or tape the object that is called there"]
    if not opened.session.http:
        remedies.append("or record what goes through HTTP clients: http=True, or http = true in [tool.agenttape]")
    where = shown_path(opened.prepared.shown)
    first = f"{where}: the run has reached outside where no boundary covers it; a replay will refuse it"
    return "\n  ".join([first, *lines[:_SHOWN], *more, *remedies])


def _unused(opened: Opened) -> UnusedInteractionsError | None:
    """Return the error that lists the calls that weren't made. What departs or adds is not expected to ask for all."""
    request = opened.prepared.request
    if request.derivation is not None or opened.session.policy.records or not request.judges_unused:
        return None
    if opened.prepared.changes and "on_unused" not in request.options:
        return None
    return runs.unused_error(opened.session)
