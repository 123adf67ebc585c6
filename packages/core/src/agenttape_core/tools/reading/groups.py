"""Totals of the calls of runs, by group. Each call belongs to one group, so that sums agree."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

from agenttape_core.matching import places_above
from agenttape_core.schema import Interaction, Step, Timing
from agenttape_core.storage import Cassette
from agenttape_core.tools.reading.prices import Prices
from agenttape_core.tools.reading.summary import MODELS, cost_of, model_of
from agenttape_core.tools.reading.turns import turns_of

WAYS = ("cassette", "thread", "turn", "agent", "node", "model", "tool")
"""The facts by which calls may be grouped."""


@dataclass(slots=True)
class Group:
    """The totals of the calls of a group.

    Args:
        name: Its name; empty for the calls that belong to none.
        calls: The number of its calls.
        failed: The number of those that raised or were cancelled.
        input_tokens: The tokens that its models read, if they were counted.
        output_tokens: The tokens that they have written.
        dollars: The cost in US dollars, as far as the models have a known price.
        unpriced: The number of calls of models without a known price or counted tokens.
        seconds: The sum of the durations.
        first_ms: For each stream, the milliseconds until its first chunk.
    """

    name: str
    calls: int = 0
    failed: int = 0
    input_tokens: int = 0
    output_tokens: int = 0
    dollars: float = 0.0
    unpriced: int = 0
    seconds: float = 0.0
    first_ms: list[float] = field(default_factory=list)

    def add(self, item: Interaction, timing: Timing | None, prices: Prices) -> None:
        """Add a call."""
        self.calls += 1
        self.failed += item.outcome.has_failed
        usage = item.outcome.usage
        if item.kind in MODELS:
            cost = cost_of(item, prices)
            self.dollars += cost or 0.0
            self.unpriced += cost is None
            self.input_tokens += (usage.input_tokens or 0) if usage is not None else 0
            self.output_tokens += (usage.output_tokens or 0) if usage is not None else 0
        if timing is not None:
            self.seconds += timing.duration_ms / 1000
            self.first_ms += timing.offsets_ms[:1]

    def to_dict(self) -> dict[str, Any]:
        """Return it as plain data: the time to the first chunk as median and 95th percentile, in milliseconds."""
        facts = {key: getattr(self, key) for key in ("name", "calls", "failed", "input_tokens", "output_tokens")}
        money = {"dollars": round(self.dollars, 6), "unpriced": self.unpriced, "seconds": round(self.seconds, 3)}
        return {**facts, **money, "ttft_ms": self.ttft(0.5), "ttft_p95_ms": self.ttft(0.95)}

    def ttft(self, share: float) -> float | None:
        """Return the time to the first chunk within which a share of the streams began; `None` without a stream."""
        if not self.first_ms:
            return None
        if len(self.first_ms) == 1:
            return round(self.first_ms[0], 1)
        cuts = statistics.quantiles(self.first_ms, n=100, method="inclusive")
        return round(cuts[round(share * 100) - 1], 1)


def add_to(groups: dict[str, Group], way: str, cassette: Cassette, shown: str, prices: Prices) -> None:
    """Add the calls of a cassette to groups.

    Args:
        groups: The groups by their names.
        way: One of `WAYS`.
        cassette: The cassette.
        shown: Its file, as messages show it.
        prices: The prices of tokens.

    Raises:
        CassetteFormatError: If a record is malformed.
    """
    timings = cassette.header.volatile.timings
    records = list(cassette.records())
    items = [record for record in records if isinstance(record, Interaction)]
    for item, name in _named(way, items, [record for record in records if isinstance(record, Step)], shown):
        groups.setdefault(name, Group(name)).add(item, timings.get(item.number), prices)


def _named(way: str, items: list[Interaction], steps: list[Step], shown: str) -> Iterator[tuple[Interaction, str]]:
    """Yield each call with the name of its group."""
    if way == "turn":
        for number, turn in enumerate(turns_of(items), 1):
            yield from ((item, f"{shown} turn {number}") for item in turn.calls)
        return
    tools = {item.number: item for item in items}
    names: dict[str, Callable[[Interaction], str]] = {
        "cassette": lambda _: shown,
        "thread": lambda item: _around(item, threads),
        "agent": lambda item: _around(item, agents),
        "node": lambda item: _around(item, nodes),
        "model": lambda item: model_of(item) or "" if item.kind in MODELS else "",
        "tool": lambda item: _tool(item, tools),
    }
    threads = {step.address: str(step.metadata["thread_id"]) for step in steps if "thread_id" in step.metadata}
    agents = {step.address: step.name for step in steps if step.kind == "agent"}
    nodes = {step.address: step.name for step in steps if step.kind == "node"}
    yield from ((item, names[way](item)) for item in items)


def _around(item: Interaction, names: dict[str, str]) -> str:
    """Return the name of the nearest step around a call."""
    return next((names[place] for place in (item.address, *places_above(item.address)) if place in names), "")


def _tool(item: Interaction, items: dict[int, Interaction]) -> str:
    """Return the outermost tool that a call is, or is made by."""
    name, current, seen = "", item, {item.number}
    while True:
        name = current.name if current.kind == "tool" else name
        around = items.get(current.parent) if current.parent is not None else None
        if around is None or around.number in seen:
            return name
        seen.add(around.number)
        current = around
