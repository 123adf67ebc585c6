"""Faults: each recorded call of a run fails once in each way that the real world has, offline."""

from __future__ import annotations

import asyncio
import inspect
from collections import Counter
from collections.abc import Callable, Collection, Generator, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Literal, NamedTuple

from agenttape_core.errors import ConfigurationError, counted, shown_path
from agenttape_core.experiments.strategies.fault_kinds import CONTROL, NOTE, FaultKind, chosen_kinds, with_controls
from agenttape_core.experiments.what_if import WhatIf, awhat_if, what_if
from agenttape_core.interventions import Change
from agenttape_core.matching import bare_step
from agenttape_core.schema import Interaction
from agenttape_core.session import Report, Session, Source
from agenttape_core.storage import open_cassette
from agenttape_core.tools.reporting.findings import Checked, Finding, Judged

MANY = 24
"""The number of calls of a run from which on some stand for others."""
_OF_CLASS = 2


@dataclass(frozen=True, slots=True)
class Target:
    """A recorded call that fails.

    Args:
        number: Its number in the cassette.
        kind: Its kind.
        name: Its name.
        address: Where it is made.
    """

    number: int
    kind: str
    name: str
    address: str

    def __str__(self) -> str:
        return f"{self.number:>4}  {self.kind} {self.name} at {self.address}"


class Planned(NamedTuple):
    """A cell that is to be run.

    Args:
        fault: The kind of the fault.
        target: The call.
        change: The change that makes it fail.
    """

    fault: FaultKind
    target: Target
    change: Change


class Plan(NamedTuple):
    """The cells of a run.

    Args:
        cells: The cells.
        calls: The number of calls that could fail.
        left_out: How many of them have others that stand for them.
    """

    cells: list[Planned]
    calls: int
    left_out: int


def planned(source: Source, served: Iterable[int], kinds: Sequence[FaultKind], most: int = MANY) -> Plan:
    """Return the cells of a run.

    If there are many calls, the first and the last of each class stand for the others: calls of one kind and name at
    addresses that differ in their numbers alone.

    Args:
        source: The recordings.
        served: The numbers of the calls that the run was served; others cannot fail.
        kinds: The kinds of faults.
        most: The number of calls up to which each fails.
    """
    items = [source.interaction(number) for number in sorted(set(served))]
    able = [item for item in items if any(kind.applies(item) for kind in kinds)]
    chosen = able if len(able) <= most else _representatives(able)
    cells = [Planned(kind, _target(item), kind.change(item)) for item in chosen for kind in kinds if kind.applies(item)]
    return Plan(cells, len(able), len(able) - len(chosen))


def control_of(source: Source, served: Collection[int]) -> Mapping[int, Change]:
    """Return the neutral changes of a run: each answer is served as a change, and is the recorded one."""
    items = [source.interaction(number) for number in served]
    return {item.number: CONTROL.change(item) for item in items if CONTROL.applies(item)}


def served_by(session: Session) -> list[int]:
    """Return the numbers of the recordings that a session has served, and would serve again."""
    policy = session.policy
    return [one.number for one in session.report.served if policy.may_serve(one.kind, one.name, one.address)]


def _representatives(items: Sequence[Interaction]) -> list[Interaction]:
    classes: dict[tuple[str, ...], list[Interaction]] = {}
    for item in items:
        key = (item.kind, item.name, "/".join(map(bare_step, item.address.split("/"))))
        classes.setdefault(key, []).append(item)
    numbers = {item.number for found in classes.values() for item in (*found[: _OF_CLASS - 1], found[-1])}
    return [item for item in items if item.number in numbers]


def _target(item: Interaction) -> Target:
    return Target(item.number, item.kind, item.name, item.address)


Verdict = Literal["recovered", "silent", "raised", "new_call", "assertion", "not_reached"]
"""The end of a run in which one call failed: it *recovered* and did what it did before; it ended well, but otherwise
(*silent*); it *raised*; it made a *new call*, which no recording answers; an *assertion* of the test failed; or the
call was *not reached*, so that the run shows nothing."""

