"""LangGraph works with our saver as with its own."""

from __future__ import annotations

import itertools
import operator
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Any, TypedDict
from unittest import mock

import pytest
from langchain_core.messages import AIMessage, AnyMessage, HumanMessage
from langchain_core.runnables import RunnableConfig
from langgraph.channels.delta import DeltaChannel
from langgraph.checkpoint.base import BaseCheckpointSaver
from langgraph.checkpoint.conformance import checkpointer_test, validate
from langgraph.checkpoint.conformance.capabilities import ALL_CAPABILITIES, DetectedCapabilities
from langgraph.checkpoint.conformance.report import CapabilityReport
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.checkpoint.serde.types import _DeltaSnapshot
from langgraph.graph import END, START, StateGraph, add_messages
from langgraph.graph.message import _messages_delta_reducer
from langgraph.types import Command, Send, interrupt

from agenttape_langgraph import TapeSaver

from .threads import INNERS, any_saver, checkpoint, counts, inner_saver, place

# -- LangGraph's conformance suite for checkpointers, on ours alone and around others ----------------------------------


async def conformance(make: object) -> CapabilityReport:
    """Return the report of LangGraph's suite about the savers that an async generator function yields."""
    return await validate(checkpointer_test(name="ours")(make))


def unmet(report: CapabilityReport) -> dict[str, list[str]]:
    """Return the failures of a report."""
    return {name: result.failures for name, result in report.results.items() if result.failures}


async def test_the_saver_has_every_capability_and_passes(tmp_path: Path) -> None:
    """Alone, every capability that the suite knows is detected and passes, the extended ones too."""
    files = iter(range(100))

    async def make() -> AsyncIterator[BaseCheckpointSaver[str]]:
        async with TapeSaver(tmp_path / f"{next(files)}.sqlite") as saver:
            yield saver

    report = await conformance(make)
    assert unmet(report) == {}
    assert report.passed_all()
    assert {name for name, result in report.results.items() if result.detected} == {it.value for it in ALL_CAPABILITIES}


@pytest.mark.parametrize("kind", [*INNERS, "full"])
async def test_a_saver_around_another_has_its_capabilities_and_passes(kind: str, tmp_path: Path, address: str) -> None:
    """Around another saver, exactly the capabilities of that one are detected, and pass."""
    files = iter(range(100))
    async with inner_saver(kind, address) as inner:
        theirs = {capability.value for capability in DetectedCapabilities.from_instance(inner).detected}

    async def make() -> AsyncIterator[BaseCheckpointSaver[str]]:
        async with any_saver(kind, tmp_path / f"{next(files)}.sqlite", address) as saver:
            yield saver

    report = await conformance(make)
    assert unmet(report) == {}
    assert report.passed_all_base()
    assert {name for name, result in report.results.items() if result.detected} == theirs


@pytest.mark.parametrize("kind", INNERS)
async def test_the_copy_conforms_like_what_it_copies(kind: str, tmp_path: Path, address: str) -> None:
    """All that the suite stores through a saver around another is in the file, equal to that of the other one."""
    file = tmp_path / "one.sqlite"
    async with any_saver(kind, file, address) as saver:

        async def make() -> AsyncIterator[BaseCheckpointSaver[str]]:
            yield saver

        await conformance(make)
        threads = {found.config["configurable"]["thread_id"] for found in saver.local.list(None)}
        assert len(threads) > 30
        for thread in threads:
            config = {"configurable": {"thread_id": thread}}
            replayed = [found async for found in saver.alist(config)]
            copied = {
                (it.config["configurable"]["checkpoint_ns"], it.checkpoint["id"]): it for it in saver.local.list(config)
            }
            assert len(copied) == len(replayed)
            for found in replayed:
                ours = copied[found.config["configurable"]["checkpoint_ns"], found.checkpoint["id"]]
                assert ours.parent_config == found.parent_config
                assert ours.metadata == found.metadata
                assert ours.pending_writes == found.pending_writes
                assert ours.checkpoint["channel_versions"] == found.checkpoint["channel_versions"]
                assert found.checkpoint["channel_values"].items() <= ours.checkpoint["channel_values"].items()


