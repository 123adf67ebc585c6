"""The overview of a cassette: its calls, their tokens, cost and time."""

from __future__ import annotations

from collections import Counter
from dataclasses import asdict, dataclass
from typing import Any

from agenttape_core.schema import MODEL_KINDS, OWN, Interaction, Outcome, Usage
from agenttape_core.storage import Cassette
from agenttape_core.tools.reading.answer import Answer
from agenttape_core.tools.reading.prices import Prices
from agenttape_core.tools.reading.provider_calls import MODELS, calls_in

_COUNTS_APART = "claude"  # part of the names of all models of Anthropic


@dataclass(frozen=True, slots=True)
class Overview:
    """The overview of a cassette."""

    name: str
    created: str  # the time of the recording, UTC, ISO 8601; empty if unknown
    interactions: int  # the number of calls
    steps: int  # the number of steps
    kinds: dict[str, int]  # the number of calls of each kind
    tools: dict[str, int]  # the number of calls of each tool
    models: dict[str, int]  # the number of calls of each model; calls of an unknown model are under an empty name
    raised: int  # the number of calls that raised
    cancelled: int  # the number of calls that the program cancelled
    refused: int
    streamed: int  # the number of calls that were streamed
    lossy: int  # the number of calls that hold less than the original outcome
    input_tokens: int  # the tokens that models read, if they were counted
    output_tokens: int  # the tokens that models wrote, if they were counted
    dollars: float  # the cost of the recorded calls in US dollars, as far as their models have a known price
    unpriced: int  # the number of calls of models without a known price or without counted tokens
    seconds: float  # the sum of the durations of the recorded calls; parallel calls overlapped
    tags: tuple[str, ...] = ()  # the tags of the cassette
    cached_tokens: int = 0  # the tokens that models read from a prompt cache, if these were asked for

    def to_dict(self) -> dict[str, Any]:
        """Return it as plain data, without cancelled and refused calls, tags and cached tokens if there are none."""
        plain = asdict(self)
        for rare in ("cancelled", "refused", "tags", "cached_tokens"):
            if not plain[rare]:
                del plain[rare]
        return plain


def cost_of(item: Interaction, prices: Prices) -> float | None:
    """Return the cost of a call in US dollars; None if its model has no known price or its tokens were not counted.

    `item` is of one of the kinds `MODELS`.
    """
    model, usage = model_of(item), usage_of(item)
    if model is None or usage is None:
        return None
    cost = prices.cost(model, item.name, usage)
    if cost is None or item.kind not in MODEL_KINDS:
        return cost
    answer = Answer(item.outcome)
    read, written = (answer.tokens.get(f"cache_{what}.input_tokens", 0) for what in ("read", "creation"))
    rates = prices.rates(model, item.name) if 0 < read + written <= (usage.input_tokens or 0) else None
    if rates is None:
        return cost
    long = answer.tokens_written_for_long
    more = (written - long) * (rates.cache_write - rates.input) + long * (rates.long_write - rates.input)
    return cost + read * (rates.cache_read - rates.input) + more


def usage_of(item: Interaction) -> Usage | None:
    """Return the token counts of a call of a model, with the cached tokens that Anthropic counts apart from the input.

    Args:
        item: A call of one of the kinds `MODELS`.
    """
    usage = item.outcome.usage
    if usage is None or usage.input_tokens is None or item.kind not in MODEL_KINDS:
        return usage
    if _COUNTS_APART not in (model_of(item) or "").lower():  # to read all answers takes longer than all else
        return usage
    apart = Answer(item.outcome).tokens_apart
    return usage.model_copy(update={"input_tokens": usage.input_tokens + apart}) if apart else usage


def cached_tokens(item: Interaction) -> int:
    """Return the tokens that a call of a model read from a prompt cache; 0 if its provider doesn't say.

    Args:
        item: A call of one of the kinds `MODELS`.
    """
    return Answer(item.outcome).tokens.get("cache_read.input_tokens", 0) if item.kind in MODEL_KINDS else 0


def model_of(item: Interaction) -> str | None:
    """Return the model in a call's request, by its provider's name: a candidate, if one was tried on it."""
    candidate = item.metadata.get("candidate")
    if isinstance(candidate, str) and candidate != OWN:
        return candidate.partition(":")[2] or candidate
    arguments = item.request.get("arguments")  # of a function that is a boundary
    for given in (item.request, arguments if isinstance(arguments, dict) else {}):
        if isinstance(model := given.get("model"), str):
            return model
    return None


def tried_with(item: Interaction, candidate: object) -> Interaction:
    """Return a recorded call as made again, by a candidate if there is a label, with an empty prompt cache."""
    metadata = {**item.metadata, "candidate": candidate} if isinstance(candidate, str) else item.metadata
    if item.kind not in MODEL_KINDS:
        return item.model_copy(update={"metadata": metadata})
    outcome = Outcome(status="returned", usage=usage_of(item))  # its tokens were cached for its own model
    return item.model_copy(update={"metadata": metadata, "outcome": outcome})


def overview_of(cassette: Cassette, prices: Prices, *, with_cached: bool = False) -> Overview:
    """Read a whole cassette and return its overview. Raises `CassetteFormatError` if a record is malformed.

    Cached tokens are counted only `with_cached`: each answer has to be read for them, and a stream to be joined.
    """
    kinds, tools, models, found = Counter[str](), Counter[str](), Counter[str](), Counter[str]()
    dollars = 0.0
    kinds.update(row.kind for row in cassette.entries)
    for item in calls_in(cassette):
        found["raised"] += item.outcome.error is not None
        found["cancelled"] += item.outcome.status == "cancelled"
        found["refused"] += item.outcome.status == "refused"
        found["streamed"] += item.outcome.status == "streamed"
        found["lossy"] += item.fidelity != "exact"
        if item.kind == "tool":
            tools[item.name] += 1
        if item.kind in MODELS:
            models[model_of(item) or ""] += 1
            cost, usage = cost_of(item, prices), usage_of(item)
            found["unpriced"] += cost is None
            dollars += cost or 0.0
            found["input"] += usage.input_tokens or 0 if usage is not None else 0
            found["output"] += usage.output_tokens or 0 if usage is not None else 0
            found["cached"] += cached_tokens(item) if with_cached else 0
    timings = cassette.header.volatile.timings.values()
    return Overview(
        name=cassette.preface.name,
        created=cassette.preface.volatile.created,
        interactions=kinds.total(),
        steps=len(cassette.step_addresses()),
        kinds=dict(kinds.most_common()),
        tools=dict(tools.most_common()),
        models=dict(models.most_common()),
        raised=found["raised"],
        cancelled=found["cancelled"],
        refused=found["refused"],
        streamed=found["streamed"],
        lossy=found["lossy"],
        input_tokens=found["input"],
        output_tokens=found["output"],
        cached_tokens=found["cached"],
        dollars=round(dollars, 6),
        unpriced=found["unpriced"],
        seconds=round(sum(timing.duration_ms for timing in timings) / 1000, 3),
        tags=tuple(cassette.preface.tags),
    )
