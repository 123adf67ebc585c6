"""The plan of a run: its invocations, and the edits of its state.

A run of a graph is started by *invocations*: with an input, with `None` to resume after a stop, or with a `Command`,
for example the answer of a human to an interrupt. They are the outermost steps of the cassette. A derived cassette has
them in its header, with the edits of the fork.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from langgraph.types import Command, Interrupt

from agenttape_core.errors import ConfigurationError, UnreadableValueError
from agenttape_core.integration import Plain, plain_value, value_codec

COMMAND = "$command"
"""The tag of LangGraph's commands in a cassette."""


@dataclass(frozen=True, slots=True)
class Question:
    """A question that a task of a graph stopped to ask."""

    node: str  # the node of the task
    place: str  # the address or path that distinguishes the task from others of its node
    interrupt: Interrupt

    @property
    def rank(self) -> tuple[str, list[int]]:
        """Sort key of the questions of one stop, in LangGraph's order of tasks: numbers in places are numbers."""
        return self.node, [int(number) for number in re.findall(r"\d+", self.place)]


def answers_readdressed(
    answers: Mapping[str, Any], recorded: Sequence[Question], asked: Sequence[Question]
) -> dict[str, Any]:
    """Return answers under the ids that their questions have in this run: every run has its own ids.

    A question is the same if the same node interrupts with the same value. Among equal questions, and among those that
    are left, the order decides.
    """
    left = sorted(asked, key=lambda question: question.rank)
    ids: dict[str, str] = {}
    for exactly in (True, False):
        for old in sorted(recorded, key=lambda question: question.rank):
            found = next((new for new in left if not exactly or _is_same(old, new)), None)
            if found is not None and old.interrupt.id not in ids:
                left.remove(found)
                ids[old.interrupt.id] = found.interrupt.id
    return {ids.get(key, key): answer for key, answer in answers.items()}


def _is_same(first: Question, other: Question) -> bool:
    return first.node == other.node and plain_value(first.interrupt.value) == plain_value(other.interrupt.value)


@dataclass(frozen=True, slots=True)
class Invocation:
    """One start of a graph."""

    number: int  # 1-based, within its thread
    address: str  # the address of its run in the cassette
    input: Plain  # its input as plain data; `None` to continue after a stop
    # The plain values of its configuration, without the thread.
    configurable: Mapping[str, Any] = field(default_factory=dict)
    failed: bool = False  # whether it ended with an error
    died_after: int | None = None  # the superstep after which its process died; `None` if it ended
    asked: tuple[Question, ...] = ()  # the questions that were waiting when it began
    asks: tuple[Question, ...] = ()  # the questions that it stopped to ask
    # The addresses of the nodes that stopped to ask a question in it, including nodes in subgraphs.
    asking: tuple[str, ...] = ()

    def given(self) -> Any:
        """Return the input for the graph. Raises `ConfigurationError` if it cannot be rebuilt from the cassette."""
        try:
            return value_codec().decode(self.input)
        except UnreadableValueError as error:
            raise ConfigurationError(
                f"the input of invocation {self.number}, {self.address}, cannot be rebuilt: {error}\n"
                f"  import the modules of its classes, or pass the input: inputs={{{self.number}: ...}}"
            ) from error

    @property
    def _command(self) -> Mapping[str, Plain] | None:
        is_command = isinstance(self.input, dict) and list(self.input) == [COMMAND]
        return self.input[COMMAND] if is_command else None

    @property
    def is_answer(self) -> bool:
        """True for the answer to an interrupt."""
        return self._command is not None and "resume" in self._command

    @property
    def answers(self) -> list[Plain]:
        """Its answers as plain data: one for all questions, or one by the id of each."""
        if self._command is None or not self.is_answer:
            return []
        resume = self._command["resume"]
        return [resume, *(resume.values() if isinstance(resume, dict) else ())]

    @property
    def is_fresh(self) -> bool:
        """True for a new input; false for an answer, or if the run continues."""
        return self.input is not None and self._command is None

    def lives_on(self) -> Invocation:
        """Return the invocation as one whose process does not die."""
        return self if self.died_after is None else replace(self, failed=False, died_after=None)

    def answering(self, resume: Any, address: str) -> Invocation:
        """Return the invocation after this one that gives the graph an answer, at an address if one is known."""
        command = value_codec().encode(Command(resume=resume))
        return Invocation(self.number + 1, address, command, self.configurable, asked=self.asks)

    def __str__(self) -> str:
        what = "an answer" if self.is_answer else "an input" if self.is_fresh else "going on"
        return f"invocation {self.number} ({what})"


@dataclass(frozen=True, slots=True)
class Edit:
    """A place in a run, and the change of the state there, if there is one."""

    graph: str  # the address of the run of the graph that has the state
    superstep: int  # LangGraph's number of the superstep before the place
    at_end: bool = False  # whether the run stopped there itself, to ask a question
    ends_run: bool = False  # whether the run ended there, because its process died
    edits_state: bool = False  # whether the state is changed
    values: Plain = None  # the new values as plain data, as `update_state` takes them
    as_node: str | None = None  # the node that the values come from

    def ends(self, address: str) -> bool:
        """Return true for an edit that is made after the run at an address has stopped itself."""
        return self.at_end and self.graph.partition("/")[0] == address

    def update(self) -> Any:
        """Return the new values."""
        return value_codec().decode(self.values)

    def __str__(self) -> str:
        return f"edit at {self.graph}@{self.superstep}"


@dataclass(frozen=True, slots=True)
class Plan:
    """The invocations of one thread, and the edits between and within them."""

    thread_id: str | None  # the thread; `None` if the graph ran without one
    invocations: tuple[Invocation, ...]  # the invocations, in order
    edits: tuple[Edit, ...] = ()  # the edits of the state

    @property
    def ends(self) -> tuple[Edit, ...]:
        """The places where invocations ended because their processes died."""
        died = [(one.address, one.died_after) for one in self.invocations if one.died_after is not None]
        return tuple(Edit(address, superstep, ends_run=True) for address, superstep in died)

    @property
    def roots(self) -> frozenset[str]:
        """The addresses of its invocations."""
        return frozenset(invocation.address for invocation in self.invocations)

    def to_plain(self) -> dict[str, Plain]:
        """Return the plan as plain data."""
        return {
            "thread_id": self.thread_id,
            "invocations": [
                {
                    "address": one.address,
                    "input": one.input,
                    "configurable": dict(one.configurable),
                    "failed": one.failed,
                    **({} if one.died_after is None else {"died_after": one.died_after}),
                }
                for one in self.invocations
            ],
            "edits": [
                {key: getattr(edit, key) for key in ("graph", "superstep", "at_end", "values", "as_node")}
                for edit in self.edits
            ],
        }

    @classmethod
    def of_plain(cls, plain: Mapping[str, Any]) -> Plan:
        """Return the plan of plain data. Raises `ConfigurationError` if it isn't in the form of a plan."""
        try:
            invocations = [Invocation(number, **one) for number, one in enumerate(plain["invocations"], start=1)]
            edits = [Edit(**one, edits_state=True) for one in plain["edits"]]
            return cls(plain["thread_id"], tuple(invocations), tuple(edits))
        except (KeyError, TypeError) as error:
            raise ConfigurationError(
                f"the origin in the header of the cassette is not a plan of a graph: {error}"
            ) from error
