"""What may depend on a changed call: an upper bound, and no call of another branch of its superstep."""

from __future__ import annotations

import pytest

from agenttape_core.schema import IndexRow, Timing
from agenttape_core.tools.update import are_parallel, below


def row(number: int, address: str, kind: str = "chat") -> IndexRow:
    """One recorded call."""
    return IndexRow(number=number, kind=kind, name="x", address=address, fingerprint=f"{number:032}")


@pytest.mark.parametrize(
    ("first", "other", "parallel"),
    [
        ("G/a@1/M", "G/b@1/M", True),
        ("G/a@1[2]/M", "G/a@1[3]/M", True),
        ("G/a@1~1/t", "G/a@1/t", True),
        ("G/a@1/M", "G/a@1/M#2", False),
        ("G/a@1/M", "G/b@2/M", False),
        ("M", "M~1", False),
        ("G/a@1/H/x@1/M", "G/a@1/H/y@1/M", True),
        ("G/a@1", "G/a@1/M", False),
    ],
)
def test_parallel(first: str, other: str, parallel: bool) -> None:
    """Branches of one superstep are parallel, at whatever depth; nothing else is known to be."""
    assert are_parallel(first, other) is are_parallel(other, first) is parallel


def test_by_times() -> None:
    """What began before a changed call had ended does not depend on it; what began later does."""
    times = {1: Timing(start_ms=0, duration_ms=10), 2: Timing(start_ms=5, duration_ms=1)}
    times[3] = Timing(start_ms=10, duration_ms=1)
    assert below([row(1, "M"), row(2, "M~1"), row(3, "M~2")], times.get, {1}) == [3]


def test_without_times() -> None:
    """Where times are not known, what comes later in the file may depend on it, but no parallel branch."""
    rows = [row(1, "G/a@1/M"), row(2, "G/b@1/M"), row(3, "G/b@1/M#2"), row(4, "G/c@2/M")]
    assert below(rows, {}.get, {1}) == [4]
    assert below(rows, {}.get, {2}) == [3, 4]


def test_inside_and_around() -> None:
    """What is inside a changed call is below it, and so is the tool around one."""
    rows = [row(1, "t", "tool"), row(2, "t/M"), row(3, "G", "chat"), row(4, "G/M")]
    assert below(rows[:2], {}.get, {1}) == [2]
    assert below(rows[:2], {}.get, {2}) == [1]
    assert below(rows[2:], {}.get, {4}) == []
