"""Calls that a node makes again because it stopped to ask a human: LangGraph runs it from its beginning once more.

What such a call did before the question was asked, it has done: it is served, whatever the answer is now. A call that
asked the question itself has the answer as part of its request, and depends on it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from functools import cached_property
from typing import Any

from agenttape_core import Interaction
from agenttape_core.integration import Asked, Cassette, Ignored, Matcher, Plain, Way, load_settings, recorded_question
from agenttape_langgraph.effects import asks
from agenttape_langgraph.time_travel.plan import Plan

ANSWERS = "answers"
"""The key of a request that has the answers that a human had given in the node of the call."""


class BeforeTheQuestion:
    """Finds the recording of a call that is made again, without regard to the answers of humans.

    Args:
        cassette: The recordings.
        plan: How the runs that it may be of were started.
        at_its_place: Whether it must stand where the call is asked.
    """

    def __init__(self, cassette: Cassette, plan: Plan, *, at_its_place: bool) -> None:
        self._cassette = cassette
        self._roots = plan.roots
        self._given = {invocation.address: invocation.answers for invocation in plan.invocations}
        self._at_its_place = at_its_place
        self._ignored = Ignored.of(cassette.preface.ignore)

    def __call__(self, asked: Asked, recorded: Interaction) -> bool:
        """Whether a recording is that of the same call, and did not ask, or was given the same answer."""
        if recorded.kind != "tool" or asked.name != recorded.name or not self._stands_right(asked, recorded):
            return False
        fingerprint = self._without_answers(asked.name, asked.request)
        mine = self._without_answers(recorded.name, recorded.request)
        if fingerprint != mine:
            return False
        return fingerprint not in self._asking or self._was_given(asked, recorded)

    def _was_given(self, asked: Asked, recorded: Interaction) -> bool:
        """Whether a call that asked was given then what it is given now. Who observes it is not told of answers."""
        answers = asked.request.get(ANSWERS)
        if not self._at_its_place or ANSWERS in recorded.request or not isinstance(answers, list) or not answers:
            return False
        return recorded.outcome.status != "raised" and answers[-1] in self._given.get(
            recorded.address.partition("/")[0], ()
        )

    def _stands_right(self, asked: Asked, recorded: Interaction) -> bool:
        if self._at_its_place:
            return recorded.address == asked.address
        return recorded.address.partition("/")[0] in self._roots

    @cached_property
    def _asking(self) -> set[str]:
        """The requests that have asked a human, with or without the answer."""
        tools = (self._cassette.interaction(entry.number) for entry in self._cassette.entries if entry.kind == "tool")
        return {self._without_answers(tool.name, tool.request) for tool in tools if asks(tool.outcome)}

    def _without_answers(self, name: str, request: dict[str, Plain]) -> str:
        rest: dict[str, Any] = {key: value for key, value in request.items() if key != ANSWERS}
        return recorded_question("tool", name, rest, self._ignored).fingerprint


def ways_to_match(cassette: Cassette, plan: Plan) -> tuple[Way | Matcher, ...]:
    """Return the project's ways to match, and after them those of calls that are made again."""
    again = (BeforeTheQuestion(cassette, plan, at_its_place=at_its_place) for at_its_place in (True, False))
    return (*load_settings().match_on, *again)


def done_before(cassette: Cassette, numbers: Iterable[int]) -> Iterator[int]:
    """Yield those recordings that did not ask the question themselves."""
    return (number for number in numbers if not asks(cassette.outcome(number)))
