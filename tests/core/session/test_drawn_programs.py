"""Programs drawn at random replay as they were recorded, in their order (decision 133)."""

from __future__ import annotations

import asyncio
import random
import threading
import time
from collections.abc import Callable
from itertools import count
from pathlib import Path
from typing import Any

import pytest

from agenttape_core import boundary, use_cassette
from agenttape_core.errors import CassetteMissError

from ...kit.replaying import recorded_as_replayed

OPERATIONS = ("ask", "first", "as they come", "timeout", "sleep", "yield", "thread")
LATENCIES = (None, 0, 0.001, 0.002, 0.003)
"""Seconds; `None` answers without letting the loop go on."""


class Program:
    """Four branches of one loop, and sometimes two threads beside it, all of which write to one list.

    Args:
        seed: Draws what they do.
        latency: Draws how long answers take: another seed, another recording.
    """

    def __init__(self, seed: int, latency: int) -> None:
        drawn = random.Random(seed)
        self.latencies = random.Random(latency)
        self.out: list[Any] = []
        self.lock = threading.Lock()
        self.branches = [[drawn.choice(OPERATIONS) for _ in range(drawn.randint(1, 4))] for _ in range(4)]
        self.threads = [[drawn.random() < 0.5 for _ in range(3)] for _ in range(2)] if drawn.random() < 0.5 else []

    def boundaries(self) -> tuple[Callable[[str], Any], Callable[[str], str]]:
        """Return what it calls: awaited, and in threads."""

        @boundary
        async def ask(question: str) -> str:
            seconds = self.latencies.choice(LATENCIES)
            if seconds is not None:
                await asyncio.sleep(seconds)
            return f"{question}!"

        @boundary
        def look_up(word: str) -> str:
            time.sleep(self.latencies.choice(LATENCIES) or 0)
            return f"{word}?"

        return ask, look_up

    def run(self, run: Callable[[Any], Any] = asyncio.run) -> list[Any]:
        """Run it, with a function that runs its loop."""
        ask, look_up = self.boundaries()

        def work(name: str) -> str:
            time.sleep(0)
            with self.lock:
                self.out.append(name)
                if sum(map(ord, name)) % 3 == 0:
                    self.out.append(look_up(name))
            self.out.append(f"{name} ends")
            return name

        def plain(name: str, calls: list[bool]) -> None:
            for number, is_call in enumerate(calls):
                self.out.append((look_up if is_call else work)(f"{name}{number}"))

        async def branch(name: str, operations: list[str]) -> None:
            for number, operation in enumerate(operations):
                self.out.append(await self.step(operation, f"{name}{number}", ask, work))

        threads = [
            threading.Thread(target=plain, args=(f"thread{number}", calls)) for number, calls in enumerate(self.threads)
        ]

        async def main() -> None:
            await asyncio.gather(*(branch("abcd"[number], ops) for number, ops in enumerate(self.branches)))

        for thread in threads:
            thread.start()
        run(main())
        for thread in threads:
            thread.join()
        return self.out

    async def step(  # noqa: PLR0911 - one for each operation
        self, operation: str, name: str, ask: Callable[[str], Any], work: Callable[[str], str]
    ) -> Any:
        """Do one thing, and return what came of it."""
        if operation == "ask":
            return await ask(name)
        if operation == "first":
            tasks = [asyncio.ensure_future(ask(f"{name}{other}")) for other in range(3)]
            done, pending = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
            for task in pending:
                task.cancel()
            await asyncio.gather(*pending, return_exceptions=True)
            return [task.result() for task in done]
        if operation == "as they come":
            return [await each for each in asyncio.as_completed([ask(f"{name}{other}") for other in range(3)])]
        if operation == "timeout":
            try:
                async with asyncio.timeout(0.0015):
                    return await ask(name)
            except TimeoutError:
                return f"{name} late"
        if operation == "thread":
            return await asyncio.to_thread(work, name)
        await asyncio.sleep(0 if operation == "yield" else 0.001)
        return name


@pytest.mark.parametrize("seed", range(12))
def test_random_programs(seed: int, tmp_path: Path) -> None:
    """A replay with other latencies does all in the recorded order, and misses nothing of it."""
    latencies = count(1000 * seed)
    recorded_as_replayed(tmp_path / "c.yaml", lambda: Program(seed, next(latencies)).run())


@pytest.mark.parametrize("seed", range(4))
def test_random_programs_on_uvloop(seed: int, tmp_path: Path) -> None:
    """A loop whose callbacks can't be looked at does all in the recorded order, too."""
    run = pytest.importorskip("uvloop").run
    latencies = count(1000 * seed)
    recorded_as_replayed(tmp_path / "c.yaml", lambda: Program(seed, next(latencies)).run(run), 1)


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::pytest.PytestUnhandledThreadExceptionWarning")
@pytest.mark.parametrize("seed", [5, *(pytest.param(seed, marks=pytest.mark.night) for seed in (6, 12))])
def test_changed_programs_end_beside_a_thread_that_polls(seed: int, tmp_path: Path) -> None:
    """A replay of a program that has another thread ends soon with a miss, whatever polls in the background."""
    polls = 0

    def run(program: Program) -> None:
        stop = threading.Event()

        def poll() -> None:
            nonlocal polls
            while not stop.is_set():
                polls += 1
                time.sleep(0.05)

        poller = threading.Thread(target=poll)
        poller.start()
        try:
            program.run()
        finally:
            stop.set()
            poller.join()

    with use_cassette(tmp_path / "c.yaml", mode="all"):
        run(Program(seed, seed))
    changed = Program(seed, 1000 * seed + 1)
    changed.threads.append([True, False, True])
    polls = 0
    with pytest.raises(CassetteMissError), use_cassette(tmp_path / "c.yaml", on_unused="ignore"):
        run(changed)
    assert polls < 40
