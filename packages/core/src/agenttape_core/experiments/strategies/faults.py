"""Faults: each recorded call of a run fails once in each way that the real world has, offline."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any, Literal

from agenttape_core.errors import ConfigurationError, counted, shown_path
from agenttape_core.experiments.engine import Experiment, adrive, drive, independent
from agenttape_core.experiments.program import Call, FunctionProgram, Program, Run
from agenttape_core.experiments.result import Result, Summary, columns, earlier, read
from agenttape_core.experiments.strategies.fault_kinds import CONTROL, NOTE, FaultKind, chosen_kinds
from agenttape_core.experiments.targets import recorded, recording, takes_tests
from agenttape_core.lifecycle.variation import Variation
from agenttape_core.matching import Key, Selector, bare_step, refuse_unselected
from agenttape_core.named_tuples import NamedTuple
from agenttape_core.schema import Interaction
from agenttape_core.storage import open_cassette
from agenttape_core.tools.reporting import Checked, Finding, Judged

MANY = 24  # the most calls of a run that are all tried: of more, some represent others
_OF_CLASS = 2


def _representatives(items: Sequence[Interaction]) -> list[Interaction]:
    classes: dict[tuple[str, ...], list[Interaction]] = {}
    for item in items:
        key = (item.kind, item.name, "/".join(map(bare_step, item.address.split("/"))))
        classes.setdefault(key, []).append(item)
    numbers = {item.number for found in classes.values() for item in (*found[: _OF_CLASS - 1], found[-1])}
    return [item for item in items if item.number in numbers]


Verdict = Literal["recovered", "silent", "raised", "new_call", "assertion", "not_reached"]
"""The end of a run in which one call failed: it *recovered* with the same result; it ended well with another one
(*silent*); it *raised*; it made a *new call*, which no recording answers; an *assertion* of the test failed; or the
call was *not reached*, so the run isn't evidence."""

MARKS: dict[Verdict, str] = {
    "recovered": "ok",
    "silent": "SILENT",
    "raised": "raised",
    "new_call": "new call",
    "assertion": "assert",
    "not_reached": "?",
}
"""The verdicts as the matrix shows them."""


def verdict_of(run: Run, number: int, *, is_same: bool | None = None) -> Verdict:
    """Return the verdict on a run in which one call failed; for a test, it's not known whether the result `is_same`."""
    report = run.session.report
    if not any(one.number == number for one in report.reached):
        return "not_reached"
    if report.missed or report.unrecorded:
        return "new_call"
    if run.error is not None:
        return "assertion" if run.is_assertion or isinstance(run.error, AssertionError) else "raised"
    if is_same is False or report.divergences or report.judged:
        return "silent"
    # The recorded answer came in a further attempt, or its want changed nothing that the run returned.
    answers = sum(one.number == number for one in report.replayed)
    landings = sum(one.number == number for one in report.reached)
    return "recovered" if answers > landings or is_same else "silent"


def words_of(run: Run, verdict: Verdict) -> str:
    """Return the reason for the verdict in a few words."""
    report = run.session.report
    if verdict == "not_reached":
        return "the run did not make the call again"
    if verdict == "new_call":
        diverged = next((one for one in report.divergences if one.what != "changed"), None)
        return f"changes the request of {diverged.kind} {diverged.name} at {diverged.address}" if diverged else ""
    if verdict == "silent":
        left = len(report.judged)
        return f"ended well, and {left} recorded calls were not made" if left else "ended well with another answer"
    return run.problem


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
    target: Call
    verdict: Verdict
    words: str = ""


@dataclass(frozen=True, slots=True)
class FaultMatrix(Result):
    """The verdicts on the faults of one test, or of one function and its cassette.

    Args:
        test: Its id, or the cassette.
        cassette: The cassette as messages show it.
        cells: The verdicts, call by call.
        calls: The number of calls that could fail.
        left_out: How many of them weren't tried, as others represent them.
        excluded: Why it was not tried at all; empty if it was.
        untried: How many faults were left when it was interrupted.
    """

    test: str
    cassette: str
    cells: tuple[Cell, ...] = ()
    calls: int = 0
    left_out: int = 0
    excluded: str = ""
    untried: int = 0

    def count(self) -> Counter[Verdict]:
        """Return how often there is each verdict."""
        return Counter(cell.verdict for cell in self.cells)

    def failing(self, verdicts: Iterable[Verdict] = FAILING) -> list[Cell]:
        """Return the cells with one of some verdicts; harmless words aren't a fault, so they're left out."""
        among = set(verdicts)
        return [cell for cell in self.cells if cell.verdict in among and cell.fault != NOTE.name]

    def to_dict(self) -> dict[str, Any]:
        """Return it as plain data."""
        return {**asdict(self), "counts": dict(self.count())}

    @property
    def ok(self) -> bool:
        """True if some fault was tried, and none ended silently."""
        return bool(self.cells) and not (self.excluded or self.failing())

    @property
    def is_whole(self) -> bool:
        """True if it was not interrupted."""
        return not self.untried

    experiment = "faults"

    def summary(self) -> Summary:
        """Return the number of cells with each verdict, and the matrix."""
        return FaultMatrices((self,)).summary()._replace(program=self.test, cassette=self.cassette)

    def __str__(self) -> str:
        return str(FaultMatrices((self,)))

    def to_checked(self) -> list[Checked]:
        """Return it for the reporters of checks: a check for each cell."""
        return [Checked(self.test, self.cassette, "", tuple(_judged(self, cell) for cell in self.cells))]


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


