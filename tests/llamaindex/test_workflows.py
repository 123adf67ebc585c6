"""Workflows run on every replay: misses in steps, retries, time limits and halts."""

from __future__ import annotations

import asyncio
import time
from pathlib import Path
from typing import Any

import pytest
from llama_index.core.workflow import Context, StartEvent, StopEvent, Workflow, WorkflowTimeoutError, step

from agenttape_core import use_cassette
from agenttape_core.errors import CassetteMissError

from .acceptance import FRAMEWORK_WARNINGS, record_and_replay, run
from .programs import PROGRAMS, Interview, Parallel, followed
from .scripted import ScriptedLLM, World

pytestmark = FRAMEWORK_WARNINGS


def test_a_miss_in_a_step_ends_its_run_at_once(tmp_path: Path) -> None:
    """The miss is raised from the stream of events, long before the time limit of the workflow."""

    async def interview(world: World, topic: str) -> Any:
        """Read all events of an interview."""
        return await followed(Interview(ScriptedLLM(world), timeout=60).run(topic=topic))

    path, world = tmp_path / "miss.yaml", World()
    run(PROGRAMS["human_input"], world, path, "once")
    with pytest.raises(CassetteMissError, match=r"\+ .*Oslo"):
        run(lambda world: interview(world, "Oslo"), world, path, "none")


def test_a_miss_in_a_step_is_the_result_of_its_run(tmp_path: Path) -> None:
    """The miss is raised from the awaited run, even while other steps go on."""
    path, world = tmp_path / "miss.yaml", World()
    run(PROGRAMS["parallel_steps"], world, path, "once")

    async def other(world: World) -> Any:
        return await Parallel(ScriptedLLM(world), timeout=60).run(parts=6)

    with pytest.raises(CassetteMissError, match=r"Part [45]"):
        run(other, world, path, "none")


def test_a_time_limit_is_one_of_real_time(tmp_path: Path) -> None:
    """A workflow whose clock stands still times out all the same."""

    class Waits(Workflow):
        """Waits for ever."""

        @step
        async def wait(self, ev: StartEvent) -> StopEvent:
            """Never end."""
            await asyncio.Event().wait()
            return StopEvent()

    async def waits(world: World) -> Any:
        with pytest.raises(WorkflowTimeoutError):
            await Waits(timeout=0.05).run()

    run(waits, World(), tmp_path / "timeout.yaml", "once")


def test_sleeps_at_once_do_not_use_up_a_time_limit(tmp_path: Path) -> None:
    """A workflow that sleeps for a moment in many places is not taken to have slept for their sum."""

    class Sleeps(Workflow):
        """Sleeps in many steps at once."""

        @step
        async def begin(self, ctx: Context, ev: StartEvent) -> StopEvent:
            """Sleep a hundred times at once: the frozen clock passes a hundred times as far."""
            await asyncio.gather(*(asyncio.sleep(0.05) for _ in range(100)))
            return StopEvent(result="slept")

    recorded = run(lambda _: Sleeps(timeout=3).run(), World(), tmp_path / "sleeps.yaml", "once")
    assert recorded.value == "slept"


def test_retries_are_made_again_without_their_delays(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each attempt is replayed without waiting between them, however long the policy says; the clock advances."""

    class Patient:
        """A policy that waits a given time, up to three attempts."""

        delay = 0.01

        def next(self, elapsed_time: float, attempts: int, error: Exception) -> float | None:
            """Return how long to wait."""
            return self.delay if attempts < 3 else None

    class Flaky(Workflow):
        """Asks a model that fails twice."""

        def __init__(self, llm: ScriptedLLM, **kwargs: Any) -> None:
            super().__init__(**kwargs)
            self.llm = llm

        @step(retry_policy=Patient())
        async def ask(self, ctx: Context, ev: StartEvent) -> StopEvent:
            """Ask."""
            answer = await self.llm.acomplete("How are you?")
            return StopEvent(result=f"{answer.text} at attempt {ctx.retry_info().retry_number}")

    async def flaky(world: World) -> Any:
        """Fail twice, and answer then."""

        def script(messages: Any, tools: Any) -> str:
            if len(world.reached) < 3:
                raise ConnectionError(f"down {len(world.reached)}")
            return "Fine"

        return await followed(Flaky(ScriptedLLM(world, script), timeout=60).run())

    recorded, replayed = record_and_replay(flaky, tmp_path / "retries.yaml")
    assert replayed.value == recorded.value
    assert replayed.log == recorded.log
    assert "at attempt 2" in recorded.value["result"]
    monkeypatch.setattr(Patient, "delay", 20.0)
    with use_cassette(tmp_path / "retries.yaml"):
        began = time.time()
        assert asyncio.run(asyncio.wait_for(flaky(World()), 10)) == recorded.value
        assert time.time() - began >= 40