MARKS: dict[Verdict, str] = {
    "recovered": "ok",
    "silent": "SILENT",
    "raised": "raised",
    "new_call": "new call",
    "assertion": "assert",
    "not_reached": "?",
}
"""The verdicts as the matrix shows them."""


@dataclass(frozen=True, slots=True)
class Ended:
    """The end of a run in which one call failed.

    Args:
        report: The report of its session; `None` if it never opened the cassette.
        number: The number of the call.
        how: Whether it passed, raised, or failed by an assertion.
        words: The first line of the error.
        is_same: Whether it returned what it returned without a fault; `None` if that is not known, as of a test.
    """

    report: Report | None
    number: int
    how: Literal["passed", "raised", "assertion"]
    words: str = ""
    is_same: bool | None = None


def how_it_ended(error: BaseException) -> Literal["raised", "assertion"]:
    """Return how a run ended that raised."""
    return "assertion" if isinstance(error, AssertionError) else "raised"


def first_line(error: BaseException | None) -> str:
    """Return the class and the first line of an error; empty if there is none."""
    return f"{type(error).__name__}: {error}".partition("\n")[0] if error is not None else ""


def verdict_of(ended: Ended) -> Verdict:
    """Return the verdict on a cell."""
    report = ended.report
    if report is None or not any(one.number == ended.number for one in report.landed):
        return "not_reached"
    if report.missed or report.drift:
        return "new_call"
    if ended.how != "passed":
        return ended.how
    if ended.is_same is False or report.departed or report.judged:
        return "silent"
    # The recorded answer came in a further attempt, or its want changed nothing that the run returned.
    answers = [one for one in report.served if one.number == ended.number]
    return "recovered" if len(answers) > _landings(report, ended.number) or ended.is_same else "silent"


def _landings(report: Report, number: int) -> int:
    return sum(one.number == number for one in report.landed)


def words_of(ended: Ended, verdict: Verdict) -> str:
    """Return in a few words why the verdict is what it is."""
    report = ended.report
    if report is None or verdict == "not_reached":
        return "the run did not make the call again"
    if verdict == "new_call":
        departed = next((one for one in report.departed if one.what != "moved"), None)
        return f"changes the request of {departed.kind} {departed.name} at {departed.address}" if departed else ""
    if verdict == "silent":
        left = len(report.judged)
        return f"ended well, and {left} recorded calls were not made" if left else "ended well with another answer"
    return ended.words


FAILING: frozenset[Verdict] = frozenset({"silent"})
"""The verdicts that are findings by default: a test that passes although its agent did something else."""


@dataclass(frozen=True, slots=True)
class Cell:
    """The verdict on one fault of one call.

    Args:
        fault: The name of the kind of the fault.
        target: The call.
        verdict: The verdict.
        words: Why, in a few words.
    """

    fault: str
    target: Target
    verdict: Verdict
    words: str = ""


