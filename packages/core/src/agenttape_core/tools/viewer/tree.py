"""The tree of a run, by addresses: what lies below what, whether or not the place between has a record of its own."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from agenttape_core.matching import places_above


class Line(NamedTuple):
    """A line of the tree.

    Args:
        record: Which of the records that were given; nothing for a place that has none.
        label: The last part of its address; empty for a record at the address of an earlier one, such as an event.
        within: The places between it and the line above, which hold nothing else.
        depth: How many lines it lies below.
    """

    record: int | None
    label: str
    within: str
    depth: int


class _Place:
    """A place in the tree, while it grows."""

    __slots__ = ("below", "label", "record")

    def __init__(self, label: str, record: int | None = None) -> None:
        self.label = label
        self.record = record
        self.below: list[_Place] = []


def lines_of(addresses: Sequence[str]) -> list[Line]:
    """Return the lines of the tree in its order.

    Args:
        addresses: Those of the records, in the order of the run. What happened at the address of an earlier record
            lies below that.
    """
    root = _Place("", -1)
    places: dict[str, _Place] = {"": root}
    for record, address in enumerate(addresses):
        known = places.get(address)
        label = address.rpartition("/")[2]
        if known is not None and known.record is None:
            known.record = record
        elif known is not None:
            known.below.append(_Place("", record))
        else:
            places[address] = place = _Place(label, record)
            _above(places, address).below.append(place)
    return _walked(root)


def _above(places: dict[str, _Place], address: str) -> _Place:
    """Return the place just above an address, grown from the nearest one that is there."""
    missing: list[str] = []
    for above in places_above(address):
        if above in places:
            break
        missing.append(above)
    place = places[above]
    for grown in reversed(missing):
        places[grown] = new = _Place(grown.rpartition("/")[2])
        place.below.append(new)
        place = new
    return place


def _walked(root: _Place) -> list[Line]:
    """Walk the tree without recursion: an address may be as deep as a stranger likes."""
    lines: list[Line] = []
    waiting = [(place, 0) for place in reversed(root.below)]
    while waiting:
        place, depth = waiting.pop()
        within: list[str] = []
        while place.record is None and len(place.below) == 1:
            within.append(place.label)
            place = place.below[0]
        lines.append(Line(place.record, place.label, "/".join(within), depth))
        waiting.extend((below, depth + 1) for below in reversed(place.below))
    return lines
