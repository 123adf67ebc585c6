"""The tree of a run: which record lies in which, and when each began and ended."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from agenttape_core.matching import places_above
from agenttape_core.schema import Interaction, Step
from agenttape_core.storage import Cassette
from agenttape_core.tools.reading.timeline import timeline_of

MOMENTS = frozenset({"checkpoint", "event", "gap", "interrupt", "retry"})
"""The kinds of steps that say something of what they happened in, and that nothing happens in."""


class Placed(NamedTuple):
    """A record in its place.

    Args:
        id: `i` and the number of an interaction, or `s` and that of a step.
        record: The record.
        parent: The id of the record that it happened in; nothing for the outermost.
        start_ms: When it began, in milliseconds after the first record did; a guess where that was not recorded.
        duration_ms: How long it took; nothing where that is not known.
        offsets_ms: When the chunks of its stream arrived, in milliseconds after it began.
    """

    id: str
    record: Interaction | Step
    parent: str | None
    start_ms: float
    duration_ms: float | None
    offsets_ms: Sequence[float] = ()


def tree_of(cassette: Cassette) -> list[Placed]:
    """Return the records of a cassette, in its order, each after the one that it happened in.

    Args:
        cassette: The cassette.

    Raises:
        CassetteFormatError: If a record is malformed.
    """
    found: list[Placed] = []
    places: dict[str, str] = {}
    addresses: dict[str, str] = {}
    for record, row in zip(cassette.records(), timeline_of(cassette).rows, strict=True):
        is_step = isinstance(record, Step)
        parent = _parent_of(record, places, addresses)
        took = row.duration_ms if row.is_measured or not is_step else None
        placed = Placed(f"{'s' if is_step else 'i'}{record.number}", record, parent, row.start_ms, took, row.chunks_ms)
        found.append(placed)
        if record.kind not in MOMENTS:
            places[record.address], addresses[placed.id] = placed.id, record.address
    return found


def _parent_of(record: Interaction | Step, places: Mapping[str, str], addresses: Mapping[str, str]) -> str | None:
    """Return the record that one happened in.

    That is the nearest one around its address. A moment stands at the address of what it happened in. The call that
    was executing counts if nothing below it is nearer.
    """
    if isinstance(record, Step) and record.kind in MOMENTS and record.address in places:
        return places[record.address]
    above = next((place for place in places_above(record.address) if place in places), "")
    nearest = places.get(above)
    if isinstance(record, Step) or record.parent is None:
        return nearest
    executing = addresses.get(f"i{record.parent}")
    if executing is None or above.startswith(f"{executing}/"):
        return nearest
    return f"i{record.parent}"