@dataclass(frozen=True, slots=True)
class FaultMatrix:
    """The verdicts on the faults of one test, or of one function and its cassette.

    Args:
        test: Its id, or the cassette.
        cassette: The cassette as messages show it.
        cells: The verdicts, call by call.
        calls: The number of calls that could fail.
        left_out: How many of them were not tried because others stand for them.
        excluded: Why it was not tried at all; empty if it was.
    """

    test: str
    cassette: str
    cells: tuple[Cell, ...] = ()
    calls: int = 0
    left_out: int = 0
    excluded: str = ""

    def count(self) -> Counter[Verdict]:
        """Return how often there is each verdict."""
        return Counter(cell.verdict for cell in self.cells)

    def failing(self, verdicts: Iterable[Verdict] = FAILING) -> list[Cell]:
        """Return the cells with one of some verdicts; harmless words are no fault, so they are not among these."""
        among = set(verdicts)
        return [cell for cell in self.cells if cell.verdict in among and cell.fault != NOTE.name]

    def to_dict(self) -> dict[str, Any]:
        """Return it as plain data; `from_dict` reads it."""
        return {**asdict(self), "counts": dict(self.count())}

    @classmethod
    def from_dict(cls, plain: Mapping[str, Any]) -> FaultMatrix:
        """Return the matrix that `to_dict` made plain."""
        fields = {name: value for name, value in plain.items() if name not in {"cells", "counts"}}
        cells = tuple(Cell(**{**cell, "target": Target(**cell["target"])}) for cell in plain["cells"])
        return cls(**fields, cells=cells)

    def __str__(self) -> str:
        return "\n".join(lines_of([self]))

    def to_checked(self) -> Checked:
        """Return it for the reporters of checks: a check for each cell."""
        return Checked(self.test, self.cassette, "", tuple(_judged(self, cell) for cell in self.cells))


def _judged(matrix: FaultMatrix, cell: Cell) -> Judged:
    text = f"{cell.fault}: {str(cell.target).strip()}"
    if cell.verdict == "recovered" or cell.fault == NOTE.name:
        return Judged("faults", text)
    finding = Finding(
        f"{cell.fault}: {cell.verdict.replace('_', ' ')}",
        expected="recovered",
        found=cell.words or cell.verdict,
        level="error" if cell.verdict in FAILING else "warning",
        rule="faults",
        path=matrix.cassette,
        interaction=cell.target.number,
        address=cell.target.address,
    )
    return Judged("faults", text, (finding,))


def lines_of(matrices: Sequence[FaultMatrix]) -> list[str]:
    """Return matrices as text: a table for each test, a row for each call, a column for each fault."""
    lines: list[str] = []
    for matrix in matrices:
        lines += _table(matrix)
    return [*lines, summary_of(matrices)]


def summary_of(matrices: Sequence[FaultMatrix]) -> str:
    """Return how often there is each verdict, in one line."""
    total: Counter[Verdict] = Counter()
    for matrix in matrices:
        total += matrix.count()
    parts = [f"{total[verdict]} {verdict.replace('_', ' ')}" for verdict in MARKS if total[verdict]]
    excluded = sum(bool(matrix.excluded) for matrix in matrices)
    parts += [f"{counted(excluded, 'test')} excluded"] if excluded else []
    return f"{counted(total.total(), 'fault')}: {', '.join(parts) or 'none could be tried'}"


def _table(matrix: FaultMatrix) -> list[str]:
    if matrix.excluded:
        return [f"{matrix.test}", f"  excluded: {matrix.excluded}"]
    faults = list(dict.fromkeys(cell.fault for cell in matrix.cells))
    targets = list(dict.fromkeys(cell.target for cell in matrix.cells))
    found = {(cell.target, cell.fault): cell for cell in matrix.cells}
    width = max((len(str(target)) for target in targets), default=0)
    shown = {key: MARKS[cell.verdict] for key, cell in found.items()}
    widths = [max(len(fault), *(len(mark) for key, mark in shown.items() if key[1] == fault)) for fault in faults]
    heads = [f"{fault:<{columns}}" for fault, columns in zip(faults, widths, strict=True)]
    lines = (
        [matrix.test, f"{'':{width}}  {'  '.join(heads)}".rstrip()] if targets else [matrix.test, "  no call can fail"]
    )
    for target in targets:
        row = [f"{shown.get((target, fault), '.'):<{columns}}" for fault, columns in zip(faults, widths, strict=True)]
        lines.append(f"{target!s:<{width}}  {'  '.join(row)}".rstrip())
    if matrix.left_out:
        lines.append(f"  {matrix.left_out} of {counted(matrix.calls, 'call')} not tried: others stand for them")
    lines += [f"  {cell.fault} of {cell.target.number}: {cell.words}" for cell in matrix.failing() if cell.words]
    return lines


