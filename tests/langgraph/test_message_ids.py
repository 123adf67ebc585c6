"""Ids, times and the order of checkpoints are those of the recording, wherever a graph draws them."""

# ruff: noqa: D103 - what is no test says by its name what it does
# ruff: noqa: D103 - what is no test says by its name what it is

from __future__ import annotations

import asyncio
import operator
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any, TypedDict

import pytest
from langchain_core.callbacks import BaseCallbackHandler, CallbackManager
from langchain_core.callbacks.manager import CallbackManagerForChainGroup
from langchain_core.language_models.fake_chat_models import GenericFakeChatModel
from langchain_core.messages import AIMessage, HumanMessage
from langchain_core.runnables import RunnableConfig, RunnableLambda
from langchain_core.tracers.base import BaseTracer
from langchain_core.tracers.schemas import Run
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.graph import START, MessagesState, StateGraph
from langgraph.types import Command

from agenttape_core import use_cassette

# -- The ids of messages are those of the recording, wherever a graph draws them ---------------------------------------

CONFIG: Any = {"configurable": {"thread_id": "1"}}
GIVEN: Any = {"messages": [("user", "Good?")]}
REPLAYS = 8
"""An order by lot is the recorded one in all of them once in some hundreds of runs."""


def graph_of(node: Any, **options: Any) -> Any:
    return StateGraph(MessagesState).add_node("judge", node).add_edge(START, "judge").compile(**options)


def returning(_: MessagesState) -> Any:
    return {"messages": [HumanMessage("bad")]}


def commanding(_: MessagesState) -> Any:
    return Command(update={"messages": [HumanMessage("bad")]})


def passing(state: MessagesState, config: RunnableConfig) -> Any:
    return graph_of(returning).invoke(state, config)


async def apassing(state: MessagesState, config: RunnableConfig) -> Any:
    return await graph_of(returning).ainvoke(state, config)


PROGRAMS: dict[str, Callable[[], Any]] = {
    "subgraph": lambda: graph_of(returning),
    "command": lambda: graph_of(commanding),
    "two levels": lambda: graph_of(graph_of(returning)),
    "config passed on": lambda: passing,
    "config passed on, awaited": lambda: apassing,
}


def stream(graph: Any) -> list[Any]:
    return [str(part) for part in graph.stream(GIVEN, CONFIG, stream_mode="messages", subgraphs=True)]


def astream(graph: Any) -> list[Any]:
    async def parts() -> list[Any]:
        return [str(part) async for part in graph.astream(GIVEN, CONFIG, stream_mode="messages", subgraphs=True)]

    return asyncio.run(parts())


def events(graph: Any) -> list[Any]:
    async def told() -> None:
        async for _ in graph.astream_events(GIVEN, CONFIG, version="v2"):
            pass  # a message that a thread makes may be read before or after the state gives it its id

    asyncio.run(told())
    return []


@pytest.mark.sweep
@pytest.mark.parametrize("drive", [stream, astream, events])
@pytest.mark.parametrize("program", PROGRAMS)
def test_ids_of_messages_are_the_recorded_ones_in_each_of_many_replays(
    program: str, drive: Callable[[Any], list[Any]], tmp_path: Path
) -> None:
    """Messages of subgraphs, commands and nodes that pass their config on keep their ids, in streams too."""

    def ids_of(node: Any, drive: Callable[[Any], list[Any]]) -> Any:
        graph = graph_of(node, checkpointer=InMemorySaver())
        told = drive(graph)
        return told, [message.id for message in graph.get_state(CONFIG).values["messages"]]

    if program.endswith("awaited") and drive is stream:
        pytest.skip("an asynchronous node has no synchronous run")
    file = tmp_path / "run.yaml"
    with use_cassette(file, mode="all"):
        recorded = ids_of(PROGRAMS[program](), drive)
    kept = []  # so that objects of the next replay come to lie elsewhere in memory
    for _ in range(REPLAYS):
        with use_cassette(file):
            replayed = ids_of(PROGRAMS[program](), drive)
        kept.append(replayed)
        assert replayed == recorded


def test_merged_handlers_and_tags_keep_their_order(tmp_path: Path) -> None:
    """Handlers are told in the order in which they were given, and tags come in it, where two managers are merged."""

    class Noting(BaseCallbackHandler):
        """A handler that notes its turn."""

        run_inline = True

        def __init__(self, name: str, turns: list[str]) -> None:
            self._name, self._turns = name, turns

        def on_chain_start(self, *_: Any, **__: Any) -> None:
            """Note it."""
            self._turns.append(self._name)

    turns: list[str] = []
    names = [f"handler {number}" for number in range(12)]
    handlers: list[BaseCallbackHandler] = [Noting(name, turns) for name in names]
    with use_cassette(tmp_path / "run.yaml", mode="all"):
        one = CallbackManager(handlers[6:], handlers[6:], tags=names[6:], inheritable_tags=names[6:])
        other = CallbackManager(handlers, handlers, tags=names, inheritable_tags=names)
        merged = one.merge(other)
        CallbackManager.configure(inheritable_callbacks=merged).on_chain_start({}, {}, name="chain")
        group = CallbackManagerForChainGroup([], None, parent_run_manager=None, tags=names[6:]).merge(other)  # type: ignore[arg-type]
    assert turns == names[6:] + names[:6]
    assert merged.tags == merged.inheritable_tags == group.tags == names[6:] + names[:6]


