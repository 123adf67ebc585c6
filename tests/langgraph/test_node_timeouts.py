"""Nodes that time out, and are tried again: LangGraph watches their time by the loop and by another clock."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import TypedDict

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


@pytest.mark.parametrize("kind", ["idle_timeout", "run_timeout"])
def test_a_node_times_out_again(kind: str, tmp_path: Path) -> None:
    """A replay cancels the call that was cancelled, and tries again, however often the watchdog slept in between."""

    async def run() -> State:
        model = SlowAtFirst(responses=["late", "in time"])

        async def ask(state: State) -> State:
            return {"said": (await model.ainvoke("hi")).text}

        retries = RetryPolicy(max_attempts=2, initial_interval=0, jitter=False, retry_on=NodeTimeoutError)
        limit = types.TimeoutPolicy(**{kind: LIMIT})
        graph = StateGraph(State).add_node("ask", ask, retry_policy=retries, timeout=limit).add_edge(START, "ask")
        return await graph.compile().ainvoke({})  # type: ignore[return-value]

    for _ in range(3):  # a recording may sleep once or twice
        with use_cassette(tmp_path / "c.yaml", mode="record") as recording:
            recorded = asyncio.run(run())
        assert len(recording.report.recorded) == 2
        for _ in range(3):
            with use_cassette(tmp_path / "c.yaml") as replay:
                assert asyncio.run(run()) == recorded
            assert replay.report.nondeterminism == ()