# -- The history of delta channels: LangGraph's contract, which its released suite does not test yet -------------------

SAVERS = ["alone", *INNERS]


async def chain(
    saver: BaseCheckpointSaver[Any],
    thread_id: str,
    steps: int,
    values: dict[int, dict[str, Any]],
    channels: Sequence[str] = ("ch",),
) -> list[RunnableConfig]:
    """Store checkpoints of which some hold values; on each a write of its number to each channel."""
    config, configs = place(thread_id), []
    for step in range(steps):
        found = values.get(step, {})
        versions = dict.fromkeys(found, f"{step + 1:032}.{0:016}")
        saved = checkpoint(step, found, versions)
        config = await saver.aput(config, saved, {"source": "loop", "step": step, "parents": {}}, versions)
        await saver.aput_writes(config, [(channel, step) for channel in channels], f"task-{step}")
        configs.append(config)
    return configs


def said(history: Any, channel: str = "ch") -> tuple[list[Any], Any]:
    """Return the written values of a channel, and their seed."""
    entry = history[channel]
    return [value for _, _, value in entry["writes"]], entry.get("seed", "nothing")


@pytest.mark.parametrize("kind", SAVERS)
async def test_the_history_of_delta_channels(kind: str, tmp_path: Path, address: str) -> None:
    """Writes come oldest first, from the nearest stored value on, without those of the target; each channel alone."""
    async with any_saver(kind, tmp_path / "a.sqlite", address) as saver:

        async def history(configs: Sequence[RunnableConfig], *channels: str, at: int = -1) -> Any:
            return await saver.aget_delta_channel_history(config=configs[at], channels=channels or ["ch"])

        near = await chain(saver, f"near-{kind}", 6, {0: {"ch": _DeltaSnapshot([0])}, 3: {"ch": _DeltaSnapshot([3])}})
        assert said(await history(near)) == ([3, 4], _DeltaSnapshot([3]))
        assert said(await history(near, at=2)) == ([0, 1], _DeltaSnapshot([0]))
        assert said(await history([place(f"near-{kind}")])) == ([3, 4], _DeltaSnapshot([3]))

        assert said(await history(await chain(saver, f"none-{kind}", 4, {}))) == ([0, 1, 2], "nothing")

        plain = await chain(saver, f"plain-{kind}", 4, {0: {"ch": [10]}, 1: {"ch": [10, 20]}})
        assert said(await history(plain)) == ([1, 2], [10, 20])

        values = {1: {"a": _DeltaSnapshot("A")}, 3: {"b": _DeltaSnapshot("B")}}
        both = await history(await chain(saver, f"both-{kind}", 5, values, ("a", "b")), "a", "b")
        assert said(both, "a") == ([1, 2, 3], _DeltaSnapshot("A"))
        assert said(both, "b") == ([3], _DeltaSnapshot("B"))

        assert await saver.aget_delta_channel_history(config=near[-1], channels=[]) == {}
        assert said(await history([place("no such thread")])) == ([], "nothing")


@pytest.mark.parametrize("kind", SAVERS)
async def test_parallel_writes_come_in_the_order_of_their_paths(kind: str, tmp_path: Path, address: str) -> None:
    """Writes of one step are ordered by path, task and index, and those without a path come first."""
    async with any_saver(kind, tmp_path / "a.sqlite", address) as saver:
        configs = await chain(saver, f"order-{kind}", 3, {0: {"ch": _DeltaSnapshot(["seed"])}}, ())
        await saver.aput_writes(configs[1], [("ch", "third"), ("ch", "fourth")], "0", "~pull, 02")
        await saver.aput_writes(configs[1], [("ch", "second")], "f", "~pull, 01")
        await saver.aput_writes(configs[1], [("ch", "first")], "z")
        history = await saver.aget_delta_channel_history(config=configs[2], channels=["ch"])
        assert said(history) == (["first", "second", "third", "fourth"], _DeltaSnapshot(["seed"]))
        pending = await saver.aget_tuple(configs[1])
        assert pending is not None
        assert [value for _, _, value in pending.pending_writes or ()] == ["first", "second", "third", "fourth"]


