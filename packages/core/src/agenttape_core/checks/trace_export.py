"""Lines of a JSONL trace, made of cassettes: one for each turn of a run."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from agenttape_core.checks.run import Call, Run
from agenttape_core.checks.sources import run_of_cassette
from agenttape_core.checks.traces import TraceLine
from agenttape_core.errors import TraceFormatError
from agenttape_core.schema import MODEL_KINDS
from agenttape_core.storage import Cassette
from agenttape_core.tools.reading.prices import Prices


def trace_of(cassette: Cassette, shown: str, prices: Prices) -> Iterator[TraceLine]:
    """Yield a line for each turn of a cassette that a model answered.

    `shown` is the file, as messages show it. Raises `CassetteFormatError` if a record is malformed.
    """
    turns = run_of_cassette(cassette, prices, shown).turns()
    for number, turn in enumerate(turns, 1):
        several = {"turns": len(turns), "answered_at": turn.answered_at} if len(turns) > 1 else {}
        yield _line(turn, {"cassette": shown, "turn": number, **several})


def without_twins(lines: Iterable[tuple[str, TraceLine]], target: str) -> Iterator[TraceLine]:
    """Yield lines; two with one prompt are refused, as a trace has one answer for each.

    The lines have the cassette and the turn that they are of; `target` is the file of the trace. Raises
    `TraceFormatError` if two have one prompt.
    """
    known: dict[str, str] = {}
    for place, line in lines:
        if line.prompt in known:
            raise TraceFormatError(
                target,
                f"a trace has one answer for each prompt, and {known[line.prompt]} and {place} have the same prompt",
                remedy="export fewer cassettes, or each to its own file",
            )
        known[line.prompt] = place
        yield line


def _line(run: Run, meta: dict[str, Any]) -> TraceLine:
    """Return a turn as a line, with all that checks read: rounded or left out, a check could pass here alone."""
    caching = run.caching()
    numbers = {"calls": run.interactions, "tokens": run.tokens, "seconds": run.seconds, "dollars": run.dollars,
               "uncached_tokens": caching.uncached_tokens,
               "cache_miss_dollars": caching.cache_miss_dollars}  # fmt: skip
    unjudged = {what: list(names) for what, names in caching.unjudged.items() if names}
    known = {fact: value for fact, value in numbers.items() if fact not in run.lacking}
    unknown = {"uncounted": list(run.uncounted), "unpriced": list(run.unpriced)}
    asked: dict[int | None, list[Call]] = {}
    for call in run.asked:
        asked.setdefault(call.number, []).append(call)
    happened = [{**_plain(call), **_asked_in(call, asked)} for call in run.happened]
    tools = [  # with `nodes`, for other libraries: what evaluators of theirs read; ours read `happened`
        {"name": call.name, "arguments": call.arguments, **({"error": call.error} if call.error else {})}
        for call in run.of_kind("tool")
    ]
    more = {
        **known,
        "tool_calls": tools,
        "nodes": [call.name for call in run.of_kind("node")],
        **({"lacking": dict(run.lacking)} if run.lacking else {}),
        "models": run.models,
        **({"unjudged": unjudged} if unjudged else {}),
        **{what: names for what, names in unknown.items() if names},
        "happened": happened,
        "messages": run.conversation(),
    }
    return TraceLine(0, run.prompt, run.answer, run.model or None, run.provider or None, {**meta, **more})


def _plain(call: Call) -> dict[str, Any]:
    facts = {
        "kind": call.kind,
        "name": call.name,
        "arguments": call.arguments,
        "error": call.error or None,
        "address": call.address or None,
        "is_step": call.is_step or None,
        "data": call.data,
        "result": call.result,
        "at": call.at or None,
    }
    return {key: value for key, value in facts.items() if value is not None}


def _asked_in(call: Call, asked: dict[int | None, list[Call]]) -> dict[str, Any]:
    """Return the tools that a call of a model requested."""
    tools = asked.get(call.number, []) if not call.is_step and call.kind in MODEL_KINDS else []
    return {"asked": [_plain(tool) for tool in tools]} if tools else {}
