"""The times that a tracer notes are those of the recording, also of events that a model tells while it is executed."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from langchain_core.language_models.fake_chat_models import GenericFakeChatModel
from langchain_core.messages import AIMessage
from langchain_core.runnables import RunnableLambda
from langchain_core.tracers.base import BaseTracer
from langchain_core.tracers.schemas import Run
from langgraph.graph import START, MessagesState, StateGraph

from agenttape_core import use_cassette

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
