"""A replay of a graph is the same run: states, histories and streams, whatever order parallel branches end in."""

# ruff: noqa: D103 - what is no test says by its name what it does

from __future__ import annotations

import asyncio
import operator
from typing import TYPE_CHECKING, Annotated, Any, TypedDict

import pytest
from langchain.agents import create_agent
from langchain_core.messages import AIMessage, HumanMessage
from langchain_core.tools import tool
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.config import get_stream_writer
from langgraph.func import entrypoint, task
from langgraph.graph import END, START, MessagesState, StateGraph
from langgraph.types import Command, Send, interrupt

from .fakes import (
    AsyncChat,
    StreamingChat,
    Turns,
    World,
    arecorded_and_replayed,
    by_task,
    calling,
    recorded_and_replayed,
)

if TYPE_CHECKING:
    from collections.abc import AsyncIterable
    from pathlib import Path

CONFIG: Any = {"configurable": {"thread_id": "1"}, "max_concurrency": 40}
MODES = ["values", "updates", "messages", "custom", "tasks", "checkpoints", "debug"]
BRANCHES = range(6)


class Gathered(TypedDict):
    """The findings of branches."""

    n: int
    found: Annotated[list[Any], operator.add]


def history(graph: Any) -> list[Any]:
    return list(graph.get_state_history(CONFIG))


async def listed(items: AsyncIterable[Any]) -> list[Any]:
    return [item async for item in items]


async def ahistory(graph: Any) -> list[Any]:
    return await listed(graph.aget_state_history(CONFIG))


# -- six branches -----------------------------------------------------------------------------------------------------


def branching(world: World, turns: Turns, saver: Any) -> Any:
    """Six branches that each call a model twice, in an order of the test's, and draw ids."""
    model = AsyncChat(world=world)

    def fan(state: Gathered) -> list[Send]:
        return [Send("branch", {"n": n, "found": []}) for n in BRANCHES]

    def branch(state: Gathered) -> dict[str, Any]:
        turns.take((1, state["n"]))
        first = model.invoke(f"first {state['n']}")
        get_stream_writer()({"at": state["n"]})
        turns.take((2, state["n"]))
        return {"found": [first, model.invoke([HumanMessage(first.text)])]}

    async def abranch(state: Gathered) -> dict[str, Any]:
        await turns.atake((1, state["n"]))
        first = await model.ainvoke(f"first {state['n']}")
        get_stream_writer()({"at": state["n"]})
        await turns.atake((2, state["n"]))
        return {"found": [first, await model.ainvoke([HumanMessage(first.text)])]}

    from langchain_core.runnables import RunnableLambda

    builder = StateGraph(Gathered).add_node("branch", RunnableLambda(branch, abranch)).add_node("last", lambda _: {})
    builder.add_conditional_edges(START, fan, ["branch"]).add_edge("branch", "last").add_edge("last", END)
    return builder.compile(checkpointer=saver)


ORDERS = {
    "all": [*((1, n) for n in BRANCHES), *((2, n) for n in BRANCHES)],
    "none": [*((1, n) for n in (5, 1, 0, 4, 2, 3)), *((2, n) for n in (3, 5, 4, 0, 2, 1))],
}


def test_branches_in_threads(world: World, tmp_path: Path) -> None:
    """Six `Send` branches that end in another order replay as the same states, history and events of each task."""

    def drive(mode: str) -> Any:
        graph = branching(world, Turns(ORDERS[mode]), InMemorySaver())
        parts = graph.stream({"n": 0, "found": []}, CONFIG, stream_mode=MODES, subgraphs=True)
        return by_task(parts), graph.get_state(CONFIG), history(graph)

    recorded, replayed = recorded_and_replayed(world, tmp_path / "c.yaml", drive)
    assert len(world.reached) == 12
    assert replayed.facts == recorded.facts


async def test_branches_in_tasks(world: World, tmp_path: Path) -> None:
    """Six asynchronous `Send` branches likewise."""

    async def drive(mode: str) -> Any:
        graph = branching(world, Turns(ORDERS[mode]), InMemorySaver())
        stream = graph.astream({"n": 0, "found": []}, CONFIG, stream_mode=MODES, subgraphs=True)
        parts = by_task([part async for part in stream])
        return parts, await graph.aget_state(CONFIG), [state async for state in graph.aget_state_history(CONFIG)]

    recorded, replayed = await arecorded_and_replayed(world, tmp_path / "c.yaml", drive)
    assert len(world.reached) == 12
    assert replayed.facts == recorded.facts


# -- nested, interrupted, resumed -------------------------------------------------------------------------------------


