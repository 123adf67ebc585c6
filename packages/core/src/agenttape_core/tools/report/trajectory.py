"""The path that a run took: its calls, one after another, tools with their arguments."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from agenttape_core.schema import PURE_KINDS, Interaction
from agenttape_core.storage import Cassette
from agenttape_core.tools.reading.prices import Prices
from agenttape_core.tools.reading.provider_calls import MODELS, model_call
from agenttape_core.tools.reading.summary import cost_of, usage_of

_LONGEST = 120


@dataclass(frozen=True, slots=True)
class Trajectory:
    """The path of a run, and its cost."""

    # Its calls in the order of the file, in words: `chat ChatOpenAI`, `look_up(city="Paris")`. Embeddings are left
    # out: which run makes them depends on what another one has made.
    calls: tuple[str, ...] = ()
    tokens: int = 0  # the tokens that its models have read and written, if they were counted
    dollars: float = 0.0  # the cost of its calls in US dollars, as far as their models have a known price


def trajectory_of(cassette: Cassette, prices: Prices) -> Trajectory:
    """Return the path of a recorded run. Raises `CassetteFormatError` if a record is malformed."""
    return path_of(cassette.interactions(), prices)


def path_of(interactions: Iterable[Interaction], prices: Prices) -> Trajectory:
    """Return the path that the calls of a recorded run make."""
    calls, tokens, dollars = [], 0, 0.0
    items = list(interactions)
    models = {item.number for item in items if item.kind in MODELS}
    for call in (model_call(item, models) for item in items):
        if call.kind not in PURE_KINDS:
            calls.append(_said(call))
        if call.kind in MODELS:
            usage = usage_of(call)
            tokens += ((usage.input_tokens or 0) + (usage.output_tokens or 0)) if usage is not None else 0
            dollars += cost_of(call, prices) or 0.0
    return Trajectory(tuple(calls), tokens, round(dollars, 6))


def _said(item: Interaction) -> str:
    failed = " raised" if item.outcome.error is not None else " refused" if item.outcome.status == "refused" else ""
    if item.kind != "tool":
        return f"{item.kind} {item.name}{failed}"
    given = item.request.get("arguments", item.request)
    said = ", ".join(f"{key}={_short(value)}" for key, value in given.items()) if isinstance(given, Mapping) else ""
    return f"{item.name}({said}){failed}"


def _short(value: Any) -> str:
    text = json.dumps(value, ensure_ascii=False, default=str)
    return text if len(text) <= _LONGEST else f"{text[:_LONGEST]}…"
