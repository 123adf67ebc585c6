"""Nodes that time out, and are tried again: LangGraph watches their time by the loop and by another clock."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any, TypedDict

import pytest
from langchain_core.language_models import FakeListChatModel
from langchain_core.messages import BaseMessage
from langchain_core.outputs import ChatResult
from langgraph.graph import START, StateGraph
from langgraph.types import RetryPolicy

from agenttape_core import use_cassette
from langgraph import types

if not hasattr(types, "TimeoutPolicy"):
    pytest.skip("this version of LangGraph has no time limits of nodes", allow_module_level=True)

from langgraph.errors import NodeTimeoutError

LIMIT = 0.05


class SlowAtFirst(FakeListChatModel):
    """A model whose first answer takes too long."""

    asked: int = 0

    async def _agenerate(self, messages: list[BaseMessage], *args: object, **kwargs: object) -> ChatResult:
        self.asked += 1
        await asyncio.sleep(10 if self.asked == 1 else 0)
        return self._generate(messages)


class State(TypedDict, total=False):
    said: str


def graph_of(model: SlowAtFirst, **limits: float) -> Any:
    """Return a graph of one node that asks a model, within time limits in seconds, and is tried twice."""

    async def ask(state: State) -> State:
        return {"said": (await model.ainvoke("hi")).text}

    retries = RetryPolicy(max_attempts=2, initial_interval=0, jitter=False, retry_on=NodeTimeoutError)
    builder = StateGraph(State).add_node("ask", ask, retry_policy=retries, timeout=types.TimeoutPolicy(**limits))
    return builder.add_edge(START, "ask").compile()


@pytest.mark.parametrize("kind", ["idle_timeout", "run_timeout"])
def test_a_node_times_out_again(kind: str, tmp_path: Path) -> None:
    """A replay cancels the call that was cancelled, and tries again, however often the watchdog slept in between."""

    def run() -> Any:
        graph = graph_of(SlowAtFirst(responses=["late", "in time"]), **{kind: LIMIT})
        return asyncio.run(graph.ainvoke({}))

    for _ in range(3):  # a recording may sleep once or twice
        with use_cassette(tmp_path / "c.yaml", mode="record") as recording:
            recorded = run()
        assert len(recording.report.recorded) == 2
        for _ in range(3):
            with use_cassette(tmp_path / "c.yaml") as replay:
                assert run() == recorded
            assert replay.report.nondeterminism == ()


def test_a_replay_passes_the_time_of_an_idle_node(tmp_path: Path) -> None:
    """The watchdog sleeps as often as in the recording, and not again and again until its own clock has come there."""

    class Counting(asyncio.SelectorEventLoop):
        """A loop that counts its timers."""

        timers = 0

        def call_at(self, *args: Any, **kwargs: Any) -> asyncio.TimerHandle:
            self.timers += 1
            return super().call_at(*args, **kwargs)

    counts = []
    for mode in ("record", "replay"):
        model = SlowAtFirst(responses=["late", "in time"])
        with use_cassette(tmp_path / "c.yaml", mode=mode), asyncio.Runner(loop_factory=Counting) as runner:
            runner.run(graph_of(model, idle_timeout=1).ainvoke({}))
            counts.append(runner.get_loop().timers)
    assert counts[1] <= counts[0] + 2
