"""The calls that earlier runs which did not end have recorded over a cassette, and left beside it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from contextlib import suppress
from itertools import count
from pathlib import Path
from typing import NamedTuple

from agenttape_core.errors import CassetteError
from agenttape_core.format.records import AnyRecord
from agenttape_core.schema import Header, Interaction, Timing
from agenttape_core.storage.cassette import Cassette, open_cassette
from agenttape_core.storage.recovery import leftover_journals, names_of_recovered, unfinished


class LeftOver(NamedTuple):
    """A call that was recorded, and is in no cassette.

    Args:
        interaction: The call, with a number that none of the cassette has.
        timing: Its times.
    """

    interaction: Interaction
    timing: Timing


def left_over(cassette: Cassette) -> list[LeftOver]:
    """Return the records that unfinished runs made over a cassette, without those in the cassette itself.

    Of equal requests, there are as many as the run has that recorded most of them. Runs with other pseudonyms, or whose
    requests are compared in another way, are left out, and so are unreadable ones.

    Args:
        cassette: The cassette.
    """
    if not isinstance(cassette.path, Path):
        return []
    known = Counter(row.fingerprint for row in cassette.entries)
    numbers = count(max((row.number for row in cassette.entries), default=0) + 1)
    found: list[LeftOver] = []
    for header, records in _unfinished_runs(cassette.path):
        if (header.redaction, header.ignore) != (cassette.preface.redaction, cassette.preface.ignore):
            continue
        mine: Counter[str] = Counter()
        renumbered: dict[int | None, int] = {}
        for record in records:
            if not isinstance(record, Interaction):
                continue
            mine[record.fingerprint] += 1
            if mine[record.fingerprint] <= known[record.fingerprint]:
                continue
            renumbered[record.number] = number = next(numbers)
            placed = record.model_copy(update={"number": number, "parent": renumbered.get(record.parent)})
            found.append(LeftOver(placed, header.volatile.timings.get(record.number, Timing(duration_ms=0.0))))
        known |= mine
    return found


def _unfinished_runs(target: Path) -> Iterator[tuple[Header, Iterable[AnyRecord]]]:
    for path in names_of_recovered(target):
        with suppress(CassetteError):  # half a run that nobody can read is of no use
            recovered = open_cassette(path)
            yield recovered.header, list(recovered.records())
    for journal in leftover_journals(target):
        with suppress(CassetteError):
            yield unfinished(journal)