def test_only_ancestors_count(saver: TapeSaver) -> None:
    """A fork sees the writes on its own path only."""
    first = saver.put(place(), checkpoint(1, {}, {}), {}, {})
    saver.put_writes(first, [("ch", "common")], "t")
    left = saver.put(first, checkpoint(2, {}, {}), {}, {})
    saver.put_writes(left, [("ch", "left")], "t")
    right = saver.put(first, checkpoint(3, {}, {}), {}, {})
    saver.put_writes(right, [("ch", "right")], "t")
    tip = saver.put(left, checkpoint(4, {}, {}), {}, {})
    assert said(saver.get_delta_channel_history(config=tip, channels=["ch"])) == (["common", "left"], "nothing")


class Talk(TypedDict):
    messages: Annotated[list[AnyMessage], DeltaChannel(_messages_delta_reducer)]


@pytest.mark.filterwarnings("ignore:.*DeltaChannel.*")
def test_a_pruned_thread_keeps_what_its_delta_channels_are_made_of(saver: TapeSaver, path: Path) -> None:
    """After pruning one checkpoint is listed, its messages are whole, and the thread goes on like one never pruned."""

    def turns(graph: Any, numbers: range, thread_id: str = "1") -> None:
        """Talk for some turns."""
        for number in numbers:
            graph.invoke({"messages": [HumanMessage(f"question {number}", id=f"q{number}")]}, place(thread_id))

    def talking(saver: BaseCheckpointSaver[Any]) -> Any:
        """Return a graph whose messages are a delta channel."""
        builder = StateGraph(Talk)
        builder.add_node(
            "answer",
            lambda state: {
                "messages": [AIMessage(f"answer {len(state['messages'])}", id=f"a{len(state['messages'])}")]
            },
        )
        builder.add_edge(START, "answer")
        builder.add_edge("answer", END)
        return builder.compile(checkpointer=saver)

    graph, plain = talking(saver), talking(InMemorySaver())
    for number in range(3):
        turns(graph, range(3 * number, 3 * number + 3))
        turns(plain, range(3 * number, 3 * number + 3))
        assert "messages" not in saver.get_tuple(place()).checkpoint["channel_values"]  # type: ignore[union-attr]
        saver.prune(["1"])
        (kept,) = saver.list(place())
        assert kept.parent_config is None
        assert graph.get_state(place()).values == plain.get_state(place()).values
    saver.copy_thread("1", "2")
    saver.delete_thread("1")
    assert graph.get_state(place("2")).values == plain.get_state(place()).values
    turns(graph, range(9, 10), "2")
    turns(plain, range(9, 10))
    assert graph.get_state(place("2")).values == plain.get_state(place()).values
    saver.prune(["2"], strategy="delete")
    assert counts(path, "checkpoints", "writes", "contents", "pieces") == dict.fromkeys(
        ("checkpoints", "writes", "contents", "pieces"), 0
    )


# -- Real graphs on the saver: LangGraph works as with its own savers --------------------------------------------------

CONFIG: Any = {"configurable": {"thread_id": "1"}}


class State(TypedDict):
    messages: Annotated[list[AnyMessage], add_messages]
    found: Annotated[list[str], operator.add]


