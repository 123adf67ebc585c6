"""The rows of the page's tree: the facts about each record that are known without its content."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

from agenttape_core.named_tuples import NamedTuple
from agenttape_core.schema import MODEL_KINDS, Interaction, Step
from agenttape_core.storage import Cassette
from agenttape_core.tools.compare import Compared
from agenttape_core.tools.prompt_cache.analysis import report_of
from agenttape_core.tools.reading.messages import Answer
from agenttape_core.tools.reading.prices import Prices
from agenttape_core.tools.reading.provider_calls import MODELS, model_call
from agenttape_core.tools.reading.summary import cached_tokens, cost_of, model_of, usage_of
from agenttape_core.tools.reading.timeline import CallTree, timeline_of

# -- The lines of the page's tree: places that hold one thing only share the line of what they hold.


class Line(NamedTuple):
    """A line of the tree."""

    record: int | None  # the index of its record; None for a place that has none
    label: str  # the last part of its address; empty for a record at the address of an earlier one, such as an event
    within: str  # the places between it and the line above that hold no other lines
    depth: int  # the number of lines around it


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


# -- The short line beside each record in the page's tree.


_SHORT = 140
_LONG = 4 * _SHORT


def summary(record: Interaction | Step) -> str:
    """Return a record as one short line: its error, its answer, or its request and result."""
    if record.error is not None if isinstance(record, Step) else record.outcome.error is not None:
        error = record.error if isinstance(record, Step) else record.outcome.error
        assert error is not None
        return _line(f"{error.type.rpartition(':')[2]}: {error.message}")
    if isinstance(record, Step):
        return _line(_inline(record.data)) if record.kind == "event" and record.data is not None else ""
    if record.outcome.status == "cancelled":
        return " → ".join(["cancelled", *filter(None, [_line(_answered(Answer(record.outcome)))])])
    if record.outcome.status == "refused":
        return _line(f"refused → {record.outcome.value}")
    record = model_call(record)
    if record.kind in MODEL_KINDS:
        return _line(_answered(Answer(record.outcome)))
    given = record.request.get("arguments", record.request.get("input", record.request))
    value = record.outcome.value if record.kind != "embeddings" else None
    return " → ".join(filter(None, [_line(_inline(given)), _line(_inline(value)) if value is not None else ""]))


def _answered(answer: Answer) -> str:
    calls = [f"{call.name}({_inline(call.args)})" for call in answer.tool_calls]
    return " ".join(filter(None, [answer.text, *calls]))


def _inline(given: Any) -> str:
    """Return a value as a person would write it in a call, cut where it gets long."""
    if isinstance(given, dict):
        return _joined(f"{key}={_inline(value)}" for key, value in given.items())
    if isinstance(given, list):
        return f"[{_joined(map(_inline, given))}]"
    return given[:_SHORT] if isinstance(given, str) else str(given)


def _joined(texts: Iterator[str]) -> str:
    joined = ""
    for text in texts:
        joined = f"{joined}, {text}" if joined else text
        if len(joined) > _SHORT:
            break
    return joined


def _line(text: str) -> str:
    line = " ".join(text[:_LONG].split())
    return line if len(line) <= _SHORT else f"{line[:_SHORT]}…"


RecordId = tuple[str, int]  # a record: `interaction` or `step`, and its number
Interval = tuple[float, float]  # a start, in milliseconds after the run's start, and a duration


@dataclass(slots=True)
class Pair:
    """A row of the tree: a record of the first run, of the other one, or of both."""

    what: str  # `interaction` or `step`
    kind: str
    address: str
    numbers: tuple[int | None, ...]  # its number in each run; None in one that lacks it
    state: str = ""  # its state in the comparison; empty if there is one run
    differences: list[dict[str, Any]] = field(default_factory=list)  # the places where the two differ, as plain data


def pairs_of(cassette: Cassette) -> list[Pair]:
    """Return the records of one run."""
    return [
        Pair("step" if isinstance(row, Step) else "interaction", row.kind, row.address, (row.number,))
        for row in cassette.rows()
    ]


def pairs_in(compared: Iterable[Compared]) -> list[Pair]:
    """Return the records of two runs, each with its counterpart."""
    return [
        Pair(
            found.what,
            found.kind,
            found.address,
            (found.first, found.other),
            found.state,
            found.to_dict()["differences"],
        )
        for found in compared
        if found.what != "header"
    ]


@dataclass(frozen=True, slots=True)
class Run:
    """The facts about one of the runs."""

    facts: dict[RecordId, dict[str, Any]]  # the facts about each record
    times: dict[RecordId, Interval]  # the start and the duration of each record, in milliseconds
    has_starts: bool  # whether the start of every call was recorded


def run_of(cassette: Cassette, records: Sequence[Interaction | Step], prices: Prices) -> Run:
    """Return the facts about the records of a cassette. Raises `CassetteFormatError` if its timings are malformed."""
    timeline = timeline_of(cassette)
    times = {(row.word, row.number): (row.start_ms, row.duration_ms) for row in timeline.rows}
    facts = {_id(record): _facts(line, record, cassette, prices) for line, record in enumerate(records)}
    for call, broken in report_of([(cassette, "")], prices).breaks:
        text = f"prefix of call {broken.number} broken{broken.place}: {broken.why}"
        facts["interaction", call.number]["prefix"] = text
    return Run(facts, times, not timeline.guessed)


def page_rows(pairs: Sequence[Pair], runs: Sequence[Run]) -> list[dict[str, Any]]:
    """Return the rows of the tree as plain data."""
    lines = lines_of(CallTree(pairs))
    sides = [_sides(lines, pairs, run, which) for which, run in enumerate(runs)]
    return [
        {**_head(line, pairs), "sides": list(both)} for line, both in zip(lines, zip(*sides, strict=True), strict=True)
    ]


def _sides(lines: Sequence[Line], pairs: Sequence[Pair], run: Run, which: int) -> list[dict[str, Any] | None]:
    """Return the facts of each line about one run; None where the run has no such record."""
    records = [_record_on(line, pairs, which) for line in lines]
    intervals = _intervals(lines, [run.times.get(record) if record is not None else None for record in records])
    return [
        {**(run.facts[record] if record is not None else {}), "start": round(when[0], 1), "ms": round(when[1], 1)}
        if when is not None and (record is not None or line.record is None)
        else None
        for line, record, when in zip(lines, records, intervals, strict=True)
    ]


def _intervals(lines: Sequence[Line], known: Sequence[Interval | None]) -> list[Interval | None]:
    """Return the times of all lines: a place without a record spans the records below it, if there are any."""
    intervals: list[Interval | None] = [None] * len(lines)
    below: dict[int, Interval] = {}
    for index in range(len(lines) - 1, -1, -1):
        depth = lines[index].depth
        inner = below.pop(depth + 1, None)
        intervals[index] = whole = known[index] or inner
        if whole is not None:
            start, end = whole[0], whole[0] + whole[1]
            if (beside := below.get(depth)) is not None:
                start, end = min(start, beside[0]), max(end, sum(beside))
            below[depth] = start, end - start
    return intervals


def _head(line: Line, pairs: Sequence[Pair]) -> dict[str, Any]:
    head: dict[str, Any] = {"depth": line.depth, "label": line.label, "within": line.within}
    if line.record is None:
        return {"what": "place", "kind": "", **head}
    pair = pairs[line.record]
    row = {"what": pair.what, "kind": pair.kind, **head, "address": pair.address, "state": pair.state}
    return {**row, "differences": pair.differences} if pair.differences else row


def _record_on(line: Line, pairs: Sequence[Pair], which: int) -> RecordId | None:
    """Return the one run's record on a line."""
    if line.record is None or (number := pairs[line.record].numbers[which]) is None:
        return None
    return pairs[line.record].what, number