def faults(
    function: Callable[[], Any],
    cassette: str | Path,
    kinds: Iterable[str | FaultKind] | None = None,
    *,
    most: int = MANY,
    progress: Callable[[Cell], object] | None = None,
    **options: Any,
) -> FaultMatrix:
    """Let each recorded call of a run fail once in each way, and return what came of it. Nothing is executed.

    Args:
        function: The run, without arguments; a coroutine function is run to its end.
        cassette: The cassette, as `use_cassette` takes it.
        kinds: The kinds of faults, or their names; by default all. `timeout:always` fails each attempt.
        most: The number of calls up to which each fails. Of more, the first and the last of each class do: those at
            addresses that differ in their numbers alone.
        progress: Called with each cell when it is done.
        options: More options of `use_cassette`.

    Raises:
        CassetteError: If the cassette is not there, or cannot be read.
        ConfigurationError: If there is no such kind, or the run is not the same again without a fault.
    """
    if inspect.iscoroutinefunction(function):
        return asyncio.run(afaults(function, cassette, kinds, most=most, progress=progress, **options))
    script = _matrix(kinds, most, progress)
    changes = next(script)
    while True:
        try:
            changes = script.send(what_if(cassette, function, changes, **options))
        except StopIteration as end:
            matrix: FaultMatrix = end.value
            return matrix


async def afaults(
    function: Callable[[], Any],
    cassette: str | Path,
    kinds: Iterable[str | FaultKind] | None = None,
    *,
    most: int = MANY,
    progress: Callable[[Cell], object] | None = None,
    **options: Any,
) -> FaultMatrix:
    """Do what `faults` does, for a function that returns something to await."""
    script = _matrix(kinds, most, progress)
    changes = next(script)
    while True:
        try:
            changes = script.send(await awhat_if(cassette, function, changes, **options))
        except StopIteration as end:
            matrix: FaultMatrix = end.value
            return matrix


def _matrix(
    kinds: Iterable[str | FaultKind] | None, most: int, progress: Callable[[Cell], object] | None
) -> Generator[Mapping[int, Change], WhatIf, FaultMatrix]:
    """Yield the changes of each run, and get the account of it; return the matrix."""
    chosen = _kinds(kinds)
    before = yield {}
    _refuse_failing(before, "fails without a fault")
    source, served = open_cassette(before.cassette), [one.number for one in before.report.served]
    control = yield control_of(source, served)
    _refuse_failing(control, "is not the same when its recorded answers are served as changes")
    has_result = _equal(control.result, before.result)
    plan = planned(source, served, chosen, most)
    cells = []
    for fault, target, change in plan.cells:
        found = yield {target.number: change}
        how = "passed" if found.raised is None else how_it_ended(found.raised)
        same = found.raised is None and _equal(found.result, before.result) if has_result else None
        ended = Ended(found.report, target.number, how, first_line(found.raised), same)
        verdict = verdict_of(ended)
        cells.append(Cell(fault.name, target, verdict, words_of(ended, verdict)))
        if progress is not None:
            progress(cells[-1])
    shown = shown_path(before.cassette)
    return FaultMatrix(shown, shown, tuple(cells), plan.calls, plan.left_out)


def _kinds(kinds: Iterable[str | FaultKind] | None) -> list[FaultKind]:
    if kinds is None:
        return chosen_kinds()
    return with_controls([kind if isinstance(kind, FaultKind) else chosen_kinds([kind])[0] for kind in kinds])


def _refuse_failing(found: WhatIf, what: str) -> None:
    if found.raised is not None or not found.is_same:
        raise ConfigurationError(
            f"faults: the run {what}, so faults would show nothing\n  {found}\n"
            "  replay it first, and mend what it fails for"
        ) from found.raised


def _equal(one: Any, other: Any) -> bool:
    try:
        return bool(one == other)
    except Exception:  # noqa: BLE001 - of a class of the user's, such as an array
        return repr(one) == repr(other)