class Talk(MessagesState):
    """A conversation, and what people answered."""

    answers: Annotated[list[str], operator.add]


def asking(world: World, saver: Any, depth: int = 2) -> Any:
    """A graph in a graph in a graph, of which each asks a person, two at once."""
    model = StreamingChat(world=world)

    def say(state: Talk) -> dict[str, Any]:
        return {"messages": [model.invoke(state["messages"])]}

    def ask(state: Talk) -> dict[str, Any]:
        return {"answers": [interrupt({"level": depth, "said": state["messages"][-1].text})]}

    builder = StateGraph(Talk).add_node("say", say).add_node("ask", ask).add_edge(START, "say").add_edge("say", "ask")
    if depth:
        builder.add_node("left", asking(world, None, depth - 1)).add_node("right", asking(world, None, 0))
        builder.add_edge("ask", "left").add_edge("ask", "right")
    return builder.compile(checkpointer=saver)


def test_nested_interrupts(world: World, tmp_path: Path) -> None:
    """Subgraphs that ask people, also two at once, replay with the same interrupts, states and history."""

    def drive(_: str) -> Any:
        graph = asking(world, InMemorySaver())
        parts = list(graph.stream({"messages": [("user", "Hello?")]}, CONFIG, stream_mode=MODES, subgraphs=True))
        seen = []
        while interrupts := graph.get_state(CONFIG).interrupts:
            seen.append((interrupts, graph.get_state(CONFIG, subgraphs=True)))
            answers = {each.id: f"answer to {each.value}" for each in interrupts}
            parts += graph.stream(Command(resume=answers), CONFIG, stream_mode=MODES, subgraphs=True)
        return by_task(parts), seen, graph.get_state(CONFIG, subgraphs=True), history(graph)

    recorded, replayed = recorded_and_replayed(world, tmp_path / "c.yaml", drive)
    assert [len(interrupts) for interrupts, _ in recorded.facts[1]] == [1, 2, 2]
    assert replayed.facts == recorded.facts


async def test_nested_interrupts_in_tasks(world: World, tmp_path: Path) -> None:
    """Subgraphs that ask people likewise, streamed and resumed asynchronously."""

    async def drive(_: str) -> Any:
        graph = asking(world, InMemorySaver())
        inputs: Any = {"messages": [("user", "Hello?")]}
        parts = await listed(graph.astream(inputs, CONFIG, stream_mode=MODES, subgraphs=True))
        seen = []
        while interrupts := (await graph.aget_state(CONFIG)).interrupts:
            seen.append((interrupts, await graph.aget_state(CONFIG, subgraphs=True)))
            answers = {each.id: f"answer to {each.value}" for each in interrupts}
            parts += await listed(graph.astream(Command(resume=answers), CONFIG, stream_mode=MODES, subgraphs=True))
        return by_task(parts), seen, await graph.aget_state(CONFIG, subgraphs=True), await ahistory(graph)

    recorded, replayed = await arecorded_and_replayed(world, tmp_path / "c.yaml", drive)
    assert [len(interrupts) for interrupts, _ in recorded.facts[1]] == [1, 2, 2]
    assert replayed.facts == recorded.facts


# -- agents -----------------------------------------------------------------------------------------------------------


def agent_of(kind: str, world: World, saver: Any) -> Any:
    @tool
    def look(n: int) -> str:
        """Look."""
        return f"seen {n} at {world.reach('tool')}"

    def reply(messages: Any, number: int) -> AIMessage:
        turn = sum(isinstance(message, AIMessage) for message in messages) % 4
        if turn == 3:
            return AIMessage(f"done at {number}")
        return calling(*(("look", {"n": n}) for n in range(turn + 1)), number=number)

    model = StreamingChat(world=world, reply=reply)
    if kind == "create_agent":
        return create_agent(model, [look], checkpointer=saver)
    from langgraph.prebuilt import create_react_agent

    return create_react_agent(model, [look], checkpointer=saver)


@pytest.mark.filterwarnings("ignore:create_react_agent has been moved")
@pytest.mark.parametrize("durability", ["sync", "async", "exit"])
@pytest.mark.parametrize("kind", ["create_agent", "create_react_agent"])
def test_agents(kind: str, durability: Any, world: World, tmp_path: Path) -> None:
    """A ReAct agent with parallel tool calls replays its streams, state and history, twice in the same thread."""

    def drive(_: str) -> Any:
        graph = agent_of(kind, world, InMemorySaver())
        parts = []
        for question in ("Once?", "Again?"):
            inputs = {"messages": [("user", question)]}
            parts += graph.stream(inputs, CONFIG, stream_mode=MODES, subgraphs=True, durability=durability)
        return by_task(parts), graph.get_state(CONFIG), history(graph)

    recorded, replayed = recorded_and_replayed(world, tmp_path / "c.yaml", drive)
    assert replayed.facts == recorded.facts
    ids = [snapshot.config["configurable"]["checkpoint_id"] for snapshot in recorded.facts[2]]
    assert ids == sorted(set(ids), reverse=True)


