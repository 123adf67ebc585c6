"""Reading a journal."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, Generic, NamedTuple, TypeVar

from agenttape_core.errors import CassetteFormatError, CassetteVersionError
from agenttape_core.format.continuation import resolve
from agenttape_core.format.json_text import load_line
from agenttape_core.format.layout import as_dict
from agenttape_core.format.malformed import Malformed
from agenttape_core.format.records import (
    AnyRecord,
    delta_from_dict,
    header_from_dict,
    interaction_from_dict,
    step_from_dict,
)
from agenttape_core.format.timings import MAX_MS
from agenttape_core.format.written_steps import written_step
from agenttape_core.schema import FORMAT_VERSION, Header, Interaction, Step, StepTiming, Timing

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path


RecordT_co = TypeVar("RecordT_co", bound=AnyRecord, covariant=True)


class Line(NamedTuple, Generic[RecordT_co]):
    """One interaction or step of a journal."""

    order: list[Any]  # where it belongs in the cassette
    record: RecordT_co  # the interaction or step
    timing: Timing | StepTiming  # when it happened
    source: int = 0  # the number of the cassette that its numbers come from; 0 for the journal itself
    # The number, in the journal, of the call that one from a cassette lies inside; 0 for its own parent.
    inside: int = 0
    has_begun: bool = False  # whether it's an interaction that had only begun: a later line has its end, if it came


def read_journal(path: Path, content: bytes) -> tuple[Header, list[Line[Interaction | Step]]]:
    """Read a journal; a last line that was being written when the process died is dropped.

    Raises `CassetteFormatError` if it is malformed elsewhere, and `CassetteVersionError` if it is of a newer format.
    """
    rows = content.split(b"\n")
    rows.pop()  # empty after a whole line, else torn
    if not rows:
        problem = "the recording had not begun when its process died: the journal holds nothing"
        raise CassetteFormatError(path, problem, remedy="remove it", line=1)
    number = 1
    try:
        header = _header(path, rows[0])
        lines: list[Line[Interaction | Step]] = []
        requests: list[dict[str, Any]] = []
        numbers: dict[int, bool] = {}
        for number, row in enumerate(rows[1:], start=2):
            try:
                value = load_line(row)
            except Malformed:
                if number == len(rows):
                    break  # a machine that lost power may leave a whole but garbled last line
                raise
            fields = as_dict(value, "a line")
            if "header" in fields:
                header = header_from_dict(as_dict(fields["header"], "`header`"))
            else:
                line = _line(fields, requests)
                _check_number(line, numbers)
                lines.append(line)
    except Malformed as error:
        remedy = "cut the journal off before this line to get back what is before it"
        raise CassetteFormatError(path, error.problem, remedy=remedy, line=number) from None
    return header, lines


def _check_number(line: Line[Interaction | Step], numbers: dict[int, bool]) -> None:
    """Refuse an interaction whose number is above it, unless that one had only begun, and note its number."""
    if isinstance(line.record, Interaction):
        if not numbers.get(line.record.number, True):
            raise Malformed(f"there is an interaction {line.record.number} above this line")
        numbers[line.record.number] = line.has_begun


def read_own_journal(path: Path, content: bytes) -> Sequence[Line[AnyRecord]]:
    """Read the lines of a journal that this process has written: what no encoder writes is not looked for.

    Steps aren't parsed: they are most of an observer's output. Raises `CassetteFormatError` if it was damaged or
    edited.
    """
    requests: list[dict[str, Any]] = []
    try:
        lines = (_own_line(row, requests) for row in content.split(b"\n")[1:-1])
        return [line for line in lines if line is not None]
    except (ValueError, TypeError, AttributeError, KeyError, Malformed):
        return read_journal(path, content)[1]


def _own_line(row: bytes, requests: list[dict[str, Any]]) -> Line[AnyRecord] | None:
    found = written_step(row)
    if found is not None:
        value, step = found
        return Line(value["order"], step, _step_timing(value["timing"]))
    value = json.loads(row)
    return _line(value, requests) if "header" not in value else None


def _header(path: Path, row: bytes) -> Header:
    fields = as_dict(load_line(row), "the header")
    version = fields.get("agenttape")
    if type(version) is int and version > FORMAT_VERSION:
        problem = f"the journal is of format {version}, and this version of AgentTape reads up to {FORMAT_VERSION}"
        raise CassetteVersionError(path, problem, remedy="upgrade: pip install --upgrade agenttape-core", line=1)
    return header_from_dict(fields)


def _line(value: dict[str, Any], requests: list[dict[str, Any]]) -> Line[Interaction | Step]:
    """Check one line; `requests` are those from the lines above, which continuations here refer to."""
    order, times = value.get("order"), value.get("timing")
    if not isinstance(order, list) or not _is_order(order):
        raise Malformed("`order` must be a list of integers, strings and such lists")
    if not isinstance(times, list) or not times or not all(map(_is_duration, times)):
        raise Malformed("`timing` must be a list of durations")
    if "step" in value:
        return Line(order, step_from_dict(as_dict(value["step"], "`step`")), _step_timing(times))
    record = as_dict(value.get("record"), "`record`")
    delta = delta_from_dict(record, len(requests) + 1, range(1, len(requests) + 1))
    request = delta.request if delta.continues is None else resolve(requests[delta.continues - 1], delta)
    requests.append(request)
    start, offsets = value.get("start"), [float(ms) for ms in times[1:]]
    if start is not None and not _is_duration(start):
        raise Malformed("`start` must be a number of milliseconds")
    moment, nonce = value.get("moment"), value.get("nonce", "")
    if (moment is not None and not _is_duration(moment)) or not isinstance(nonce, str):
        raise Malformed("`moment` must be a number of seconds, and `nonce` a text")
    timing = Timing(start_ms=start, duration_ms=float(times[0]), offsets_ms=offsets, moment=moment, nonce=nonce)
    sources, begun = (_source(value), _source(value, "inside")), value.get("begun") is True
    return Line(order, interaction_from_dict(record, request), timing, *sources, has_begun=begun)


def _source(value: dict[str, Any], key: str = "carried") -> int:
    source = value.get(key, 0)
    if type(source) is not int or source < 0:
        raise Malformed(f"`{key}` must be the number of a cassette or of a call")
    return source


def _step_timing(times: list[Any]) -> StepTiming:
    if len(times) != 2:  # noqa: PLR2004 - a start and a duration
        raise Malformed("the `timing` of a step must be its start and its duration")
    return StepTiming(start_ms=float(times[0]), duration_ms=float(times[1]))


def _is_order(value: Any) -> bool:
    return all(map(_is_order, value)) if isinstance(value, list) else isinstance(value, (int, str))


def _is_duration(value: Any) -> bool:
    return type(value) in (int, float) and abs(value) < MAX_MS