@dataclass(frozen=True, slots=True)
class FaultMatrices(Result):
    """The matrices of several tests."""

    tests: tuple[FaultMatrix, ...]  # a matrix for each test and cassette
    is_stopped: bool = False  # whether tests are missing, as the run was interrupted

    @property
    def ok(self) -> bool:
        """True if some fault was tried, none ended silently, and no test was left out."""
        return any(one.cells for one in self.tests) and not any(one.excluded or one.failing() for one in self.tests)

    @property
    def is_whole(self) -> bool:
        """True if it was not interrupted."""
        return not (self.is_stopped or any(one.untried for one in self.tests))

    experiment = "faults"

    def to_dict(self) -> dict[str, Any]:
        """Return it as plain data."""
        return {"tests": [one.to_dict() for one in self.tests]}

    def to_checked(self) -> list[Checked]:
        """Return it for the reporters of checks: a check for each cell."""
        return [each for one in self.tests for each in one.to_checked()]

    def summary(self) -> Summary:
        """Return the number of cells with each verdict, and the matrices."""
        total = sum((one.count() for one in self.tests), Counter[Verdict]())
        parts = [f"{total[verdict]} {verdict.replace('_', ' ')}" for verdict in MARKS if total[verdict]]
        excluded = sum(bool(one.excluded) for one in self.tests)
        parts += [f"{counted(excluded, 'test')} excluded"] if excluded else []
        line = f"{counted(total.total(), 'fault')}: {', '.join(parts) or 'none could be tried'}"
        return Summary("", "", line, [line for one in self.tests for line in _table(one)])

    def __str__(self) -> str:
        said = self.summary()
        return "\n".join([*said.table, said.line])  # which is the end of a long table


def _table(matrix: FaultMatrix) -> list[str]:
    if matrix.excluded:
        return [f"{matrix.test}", f"  excluded: {matrix.excluded}"]
    faults = list(dict.fromkeys(cell.fault for cell in matrix.cells))
    marks = {(cell.target, cell.fault): MARKS[cell.verdict] for cell in matrix.cells}
    targets = dict.fromkeys(cell.target for cell in matrix.cells)
    rows = [(str(target), *(marks.get((target, fault), ".") for fault in faults)) for target in targets]
    lines = [matrix.test, *(columns([("", *faults), *rows]) if rows else ["  no call can fail"])]
    if matrix.left_out:
        lines.append(f"  {matrix.left_out} of {counted(matrix.calls, 'call')} not tried: others cover them")
    if matrix.untried:
        lines.append(f"  interrupted: {counted(matrix.untried, 'fault')} not tried")
    return lines + [f"  {cell.fault} of {cell.target.number}: {cell.words}" for cell in matrix.failing() if cell.words]


@takes_tests
def faults(
    target: Callable[[], Any] | str | Program,
    cassette: str | Path | None = None,
    kinds: Iterable[str | FaultKind] | None = None,
    *,
    call: Collection[Key] = (),
    most: int = MANY,
    jobs: int = 1,
    resume: str | Path | None = None,
    on_run: Callable[[], object] | None = None,
    **options: Any,
) -> FaultMatrix:
    """Let each recorded call of a run fail once in each way, and return a matrix of verdicts. No call is executed.

    An interruption by the keyboard ends it, and the result so far is returned.

    Args:
        target: The program: a function without arguments, or its name; a coroutine function is run to its end.
        cassette: The cassette, as `use_cassette` takes it; by default the program's own.
        kinds: The kinds of faults, or their names; by default all. `timeout:always` fails each attempt.
        call: The calls that fail, by kind, name, node, address, number or pattern; by default all.
        most: The number of calls up to which each fails. Of more, the first and the last of each class do: those at
            addresses that differ in their numbers alone.
        jobs: How many faults are tried at the same time, if the program is a function.
        resume: The report of an earlier run as JSON, whose cells are taken over.
        on_run: Called after each run.
        options: More options of `use_cassette`.

    Raises:
        CassetteError: If the cassette is not there, or cannot be read.
        ConfigurationError: If the kind or the call doesn't exist, or a function isn't the same again without a fault.
    """
    program, path = recorded(target, cassette, options)
    known = cells_in(resume) if resume is not None else {}
    chosen = _Chosen(chosen_kinds(kinds), call, most, known, "" if program.function is not None else program.name)
    return drive(program, _script(path, chosen), on_run, jobs)


