"""What a cassette amounts to: how many calls of what, tokens, money, and when."""

from __future__ import annotations

from collections import Counter
from dataclasses import asdict, dataclass
from typing import Any

from agenttape_core.schema import Interaction
from agenttape_core.storage import Cassette
from agenttape_core.tools.reading.answer import ANSWERING
from agenttape_core.tools.reading.prices import Prices

MODELS = ANSWERING | {"embeddings"}
"""The kinds of calls of models, which are billed by the token."""


@dataclass(frozen=True, slots=True)
class Overview:
    """What a cassette amounts to.

    Args:
        name: Its name.
        created: When it was recorded: UTC, ISO 8601; empty if it does not say.
        interactions: How many calls it holds.
        steps: How many steps it holds.
        kinds: How many calls of each kind.
        tools: How many calls of each tool.
        models: How many calls of each model; those that do not say which are under an empty name.
        raised: How many calls raised.
        streamed: How many calls were streamed.
        lossy: How many calls hold less than what came back.
        input_tokens: What models have read, as far as they were counted.
        output_tokens: What models have written, likewise.
        dollars: What it cost to record, in US dollars, as far as the models have a known price.
        unpriced: How many calls of models have no known price, or no counted tokens.
        seconds: How long the calls took when they were recorded, in sum; parallel ones overlapped.
    """

    name: str
    created: str
    interactions: int
    steps: int
    kinds: dict[str, int]
    tools: dict[str, int]
    models: dict[str, int]
    raised: int
    streamed: int
    lossy: int
    input_tokens: int
    output_tokens: int
    dollars: float
    unpriced: int
    seconds: float

    def to_dict(self) -> dict[str, Any]:
        """Return it as plain data."""
        return asdict(self)


def cost_of(item: Interaction, prices: Prices) -> float | None:
    """Return what a call cost in US dollars; None if its model has no known price or its tokens were not counted.

    Args:
        item: A call of one of the kinds `MODELS`.
        prices: The prices.
    """
    model, usage = model_of(item), item.outcome.usage
    return prices.cost(model, item.name, usage) if model is not None and usage is not None else None


def model_of(item: Interaction) -> str | None:
    """Return the model that a call asked for, as its provider calls it."""
    model = item.request.get("model")
    return model if isinstance(model, str) else None


def overview_of(cassette: Cassette, prices: Prices) -> Overview:
    """Read a whole cassette and return what it amounts to.

    Args:
        cassette: The cassette.
        prices: What tokens cost.

    Raises:
        CassetteFormatError: If a record is malformed.
    """
    kinds, tools, models, found = Counter[str](), Counter[str](), Counter[str](), Counter[str]()
    dollars = 0.0
    for item in cassette.interactions():
        kinds[item.kind] += 1
        found["raised"] += item.outcome.error is not None
        found["streamed"] += item.outcome.status == "streamed"
        found["lossy"] += item.fidelity != "exact"
        if item.kind == "tool":
            tools[item.name] += 1
        if item.kind in MODELS:
            models[model_of(item) or ""] += 1
            cost, usage = cost_of(item, prices), item.outcome.usage
            found["unpriced"] += cost is None
            dollars += cost or 0.0
            found["input"] += usage.input_tokens or 0 if usage is not None else 0
            found["output"] += usage.output_tokens or 0 if usage is not None else 0
    timings = cassette.header.volatile.timings.values()
    return Overview(
        name=cassette.preface.name,
        created=cassette.preface.volatile.created,
        interactions=kinds.total(),
        steps=sum(1 for _ in cassette.steps()),
        kinds=dict(kinds.most_common()),
        tools=dict(tools.most_common()),
        models=dict(models.most_common()),
        raised=found["raised"],
        streamed=found["streamed"],
        lossy=found["lossy"],
        input_tokens=found["input"],
        output_tokens=found["output"],
        dollars=round(dollars, 6),
        unpriced=found["unpriced"],
        seconds=round(sum(timing.duration_ms for timing in timings) / 1000, 3),
    )