def graph(saver: BaseCheckpointSaver[Any]) -> Any:
    """Return a graph with parallel branches, a subgraph that asks, and a loop."""

    def look(state: Any) -> Any:
        return {"found": [f"looked at {state['it']}"]}

    def ask(state: State) -> Any:
        return {"messages": [AIMessage(f"asked: {interrupt('go on?')}", id=f"ask-{len(state['messages'])}")]}

    inner = StateGraph(State)
    inner.add_node("ask", ask)
    inner.add_edge(START, "ask")
    inner.add_edge("ask", END)
    builder = StateGraph(State)
    builder.add_node("look", look)
    builder.add_node("talk", inner.compile())
    builder.add_conditional_edges(START, lambda _: [Send("look", {"it": number}) for number in range(4)], ["look"])
    builder.add_edge("look", "talk")
    builder.add_edge("talk", END)
    return builder.compile(checkpointer=saver)


@contextmanager
def same_ids() -> Iterator[None]:
    """Make checkpoint ids and times the same in every run."""
    numbers = itertools.count()

    def next_id(*_: Any, **__: Any) -> Any:
        return f"1f000000-0000-6000-8000-{next(numbers):012}"

    with (
        mock.patch("langgraph.pregel._checkpoint.uuid6", next_id),
        mock.patch("langgraph.checkpoint.base.uuid6", next_id),
    ):
        yield


def facts(app: Any) -> list[Any]:
    """Return all that there is to see of a thread, but for the times."""
    history = [state._replace(created_at=None) for state in app.get_state_history(CONFIG)]
    inner = [
        task.state and task.state._replace(created_at=None) for task in app.get_state(CONFIG, subgraphs=True).tasks
    ]
    return [history, inner, app.get_state(CONFIG).values]


def drive(app: Any) -> list[Any]:
    """Run, answer, look, go back, fork and update."""
    app.invoke({"messages": [HumanMessage("hello", id="h")], "found": []}, CONFIG)
    seen = [facts(app)]
    app.invoke(Command(resume="yes"), CONFIG)
    seen.append(facts(app))
    past = [state for state in app.get_state_history(CONFIG) if "talk" in state.next][-1]
    forked = app.update_state(past.config, {"found": ["edited"]}, as_node="look")
    app.invoke(None, forked)
    app.invoke(Command(resume="no"), CONFIG)
    return [*seen, facts(app)]


@pytest.mark.parametrize("around", [False, True])
def test_a_thread_is_what_it_is_with_langgraphs_saver(around: bool, path: Path) -> None:
    """Interrupts, subgraphs, branches, forks and updates give the same history, field by field."""
    with same_ids():
        expected = drive(graph(InMemorySaver()))
    with TapeSaver(path, inner=InMemorySaver() if around else None) as saver, same_ids():
        assert drive(graph(saver)) == expected
        assert facts(graph(saver.local)) == expected[-1]
    with TapeSaver(path) as again:
        assert facts(graph(again)) == expected[-1]


def test_equal_runs_make_equal_checkpoints(tmp_path: Path) -> None:
    """Two runs with the same ids have the same versions of channels: nothing random is in a checkpoint."""
    found = []
    for number in range(2):
        with TapeSaver(tmp_path / f"{number}.sqlite") as saver, same_ids():
            drive(graph(saver))
            found.append([{**it.checkpoint, "ts": ""} for it in saver.list(None)])
    assert found[0] == found[1]


@pytest.mark.parametrize("durability", ["sync", "async", "exit"])
def test_every_durability(durability: Any, saver: TapeSaver) -> None:
    """However LangGraph saves, the thread can be resumed."""
    app = graph(saver)
    app.invoke({"messages": [HumanMessage("hello", id="h")], "found": []}, CONFIG, durability=durability)
    app.invoke(Command(resume="yes"), CONFIG, durability=durability)
    values = app.get_state(CONFIG).values
    assert [message.content for message in values["messages"]] == ["hello", "asked: yes"]
    assert values["found"] == [f"looked at {number}" for number in range(4)] * 2  # and once more from the subgraph