async def afaults(
    function: Callable[[], Any],
    cassette: str | Path,
    kinds: Iterable[str | FaultKind] | None = None,
    *,
    most: int = MANY,
    on_run: Callable[[], object] | None = None,
    **options: Any,
) -> FaultMatrix:
    """Do what `faults` does, for a function that returns something to await."""
    script = _script(recording(cassette, options), _Chosen(chosen_kinds(kinds), most=most))
    return await adrive(FunctionProgram(function, options=options), script, on_run)


_Known = Mapping[tuple[str, str, Call], Cell]
"""The cells of an earlier run, by the name of the program, the fault and the call."""


def cells_in(report: str | Path) -> _Known:
    """Return the cells in the report of an earlier run."""
    matrices = earlier(report, "tests", partial(read, FaultMatrix))
    return {(one.test, cell.fault, cell.target): cell for one in matrices for cell in one.cells}


class _Chosen(NamedTuple):
    """The faults of a run, as `faults` takes them, and the name of the program if it's a test."""

    kinds: Sequence[FaultKind]
    call: Collection[Key] = ()
    most: int = MANY
    known: _Known = {}  # noqa: RUF012 - never changed
    test: str = ""


def _script(path: Path, chosen: _Chosen) -> Experiment[FaultMatrix]:
    """Yield the replays, and return the matrix; a test that fails without a fault is excluded, a function refused."""
    refuse_unselected(chosen.call, open_cassette(path).entries, "call", path)
    name, shown = chosen.test or shown_path(path), shown_path(path)
    before = yield Variation(path)
    replayed = _replayed(before)
    control = before
    report, why = before.session.report, before.problem
    if not why and not chosen.test:  # a function must do as it was recorded
        why = str(next(iter((*report.divergences, *report.judged, *before.failed)), ""))
    if not why:
        neutral = {item.number: CONTROL.change(item) for item in replayed if CONTROL.applies(item)}
        control = yield Variation(path, changes=neutral)
        why = control.problem or str(next(iter((*control.session.report.divergences, *control.failed)), ""))
    if why and not chosen.test:
        raise ConfigurationError(
            f"faults: the run fails without a fault, so faults would show nothing: {why}\n"
            "  replay it first, and mend what it fails for"
        ) from before.error
    if why:
        return FaultMatrix(name, shown, excluded=f"it fails when it is run again without a fault: {why}")
    able = [item for item in replayed if any(kind.applies(item) for kind in chosen.kinds)]
    if chosen.call:
        entries = before.session.source.entries
        numbers = {row.number for row in Selector(chosen.call, entries, option="call").among(entries)}
        able = [item for item in able if item.number in numbers]
    tried = able if len(able) <= chosen.most else _representatives(able)
    plan = [(kind, item) for item in tried for kind in chosen.kinds if kind.applies(item)]
    matrix = FaultMatrix(name, shown, calls=len(able), left_out=len(able) - len(tried))
    known = [chosen.known.get((name, kind.name, Call.of(item))) for kind, item in plan]
    new = [one for one, cell in zip(plan, known, strict=True) if cell is None]
    varied = iter(independent(Variation(path, changes={item.number: kind.change(item)}) for kind, item in new))
    has_result = before.result is not None and _equal(control.result, before.result)
    cells: list[Cell] = []
    try:
        for (kind, item), cell in zip(plan, known, strict=True):
            if cell is not None:
                cells.append(cell)
                continue
            run = yield next(varied)
            is_same = run.error is None and _equal(run.result, before.result) if has_result else None
            verdict = verdict_of(run, item.number, is_same=is_same)
            cells.append(Cell(kind.name, Call.of(item), verdict, words_of(run, verdict)))
    except KeyboardInterrupt:
        matrix = replace(matrix, untried=len(plan) - len(cells))
    return replace(matrix, cells=tuple(cells))


def _replayed(run: Run) -> list[Interaction]:
    """Return the recordings that a run has replayed, and would replay again."""
    policy, source = run.session.policy, run.session.source
    able = [one.number for one in run.session.report.replayed if policy.may_replay(one.kind, one.name, one.address)]
    return [source.interaction(number) for number in sorted(set(able))]


def _equal(one: Any, other: Any) -> bool:
    try:
        return bool(one == other)
    except Exception:  # noqa: BLE001 - of a class of the user's, such as an array
        return repr(one) == repr(other)
