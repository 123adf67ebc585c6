"""The tree of a run, and its timeline: when its calls, their chunks and the steps around them began and ended."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from typing import Any, Protocol

from agenttape_core.locks import cached_property
from agenttape_core.matching import places_above
from agenttape_core.schema import IndexRow, Step, StepTiming, Timing
from agenttape_core.storage import Cassette

# -- The tree of a run, by the addresses of its records, with the places between them that have no record.


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


@dataclass(frozen=True, slots=True)
class Row:
    """One call or step."""

    word: str  # `interaction` or `step`
    number: int  # its number among those
    kind: str
    name: str
    address: str  # its address in the run tree
    label: str  # its address below the address of the record around it
    depth: int  # the number of records around it
    start_ms: float  # its start, in milliseconds after the first row's
    duration_ms: float  # its duration, in milliseconds
    chunks_ms: tuple[float, ...] = ()  # the arrival of each chunk of its stream, in milliseconds after its start
    # Whether its start was recorded. Else it is a guess: the start of the step around it, or the end of the call
    # before it.
    is_measured: bool = True
    has_failed: bool = False  # whether it raised

    @property
    def end_ms(self) -> float:
        """Its end, on the scale of `start_ms`."""
        return self.start_ms + self.duration_ms


@dataclass(frozen=True)
class Timeline:
    """The times of all calls and steps of a cassette."""

    rows: tuple[Row, ...]  # the calls and steps in the order of the file: a step before what happened in it
    tree: CallTree

    @cached_property
    def calls(self) -> list[Row]:
        """The rows that are calls."""
        return [row for row in self.rows if row.word == "interaction"]

    @cached_property
    def total_ms(self) -> float:
        """The duration of the run, in milliseconds."""
        return max((row.end_ms for row in self.rows), default=0.0)

    @property
    def guessed(self) -> int:
        """The number of calls whose start was not recorded."""
        return sum(not row.is_measured for row in self.calls)

    @property
    def most_at_once(self) -> int:
        """The greatest number of calls that ran at the same time, as far as their starts were recorded."""
        measured = [row for row in self.calls if row.is_measured]
        # An end counts before a start at the same moment: calls that follow each other do not overlap.
        changes = [(row.start_ms, 1) for row in measured] + [(row.end_ms, -1) for row in measured]
        now = most = 0
        for _, change in sorted(changes):
            now += change
            most = max(most, now)
        return most

    def to_dict(self) -> dict[str, Any]:
        """Return it as plain data."""
        facts = {"total_ms": self.total_ms, "most_at_once": self.most_at_once, "guessed": self.guessed}
        return {**facts, "rows": [asdict(row) for row in self.rows]}


def timeline_of(cassette: Cassette) -> Timeline:
    """Return the timeline of a cassette without parsing requests. Raises `CassetteFormatError` if it's malformed."""
    records = list(cassette.rows())
    tree = CallTree(records)
    return Timeline(tuple(_rows(cassette, records, tree)), tree)


def _rows(cassette: Cassette, records: Sequence[IndexRow | Step], tree: CallTree) -> Iterator[Row]:
    volatile = cassette.header.volatile
    starts = [timing.start_ms for timing in volatile.timings.values() if timing.start_ms is not None]
    origin = min([*starts, *(timing.start_ms for timing in volatile.steps.values())], default=0.0)
    depths: dict[int | None, int] = {None: -1}
    free: dict[int | None, float] = {None: 0.0}
    for index, (record, holder) in enumerate(zip(records, tree.holders, strict=True)):
        depths[index] = depth = depths[holder] + 1
        label = record.address if holder is None else _below(records[holder].address, record.address)
        row = _row(cassette, record, label, depth, origin=origin, free=free[holder])
        if not row.is_measured:
            free[holder] = row.end_ms
        free[index] = row.start_ms
        yield row


def _below(outer: str, address: str) -> str:
    """Return the part that an address adds to the one around it; another record at an address repeats its end."""
    return address.removeprefix(f"{outer}/") if address != outer else address.rpartition("/")[2]


def _row(cassette: Cassette, record: IndexRow | Step, label: str, depth: int, *, origin: float, free: float) -> Row:
    timing = _timing_of(cassette, record)
    start_ms = timing.start_ms if timing is not None else None
    return Row(
        word="step" if isinstance(record, Step) else "interaction",
        number=record.number,
        kind=record.kind,
        name=record.name,
        address=record.address,
        label=label,
        depth=depth,
        start_ms=start_ms - origin if start_ms is not None else free,
        duration_ms=timing.duration_ms if timing is not None else 0.0,
        chunks_ms=tuple(timing.offsets_ms) if isinstance(timing, Timing) else (),
        is_measured=start_ms is not None,
        has_failed=_has_failed(cassette, record),
    )


def _timing_of(cassette: Cassette, record: IndexRow | Step) -> Timing | StepTiming | None:
    volatile = cassette.header.volatile
    return (volatile.steps if isinstance(record, Step) else volatile.timings).get(record.number)


def _has_failed(cassette: Cassette, record: IndexRow | Step) -> bool:
    if isinstance(record, Step):
        return record.status == "failed"
    return cassette.outcome(record.number).has_failed
