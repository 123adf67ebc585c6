"""`--cassette-lab=faults`: a test that has passed is run again, and each recorded call of it fails once in each way."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Literal, get_args

import pytest

from agenttape_core.errors import ConfigurationError, UnusedInteractionsError, shown_path
from agenttape_core.experiments.strategies.fault_kinds import FaultKind, chosen_kinds
from agenttape_core.experiments.strategies.faults import (
    FAILING,
    Cell,
    Ended,
    FaultMatrix,
    Planned,
    Verdict,
    control_of,
    first_line,
    planned,
    served_by,
    verdict_of,
    words_of,
)
from agenttape_core.interventions import Change
from agenttape_core.lifecycle.running_test import RunningTest, this_test
from agenttape_core.pytest_plugin.again import Excinfo, run_again, show_progress
from agenttape_core.pytest_plugin.failures import ours_in
from agenttape_core.pytest_plugin.running import Running
from agenttape_core.session import Session
from agenttape_core.tools.reporting.forms import FORMS

_MARKER = "faults"
_FAULTS = "agenttape.faults"
"""The name of the property of a test report that holds its matrices, as JSON."""


def refuse_unknown(config: pytest.Config) -> None:
    """Refuse kinds of faults that don't exist.

    Raises:
        pytest.UsageError: If there is one.
    """
    _chosen(_named(config))


def _named(config: pytest.Config) -> list[str] | None:
    """Return the names of the kinds of faults that the command line gives; `None` for all."""
    given = config.option.faults
    if given in {None, "all"}:
        return None
    return [name.strip() for name in str(given).split(",") if name.strip()]


def _chosen(names: Sequence[str] | None) -> list[FaultKind]:
    try:
        return chosen_kinds(names)
    except ConfigurationError as error:
        raise pytest.UsageError(str(error)) from None


def _kinds_for(item: pytest.Item) -> list[FaultKind]:
    """Return the kinds of faults that a test is tried with: those of its marker, else those of the command line."""
    marker = item.get_closest_marker(_MARKER)
    return _chosen(marker.args if marker is not None and marker.args else _named(item.config))


def _refused_for(item: pytest.Item) -> frozenset[Verdict]:
    """Return the verdicts that fail a test: those that its marker does not allow, where it has one."""
    marker = item.get_closest_marker(_MARKER)
    if marker is None:
        return frozenset()
    allowed = marker.kwargs.get("allow")
    if allowed is None:
        return FAILING
    verdicts: frozenset[Verdict] = frozenset(get_args(Verdict))
    unknown = sorted(set(allowed) - verdicts)
    if unknown:
        raise pytest.UsageError(f"faults(allow={unknown}): expected some of {', '.join(get_args(Verdict))}")
    return verdicts - frozenset(allowed) - {"recovered"}


def try_faults(item: pytest.Item, nextitem: pytest.Item | None, key: pytest.StashKey[Running]) -> None:
    """Run a test that has passed again for each fault, and keep what came of it in its report.

    Args:
        item: The test. Its own fixtures have been torn down.
        nextitem: The next test.
        key: The place of the test's cassette among its stashed objects.
    """
    test, running = this_test(), item.stash.get(key, None)
    if test is None or test.sessions is None:
        return
    refused = _refused_for(item)
    try:
        matrices = _Again(item, nextitem, key, test, test.sessions).matrices(_kinds_for(item))
    finally:
        test.changes.clear()
        if running is not None:
            item.stash[key] = running
    _keep(item, matrices)
    bad = [cell for matrix in matrices for cell in matrix.failing(refused)]
    if bad:
        lines = [
            f"{cell.fault} of {str(cell.target).strip()}: {cell.verdict.replace('_', ' ')}, {cell.words}"
            for cell in bad
        ]
        first = f"{len(bad)} of {sum(len(matrix.cells) for matrix in matrices)} faults come to what is not allowed"
        pytest.fail("\n  ".join([first, *lines]), pytrace=False)


class _Again:
    """The further runs of a test.

    Args:
        item: The test.
        nextitem: The next test.
        key: The place of the test's cassette among its stashed objects.
        test: What sessions know of the running test.
        sessions: Its sessions that have ended.
    """

    def __init__(
        self,
        item: pytest.Item,
        nextitem: pytest.Item | None,
        key: pytest.StashKey[Running],
        test: RunningTest,
        sessions: list[Session],
    ) -> None:
        self._item = item
        self._nextitem = nextitem
        self._key = key
        self._test = test
        self._sessions = sessions

    def matrices(self, kinds: Sequence[FaultKind]) -> list[FaultMatrix]:
        """Return a matrix for each cassette that the test replayed."""
        replayed = {session.path: session for session in self._sessions if _is_replay(session)}
        return [self._matrix(session, kinds) for session in replayed.values()]

    def _matrix(self, session: Session, kinds: Sequence[FaultKind]) -> FaultMatrix:
        served, shown, name = served_by(session), shown_path(session.path), self._item.nodeid
        raised, _ = self._run(session.path, control_of(session.source, served))
        if raised is not None:
            why = f"it fails when it is run again without a fault: {first_line(raised.value)}"
            return FaultMatrix(name, shown, excluded=why)
        plan, cells = planned(session.source, served, kinds), []
        for number, one in enumerate(plan.cells, 1):
            cells.append(self._cell(session.path, one))
            show_progress(self._item.config, number)
        return FaultMatrix(name, shown, tuple(cells), plan.calls, plan.left_out)

    def _cell(self, path: Path | str, one: Planned) -> Cell:
        raised, session = self._run(path, {one.target.number: one.change})
        error, report = raised.value if raised is not None else None, session.report if session is not None else None
        ended = Ended(report, one.target.number, _how(error), first_line(error))
        verdict = verdict_of(ended)
        return Cell(one.fault.name, one.target, verdict, words_of(ended, verdict))

    def _run(self, path: Path | str, changes: Mapping[int, Change]) -> tuple[Excinfo | None, Session | None]:
        """Run the test with changes. Return what it raised, and its session of the cassette."""
        self._test.changes.clear()
        self._test.changes[str(path)] = changes
        self._sessions.clear()
        if self._key in self._item.stash:
            del self._item.stash[self._key]  # if the setup fails, there is no other
        raised = run_again(self._item, self._nextitem)
        return raised, next((one for one in self._sessions if one.path == path), None)


def _is_replay(session: Session) -> bool:
    return session.is_replay and not session.report.executed and bool(session.report.served)


def _how(error: BaseException | None) -> Literal["passed", "raised", "assertion"]:
    if error is None or isinstance(ours_in(error), UnusedInteractionsError):
        return "passed"  # what it did not ask for is seen in the report
    return "assertion" if isinstance(error, AssertionError | pytest.fail.Exception) else "raised"


def exclude(item: pytest.Item) -> None:
    """Keep in the report of a test that it has failed without a fault, if it replayed a cassette."""
    test = this_test()
    paths = dict.fromkeys(shown_path(one.path) for one in (test.sessions if test is not None else None) or ())
    _keep(item, [FaultMatrix(item.nodeid, path, excluded="it fails without a fault") for path in paths])


def _keep(item: pytest.Item, matrices: Sequence[FaultMatrix]) -> None:
    if matrices:
        kept = [(name, value) for name, value in item.user_properties if name != _FAULTS]
        item.user_properties[:] = [*kept, (_FAULTS, json.dumps([matrix.to_dict() for matrix in matrices]))]


def matrices_in(properties: Sequence[tuple[str, object]]) -> list[FaultMatrix]:
    """Return the matrices that the properties of a report hold, in whatever process they were made."""
    found = next((str(value) for name, value in properties if name == _FAULTS), "[]")
    return [FaultMatrix.from_dict(plain) for plain in json.loads(found)]


def write_matrices(path: str, matrices: Sequence[FaultMatrix]) -> None:
    """Write matrices to a file: as JSON, or as the reporters of checks write the form of its suffix."""
    target = Path(path)
    os.makedirs(target.parent, exist_ok=True)  # noqa: PTH103 - of the user's own
    form = FORMS.get(target.suffix)
    plain = {"tests": [matrix.to_dict() for matrix in matrices]}
    text = json.dumps(plain, indent=2) if form is None else form([matrix.to_checked() for matrix in matrices])
    target.write_text(text, encoding="utf-8", newline="\n")
