"""A run of a recorded thread: each recorded invocation again, with edits where they belong."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from langchain_core.runnables import RunnableConfig
from langgraph.checkpoint.base import CheckpointTuple
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.errors import GraphBubbleUp
from langgraph.types import Command, Interrupt, StateSnapshot

from agenttape_core import Session, Step
from agenttape_core.integration import Plain, class_name, current_session, here, plain_value
from agenttape_core.integration.cassettes import CallRecord
from agenttape_langgraph._compat import saving_to, twin_of
from agenttape_langgraph.time_travel.initial_checkpoints import copy_checkpoint
from agenttape_langgraph.time_travel.plan import Edit, Invocation, Plan, Question, answers_readdressed
from agenttape_langgraph.time_travel.reasked_calls import done_before
from agenttape_langgraph.time_travel.recorded_run import RecordedRun
from agenttape_langgraph.time_travel.request import UNCHANGED, ThreadRequest
from agenttape_langgraph.time_travel.script import GetState, Graph, Invoke, Script, Update, running_graph

if TYPE_CHECKING:
    from langchain_core.runnables import RunnableConfig
    from langgraph.checkpoint.base import ChannelVersions, Checkpoint, CheckpointMetadata

    from agenttape_langgraph.time_travel.plan import Edit
    from agenttape_langgraph.time_travel.script import Graph


# -- A saver that stops a graph at a superstep, so that the graph's state can be edited there.
#
# A graph that its saver stops is like one whose process died after that checkpoint: all that it had done is kept, and
# it goes on from there by its own means. The same holds for its subgraphs in progress.


class Stopped(GraphBubbleUp):
    """Ends a graph that has come to the place of an edit. No node, retry or error handler may treat it."""


def was_stopped(step: Step) -> bool:
    """Return true for a step that ended only because the graph was stopped."""
    return step.error is not None and step.error.type == class_name(Stopped)


class StoppingSaver(InMemorySaver):
    """Keeps the checkpoints of a run in memory, with the run of a graph that each belongs to.

    `edits` are the places to stop at, or, if unedited, to call `on_passed` with when a graph reaches them and runs on.
    """

    def __init__(self, edits: Iterable[Edit], on_passed: Callable[[Edit], None]) -> None:
        super().__init__()
        self.namespaces: dict[str, str] = {}
        """The checkpoint namespace of each run of a graph, by its address."""
        self.graphs: dict[str, Graph] = {}
        """The graph of each run that a checkpoint was kept of, by its address."""
        self._edits = [edit for edit in edits if not edit.at_end]
        self._on_passed = on_passed
        self._stopped_at: Edit | None = None

    def put(
        self,
        config: RunnableConfig,
        checkpoint: Checkpoint,
        metadata: CheckpointMetadata,
        new_versions: ChannelVersions,
    ) -> RunnableConfig:
        """Keep a checkpoint; stop the graph if it is the place of an edit, and then all that continues beside it."""
        if self._stopped_at is not None:
            raise Stopped
        graph = _graph()
        self.namespaces[graph] = config["configurable"].get("checkpoint_ns", "")
        if (running := running_graph()) is not None:
            self.graphs.setdefault(graph, running)  # the first one is of its input, before anything runs inside it
        saved = super().put(config, checkpoint, metadata, new_versions)
        place = graph, metadata.get("step")
        for edit in [edit for edit in self._edits if (edit.graph, edit.superstep) == place]:
            if edit not in self._edits:  # the run diverges from its recording here
                break
            self._edits.remove(edit)
            if edit.edits_state or edit.ends_run:
                self._stopped_at = edit
                raise Stopped
            self._on_passed(edit)
        return saved

    @property
    def stopped_at(self) -> Edit:
        """The edit at whose place the graph was stopped."""
        assert self._stopped_at is not None
        return self._stopped_at

    def release(self) -> None:
        """Let the graph run again."""
        self._stopped_at = None

    def cancel(self) -> list[Edit]:
        """Stop at no further place; return those that are left."""
        left, self._edits = self._edits, []
        return left


def _graph() -> str:
    """Return the address of the run of the graph that is saving."""
    session = current_session()
    return here(session).address if session is not None else ""


_NODE = re.compile(r"[^/]*@(-?\d+)[^/]*")


@dataclass(frozen=True)
class ThreadEnd:
    """A thread at the end of a run.

    Args:
        state: The state of the graph.
        graph: The graph, on a saver in memory that has this whole run. With `config` it can be inspected and run on.
        config: The config of the thread.
    """

    state: StateSnapshot
    graph: Graph
    config: RunnableConfig

    @property
    def values(self) -> Any:
        """The values of the state."""
        return self.state.values

    @property
    def interrupts(self) -> tuple[Interrupt, ...]:
        """The interrupts that wait for an answer."""
        return self.state.interrupts

    @property
    def history(self) -> list[StateSnapshot]:
        """All states of the thread, the latest first."""
        return list(self.graph.get_state_history(self.config))


class ThreadRun:
    """One run of a recorded thread in an open session, forked or not.

    It starts from the checkpoints `initial`. `fork_point` has the place of the fork, and the change of the state there;
    `None` if there is none, or if it is where an edited answer is replayed. `resume` is another answer to the question
    that is asked there; from `on_fork` on, calls may be executed. Invocations end at `ends` because their processes
    died there.
    """

    def __init__(
        self,
        request: ThreadRequest,
        recorded: RecordedRun,
        session: Session,
        initial: Sequence[CheckpointTuple],
        *,
        fork_point: Edit | None = None,
        resume: Any = UNCHANGED,
        on_fork: Callable[[], None] = lambda: None,
        ends: Sequence[Edit] = (),
    ) -> None:
        self._cassette = recorded.cassette
        self._plan = recorded.plan
        self._config: RunnableConfig = request.config or {}
        self._context = request.context
        self._inputs = request.inputs or {}
        self._session = session
        self._fork_point = fork_point
        self._resume = resume
        self._on_fork = on_fork
        self._edits = [*self._plan.edits, *([fork_point] if fork_point is not None else [])]
        self._saver = StoppingSaver([*self._edits, *ends], self._passed)
        for checkpoint in initial:
            copy_checkpoint(checkpoint, self._saver)
        self._graph: Graph = twin_of(request.graph, checkpointer=self._saver)  # the user's saver is left alone
        self._taken: list[Invocation] = []
        self._edited: list[Edit] = []
        self.left_out: list[str] = []
        """The recorded invocations and edits that were not made again, and why."""
        self.has_forked = False
        """True after the fork."""
        self.prefix = 0
        """The number of calls that were replayed before the fork."""

    @property
    def plan(self) -> Plan:
        """The plan of this run: the actual invocations and edits."""
        return Plan(self._plan.thread_id, tuple(self._taken), tuple(self._edited))

    def script(self) -> Script[ThreadEnd]:
        """Invoke the graph according to the plan; return the end of the thread."""
        waiting = list(self._plan.invocations)
        while waiting:
            invocation = waiting.pop(0)
            if self.has_forked and (why := (yield from self._misfit(invocation))):
                self.left_out += [f"{invocation}: {why}", *(f"{one}: it followed" for one in waiting)]
                break
            yield from self._invoke(invocation)
            for edit in self._edits_after(invocation):
                yield from self._edit(edit, invocation)
                if edit is self._fork_point and self._resume is not UNCHANGED:
                    recorded = waiting.pop(0) if waiting and waiting[0].is_answer else None
                    if recorded is None:
                        self._replay_reasked(invocation)
                    address = recorded.address if recorded is not None else ""
                    waiting.insert(0, invocation.answering(self._resume, address))
        state: StateSnapshot = yield GetState(self._graph, self._config_of(self._taken[-1]))
        return ThreadEnd(state, self._graph, {"configurable": {"thread_id": state.config["configurable"]["thread_id"]}})

    def fork(self) -> None:
        """Fork the run here, if it is not forked already; recorded edits that would follow are left out."""
        if not self.has_forked:
            self.has_forked = True
            self.prefix = len(self._session.report.replayed)
            self._taken = [*self._taken[:-1], *(one.lives_on() for one in self._taken[-1:])]
            left = [edit for edit in self._saver.cancel() if not edit.ends_run]
            self.left_out += [f"{edit}: the run forks before it" for edit in left]
            self._on_fork()

    def revised(self, step: Step) -> Step | None:
        """Return a step as it would be if the run had not been stopped for an edit; `None` if it would not be."""
        if was_stopped(step):
            return None
        given = self._input_at(step.address) if step.input is None else None
        return step if given is None else step.model_copy(update={"input": self._session.redactor.value(given)})

    def _invoke(self, invocation: Invocation) -> Script[None]:
        """Run the graph once, and run it on wherever it was stopped for an edit."""
        given: Any = self._inputs.get(invocation.number, UNCHANGED)
        if given is UNCHANGED:
            given = yield from self._given(invocation)
        taken = invocation.lives_on() if self.has_forked else invocation
        self._taken.append(replace(taken, input=plain_value(given)))
        while True:
            if invocation.address:
                self._session.root.lead_to(invocation.address)
            try:
                yield Invoke(self._graph, given, self._config_of(invocation), self._context)
            except Stopped:
                stopped = self._saver.stopped_at
                if stopped.ends_run:
                    self._saver.release()
                    return
                yield from self._edit(stopped, invocation)
                self._replay_again(stopped.graph)
                given = None
            except Exception:  # of the graph's nodes, so it may be any
                if not invocation.failed:  # else it fails as it did, and the thread goes on as it did
                    raise
                return
            else:
                return

    def _edits_after(self, invocation: Invocation) -> list[Edit]:
        """Return the edits that follow an invocation which stopped itself."""
        return [] if self.has_forked else [edit for edit in self._edits if edit.ends(invocation.address)]

    def _edit(self, edit: Edit, invocation: Invocation) -> Script[None]:
        """Make an edit where the graph has stopped."""
        if edit.edits_state:
            namespace = self._saver.namespaces.get(edit.graph, "")
            config = self._config_of(invocation, namespace)
            graph = self._saver.graphs.get(edit.graph) if namespace else None
            if graph is not None:
                config = saving_to(config, self._saver)
            self._saver.release()
            yield Update(graph or self._graph, config, edit.update(), edit.as_node)
            self._edited.append(edit)
        self._passed(edit)

    def _passed(self, edit: Edit) -> None:
        if edit is self._fork_point:
            self.fork()

    def _input_at(self, address: str) -> Plain:
        """Return the input of the invocation at an address, as plain data."""
        return next((one.input for one in reversed(self._taken) if one.address == address), None)

    def _replay_reasked(self, invocation: Invocation) -> None:
        """Replay again the calls that interrupted nodes made before their question; later ones were not recorded."""
        used = (one.number for one in self._used() if _is_below(one.address, invocation.asking))
        self._session.recordings.index.give_back(done_before(self._cassette, set(used)))

    def _replay_again(self, stopped: str) -> None:
        """Replay again the calls of nodes that were broken off when the graph at an address was stopped."""
        self._session.recordings.index.give_back(
            [one.number for one in self._used() if _is_repeated(one.address, stopped)]
        )

    def _used(self) -> tuple[CallRecord, ...]:
        """Return the recordings that were replayed or stepped into."""
        return self._session.report.replayed + self._session.report.stepped_into

    def _given(self, invocation: Invocation) -> Script[Any]:
        """Return the input of an invocation, with answers under the ids that the questions have in this run."""
        given = invocation.given()
        if isinstance(given, Command) and isinstance(given.resume, dict) and invocation.asked:
            state: StateSnapshot = yield GetState(self._graph, self._config_of(invocation))
            asked = [Question(task.name, str(task.path), one) for task in state.tasks for one in task.interrupts]
            return replace(given, resume=answers_readdressed(given.resume, invocation.asked, asked))
        return given

    def _misfit(self, invocation: Invocation) -> Script[str]:
        """Return why a recorded invocation makes no sense any more after the fork; empty if it does."""
        if invocation.is_fresh:
            return ""
        state: StateSnapshot = yield GetState(self._graph, self._config_of(invocation))
        if invocation.is_answer:
            return "" if state.interrupts else "no question waits for an answer"
        return "" if state.next else "the graph has ended"

    def _config_of(self, invocation: Invocation, namespace: str | None = None) -> RunnableConfig:
        """Return the config of an invocation: the recorded values, overridden by the user's."""
        place = {} if namespace is None else {"checkpoint_ns": namespace}
        thread = self._plan.thread_id or f"run {invocation.number}"
        own = self._config.get("configurable", {})
        return {**self._config, "configurable": {**invocation.configurable, **own, "thread_id": thread, **place}}


def _is_below(address: str, places: Iterable[str]) -> bool:
    return any(address.startswith(f"{place}/") for place in places)


def _is_repeated(address: str, stopped: str) -> bool:
    """Return true for a call that is made again when the graph at an address was stopped and runs on.

    The nodes around a stopped subgraph run again from their beginning, and so may those beside them. The steps that the
    subgraph had taken do not.
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