def _id(record: Interaction | Step) -> RecordId:
    return "step" if isinstance(record, Step) else "interaction", record.number


def _facts(line: int, record: Interaction | Step, cassette: Cassette, prices: Prices) -> dict[str, Any]:
    """Return the facts about a record that are not empty."""
    facts = {"line": line, "number": record.number, "name": record.name, "summary": summary(record)}
    more = _step_facts(record) if isinstance(record, Step) else _call_facts(record, cassette, prices)
    return facts | {key: value for key, value in more if value not in (None, "", "exact")}


def _step_facts(step: Step) -> Iterator[tuple[str, Any]]:
    yield "status", step.status if step.status != "ended" else None
    yield "fidelity", step.fidelity
    is_tick = step.kind == "checkpoint" and isinstance(step.data, dict) and "state" not in step.data
    told = step.kind in {"checkpoint", "interrupt"} and not is_tick
    yield "changes", True if told or step.output or step.input else None


def _call_facts(item: Interaction, cassette: Cassette, prices: Prices) -> Iterator[tuple[str, Any]]:
    outcome, timing = item.outcome, cassette.header.volatile.timings.get(item.number)
    is_told = outcome.status in {"cancelled", "refused"}
    yield "status", "failed" if outcome.error is not None else outcome.status if is_told else None
    yield "fidelity", item.fidelity
    yield "parent", item.parent
    if outcome.chunks is not None:
        yield "chunks", len(outcome.chunks)
        yield "first_chunk", timing.offsets_ms[0] if timing is not None and timing.offsets_ms else None
    item = model_call(item)
    if item.kind in MODELS:
        yield "model", model_of(item)
        yield "dollars", cost_of(item, prices)
        yield "cached_tokens", cached_tokens(item) or None
        if (usage := usage_of(item)) is not None:
            yield "input_tokens", usage.input_tokens
            yield "output_tokens", usage.output_tokens
