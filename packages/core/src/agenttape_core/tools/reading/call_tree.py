"""The tree of a run, by the addresses of its records, with the places between them that have no record."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Protocol

from agenttape_core.matching import places_above

MOMENTS = frozenset({"checkpoint", "event", "gap", "interrupt", "retry"})
"""Kinds of steps that describe the step or call at their address. Nothing happens inside them."""

LEFT_OUT = frozenset({"checkpoint"})
"""Kinds of steps that only a machine reads: how a workflow went from step to step, ten for each turn of an agent."""


class Record(Protocol):
    """An interaction, a step, or a row of an index."""

    @property
    def kind(self) -> str:
        """Its kind."""

    @property
    def address(self) -> str:
        """Its address."""


class Node:
    """A place in a run.

    `label` is the last part of its address, empty for a further record at the address of the place above. `above` and
    the index `record` are `None` for the run itself, and `record` also for a place without a record.
    """

    __slots__ = ("above", "below", "label", "record")

    def __init__(self, label: str, above: Node | None = None, record: int | None = None) -> None:
        self.label = label
        self.above = above
        self.record = record
        self.below: list[Node] = []

    @property
    def holder(self) -> int | None:
        """The index of the nearest record around this place so far; None if there is none."""
        place = self.above
        while place is not None and place.record is None:
            place = place.above
        return place.record if place is not None else None


class CallTree:
    """The tree of a run."""

    run: Node
    """The run itself, around everything."""
    places: list[Node]  # the place of each record
    holders: list[int | None]  # the index of the nearest record around each record, of those before it in the file

    def __init__(self, records: Sequence[Record]) -> None:
        self._records = records
        self.run = Node("")
        self._known = {"": self.run}
        self.places = []
        self.holders = []
        for index in range(len(records)):
            place = self._placed(index)
            self.places.append(place)
            self.holders.append(place.holder)

    def _placed(self, index: int) -> Node:
        address = self._records[index].address
        place = self._known.get(address) or self._grown(address)
        if place is self.run or (place.record is not None and not self._yields(place.record, index)):
            return _added(place, Node("", place, index))
        if place.record is not None:
            self.places[place.record] = _added(place, Node("", place, place.record))
        place.record = index
        return place

    def _yields(self, present: int, index: int) -> bool:
        """Return whether a record at an address makes room for a later one: a moment does, for its subject."""
        return self._records[present].kind in MOMENTS and self._records[index].kind not in MOMENTS

    def _grown(self, address: str) -> Node:
        """Return a new place for an address, grown from the nearest place around it."""
        missing = [address]
        for above in places_above(address):
            if above in self._known:
                break
            missing.append(above)
        place = self._known[above]
        for grown in reversed(missing):
            place = self._known[grown] = _added(place, Node(grown.rpartition("/")[2], place))
        return place

    def walk(self) -> Iterator[tuple[Node, int]]:
        """Yield each place after the one around it, with its depth; without recursion, as it may be of any depth."""
        waiting = [(place, 0) for place in reversed(self.run.below)]
        while waiting:
            place, depth = waiting.pop()
            yield place, depth
            waiting.extend((below, depth + 1) for below in reversed(place.below))


def _added(above: Node, place: Node) -> Node:
    above.below.append(place)
    return place
