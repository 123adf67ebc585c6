"""A replay of a graph is the same run: states, histories and streams, whatever order parallel branches end in."""

# ruff: noqa: D103 - what is no test says by its name what it does

from __future__ import annotations

import operator
import shutil
import time
from collections.abc import Generator
from pathlib import Path
from typing import Annotated, Any, TypeAlias

import pytest
from langchain_core.messages import AIMessage, HumanMessage
from langchain_core.tools import tool
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.checkpoint.sqlite import SqliteSaver
from langgraph.graph import START, MessagesState, StateGraph
from langgraph.prebuilt import ToolNode
from langgraph.types import Command, RetryPolicy, interrupt

from agenttape_core import use_cassette

from .fakes import (
    CONFIG,
    MODES,
    Call,
    NativeChat,
    StreamingChat,
    Twice,
    World,
    arecorded_and_replayed,
    by_task,
    call,
    calling,
    recorded_and_replayed,
)
from .patterns import ASKED, PATTERNS

Calls: TypeAlias = Generator[Call, Any, Any]


def streamed(graph: Any, given: Any, config: Any = CONFIG, **options: Any) -> Call:
    return call(graph, "stream", given, config, stream_mode=MODES, subgraphs=True, **options)


def state(graph: Any, **options: Any) -> Call:
    return call(graph, "get_state", CONFIG, **options)


def history(graph: Any) -> Call:
    return call(graph, "get_state_history", CONFIG)


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


# -- Graphs of every pattern replay as the same run: stream modes, forks, updates, callbacks, batches, threads of ------


def history_of(graph: Any, config: Any = CONFIG) -> list[Any]:
    """All states of a thread."""
    return list(graph.get_state_history(config))


