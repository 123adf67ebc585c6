"""The calls below a changed one: those that may have been asked because of its answer."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterable

from agenttape_core.schema import IndexRow, Timing

TimingOf = Callable[[int], Timing | None]

_SUPERSTEP = re.compile(r"(?P<node>.*)@(?P<step>\d+)(?P<branch>\D.*)?$")


def below(rows: Iterable[IndexRow], timing_of: TimingOf, changed: Collection[int]) -> list[int]:
    """Return the numbers of the calls that may depend on a changed one, in the order of the file.

    It is an upper bound. A call depends on none that ended after it had begun, and on none of another branch of the
    same superstep, since these see nothing of each other. A call inside a changed one is below it.

    Args:
        rows: The recorded calls.
        timing_of: Returns the times of one by its number; where they are not known, the order of the file counts.
        changed: The numbers of the calls that have changed.
    """
    rows = list(rows)
    roots = [row for row in rows if row.number in changed]
    return [
        row.number
        for row in rows
        if row.number not in changed and any(may_depend(row, root, timing_of) for root in roots)
    ]


def may_depend(row: IndexRow, root: IndexRow, timing_of: TimingOf) -> bool:
    """Return whether a call may depend on the answer of another one.

    Args:
        row: The call.
        root: The other one.
        timing_of: As for `below`.
    """
    if row.address.startswith(f"{root.address}/"):
        return True
    if root.address.startswith(f"{row.address}/"):
        return row.kind == "tool"  # it returns what the changed call inside made of it
    return not are_parallel(row.address, root.address) and _began_after(row, root, timing_of)


def _began_after(row: IndexRow, root: IndexRow, timing_of: TimingOf) -> bool:
    mine, other = timing_of(row.number), timing_of(root.number)
    if mine is None or other is None or mine.start_ms is None or other.start_ms is None:
        return row.number > root.number
    return mine.start_ms >= other.start_ms + other.duration_ms


def are_parallel(first: str, other: str) -> bool:
    """Return whether two addresses are of different branches of one superstep of a graph.

    Args:
        first: An address.
        other: Another one.
    """
    for one, two in zip(first.split("/"), other.split("/"), strict=False):
        if one != two:
            mine, theirs = _SUPERSTEP.match(one), _SUPERSTEP.match(two)
            return mine is not None and theirs is not None and mine["step"] == theirs["step"]
    return False
