"""The history of delta channels: LangGraph's contract, which its released suite does not test yet."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any, TypedDict

import pytest
from langchain_core.messages import AIMessage, AnyMessage, HumanMessage
from langchain_core.runnables import RunnableConfig
from langgraph.channels.delta import DeltaChannel
from langgraph.checkpoint.base import BaseCheckpointSaver
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.checkpoint.serde.types import _DeltaSnapshot
from langgraph.graph import END, START, StateGraph
from langgraph.graph.message import _messages_delta_reducer

from agenttape_langgraph import TapeSaver

from .threads import INNERS, any_saver, checkpoint, counts, place

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
