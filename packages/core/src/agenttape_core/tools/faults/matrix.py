"""Fault matrices: the verdicts on all cells of tests, as text, as data, and for reporters."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from agenttape_core.errors import counted
from agenttape_core.tools.faults.cells import Target
from agenttape_core.tools.faults.kinds import NOTE
from agenttape_core.tools.faults.verdicts import MARKS, Verdict
from agenttape_core.tools.reporting.findings import Checked, Finding, Judged

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
        f"{cell.fault}: {cell.verdict}",
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
    parts = [f"{total[verdict]} {verdict}" for verdict in MARKS if total[verdict]]
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
    lines = [matrix.test, f"{'':{width}}  {'  '.join(faults)}"] if targets else [matrix.test, "  no call can fail"]
    for target in targets:
        row = [
            f"{MARKS[found[target, fault].verdict] if (target, fault) in found else '.':<{len(fault)}}"
            for fault in faults
        ]
        lines.append(f"{target!s:<{width}}  {'  '.join(row)}".rstrip())
    if matrix.left_out:
        lines.append(f"  {matrix.left_out} of {counted(matrix.calls, 'call')} not tried: others stand for them")
    lines += [f"  {cell.fault} of {cell.target.number}: {cell.words}" for cell in matrix.failing() if cell.words]
    return lines
