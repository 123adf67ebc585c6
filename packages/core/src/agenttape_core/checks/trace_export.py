"""Lines of a JSONL trace, made of cassettes: one for each turn of a run."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from agenttape_core.checks.run import Run
from agenttape_core.checks.sources import Record, made_of
from agenttape_core.checks.traces import TraceLine
from agenttape_core.errors import TraceFormatError
from agenttape_core.schema import Interaction, Step
from agenttape_core.storage import Cassette
from agenttape_core.tools.reading.answer import Answer
from agenttape_core.tools.reading.prices import Prices
from agenttape_core.tools.reading.summary import model_of
from agenttape_core.tools.reading.turns import Turn, turns_of


def trace_of(cassette: Cassette, shown: str, prices: Prices) -> Iterator[TraceLine]:
    """Yield a line for each turn of a cassette that a model answered.

    Args:
        cassette: The cassette.
        shown: Its file, as messages show it.
        prices: The prices of tokens.

    Raises:
        CassetteFormatError: If a record is malformed.
    """
    timings = cassette.header.volatile.timings
    records = list(cassette.records())
    turns = turns_of(record for record in records if isinstance(record, Interaction))
    for number, turn in enumerate(turns, 1):
        if turn.last is None:
            continue
        inside = {item.address.partition("/")[0] for item in turn.calls}
        calls = {item.number for item in turn.calls}
        pairs: list[Record] = []
        for one in records:
            if isinstance(one, Interaction) and one.number in calls:
                pairs.append((one, timings.get(one.number)))
            elif isinstance(one, Step) and one.address.partition("/")[0] in inside:
                pairs.append((one, None))
        yield _line(turn, made_of((shown, shown), pairs, prices), {"cassette": shown, "turn": number})


def without_twins(lines: Iterable[tuple[str, TraceLine]], target: str) -> Iterator[TraceLine]:
    """Yield lines; two with one prompt are refused, as a trace has one answer for each.

    Args:
        lines: The lines, each with the cassette and the turn that it is of.
        target: The file of the trace.

    Raises:
        TraceFormatError: If two have one prompt.
    """
    known: dict[str, str] = {}
    for place, line in lines:
        if line.prompt in known:
            raise TraceFormatError(
                target,
                f"a trace has one answer for each prompt, and {known[line.prompt]} and {place} have the same prompt",
                remedy="export fewer cassettes, or each to a file of its own",
            )
        known[line.prompt] = place
        yield line


def _line(turn: Turn, run: Run, meta: dict[str, Any]) -> TraceLine:
    last = turn.last
    assert last is not None
    tools = [
        {"name": call.name, "arguments": call.arguments, **({"error": call.error} if call.error else {})}
        for call in run.of_kind("tool")
    ]
    facts = {"tokens": run.tokens, "seconds": round(run.seconds, 3), "dollars": round(run.dollars, 6)}
    known = {fact: value for fact, value in facts.items() if fact not in run.lacking}
    nodes = [call.name for call in run.of_kind("node")]
    more = {"calls": run.interactions, **known, "tool_calls": tools, "nodes": nodes}
    answer = Answer(last.outcome)
    return TraceLine(0, turn.prompt, turn.answer, model_of(last) or answer.model, answer.provider, {**meta, **more})
