"""`replay_thread`: run a recorded thread again, from its recorded inputs and with the recorded answers of humans."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

from langchain_core.runnables import RunnableConfig
from langgraph.checkpoint.base import BaseCheckpointSaver
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.types import Interrupt, StateSnapshot

from agenttape_core import Report, Rule, Session, use_cassette
from agenttape_core.integration import Cassette, Location
from agenttape_core.tools.compare import named_cassette
from agenttape_langgraph.time_travel.drivers import Graph, adrive, drive, in_memory
from agenttape_langgraph.time_travel.initial_checkpoints import Before
from agenttape_langgraph.time_travel.reasked_calls import ways_to_match
from agenttape_langgraph.time_travel.recorded_run import RecordedRun
from agenttape_langgraph.time_travel.script import UNCHANGED, Journey
from agenttape_langgraph.time_travel.stop_point import ArrivingSaver


@dataclass(frozen=True)
class Ended:
    """How a thread ended.

    Args:
        state: The state of the graph at the end.
        graph: The graph, on a saver in memory that has all of this run: with `config`, it can be asked and go on.
        config: The config of its thread.
    """

    state: StateSnapshot
    graph: Graph
    config: RunnableConfig

    @property
    def values(self) -> Any:
        """The values of the state at the end."""
        return self.state.values

    @property
    def interrupts(self) -> tuple[Interrupt, ...]:
        """What the graph waits for an answer to."""
        return self.state.interrupts

    @property
    def history(self) -> list[StateSnapshot]:
        """All states of the thread, the latest first."""
        return list(self.graph.get_state_history(self.config))


@dataclass(frozen=True)
class Replayed(Ended):
    """A thread that was replayed.

    Args:
        report: What was served.
    """

    report: Report


def replay_thread(
    cassette: str | Location | Cassette,
    graph: Graph,
    *,
    thread_id: str | None = None,
    inputs: Mapping[int, Any] | None = None,
    config: RunnableConfig | None = None,
    context: Any = None,
    saver: BaseCheckpointSaver[Any] | None = None,
    redact: bool | Sequence[Rule] = True,
) -> Replayed:
    """Run a recorded thread again: every invocation with its recorded input, every interrupt with the answer it got.

    The graph really runs; all that it calls is served. A derived cassette is replayed with its edits. The graph's own
    saver is left alone: the run has one in memory.

    Args:
        cassette: The recorded run.
        graph: The compiled graph.
        thread_id: The thread; it may be left out if the cassette has only one.
        inputs: Inputs instead of the recorded ones, by the number of the invocation, such as those that the cassette
            could not hold.
        config: What else to configure the graph with; what is recorded of it need not be given.
        context: The context of the run, for graphs that have a `context_schema`.
        saver: What has the thread, if it held something before the recording began; by default the graph's own. It is
            only read.
        redact: The rules that the cassette was recorded with, as in `use_cassette`.

    Raises:
        ConfigurationError: If the cassette does not say how the graph was run, or an input cannot be rebuilt.
        CassetteMissError: If the graph asks for something that was not recorded.
        UnusedInteractionsError: If it does not ask for all that was recorded of a cassette with one thread.
        CassetteError: If the cassette cannot be read.
    """
    again = _Again(cassette, thread_id, redact)
    before = again.before(saver, graph)
    fill = partial(before.fill, found=before.found())
    with again.session as session:
        state = drive(again.journey(session, graph, inputs, config, fill).way(), again.graph, context)
    return again.ended(state, session)


async def areplay_thread(
    cassette: str | Location | Cassette,
    graph: Graph,
    *,
    thread_id: str | None = None,
    inputs: Mapping[int, Any] | None = None,
    config: RunnableConfig | None = None,
    context: Any = None,
    saver: BaseCheckpointSaver[Any] | None = None,
    redact: bool | Sequence[Rule] = True,
) -> Replayed:
    """Do what `replay_thread` does, asynchronously."""
    again = _Again(cassette, thread_id, redact)
    before = again.before(saver, graph)
    fill = partial(before.fill, found=await before.afound())
    async with again.session as session:
        state = await adrive(again.journey(session, graph, inputs, config, fill).way(), again.graph, context)
    return again.ended(state, session)


class _Again:
    """What both shells have in common."""

    graph: Graph

    def __init__(
        self, cassette: str | Location | Cassette, thread_id: str | None, redact: bool | Sequence[Rule]
    ) -> None:
        recorded = named_cassette(cassette)
        self._run = RecordedRun(recorded, thread_id)
        unused: Any = "fail" if self._run.is_only else "ignore"
        match_on = ways_to_match(recorded, self._run.plan)
        self.session = use_cassette(recorded.path, mode="none", match_on=match_on, unused=unused, redact=redact)

    def before(self, saver: BaseCheckpointSaver[Any] | None, graph: Graph) -> Before:
        """Return what the thread held before it was recorded."""
        return Before(self._run, saver, graph)

    def journey(
        self,
        session: Session,
        graph: Graph,
        inputs: Mapping[int, Any] | None,
        config: RunnableConfig | None,
        fill: Callable[[InMemorySaver], None],
    ) -> Journey:
        """Return a journey that departs nowhere."""
        saver = ArrivingSaver(self._run.plan.edits)
        saver.preload(fill)
        self.graph = in_memory(graph, saver)
        return Journey(
            plan=self._run.plan,
            departure=None,
            resume=UNCHANGED,
            config=config or {},
            inputs=inputs or {},
            session=session,
            saver=saver,
            depart=lambda: None,
            done_before=lambda numbers: numbers,
        )

    def ended(self, state: StateSnapshot, session: Session) -> Replayed:
        """Return how it ended."""
        return Replayed(state, self.graph, thread_of(state), session.report)


def thread_of(state: StateSnapshot) -> RunnableConfig:
    """Return the config of the thread of a state."""
    return {"configurable": {"thread_id": state.config["configurable"]["thread_id"]}}
