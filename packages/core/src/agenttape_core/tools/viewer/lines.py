"""The lines of the page's tree: places that hold one thing only share the line of what they hold."""

from __future__ import annotations

from typing import NamedTuple

from agenttape_core.tools.reading.call_tree import CallTree


class Line(NamedTuple):
    """A line of the tree.

    Args:
        record: The index of its record; None for a place that has none.
        label: The last part of its address; empty for a record at the address of an earlier one, such as an event.
        within: The places between it and the line above, which hold nothing else.
        depth: The number of lines around it.
    """

    record: int | None
    label: str
    within: str
    depth: int


def lines_of(tree: CallTree) -> list[Line]:
    """Return the lines of a tree, in its order."""
    lines: list[Line] = []
    waiting = [(place, 0) for place in reversed(tree.run.below)]
    while waiting:
        place, depth = waiting.pop()
        within: list[str] = []
        while place.record is None and len(place.below) == 1:
            within.append(place.label)
            place = place.below[0]
        lines.append(Line(place.record, place.label, "/".join(within), depth))
        waiting.extend((below, depth + 1) for below in reversed(place.below))
    return lines