@pytest.mark.filterwarnings("ignore:create_react_agent has been moved")
@pytest.mark.parametrize("durability", ["sync", "async", "exit"])
@pytest.mark.parametrize("kind", ["create_agent", "create_react_agent"])
async def test_agents_in_tasks(kind: str, durability: Any, world: World, tmp_path: Path) -> None:
    """A ReAct agent likewise, streamed asynchronously."""

    async def drive(_: str) -> Any:
        graph = agent_of(kind, world, InMemorySaver())
        options: Any = {"stream_mode": MODES, "subgraphs": True, "durability": durability}
        parts = []
        for question in ("Once?", "Again?"):
            parts += await listed(graph.astream({"messages": [("user", question)]}, CONFIG, **options))
        return by_task(parts), await graph.aget_state(CONFIG), await ahistory(graph)

    recorded, replayed = await arecorded_and_replayed(world, tmp_path / "c.yaml", drive)
    assert recorded.facts[1].values["messages"][-1].text.startswith("done at")
    assert replayed.facts == recorded.facts


# -- the functional API -----------------------------------------------------------------------------------------------


def flow_of(world: World, turns: Turns, saver: Any) -> Any:
    model = StreamingChat(world=world)

    @task
    def inner(n: int) -> str:
        return str(model.invoke(f"inner {n}").text)

    @task
    def outer(n: int) -> str:
        futures = [inner(10 * n), inner(10 * n + 1)]
        turns.take(n)
        return " and ".join(future.result() for future in futures)

    @entrypoint(checkpointer=saver)
    def flow(n: int) -> Any:
        futures = [outer(each) for each in range(n)]
        results = [future.result() for future in futures]
        answer = interrupt({"so far": results})
        return {"results": results, "answer": answer, "last": outer(99).result()}

    return flow


def test_functional(world: World, tmp_path: Path) -> None:
    """A workflow of nested, parallel tasks with an interrupt replays its events, state and history."""
    orders = {"all": [0, 1, 2, 3, 99], "none": [2, 0, 3, 1, 99]}

    def drive(mode: str) -> Any:
        graph = flow_of(world, Turns(orders[mode]), InMemorySaver())
        parts = list(graph.stream(4, CONFIG, stream_mode=MODES, subgraphs=True))
        asked = graph.get_state(CONFIG)
        parts += graph.stream(Command(resume="yes"), CONFIG, stream_mode=MODES, subgraphs=True)
        return by_task(parts), asked, graph.get_state(CONFIG), history(graph)

    recorded, replayed = recorded_and_replayed(world, tmp_path / "c.yaml", drive)
    assert recorded.facts[2].values["answer"] == "yes"
    assert replayed.facts == recorded.facts


def aflow_of(world: World, turns: Turns, saver: Any) -> Any:
    model = AsyncChat(world=world)

    @task
    async def inner(n: int) -> str:
        return str((await model.ainvoke(f"inner {n}")).text)

    @task
    async def outer(n: int) -> str:
        futures = [inner(10 * n), inner(10 * n + 1)]
        await turns.atake(n)
        return " and ".join(await asyncio.gather(*futures))

    @entrypoint(checkpointer=saver)
    async def flow(n: int) -> Any:
        results = await asyncio.gather(*(outer(each) for each in range(n)))
        answer = interrupt({"so far": results})
        return {"results": results, "answer": answer, "last": await outer(99)}

    return flow


async def test_functional_in_tasks(world: World, tmp_path: Path) -> None:
    """A workflow of asynchronous tasks likewise."""
    orders = {"all": [0, 1, 2, 3, 99], "none": [2, 0, 3, 1, 99]}

    async def drive(mode: str) -> Any:
        graph = aflow_of(world, Turns(orders[mode]), InMemorySaver())
        parts = await listed(graph.astream(4, CONFIG, stream_mode=MODES, subgraphs=True))
        asked = await graph.aget_state(CONFIG)
        parts += await listed(graph.astream(Command(resume="yes"), CONFIG, stream_mode=MODES, subgraphs=True))
        return by_task(parts), asked, await graph.aget_state(CONFIG), await ahistory(graph)

    recorded, replayed = await arecorded_and_replayed(world, tmp_path / "c.yaml", drive)
    assert recorded.facts[2].values["answer"] == "yes"
    assert replayed.facts == recorded.facts
