"""`time_travel`: depart from a recorded run at any of its steps."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from pathlib import Path
from typing import Any

from langchain_core.runnables import RunnableConfig
from langgraph.checkpoint.base import BaseCheckpointSaver
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.types import StateSnapshot

from agenttape_core import Comparison, ConfigurationError, Rule, Session, Step, compare_cassettes, open_cassette
from agenttape_core.integration import Crossed, Plain, deriving, value_codec
from agenttape_core.tools.compare import named_cassette
from agenttape_langgraph.time_travel.answers import Answers, edited_outcomes
from agenttape_langgraph.time_travel.drivers import Graph, adrive, drive, in_memory
from agenttape_langgraph.time_travel.initial_checkpoints import Before
from agenttape_langgraph.time_travel.plan import Edit, Plan
from agenttape_langgraph.time_travel.reasked_calls import done_before, ways_to_match
from agenttape_langgraph.time_travel.recorded_run import PLAN, RecordedRun, RecordedStep
from agenttape_langgraph.time_travel.replay import Ended, thread_of
from agenttape_langgraph.time_travel.script import UNCHANGED, Journey
from agenttape_langgraph.time_travel.stop_point import ArrivingSaver, is_broken_off

_GAP = "gap"


@dataclass(frozen=True)
class Travel(Ended):
    """What came of a journey.

    Args:
        original: The cassette that was departed from.
        cassette: The derived cassette.
        departure: Where the run departed from what was recorded; empty if it did not.
        prefix: The calls that were served before that.
        served: The calls that were served after it: what does not depend on the change.
        live: The calls that were executed: what does.
        left_out: Recorded invocations and edits that made no sense after the departure, and why.
    """

    original: Path | str
    cassette: Path | str
    departure: str
    prefix: tuple[Crossed, ...]
    served: tuple[Crossed, ...]
    live: tuple[Crossed, ...]
    left_out: tuple[str, ...] = ()

    @cached_property
    def diff(self) -> Comparison:
        """The recorded run against this one. Steps are compared if both were recorded in a session."""
        first, other = open_cassette(self.original), open_cassette(self.cassette)
        observed = any(step.kind == _GAP for cassette in (first, other) for step in cassette.steps())
        return compare_cassettes(first, other, steps=not observed)

    def __str__(self) -> str:
        lines = [
            f"{self.original} → {self.cassette}",
            f"departed   {self.departure or 'nowhere: nothing was changed'}",
            f"before     {len(self.prefix)} served",
            f"after      {len(self.served)} served, {len(self.live)} live",
            *(f"  live   {crossed.kind} {crossed.name} at {crossed.address}" for crossed in self.live),
            *(f"left out   {one}" for one in self.left_out),
            *(f"waits for  {one.value!r}" for one in self.interrupts),
        ]
        return "\n".join(lines)


def time_travel(
    cassette: str | Path,
    graph: Graph,
    *,
    thread_id: str | None = None,
    step: int | RecordedStep | None = None,
    state_update: Any = UNCHANGED,
    as_node: str | None = None,
    answers: Answers | None = None,
    resume: Any = UNCHANGED,
    to: str | Path | None = None,
    live: bool | Collection[str] = True,
    inputs: Mapping[int, Any] | None = None,
    config: RunnableConfig | None = None,
    context: Any = None,
    saver: BaseCheckpointSaver[Any] | None = None,
    redact: bool | Sequence[Rule] = True,
) -> Travel:
    """Run a recorded run again, depart from it at a step, and see what would have been.

    The graph really runs, from the recorded inputs and with the recorded answers of humans. All calls are served until
    the departure; after it those that were recorded are served still, and only what depends on the change is executed.
    What comes of it is written to a derived cassette. The cassette stays as it is, and so does the graph's own saver:
    the run has one in memory.

    Args:
        cassette: The recorded run.
        graph: The compiled graph, as it was when it was recorded, or as it is now.
        thread_id: The thread; it may be left out if the cassette has only one.
        step: Where to depart: the number of a step, as `steps_of` lists them, or one of them. After that step the state
            is changed, or what it asked is answered otherwise. Without a change the run goes on from there with the
            graph as it is now.
        state_update: New values for the state after the step, as `update_state` takes them; for a step of a subgraph,
            of its state.
        as_node: The node that they are to come from, likewise.
        answers: What calls are to get instead of what they got, by the number or the address of the interaction: a text
            or a message for a model, what it returns for a tool, an exception to be raised.
        resume: Another answer to what the step had stopped to ask, as `Command(resume=...)` takes it. Without `step`,
            to the only thing that was asked.
        to: The derived cassette; by default `NAME.derived.yaml` beside the recorded one.
        live: Whether calls without a recording are executed after the departure, or which kinds (`"chat"`) and names
            are; others raise a miss.
        inputs: Inputs instead of the recorded ones, by the number of the invocation, such as those that the cassette
            could not hold.
        config: What else to configure the graph with; what is recorded of it need not be given.
        context: The context of the run, for graphs that have a `context_schema`.
        saver: What has the thread, if it held something before the recording began; by default the graph's own. It is
            only read.
        redact: The rules that the cassette was recorded with, as in `use_cassette`.

    Raises:
        ConfigurationError: If the arguments do not fit what is recorded.
        CassetteMissError: If the graph asks for something else before the departure, or for what may not be executed.
        CassetteError: If a cassette cannot be read or written.
    """
    trip = _Trip(cassette, thread_id, _Wish(step, state_update, as_node, answers or {}, resume))
    before = trip.before(saver, graph)
    found = before.found()
    with trip.deriving(to, live, redact) as session:
        state = drive(
            trip.begin(graph, session, config, inputs, partial(before.fill, found=found)).way(), trip.graph, context
        )
        trip.settle()
    return trip.ended(state)


async def atime_travel(
    cassette: str | Path,
    graph: Graph,
    *,
    thread_id: str | None = None,
    step: int | RecordedStep | None = None,
    state_update: Any = UNCHANGED,
    as_node: str | None = None,
    answers: Answers | None = None,
    resume: Any = UNCHANGED,
    to: str | Path | None = None,
    live: bool | Collection[str] = True,
    inputs: Mapping[int, Any] | None = None,
    config: RunnableConfig | None = None,
    context: Any = None,
    saver: BaseCheckpointSaver[Any] | None = None,
    redact: bool | Sequence[Rule] = True,
) -> Travel:
    """Do what `time_travel` does, asynchronously."""
    trip = _Trip(cassette, thread_id, _Wish(step, state_update, as_node, answers or {}, resume))
    before = trip.before(saver, graph)
    found = await before.afound()
    async with trip.deriving(to, live, redact) as session:
        state = await adrive(
            trip.begin(graph, session, config, inputs, partial(before.fill, found=found)).way(), trip.graph, context
        )
        trip.settle()
    return trip.ended(state)


@dataclass(frozen=True, slots=True)
class _Wish:
    """What the user wants to be otherwise."""

    step: int | RecordedStep | None
    state_update: Any
    as_node: str | None
    answers: Answers
    resume: Any


class _Trip:
    """What both shells of a journey have in common."""

    graph: Graph

    def __init__(self, cassette: str | Path, thread_id: str | None, wish: _Wish) -> None:
        recorded = named_cassette(cassette)
        self._path = recorded.path
        self._run = RecordedRun(recorded, thread_id)
        self._wish = wish
        self._departure = _departure(self._run, wish)
        self._outcomes = edited_outcomes(self._run.cassette, wish.answers)
        self._served_before = 0
        self._executed_before = 0

    def deriving(self, to: str | Path | None, live: bool | Collection[str], redact: bool | Sequence[Rule]) -> deriving:
        """Return the session of the journey."""
        self._deriving = deriving(
            self._path,
            to=to,
            outcomes=self._outcomes,
            live=live,
            revise=self._revised,
            match_on=ways_to_match(self._run.cassette, self._run.plan),
            redact=redact,
        )
        self._deriving.derivation.on_served = self._answer_served
        return self._deriving

    def before(self, saver: BaseCheckpointSaver[Any] | None, graph: Graph) -> Before:
        """Return what the thread held before it was recorded."""
        return Before(self._run, saver, graph)

    def begin(
        self,
        graph: Graph,
        session: Session,
        config: RunnableConfig | None,
        inputs: Mapping[int, Any] | None,
        fill: Callable[[InMemorySaver], None],
    ) -> Journey:
        """Return the journey."""
        plan, departure = self._run.plan, self._departure
        saver = ArrivingSaver([*plan.edits, *([departure] if departure is not None else [])])
        saver.preload(fill)
        self.graph = in_memory(graph, saver)
        self._session = session
        self._journey = Journey(
            plan=plan,
            departure=departure,
            resume=self._wish.resume,
            config=config or {},
            inputs=inputs or {},
            session=session,
            saver=saver,
            depart=self._depart,
            done_before=partial(done_before, self._run.cassette),
        )
        saver.on_passed = self._journey.passed
        return self._journey

    def _revised(self, step: Step) -> Step | None:
        """Return a step as it would be if the run had not been stopped for an edit."""
        if is_broken_off(step):
            return None
        given = self._journey.input_at(step.address) if step.input is None else None
        return step if given is None else step.model_copy(update={"input": self._session.redactor.value(given)})

    def _answer_served(self) -> None:
        if self._departure is None and not self._journey.has_departed:
            self._journey.leave()
            self._depart()

    def _depart(self) -> None:
        self._served_before = len(self._session.report.served)
        self._deriving.let_go()

    def settle(self) -> None:
        """Note in the derived cassette how it came about, before it is written."""
        journey = self._journey
        if self._departure is not None and not journey.has_departed:
            raise ConfigurationError(
                f"the run did not come to {self._departure}: the graph no longer takes the steps that were recorded"
            )
        plan = Plan(self._run.plan.thread_id, tuple(journey.taken), tuple(journey.edited))
        self._deriving.derivation.origin = {**self._noted(), PLAN: plan.to_plain()}

    def _noted(self) -> dict[str, Plain]:
        noted: dict[str, Plain] = {}
        if self._departure is not None:
            noted["departure"] = {"graph": self._departure.graph, "superstep": self._departure.superstep}
        if self._outcomes:
            noted["answers"] = sorted(self._outcomes)
        return noted

    def ended(self, state: StateSnapshot) -> Travel:
        """Return what came of it."""
        report, journey = self._session.report, self._journey
        before = self._served_before if journey.has_departed else len(report.served)
        assert self._session.written is not None
        return Travel(
            original=self._path,
            cassette=self._session.written,
            departure=self._told() if journey.has_departed else "",
            prefix=report.served[:before],
            served=report.served[before:],
            live=report.executed,
            state=state,
            graph=self.graph,
            config=thread_of(state),
            left_out=tuple(journey.left_out),
        )

    def _told(self) -> str:
        numbers = ", ".join(map(str, sorted(self._outcomes)))
        answered = f"another answer to interaction {numbers}" if numbers else ""
        if self._departure is None:
            return answered
        edit = self._departure
        what = "the state is changed" if edit.edits_state else "nothing is changed"
        if self._wish.resume is not UNCHANGED:
            what = f"{what}, and it is answered otherwise" if edit.edits_state else "it is answered otherwise"
        return ", ".join(part for part in (f"after {edit.graph}@{edit.superstep}: {what}", answered) if part)


def _departure(run: RecordedRun, wish: _Wish) -> Edit | None:
    step = run.step(wish.step) if wish.step is not None else None
    edits = wish.state_update is not UNCHANGED
    if wish.resume is not UNCHANGED:
        step = _asking(run, step)
    if edits and step is None:
        raise ConfigurationError("state_update=... needs the step after which the state is to be changed: step=...")
    if wish.as_node is not None and not edits:
        raise ConfigurationError(f"as_node={wish.as_node!r} says where a state_update comes from, and there is none")
    if step is None:
        return None
    if not edits:
        return step.edit()
    return step.edit(edits_state=True, values=value_codec().encode(wish.state_update), as_node=wish.as_node)


def _asking(run: RecordedRun, step: RecordedStep | None) -> RecordedStep:
    """Return the step whose question gets another answer."""
    if step is not None:
        if not step.interrupts:
            raise ConfigurationError(f"resume=...: step {step.number}, {step.address}, did not stop to ask anything")
        return step
    asking = [one for one in run.steps if one.interrupts and "/" not in one.graph]
    if len(asking) != 1:
        numbers = ", ".join(str(one.number) for one in asking) or "none"
        raise ConfigurationError(
            f"resume=...: say which step's question it answers, step=...; those that ask: {numbers}"
        )
    return asking[0]
