"""How a recorded run was started, and what was changed in it on the way.

A run of a graph is started by *invocations*: with an input, with nothing to go on where it stopped, or with a
`Command`, such as the answer of a human to an interrupt. They are the outermost steps of the cassette. A derived
cassette has them in its header, with the edits that made it another run.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from langgraph.types import Command, Interrupt

from agenttape_core import ConfigurationError, UnreadableValueError
from agenttape_core.integration import Plain, plain_value, value_codec

COMMAND = "$command"
"""The tag that commands of LangGraph have in a cassette."""


@dataclass(frozen=True, slots=True)
class Question:
    """What a task of a graph had stopped to ask.

    Args:
        node: The node of the task.
        place: What tells the task from others of its node, so that tasks are sorted as LangGraph does.
        interrupt: What it asked.
    """

    node: str
    place: str
    interrupt: Interrupt

    @property
    def rank(self) -> tuple[str, list[int]]:
        """Sorts the questions of one stop: numbers in places as numbers."""
        return self.node, [int(number) for number in re.findall(r"\d+", self.place)]


def answers_readdressed(
    answers: Mapping[str, Any], recorded: Sequence[Question], asked: Sequence[Question]
) -> dict[str, Any]:
    """Return answers by the ids that the questions have in this run: those of the recorded run were its own.

    A question is the same if the same node asks the same; of equal ones, and of what is left, the order decides.
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
    """One start of a graph.

    Args:
        number: 1-based, within its thread.
        address: Where its run stands in the cassette.
        input: What it was started with, as plain data; nothing to go on where it had stopped.
        configurable: What it was configured with besides its thread, of plain values.
        failed: Whether it ended with an error.
        asked: What the graph had stopped to ask before.
        asking: The addresses of the nodes that stopped to ask something in it, of subgraphs, too.
    """

    number: int
    address: str
    input: Plain
    configurable: Mapping[str, Any] = field(default_factory=dict)
    failed: bool = False
    asked: tuple[Question, ...] = ()
    asking: tuple[str, ...] = ()

    def given(self) -> Any:
        """Return the input as the graph is to get it.

        Raises:
            ConfigurationError: If the cassette does not hold it as it was.
        """
        try:
            return value_codec().decode(self.input)
        except UnreadableValueError as error:
            raise ConfigurationError(
                f"the input of invocation {self.number}, {self.address}, cannot be rebuilt: {error}\n"
                f"  import what its classes are of, or hand it in: inputs={{{self.number}: ...}}"
            ) from error

    @property
    def _command(self) -> Mapping[str, Plain] | None:
        is_command = isinstance(self.input, dict) and list(self.input) == [COMMAND]
        return self.input[COMMAND] if is_command else None

    @property
    def is_answer(self) -> bool:
        """Whether it is the answer to an interrupt."""
        return self._command is not None and "resume" in self._command

    @property
    def answers(self) -> list[Plain]:
        """What it answers, as plain data: one answer to all, or one for each id of a question."""
        if self._command is None or not self.is_answer:
            return []
        resume = self._command["resume"]
        return [resume, *(resume.values() if isinstance(resume, dict) else ())]

    @property
    def is_fresh(self) -> bool:
        """Whether it is a new input, and not a way to go on."""
        return self.input is not None and self._command is None

    def answering(self, resume: Any, address: str) -> Invocation:
        """Return the invocation after this one that gives the graph an answer, at an address if one is known."""
        command = value_codec().encode(Command(resume=resume))
        return replace(self, number=self.number + 1, address=address, input=command, failed=False, asked=(), asking=())

    def __str__(self) -> str:
        what = "an answer" if self.is_answer else "an input" if self.is_fresh else "going on"
        return f"invocation {self.number} ({what})"


@dataclass(frozen=True, slots=True)
class Edit:
    """A place of a run where it is left, and the change that is made to its state there, if there is one.

    Args:
        graph: The address of the run of the graph whose state it is.
        superstep: LangGraph's number of the superstep after which.
        at_end: Whether the run had stopped there by itself, to ask something.
        edits_state: Whether the state is changed.
        values: The new values as plain data, as `update_state` takes them.
        as_node: The node that they are to come from.
    """

    graph: str
    superstep: int
    at_end: bool = False
    edits_state: bool = False
    values: Plain = None
    as_node: str | None = None

    def ends(self, address: str) -> bool:
        """Whether it is made after the run at an address has stopped by itself."""
        return self.at_end and self.graph.partition("/")[0] == address

    def update(self) -> Any:
        """Return the new values."""
        return value_codec().decode(self.values)

    def __str__(self) -> str:
        return f"edit at {self.graph}@{self.superstep}"


@dataclass(frozen=True, slots=True)
class Plan:
    """The invocations of one thread, and the edits between and within them.

    Args:
        thread_id: The thread; nothing if the graph ran without one.
        invocations: How the graph was started, in this order.
        edits: What was changed in its state.
    """

    thread_id: str | None
    invocations: tuple[Invocation, ...]
    edits: tuple[Edit, ...] = ()

    @property
    def roots(self) -> frozenset[str]:
        """The addresses of its invocations."""
        return frozenset(invocation.address for invocation in self.invocations)

    def to_plain(self) -> dict[str, Plain]:
        """Return it as plain data."""
        return {
            "thread_id": self.thread_id,
            "invocations": [
                {
                    "address": one.address,
                    "input": one.input,
                    "configurable": dict(one.configurable),
                    "failed": one.failed,
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
        """Return the plan that plain data stands for.

        Raises:
            ConfigurationError: If it stands for none.
        """
        try:
            invocations = [Invocation(number, **one) for number, one in enumerate(plain["invocations"], start=1)]
            edits = [Edit(**one, edits_state=True) for one in plain["edits"]]
            return cls(plain["thread_id"], tuple(invocations), tuple(edits))
        except (KeyError, TypeError) as error:
            raise ConfigurationError(
                f"the origin that the cassette notes is not one of a graph's run: {error}"
            ) from error
