"""The records of a run with their parents and times."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

from agenttape_core.schema import Interaction, Step
from agenttape_core.storage import Cassette
from agenttape_core.tools.reading.timeline import Row, Timeline, timeline_of


class Placed(NamedTuple):
    """A record in its place.

    Args:
        id: `i` and the number of an interaction, or `s` and that of a step.
        record: The record.
        parent: The id of the record that it happened in; None for the outermost.
        start_ms: Its start, in milliseconds after that of the first record; a guess where it was not recorded.
        duration_ms: Its duration in milliseconds; None if unknown.
        offsets_ms: The arrival of the chunks of its stream, in milliseconds after its start.
    """

    id: str
    record: Interaction | Step
    parent: str | None
    start_ms: float
    duration_ms: float | None
    offsets_ms: Sequence[float] = ()


def placed_in(cassette: Cassette, timeline: Timeline | None = None) -> Iterator[Placed]:
    """Yield the records of a cassette in its order, each after the one that it happened in; none of them is kept.

    Args:
        cassette: The cassette.
        timeline: Its timeline, if the caller has it.

    Raises:
        CassetteFormatError: If a record is malformed.
    """
    timeline = timeline if timeline is not None else timeline_of(cassette)
    is_nested = any(entry.parent is not None for entry in cassette.entries)
    calls = {row.number: row for row in timeline.calls} if is_nested else {}
    for record, row, holder in zip(cassette.records(), timeline.rows, timeline.tree.holders, strict=True):
        above = timeline.rows[holder] if holder is not None else None
        if isinstance(record, Interaction):
            above = _parent_of(record, above, calls)
        took = row.duration_ms if row.is_measured or isinstance(record, Interaction) else None
        yield Placed(_id(row), record, _id(above) if above is not None else None, row.start_ms, took, row.chunks_ms)


def _id(row: Row) -> str:
    return f"{row.word[0]}{row.number}"


def _parent_of(item: Interaction, above: Row | None, calls: Mapping[int, Row]) -> Row | None:
    """Return the record that a call happened in: the call that was executing, unless a record below that is nearer."""
    executing = calls.get(item.parent) if item.parent is not None else None
    if executing is None or (above is not None and above.address.startswith(f"{executing.address}/")):
        return above
    return executing