# -- The times that a tracer notes are those of the recording, also of events that a model tells while it is -----------

Graph = Any
_INPUT = {"messages": [("user", "Hi.")]}


def _graph() -> Graph:
    model = GenericFakeChatModel(messages=iter([AIMessage("Hello there you.")]))

    async def aanswer(state: Any) -> Any:
        return {"messages": [await model.ainvoke(state["messages"])]}

    def answer(state: Any) -> Any:
        return {"messages": [model.invoke(state["messages"])]}

    return StateGraph(MessagesState).add_node("n", RunnableLambda(answer, aanswer)).add_edge(START, "n").compile()


async def _v2(config: Any) -> None:
    [event async for event in _graph().astream_events(_INPUT, config, version="v2")]


async def _v3(config: Any) -> None:
    [event async for event in await _graph().astream_events(_INPUT, config, version="v3")]


async def _v3_in_threads(config: Any) -> None:
    list(_graph().stream_events(_INPUT, config, version="v3"))


async def _stream(config: Any) -> None:
    list(_graph().stream(_INPUT, config, stream_mode="messages"))


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("drive", [_v2, _v3, _v3_in_threads, _stream])
async def test_times_of_a_tracer(drive: Callable[[Any], Any], tmp_path: Path) -> None:
    """Beginnings, ends and each event in between."""

    class Times(BaseTracer):
        """Keeps all times of all runs."""

        def __init__(self) -> None:
            super().__init__()
            self.runs: list[Run] = []

        def _persist_run(self, run: Run) -> None:
            pass

        def _start_trace(self, run: Run) -> None:
            super()._start_trace(run)
            self.runs.append(run)

        def noted(self) -> list[Any]:
            return [(run.name, run.start_time, run.end_time, run.events) for run in self.runs]

    noted = []
    for mode in ("all", "none"):
        tracer = Times()
        with use_cassette(tmp_path / "a.yaml", mode=mode):
            await drive({"callbacks": [tracer]})
        noted.append(tracer.noted())
    assert noted[0] == noted[1]
    assert any(name == "GenericFakeChatModel" and len(events) > 2 for name, _, _, events in noted[0])


# -- Checkpoints of a session are in the order in which they were made, across namespaces too, as they are without -----


class State(TypedDict):
    value: Annotated[list[str], operator.add]


def chain(*nodes: tuple[str, Any], checkpointer: Any = None) -> Any:
    builder: Any = StateGraph(State)
    for (name, node), before in zip(nodes, [START, *(name for name, _ in nodes)], strict=False):
        builder.add_node(name, node).add_edge(before, name)
    return builder.compile(checkpointer=checkpointer)


def replayed_outer_graph() -> Any:
    """Run a graph with a subgraph that remembers twice, then its second run again from before the subgraph."""
    seen: list[Any] = []

    def look(state: State) -> Any:
        seen.append(list(state["value"]))
        return {"value": ["s"]}

    inner = chain(("deep", chain(("look", look), checkpointer=True)), checkpointer=True)
    graph = chain(("before", lambda _: {"value": []}), ("inner", inner), checkpointer=InMemorySaver())
    for _ in range(2):
        graph.invoke({"value": []}, CONFIG)
    history = list(graph.get_state_history(CONFIG))
    for state in [each for each in history if each.next == ("inner",)]:
        graph.invoke(None, state.config)
    return seen


def branch_by_time() -> Any:
    """Run a graph again from the middle, and return its states as they are sorted by the time of their creation."""
    graph = chain(*((name, lambda _, n=name: {"value": [n]}) for name in "abc"), checkpointer=InMemorySaver())
    graph.invoke({"value": []}, CONFIG)
    middle = next(state for state in graph.get_state_history(CONFIG) if state.next == ("b",))
    graph.invoke(None, middle.config)
    states = sorted(graph.get_state_history(CONFIG), key=lambda state: str(state.created_at))
    return [(state.next, state.values) for state in states]


@pytest.mark.parametrize("program", [replayed_outer_graph, branch_by_time])
def test_time_travel_in_a_session_is_that_of_a_plain_run(program: Callable[[], Any], tmp_path: Path) -> None:
    """A subgraph begins with the state that it had then, and the newest checkpoint is the newest."""
    plain = program()
    for mode in ("all", "none"):
        with use_cassette(tmp_path / "run.yaml", mode=mode):
            assert program() == plain
