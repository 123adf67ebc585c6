"""A run as checks see it, whatever it was made of."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from agenttape_core.tools.prompt_cache.report import Caching
from agenttape_core.tools.reporting import Finding

CACHE_FIGURES = ("uncached_tokens", "cache_miss_dollars")  # the figures of prompt caches
FACTS = {"calls": "interactions"}  # the names of measures in `Run.lacking` that differ: `calls` there counts tools

READ_BY_CHECKS = frozenset(
    {"cache_miss_dollars", "uncached_tokens", "unjudged"}
    | {"calls", "dollars", "happened", "lacking", "messages", "models", "nodes", "seconds", "tokens", "tool_calls"}
    | {"uncounted", "unpriced"}
)
"""The keys of `Run.meta` of which the other fields of a run are made."""


def unchanged(value: Any, like: Any = None) -> Any:  # noqa: ARG001 - as `AsRecorded` takes it
    """Return a value unchanged: the expectation for a run in which no secret was replaced."""
    return value


def nowhere(_: Call) -> int | None:
    """Return `None`: the line of a call that isn't in a file."""
    return None


def _written(value: Any) -> str:
    return f"/{value.pattern}/" if isinstance(value, re.Pattern) else repr(value)


@dataclass(frozen=True, slots=True)
class Call:
    """Something that a run did: a call of a model, a tool or anything else, or a node of a graph.

    Args:
        kind: Its kind: `chat`, `tool`, `node`, …; `interrupt` where the run waited for an answer.
        name: Its name.
        arguments: The arguments of a tool by name, or the bare value of one that takes no names.
        error: The type and the message of the error that it raised; empty if it did not.
        number: The number of the interaction, or of the step for a node; `None` if it was not recorded itself.
        address: Its place in the run.
        is_step: Whether it is a step, and no interaction.
        data: What an interrupt asked, as plain data.
        result: The value that a tool or a retriever returned, as plain data.
        at: Its place among all that the run did.
    """

    kind: str
    name: str
    arguments: Any = None
    error: str = ""
    number: int | None = None
    address: str = ""
    is_step: bool = False
    data: Any = None
    result: Any = None
    at: int = 0

    def __str__(self) -> str:
        if not isinstance(self.arguments, Mapping):
            return self.name if self.arguments is None else f"{self.name}({self.arguments!r})"
        return f"{self.name}({', '.join(f'{key}={_written(value)}' for key, value in self.arguments.items())})"


@dataclass(frozen=True, slots=True, kw_only=True)
class Run:
    """A run: a session, a fixture, an opened cassette, an observed file or a line of a JSONL trace.

    Args:
        name: Its name.
        path: Its file as messages show it; empty if it has none.
        prompt: What it was asked: the first message of a user.
        answer: The text of its last answer.
        answered_at: The place of the call that gave that answer among all that the run did.
        happened: All that it did, in its order: calls, nodes, interrupts.
        asked: The tools that its models requested, in order, whether or not they were called.
        interactions: The number of its recorded calls.
        tokens: The tokens that its models read and wrote, where they were counted.
        uncounted: The names of calls of models whose tokens were not counted, with the addresses of those that went
            over plain HTTP.
        dollars: What its calls cost in US dollars, as far as their models have a known price.
        unpriced: The names of calls of models without a known price or counted tokens.
        models: The number of calls of models.
        seconds: The time of its calls; parallel calls add up.
        caching: Returns the figures of its prompt caches.
        conversation: Returns its messages up to its end, in OpenAI's form.
        turns: Returns the runs of its turns, as far as a model answered them; a single turn is the run itself.
        as_recorded: Returns an expected value with pseudonyms instead of secrets, as in its recording.
        model: The model that gave the answer, as its provider calls it; empty if it isn't known.
        provider: The provider of that model; empty if it isn't known.
        meta: Facts about it that its maker wrote down.
        lacking: What is not known of it, with the reason: `calls` (its tools), `interactions` (their
            number), `steps`, `tokens`, `seconds`, `dollars`.
        line: Returns the line of a call in the file.
        whole_line: The line where the run begins in the file.
        key: Its name in a baseline; by default its name.
    """

    name: str
    path: str = ""
    prompt: str = ""
    answer: str = ""
    answered_at: int = 0
    happened: Sequence[Call] = ()
    asked: Sequence[Call] = ()
    interactions: int = 0
    tokens: int = 0
    uncounted: Sequence[str] = ()
    dollars: float = 0.0
    unpriced: Sequence[str] = ()
    models: int = 0
    seconds: float = 0.0
    caching: Callable[[], Caching] = Caching
    conversation: Callable[[], list[dict[str, Any]]] = list
    turns: Callable[[], Sequence[Run]] = tuple
    as_recorded: Callable[..., Any] = unchanged
    model: str = ""
    provider: str = ""
    meta: Mapping[str, Any] = field(default_factory=dict)
    lacking: Mapping[str, str] = field(default_factory=dict)
    line: Callable[[Call], int | None] = nowhere
    whole_line: int | None = None
    key: str = ""

    def of_kind(self, kind: str) -> list[Call]:
        """Return its calls of a kind, in its order."""
        return [call for call in self.happened if call.kind == kind]

    def finding(self, message: str, call: Call | None = None, **facts: Any) -> Finding:
        """Return a finding about the run, or about one of its calls.

        Args:
            message: What is wrong, in names and numbers.
            call: The call that it is about.
            facts: Further fields of the finding.
        """
        if call is None:
            return Finding(message, path=self.path, line=self.whole_line, **facts)
        number = None if call.is_step else call.number
        return Finding(message, path=self.path, line=self.line(call), interaction=number, address=call.address, **facts)


def run_of_turns(turns: Sequence[Run]) -> Run:
    """Return the run of several turns: costs are added up, and events are in the order of the run.

    Each turn has the positions of its events in the whole run.
    """
    last = max(turns, key=lambda turn: turn.answered_at)
    turn_of = {call.at: turn for turn in turns for call in turn.happened}
    return replace(
        last,
        prompt=turns[0].prompt,
        happened=sorted((call for turn in turns for call in turn.happened), key=_at),
        asked=sorted((call for turn in turns for call in turn.asked), key=_at),
        interactions=sum(turn.interactions for turn in turns),
        tokens=sum(turn.tokens for turn in turns),
        uncounted=[name for turn in turns for name in turn.uncounted],
        dollars=sum(turn.dollars for turn in turns),
        unpriced=[name for turn in turns for name in turn.unpriced],
        models=sum(turn.models for turn in turns),
        seconds=sum(turn.seconds for turn in turns),
        caching=lambda: _added([turn.caching() for turn in turns]),
        turns=lambda: turns,
        lacking={fact: why for turn in reversed(turns) for fact, why in turn.lacking.items()},
        line=lambda call: turn_of[call.at].line(call),
        whole_line=None,
        key="",
    )


def _added(several: Sequence[Caching]) -> Caching:
    names = {what: [name for each in several for name in each.unjudged.get(what, ())] for what in CACHE_FIGURES}
    tokens, dollars = sum(each.uncached_tokens for each in several), sum(each.cache_miss_dollars for each in several)
    return Caching(tokens, dollars, names)


def _at(call: Call) -> int:
    return call.at
