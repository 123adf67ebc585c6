"""Reading a journal, and making the interactions of a cassette out of it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from agenttape_core.errors import CassetteFormatError, CassetteNotFoundError, CassetteVersionError
from agenttape_core.schema import FORMAT_VERSION, Header, Interaction, Timing
from agenttape_core.storage.continuation import resolve
from agenttape_core.storage.json_text import load_line
from agenttape_core.storage.layout import as_dict
from agenttape_core.storage.malformed import Malformed
from agenttape_core.storage.records import (
    delta_from_dict,
    header_from_dict,
    interaction_from_dict,
    with_timings,
)

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from pathlib import Path


class Line(NamedTuple):
    """One interaction of a journal."""

    order: list[Any]
    interaction: Interaction
    timing: Timing


def read_journal(path: Path) -> tuple[Header, list[Line]]:
    """Read a journal; a last line that was being written when the process died is dropped.

    Raises:
        CassetteNotFoundError: There is no such journal.
        CassetteFormatError: It is malformed elsewhere.
        CassetteVersionError: It is of a newer format.
    """
    try:
        rows = path.read_bytes().split(b"\n")
    except FileNotFoundError:
        raise CassetteNotFoundError(path, "there is no such journal") from None
    except OSError as error:
        raise CassetteFormatError(path, f"the journal cannot be read: {error.strerror or error}") from error
    rows.pop()  # empty after a whole line, else torn
    number = 1
    try:
        header = _header(path, rows[0] if rows else b"")
        lines: list[Line] = []
        requests: list[dict[str, Any]] = []
        for number, row in enumerate(rows[1:], start=2):
            try:
                value = load_line(row)
            except Malformed:
                if number == len(rows):
                    break  # a machine that lost power may leave a whole but garbled last line
                raise
            lines.append(_line(as_dict(value, "a line"), requests))
    except Malformed as error:
        remedy = "cut the journal off before this line to get back what is before it"
        raise CassetteFormatError(path, error.problem, remedy=remedy, line=number) from None
    return header, lines


def assemble(header: Header, keep: Sequence[Interaction], lines: Iterable[Line]) -> tuple[Header, list[Interaction]]:
    """Sort, renumber and re-parent.

    Args:
        header: The header; its timings are those of `keep`, by their old numbers.
        keep: Interactions that come first, as they are.
        lines: What was recorded.
    """
    ordered = sorted(lines, key=lambda line: _sort_key(line.order))
    old_timings = header.volatile.timings
    old = [(interaction, old_timings.get(interaction.number)) for interaction in keep]
    new = [(line.interaction, line.timing) for line in ordered]
    interactions: list[Interaction] = []
    timings: dict[int, Timing] = {}
    for group in (old, new):  # each has numbers of its own
        first = len(interactions) + 1
        numbers = {interaction.number: first + position for position, (interaction, _) in enumerate(group)}
        for number, (interaction, timing) in enumerate(group, start=first):
            parent = None if interaction.parent is None else numbers.get(interaction.parent)
            interactions.append(interaction.model_copy(update={"number": number, "parent": parent}))
            if timing is not None:
                timings[number] = timing
    return with_timings(header, timings), interactions


def _header(path: Path, row: bytes) -> Header:
    fields = as_dict(load_line(row), "the header")
    version = fields.get("agenttape")
    if type(version) is int and version > FORMAT_VERSION:
        problem = f"the journal is of format {version}, and this version of AgentTape reads up to {FORMAT_VERSION}"
        raise CassetteVersionError(path, problem, remedy="upgrade: pip install --upgrade agenttape-core", line=1)
    return header_from_dict(fields)


def _line(value: dict[str, Any], requests: list[dict[str, Any]]) -> Line:
    """Check one line; `requests` are those of the lines before, by which continuations count here."""
    order, times = value.get("order"), value.get("timing")
    if not isinstance(order, list):
        raise Malformed("`order` must be a list")
    if not isinstance(times, list) or not times or not all(type(ms) in (int, float) for ms in times):
        raise Malformed("`timing` must be a list of durations")
    record = as_dict(value.get("record"), "`record`")
    delta = delta_from_dict(record, len(requests) + 1, range(1, len(requests) + 1))
    request = delta.request if delta.continues is None else resolve(requests[delta.continues - 1], delta)
    requests.append(request)
    timing = Timing(duration_ms=float(times[0]), offsets_ms=[float(ms) for ms in times[1:]])
    return Line(order, interaction_from_dict(record, request), timing)


def _sort_key(value: Any) -> tuple[int, Any]:
    """Orders of any shape compare: numbers before strings before lists."""
    if isinstance(value, (list, tuple)):
        return 2, tuple(_sort_key(item) for item in value)
    return (1, value) if isinstance(value, str) else (0, value)