@pytest.mark.sweep
@pytest.mark.parametrize("durability", ["sync", "async", "exit"])
@pytest.mark.parametrize("pattern", [name for name in PATTERNS if name != "timed"])
def test_patterns(pattern: str, durability: Any, world: World, tmp_path: Path, twice: Twice) -> None:
    """Two runs in a thread, a fork by an update and a run from an old checkpoint replay in all that can be seen."""
    make, inputs = PATTERNS[pattern]

    def drive(_: str) -> Calls:
        graph = make(world)
        parts = yield streamed(graph, inputs, durability=durability)
        parts += yield streamed(graph, inputs, durability=durability)
        states = yield history(graph)
        forked = yield call(graph, "update_state", states[len(states) // 2].config, None)
        assert (yield state(graph)).config == forked  # savers take the greatest id for the latest
        parts += yield streamed(graph, None, forked, durability=durability)
        known = [each.config for each in (yield history(graph))]
        parts += yield streamed(graph, None, states[-2].config, durability=durability)
        assert (yield state(graph)).config not in known
        return by_task(parts), forked, (yield state(graph)), (yield history(graph))

    recorded, replayed = twice(world, tmp_path / "c.yaml", drive)
    assert replayed.facts == recorded.facts
    assert str(replayed.session.report) == f"{len(world.reached)} replayed, 0 recorded"


def test_jitter(world: World, tmp_path: Path) -> None:
    """The pause before a second attempt is as long on replay as it was, by the clock, and is not waited for."""

    def drive(_: str) -> Any:
        failures = iter([ConnectionError("first")])

        def flaky(state: dict[str, Any]) -> dict[str, Any]:
            for failure in failures:
                raise failure
            return {"at": time.time()}

        builder = StateGraph(dict).add_node("flaky", flaky, retry_policy=RetryPolicy(0.001, retry_on=ConnectionError))
        return builder.add_edge(START, "flaky").compile().invoke({})

    recorded, replayed = recorded_and_replayed(world, tmp_path / "c.yaml", drive)
    assert replayed.facts == recorded.facts


def two_nodes(world: World, saver: Any = None) -> Any:
    model = StreamingChat(world=world)

    def say(state: MessagesState) -> dict[str, Any]:
        return {"messages": [model.invoke(state["messages"])]}

    builder = StateGraph(MessagesState).add_node("one", say).add_node("two", say).add_edge(START, "one")
    return builder.add_edge("one", "two").compile(checkpointer=saver)


def test_without_a_saver(world: World, tmp_path: Path) -> None:
    """A graph that saves nothing replays the ids of its tasks and messages, twice in a session."""

    def drive(_: str) -> Any:
        graph = two_nodes(world)
        return [by_task(graph.stream(ASKED, stream_mode=MODES, subgraphs=True)) for _ in range(2)]

    recorded, replayed = recorded_and_replayed(world, tmp_path / "c.yaml", drive)
    assert replayed.facts == recorded.facts
    assert recorded.facts[0] != recorded.facts[1]


@pytest.mark.usefixtures("often")
@pytest.mark.parametrize("is_async", [False, True])
async def test_what_is_saved_in_the_background(is_async: bool, world: World, tmp_path: Path) -> None:
    """The history holds writes as tasks made them, however late they were saved: messages without their ids."""

    @tool
    def look(n: int) -> str:
        """Look."""
        return f"seen {n} at {world.reach('tool')}"

    def reply(messages: Any, number: int) -> AIMessage:
        calls = (("look", {"n": n}) for n in range(4))
        return calling(*calls, number=number) if isinstance(messages[-1], HumanMessage) else AIMessage(f"at {number}")

    model = NativeChat(world=world, reply=reply)

    def say(state: MessagesState) -> dict[str, Any]:
        return {"messages": [model.invoke(state["messages"])]}

    def agent() -> Any:
        builder = StateGraph(MessagesState).add_node("say", say).add_node("tools", ToolNode([look]))
        builder.add_edge(START, "say").add_edge("tools", "say")
        builder.add_conditional_edges("say", lambda state: "tools" if state["messages"][-1].tool_calls else "__end__")
        return builder.compile(checkpointer=InMemorySaver())

    async def drive(_: str) -> Any:
        histories = []
        for _ in range(5):
            graph = agent()
            await graph.ainvoke(ASKED, CONFIG) if is_async else graph.invoke(ASKED, CONFIG)
            histories.append(history_of(graph))
        return histories

    recorded, replayed = await arecorded_and_replayed(world, tmp_path / "c.yaml", drive)
    assert replayed.facts == recorded.facts
    written = [
        each.result["messages"]
        for states in recorded.facts
        for state in states
        for each in state.tasks
        if each.name == "tools"
    ]
    assert [message.id for messages in written for message in messages] == [None] * 20


def test_threads_of_old(world: World, tmp_path: Path) -> None:
    """A thread that real runs have left in a database goes on, and forks, under ids that come after theirs."""
    with SqliteSaver.from_conn_string(str(tmp_path / "old")) as saver:
        graph = two_nodes(world, saver)
        graph.invoke(ASKED, CONFIG)
        graph.invoke(ASKED, CONFIG)
        old = history_of(graph)[-2].config
    before = len(world.reached)

    def drive(mode: str) -> Any:
        shutil.copy(tmp_path / "old", tmp_path / mode)
        with SqliteSaver.from_conn_string(str(tmp_path / mode)) as saver:
            graph = two_nodes(world, saver)
            forked = graph.update_state(old, {"messages": [("user", "Edited?")]})
            assert graph.get_state(CONFIG).config == forked
            graph.invoke(None, forked)
            graph.invoke(None, old)
            graph.invoke(ASKED, CONFIG)
            return history_of(graph)

    recorded, replayed = recorded_and_replayed(world, tmp_path / "c.yaml", drive)
    assert replayed.facts == recorded.facts
    assert len(replayed.session.report.replayed) == len(world.reached) - before == 6


def test_sessions_in_sessions(world: World, tmp_path: Path) -> None:
    """A graph in a session within a session belongs to the inner one, and the outer one goes on as it was."""

    def drive(mode: str) -> Any:
        graph, other = two_nodes(world, InMemorySaver()), two_nodes(world, InMemorySaver())
        first = graph.invoke(ASKED, CONFIG)
        with use_cassette(tmp_path / "inner.yaml", mode=mode):
            inner = other.invoke(ASKED, CONFIG)
        return first, inner, graph.invoke(ASKED, CONFIG), history_of(graph), history_of(other)

    recorded, replayed = recorded_and_replayed(world, tmp_path / "c.yaml", drive)
    assert replayed.facts == recorded.facts
    assert len(replayed.session.report.replayed) == 4


def test_streams_side_by_side(world: World, tmp_path: Path) -> None:
    """Two graphs whose streams are read in turns, in one context, replay both."""

    def drive(_: str) -> Any:
        graphs = [two_nodes(world, InMemorySaver()) for _ in range(2)]
        parts = list(zip(*(graph.stream(ASKED, CONFIG, stream_mode=MODES) for graph in graphs), strict=True))
        return parts, [history_of(graph) for graph in graphs]

    recorded, replayed = recorded_and_replayed(world, tmp_path / "c.yaml", drive)
    assert replayed.facts == recorded.facts
