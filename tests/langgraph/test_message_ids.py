"""The ids of messages are those of the recording, wherever a graph draws them."""

# ruff: noqa: D103 - what is no test says by its name what it does

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

import pytest
from langchain_core.callbacks import BaseCallbackHandler, CallbackManager
from langchain_core.callbacks.manager import CallbackManagerForChainGroup
from langchain_core.messages import HumanMessage
from langchain_core.runnables import RunnableConfig
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.graph import START, MessagesState, StateGraph
from langgraph.types import Command

from agenttape_core import use_cassette

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

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
