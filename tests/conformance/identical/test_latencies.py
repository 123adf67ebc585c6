"""Parallel tools and fan-outs of LlamaIndex replay the same, however long each of their answers takes.

`make identical` makes a hundred recordings, with latencies of up to two seconds, half of them on a busy machine; an
ordinary run makes six.
"""

from __future__ import annotations

import asyncio
import random
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from llama_index.core.agent.workflow import FunctionAgent

from agenttape_core.testing import Capture, Program, compare_runs, record_run, replay_run

from ...llamaindex.acceptance import FRAMEWORK_WARNINGS
from ...llamaindex.programs import after_tools
from ...llamaindex.scripted import ScriptedLLM
from . import llama
from .llama import FanOut, followed, looking
from .outside import Outside

pytestmark = FRAMEWORK_WARNINGS

FEW, MANY = 6, 100
LATENCIES = (0.0, 0.003, 0.02, 0.15, 2.0)
"""Seconds that an answer takes at most; an ordinary run has the first three."""


async def tools(world: Outside, number: int, capture: Capture) -> Any:
    """Call tools at once, as an agent."""
    script = after_tools([("look", {"where": str(n)}) for n in range(number)])
    agent = FunctionAgent(llm=ScriptedLLM(world, script, wait=world.apause), tools=[looking(world)])
    return await followed(agent.run("Look around"), capture)


async def fan_out(world: Outside, number: int, capture: Capture) -> Any:
    """Fan out, and collect what comes."""
    return await followed(FanOut(world, number).run(), capture)


@pytest.mark.parametrize("program", [tools, fan_out])
def test_a_recording_replays_whatever_the_latencies(
    program: Callable[[Outside, int, Capture], Any], tmp_path: Path, pytestconfig: pytest.Config
) -> None:
    """Of all recordings none misses; all replays are equal, and report no more than the thread beside them."""

    class Late(Outside):
        """A world whose answers take up to a given time."""

        def __init__(self, seed: int, longest: float) -> None:
            super().__init__(seed)
            self._latency = random.Random(seed)
            self._longest = longest

        async def apause(self) -> None:
            """Take a while."""
            await asyncio.sleep(self._latency.uniform(0, self._longest))

    @contextmanager
    def busy(is_busy: bool) -> Iterator[None]:
        """Keep a processor busy, and the lock of the interpreter with it."""
        ended = threading.Event()

        def spin() -> None:
            while not ended.is_set():
                sum(range(1000))

        thread = threading.Thread(target=spin)
        if is_busy:
            thread.start()
        try:
            yield
        finally:
            ended.set()
            if is_busy:
                thread.join()

    is_thorough = pytestconfig.getoption("replays") > 4
    times, latencies = (MANY, LATENCIES) if is_thorough else (FEW, LATENCIES[:3])
    for seed in range(times // 2):
        world = Late(seed, latencies[seed % len(latencies)])
        path, number = tmp_path / f"{seed}.yaml", 2 + seed % 7

        def run(world: Outside = world, number: int = number) -> Program:
            return llama.ASYNCIO["asyncio"](lambda: partial(program, world, number))

        with busy(seed % 2 == 1):
            recorded = record_run(run(), path)
        world.gone = True
        reported: list[str] = []
        with busy(seed % 4 > 1):
            found = compare_runs(recorded, replay_run(run(), path, told=reported))
        assert found == [], f"{number} with seed {seed}: " + "\n".join(map(str, found))
        assert [line for line in reported if "spin" not in line and "older than" not in line] == []
        assert world.trespasses == []
        assert len(recorded["result"]) == 1
        assert "Error" not in str(recorded["result"])[:80]
