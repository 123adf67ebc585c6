"""Calls that a node makes again because it stopped to ask a human: LangGraph runs it from its beginning once more.

A call that was made before the question is replayed, whatever the answer is now. A call that interrupted itself has the
answer as part of its request, and depends on it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from functools import cached_property  # noqa: TID251 - of no session, but of the thread that asks
from typing import Any

from agenttape_core import Interaction
from agenttape_core.integration import Plain
from agenttape_core.integration.cassettes import (
    Asked,
    Cassette,
    Ignored,
    Matcher,
    Selector,
    Way,
    project_settings,
    recorded_request,
)
from agenttape_langgraph.effects import asks
from agenttape_langgraph.time_travel.recorded_run import RecordedRun

ANSWERS = "answers"
"""The key of a request for the answers that humans had given in the node of the call."""


class ReaskedCall:
    """A matcher that finds the recording of a call that is made again, without regard to the answers of humans.

    With `at_its_place`, the recording must have the address of the call.
    """

    def __init__(self, run: RecordedRun, *, at_its_place: bool) -> None:
        self._cassette = run.cassette
        self._roots = run.plan.roots
        self._answers = {invocation.address: invocation.answers for invocation in run.plan.invocations}
        self._at_its_place = at_its_place
        self._ignored = Ignored.of(run.cassette.preface.ignore)

    def __call__(self, asked: Asked, recorded: Interaction) -> bool:
        """Return true for a recording of the same call with no question, or with the same answer.

        The recording of a call that is stepped into answers it in any case: it gives the answer to its own code.
        """
        if recorded.kind != "tool" or asked.name != recorded.name or not self._has_its_place(asked, recorded):
            return False
        fingerprint = self._without_answers(asked.name, asked.request)
        if fingerprint != self._without_answers(recorded.name, recorded.request):
            return False
        if fingerprint not in self._asking or self._got_same_answer(asked, recorded):
            return True
        return self._is_stepped_into(recorded)

    def _got_same_answer(self, asked: Asked, recorded: Interaction) -> bool:
        """Return true if the answer to the call is the recorded one; requests of observed runs hold no answers."""
        answers = asked.request.get(ANSWERS)
        if not self._at_its_place or ANSWERS in recorded.request or not isinstance(answers, list) or not answers:
            return False
        recorded_answers = self._answers.get(recorded.address.partition("/")[0], ())
        return recorded.outcome.status != "raised" and answers[-1] in recorded_answers

    def _has_its_place(self, asked: Asked, recorded: Interaction) -> bool:
        if self._at_its_place:
            return recorded.address == asked.address
        return recorded.address.partition("/")[0] in self._roots

    def _is_stepped_into(self, recorded: Interaction) -> bool:
        is_replay_only = Selector(project_settings().replay_only).selects(
            recorded.kind, recorded.name, recorded.address
        )
        return recorded.acts == [] and recorded.number in self._with_calls and not is_replay_only

    @cached_property
    def _with_calls(self) -> set[int | None]:
        """The recordings that other calls lie inside."""
        return {entry.parent for entry in self._cassette.entries}

    @cached_property
    def _asking(self) -> set[str]:
        """The requests with a question for a human, without the answers."""
        tools = (self._cassette.interaction(entry.number) for entry in self._cassette.entries if entry.kind == "tool")
        return {self._without_answers(tool.name, tool.request) for tool in tools if asks(tool.outcome)}

    def _without_answers(self, name: str, request: dict[str, Plain]) -> str:
        rest: dict[str, Any] = {key: value for key, value in request.items() if key != ANSWERS}
        return recorded_request("tool", name, rest, self._ignored).fingerprint


def match_on(run: RecordedRun) -> tuple[Way | Matcher, ...]:
    """Return the `match_on` of a run: the project's rules, then the matchers of calls that are made again."""
    return (*project_settings().match_on, *reasked_calls(run))


def reasked_calls(run: RecordedRun) -> tuple[Matcher, ...]:
    """Return the matchers of calls that are made again: at their places first."""
    return ReaskedCall(run, at_its_place=True), ReaskedCall(run, at_its_place=False)


def done_before(cassette: Cassette, numbers: Iterable[int]) -> Iterator[int]:
    """Yield the recordings that did not ask a question themselves."""
    return (number for number in numbers if not asks(cassette.outcome(number)))
