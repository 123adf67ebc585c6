"""The way of a journey: which calls of the graph it takes, whoever makes them.

The journey is a generator of what is to be done with the graph. One driver does it synchronously, another one
asynchronously; both hand back what came of it. So there is one way, and no second one to keep in step with it.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Generator, Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from langchain_core.runnables import RunnableConfig
from langgraph.types import Command, StateSnapshot

from agenttape_core import Session
from agenttape_core.integration import Plain, plain_value
from agenttape_langgraph.time_travel.plan import Edit, Invocation, Plan, Question, answers_readdressed
from agenttape_langgraph.time_travel.stop_point import Arrived, ArrivingSaver

UNCHANGED: Any = object()
"""Stands for an argument that was not given, where nothing is something."""

_NODE = re.compile(r"[^/]*@(-?\d+)[^/]*")


@dataclass(frozen=True, slots=True)
class Invoke:
    """Run the graph, until it ends, stops to ask, or arrives."""

    input: Any
    config: RunnableConfig


@dataclass(frozen=True, slots=True)
class Update:
    """Change the state of the graph, or of a subgraph whose namespace is in the config."""

    config: RunnableConfig
    values: Any
    as_node: str | None


@dataclass(frozen=True, slots=True)
class Look:
    """Get the state of the graph."""

    config: RunnableConfig


Action = Invoke | Update | Look
Way = Generator[Action, Any, StateSnapshot]


@dataclass(slots=True)
class Journey:
    """One journey in progress.

    Args:
        plan: How the recorded run was started, and which edits it had already.
        departure: Where this journey departs, and how the state is changed there; nothing if an answer decides that.
        resume: Another answer to what the graph asks at the departure.
        config: What every call of the graph is configured with.
        inputs: Inputs to be taken instead of the recorded ones, by the number of the invocation.
        session: The session that serves.
        saver: Keeps the checkpoints.
        depart: Called where the journey departs: from there calls may be executed.
        done_before: Picks of recordings those that did not ask a human themselves.
    """

    plan: Plan
    departure: Edit | None
    resume: Any
    config: RunnableConfig
    inputs: Mapping[int, Any]
    session: Session
    saver: ArrivingSaver
    depart: Callable[[], None]
    done_before: Callable[[Iterable[int]], Iterable[int]]
    taken: list[Invocation] = field(default_factory=list)
    """The invocations as they were made."""
    edited: list[Edit] = field(default_factory=list)
    """The edits as they were made."""
    left_out: list[str] = field(default_factory=list)
    """Why recorded invocations and edits were not made again."""
    has_departed: bool = False
    """Whether the run has left what was recorded."""

    def way(self) -> Way:
        """Yield what is to be done; return the state at the end."""
        waiting = list(self.plan.invocations)
        while waiting:
            invocation = waiting.pop(0)
            if self.has_departed and (why := (yield from self._misfit(invocation))):
                self.left_out += [f"{invocation}: {why}", *(f"{one}: it came after" for one in waiting)]
                break
            yield from self._invoke(invocation)
            for edit in self._edits_after(invocation):
                yield from self._edit(edit, invocation)
                if edit is self.departure and self.resume is not UNCHANGED:
                    recorded = waiting.pop(0) if waiting and waiting[0].is_answer else None
                    if recorded is None:
                        self._ask_again(invocation)
                    address = recorded.address if recorded is not None else ""
                    waiting.insert(0, invocation.answering(self.resume, address))
        state: StateSnapshot = yield Look(self._config(self.taken[-1]))
        return state

    def _invoke(self, invocation: Invocation) -> Generator[Action, Any, None]:
        """Run the graph once, and go on wherever it is left for an edit."""
        given: Any = self.inputs.get(invocation.number, UNCHANGED)
        if given is UNCHANGED:
            given = yield from self._given(invocation)
        self.taken.append(replace(invocation, input=plain_value(given)))
        while True:
            if invocation.address:
                self.session.root.lead_to(invocation.address)
            try:
                yield Invoke(given, self._config(invocation))
            except Arrived:
                stopped = self.saver.arrived
                yield from self._edit(stopped, invocation)
                self._begin_again(stopped.graph)
                given = None
            except Exception:
                if not invocation.failed:  # else it fails as it did, and the thread goes on as it did
                    raise
                return
            else:
                return

    def _edits_after(self, invocation: Invocation) -> list[Edit]:
        """Return what is edited after an invocation has stopped by itself."""
        edits = [*self.plan.edits, *([self.departure] if self.departure is not None else [])]
        return [] if self.has_departed else [edit for edit in edits if edit.ends(invocation.address)]

    def _edit(self, edit: Edit, invocation: Invocation) -> Generator[Action, Any, None]:
        """Make an edit where the graph has stopped."""
        if edit.edits_state:
            config = self._config(invocation, self.saver.namespaces.get(edit.graph, ""))
            self.saver.go_on()
            yield Update(config, edit.update(), edit.as_node)
            self.edited.append(edit)
        self.passed(edit)

    def input_at(self, address: str) -> Plain:
        """Return the input of the invocation at an address, as plain data."""
        return next((one.input for one in reversed(self.taken) if one.address == address), None)

    def passed(self, edit: Edit) -> None:
        """Depart, if this is the place; it need not be left for that."""
        if edit is self.departure and not self.has_departed:
            self.leave()
            self.depart()

    def leave(self) -> None:
        """Note that the run has departed: what was edited later in it is no longer."""
        self.has_departed = True
        self.left_out += [f"{edit}: the journey departs before it" for edit in self.saver.forget()]

    def _ask_again(self, invocation: Invocation) -> None:
        """Let what an interrupted node did before its question be served again: nobody recorded what it did after."""
        served = {one.number for one in self.session.report.served if _is_below(one.address, invocation.asking)}
        self.session.go_back(self.done_before(served))

    def _begin_again(self, stopped: str) -> None:
        """Go back to before the calls of what was broken off."""
        served = self.session.report.served
        self.session.go_back([one.number for one in served if _is_asked_again(one.address, stopped)])

    def _given(self, invocation: Invocation) -> Generator[Action, Any, Any]:
        given = invocation.given()
        if isinstance(given, Command) and isinstance(given.resume, dict) and invocation.asked:
            state: StateSnapshot = yield Look(self._config(invocation))
            asked = [Question(task.name, str(task.path), one) for task in state.tasks for one in task.interrupts]
            return replace(given, resume=answers_readdressed(given.resume, invocation.asked, asked))
        return given

    def _misfit(self, invocation: Invocation) -> Generator[Action, Any, str]:
        """Return why a recorded invocation makes no sense any more after the departure; nothing if it does."""
        if invocation.is_fresh:
            return ""
        state: StateSnapshot = yield Look(self._config(invocation))
        if invocation.is_answer:
            return "" if state.interrupts else "nothing waits for an answer"
        return "" if state.next else "the graph has ended"

    def _config(self, invocation: Invocation, namespace: str | None = None) -> RunnableConfig:
        """Return the config of a call: what was recorded, under what the user gives."""
        given = self.config.get("configurable", {})
        place = {} if namespace is None else {"checkpoint_ns": namespace}
        thread = self.plan.thread_id or f"run {invocation.number}"
        configurable = {**invocation.configurable, **given, "thread_id": thread, **place}
        return {**self.config, "configurable": configurable}


def _is_below(address: str, places: Iterable[str]) -> bool:
    return any(address.startswith(f"{place}/") for place in places)


def _is_asked_again(address: str, stopped: str) -> bool:
    """Whether a call belongs to what was broken off when a subgraph was stopped, and will be asked again.

    The nodes around the subgraph are run again from their beginning, and so may be those beside them; the steps that
    the subgraph had taken are not.
    """
    if address.startswith(f"{stopped}/"):
        return False
    labels, around = address.split("/"), stopped.split("/")
    for depth, label in enumerate(around):
        here = _NODE.fullmatch(label)
        mine = _NODE.fullmatch(labels[depth]) if depth < len(labels) else None
        if here is not None and mine is not None and here[1] == mine[1]:
            return True
        if depth >= len(labels) or labels[depth] != label:
            return False
    return False
