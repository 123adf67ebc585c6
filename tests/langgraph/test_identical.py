"""A replay of a graph is the same run: states, histories and streams, whatever order parallel branches end in."""

# ruff: noqa: D103 - what is no test says by its name what it does

from __future__ import annotations

import asyncio
import operator
from collections.abc import Generator
from typing import TYPE_CHECKING, Annotated, Any, TypeAlias, TypedDict

from langchain_core.messages import HumanMessage
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.config import get_stream_writer
from langgraph.func import entrypoint, task
from langgraph.graph import END, START, MessagesState, StateGraph
from langgraph.types import Command, Send, interrupt

from .fakes import (
    CONFIG,
    MODES,
    AsyncChat,
    Call,
    StreamingChat,
    Turns,
    Twice,
    World,
    by_task,
    call,
)

if TYPE_CHECKING:
    from pathlib import Path

BRANCHES = range(6)


class Gathered(TypedDict):
    """The findings of branches."""

    n: int
    found: Annotated[list[Any], operator.add]


Calls: TypeAlias = Generator[Call, Any, Any]


def streamed(graph: Any, given: Any, **options: Any) -> Call:
    return call(graph, "stream", given, CONFIG, stream_mode=MODES, subgraphs=True, **options)


def state(graph: Any, **options: Any) -> Call:
    return call(graph, "get_state", CONFIG, **options)


def history(graph: Any) -> Call:
    return call(graph, "get_state_history", CONFIG)


# -- six branches -----------------------------------------------------------------------------------------------------


def test_branches(world: World, tmp_path: Path, twice: Twice) -> None:
    """Six `Send` branches that end in another order replay as the same states, history and events of each task."""
    orders = {
        "all": [*((1, n) for n in BRANCHES), *((2, n) for n in BRANCHES)],
        "none": [*((1, n) for n in (5, 1, 0, 4, 2, 3)), *((2, n) for n in (3, 5, 4, 0, 2, 1))],
    }

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

        builder = (
            StateGraph(Gathered).add_node("branch", RunnableLambda(branch, abranch)).add_node("last", lambda _: {})
        )
        builder.add_conditional_edges(START, fan, ["branch"]).add_edge("branch", "last").add_edge("last", END)
        return builder.compile(checkpointer=saver)

    def drive(mode: str) -> Calls:
        graph = branching(world, Turns(orders[mode]), InMemorySaver())
        parts = yield streamed(graph, {"n": 0, "found": []})
        return by_task(parts), (yield state(graph)), (yield history(graph))

    recorded, replayed = twice(world, tmp_path / "c.yaml", drive)
    assert len(world.reached) == 12
    assert replayed.facts == recorded.facts


# -- nested, interrupted, resumed -------------------------------------------------------------------------------------


class Talk(MessagesState):
    """A conversation, and the answers of people."""

    answers: Annotated[list[str], operator.add]


def test_nested_interrupts(world: World, tmp_path: Path, twice: Twice) -> None:
    """Subgraphs that ask people, also two at once, replay with the same interrupts, states and history."""

    def asking(world: World, saver: Any, depth: int = 2) -> Any:
        """A graph in a graph in a graph, of which each asks a person, two at once."""
        model = StreamingChat(world=world)

        def say(state: Talk) -> dict[str, Any]:
            return {"messages": [model.invoke(state["messages"])]}

        def ask(state: Talk) -> dict[str, Any]:
            return {"answers": [interrupt({"level": depth, "said": state["messages"][-1].text})]}

        builder = (
            StateGraph(Talk).add_node("say", say).add_node("ask", ask).add_edge(START, "say").add_edge("say", "ask")
        )
        if depth:
            builder.add_node("left", asking(world, None, depth - 1)).add_node("right", asking(world, None, 0))
            builder.add_edge("ask", "left").add_edge("ask", "right")
        return builder.compile(checkpointer=saver)

    def drive(_: str) -> Calls:
        graph = asking(world, InMemorySaver())
        parts = yield streamed(graph, {"messages": [("user", "Hello?")]})
        seen = []
        while interrupts := (yield state(graph)).interrupts:
            seen.append((interrupts, (yield state(graph, subgraphs=True))))
            answers = {each.id: f"answer to {each.value}" for each in interrupts}
            parts += yield streamed(graph, Command(resume=answers))
        return by_task(parts), seen, (yield state(graph, subgraphs=True)), (yield history(graph))

    recorded, replayed = twice(world, tmp_path / "c.yaml", drive)
    assert [len(interrupts) for interrupts, _ in recorded.facts[1]][:2] == [1, 2]
    assert replayed.facts == recorded.facts


# -- agents -----------------------------------------------------------------------------------------------------------


# -- the functional API -----------------------------------------------------------------------------------------------


def test_functional(world: World, tmp_path: Path, twice: Twice) -> None:
    """A workflow of nested, parallel tasks with an interrupt replays its events, state and history."""

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

    orders = {"all": [0, 1, 2, 3, 99], "none": [2, 0, 3, 1, 99]}
    make = aflow_of if twice.is_async else flow_of

    def drive(mode: str) -> Calls:
        graph = make(world, Turns(orders[mode]), InMemorySaver())
        parts = yield streamed(graph, 4)
        asked = yield state(graph)
        parts += yield streamed(graph, Command(resume="yes"))
        return by_task(parts), asked, (yield state(graph)), (yield history(graph))

    recorded, replayed = twice(world, tmp_path / "c.yaml", drive)
    assert recorded.facts[2].values["answer"] == "yes"
    assert replayed.facts == recorded.facts
