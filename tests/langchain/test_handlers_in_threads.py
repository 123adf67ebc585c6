"""Synchronous handlers of asynchronous programs, which LangChain calls in threads, beside calls that are cancelled."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest
from langchain_core.callbacks import BaseCallbackHandler
from langchain_core.tracers.base import BaseTracer
from langchain_core.tracers.schemas import Run

from agenttape_core.testing import Capture, Program, compare_runs, record_run, replay_run

from .fakes import FakeChat, World

REPLAYS = 4


class Notes(BaseCallbackHandler):
    """Takes down what chat models are asked."""

    def __init__(self, capture: Capture) -> None:
        self._capture = capture

    def on_chat_model_start(self, serialized: Any, messages: Any, **kwargs: Any) -> None:
        """Take it down."""
        self._capture.add("callbacks", [messages, kwargs["run_id"]])


class Tracer(BaseTracer):
    """Takes down runs, with their times."""

    def __init__(self, capture: Capture) -> None:
        super().__init__()
        self._capture = capture

    def _persist_run(self, run: Run) -> None:
        self._capture.add("runs", [run.id, run.start_time, run.end_time, run.inputs])


def in_time(model: FakeChat) -> Program:
    """Give an answer up that may take no time."""

    async def program(capture: Capture) -> Any:
        config: Any = {"callbacks": [Notes(capture), Tracer(capture)]}
        said: list[str] = []
        for number in range(2):
            try:
                said.append(str((await asyncio.wait_for(model.ainvoke(f"t{number}", config), 0.001)).text))
            except TimeoutError:
                said.append("late")
        return said

    return program


def hedged(model: FakeChat) -> Program:
    """Ask three times at once, and take the first answer."""

    async def program(capture: Capture) -> Any:
        config: Any = {"callbacks": [Notes(capture), Tracer(capture)]}
        tasks = [asyncio.create_task(model.ainvoke(f"h{number}", config)) for number in range(3)]
        done, left = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        for each in left:
            each.cancel()
        await asyncio.gather(*left, return_exceptions=True)
        return [each.result().text for each in tasks if each in done]

    return program


@pytest.mark.parametrize("make", [in_time, hedged], ids=lambda make: make.__name__)
def test_handlers_in_threads_come_as_far_as_they_had(make: Any, world: World, tmp_path: Path) -> None:
    """What differs nevertheless is told, and not what only the handlers saw."""
    path, model = tmp_path / "c.yaml", FakeChat(world=world)
    recorded = record_run(make(model), path)
    for _ in range(REPLAYS):
        told: list[str] = []
        assert compare_runs(recorded, replay_run(make(model), path, told=told)) == [] or told
