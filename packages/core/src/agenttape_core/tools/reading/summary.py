"""The sums of a cassette: the overview, the cost of each call, the turns of its conversation, and totals by group."""

from __future__ import annotations

import json
import statistics
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

from agenttape_core.matching import places_above
from agenttape_core.schema import MODEL_KINDS, OWN, Interaction, Outcome, Step, Timing, Usage
from agenttape_core.storage import Cassette
from agenttape_core.tools.reading.messages import Answer, input_messages, text_of
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
    """Return the token counts of a call of a model, with cached tokens that Anthropic counts apart from the input."""
    usage = item.outcome.usage
    if usage is None or usage.input_tokens is None or item.kind not in MODEL_KINDS:
        return usage
    if _COUNTS_APART not in (model_of(item) or "").lower():  # to read all answers takes longer than all else
        return usage
    apart = Answer(item.outcome).tokens_apart
    return usage.model_copy(update={"input_tokens": usage.input_tokens + apart}) if apart else usage


def tokens_of(item: Interaction) -> tuple[int, int]:
    """Return the tokens that a call of a model read and wrote; 0 where they were not counted."""
    usage = usage_of(item)
    return (usage.input_tokens or 0, usage.output_tokens or 0) if usage is not None else (0, 0)


def cached_tokens(item: Interaction) -> int:
    """Return the tokens that a call of a model read from a prompt cache; 0 if its provider doesn't say."""
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
            cost, (read, written) = cost_of(item, prices), tokens_of(item)
            found.update(unpriced=cost is None, input=read, output=written)
            dollars += cost or 0.0
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


# -- The turns of a conversation (the prompt, the calls that followed, the answer), and totals of calls by group.


@dataclass(slots=True)
class Turn:
    """One turn: a prompt and the run's reaction to it."""

    prompt: str  # what was asked: the last message of a user before the first answer; empty if there is none
    calls: list[Interaction] = field(default_factory=list)  # the calls of the turn, in the order of the run

    @property
    def last(self) -> Interaction | None:
        """The call of a model that gave the answer: the last one that no other call made."""
        return next((item for item in reversed(self.calls) if is_answer_of_run(item)), None)

    @property
    def answer(self) -> str:
        """The text of the answer; empty if there is none."""
        return Answer(self.last.outcome).text if self.last is not None else ""


def is_answer_of_run(item: Interaction) -> bool:
    """Return True for a call of a model that no other call made: its answer is one to the run."""
    return item.kind in MODEL_KINDS and item.parent is None


def turns_of(interactions: Iterable[Interaction]) -> list[Turn]:
    """Return the turns of a run.

    A turn begins with each outermost run (`agent`, `agent#2`, …). Calls of models outside of any run, as in a
    hand-written loop, belong to one turn as long as they continue from the same message of a user.
    """
    turns: list[Turn] = []
    known: dict[str, Turn] = {}  # by the outermost run: parallel ones take turns in the order of the calls
    waiting: list[Interaction] = []
    for item in interactions:
        outermost = item.address.partition("/")[0]
        turn = known.get(outermost)
        if not is_answer_of_run(item):
            (turn.calls if turn is not None else waiting).append(item)
            continue
        messages = input_messages(item.request)
        asked = _last_of_user(messages)
        if turn is None and turns and _continues(messages, asked, turns[-1].prompt):
            turn = turns[-1]
        if turn is None:
            turn = Turn(text_of(messages[asked]) if asked is not None else "")
            turns.append(turn)
        known[outermost] = turn
        turn.calls += [*waiting, item]
        waiting.clear()
    if waiting:
        (turns[-1] if turns else _added(turns)).calls.extend(waiting)
    return turns


def _added(turns: list[Turn]) -> Turn:
    turns.append(Turn(""))
    return turns[-1]


def _last_of_user(messages: list[dict[str, Any]]) -> int | None:
    return next((at for at in reversed(range(len(messages))) if messages[at]["role"] == "user"), None)


def _continues(messages: list[dict[str, Any]], asked: int | None, prompt: str) -> bool:
    """Return True if a request continues from a message of a user that was answered before."""
    return asked is not None and asked < len(messages) - 1 and text_of(messages[asked]) == prompt


# -- The conversation of a run in OpenAI's form, which evaluators of other libraries read.


def conversation_of(last: Interaction | None) -> list[dict[str, Any]]:
    """Return the messages of a conversation with its last answer, from the call `last`."""
    if last is None:
        return []
    messages = [*input_messages(last.request), *Answer(last.outcome).messages]
    return [converted for message in messages for converted in _converted(message)]


def _converted(message: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Return a message as OpenAI writes it; of results of tools, one for each."""
    results = [part for part in message["parts"] if part["type"] == "tool_call_response"]
    if results:
        return [
            {"role": "tool", "tool_call_id": str(part.get("id") or ""), "content": _text(part.get("response"))}
            for part in results
        ]
    calls = [_call(part) for part in message["parts"] if part["type"] == "tool_call"]
    whole = {"role": message["role"], "content": text_of(message)}
    return [{**whole, "tool_calls": calls} if calls else whole]


def _call(part: Mapping[str, Any]) -> dict[str, Any]:
    arguments = part["arguments"] if part["arguments"] is not None else {}
    written = arguments if isinstance(arguments, str) else json.dumps(arguments, ensure_ascii=False)
    return {
        "id": str(part.get("id") or ""),
        "type": "function",
        "function": {"name": part["name"], "arguments": written},
    }


def _text(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, default=str)


# Totals of the calls of runs, by group. Each call belongs to one group, so that sums agree.

WAYS = ("cassette", "thread", "turn", "agent", "node", "model", "tool")  # the facts by which calls may be grouped


@dataclass(slots=True)
class Group:
    """The totals of the calls of a group."""

    name: str  # its name; empty for the calls that belong to none
    calls: int = 0  # the number of its calls
    failed: int = 0  # the number of those that raised or were cancelled
    input_tokens: int = 0  # the tokens that its models read, if they were counted
    output_tokens: int = 0  # the tokens that they have written
    cached_tokens: int = 0  # those of its input that came from a prompt cache, as far as their providers say so
    dollars: float = 0.0  # the cost in US dollars, as far as the models have a known price
    unpriced: int = 0  # the number of calls of models without a known price or counted tokens
    seconds: float = 0.0  # the sum of the durations
    first_ms: list[float] = field(default_factory=list)  # for each stream, the milliseconds until its first chunk

    def add(self, item: Interaction, timing: Timing | None, prices: Prices) -> None:
        """Add a call."""
        self.calls += 1
        self.failed += item.outcome.has_failed
        if item.kind in MODELS:
            cost, (read, written) = cost_of(item, prices), tokens_of(item)
            self.dollars += cost or 0.0
            self.unpriced += cost is None
            self.input_tokens += read
            self.output_tokens += written
            self.cached_tokens += cached_tokens(item)
        if timing is not None:
            self.seconds += timing.duration_ms / 1000
            self.first_ms += timing.offsets_ms[:1]

    def to_dict(self) -> dict[str, Any]:
        """Return it as plain data: the time to the first chunk as median and 95th percentile, in milliseconds."""
        counts = ("name", "calls", "failed", "input_tokens", "output_tokens", "cached_tokens")
        facts = {key: getattr(self, key) for key in counts}
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
    """Add the calls of a cassette to groups. Raises `CassetteFormatError` if a record is malformed."""
    timings = cassette.header.volatile.timings
    records = list(cassette.records())
    items = list(calls_in(cassette))
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
