"""The judgement on a run that did not fail by itself: unused recordings, and names that no boundary has."""

from __future__ import annotations

from dataclasses import dataclass

from agenttape_core.errors import UnmatchedNameWarning, UnusedInteractionsError, UnusedInteractionsWarning
from agenttape_core.lifecycle.open_session import Opened


@dataclass(frozen=True, slots=True)
class Judgement:
    """The judgement on a run that has ended.

    Args:
        error: The error to raise, if there is one.
        warnings: The warnings to give if there is none.
    """

    error: UnusedInteractionsError | None = None
    warnings: tuple[Warning, ...] = ()


def judged(opened: Opened) -> Judgement:
    """Judge a run that has ended without a failure, by the settings and its report.

    Args:
        opened: The session, which has ended.
    """
    unused, wanted = _unused(opened), opened.prepared.settings.judges_unused
    if unused is not None and wanted == "fail":
        return Judgement(unused)
    warnings: list[Warning] = []
    if unused is not None and wanted == "warn":
        warnings.append(UnusedInteractionsWarning(str(unused)))
    if unmatched := opened.session.unmatched():
        names = ", ".join(unmatched)
        where = f"{opened.prepared.shown}: live or frozen names {names}"
        warnings.append(UnmatchedNameWarning(f"{where}, but the run asked for no boundary of that name"))
    return Judgement(warnings=tuple(warnings))


def _unused(opened: Opened) -> UnusedInteractionsError | None:
    """Return the error that names what was not asked for. What departs or adds is not expected to ask for all."""
    if opened.prepared.request.derivation is not None or opened.session.policy.records:
        return None
    return opened.session.unused_error()
