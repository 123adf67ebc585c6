"""A wait between two attempts is not waited in a replay, and comes in its turn all the same."""

from __future__ import annotations

import asyncio
import random
import subprocess
import sys
import time
import types
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

from agenttape_core import boundary, use_cassette
from agenttape_core.integration.patching import register_backoff

from ...kit.replaying import recorded_as_replayed

FRAMEWORK = """
import asyncio

async def retrying(attempt, delay):
    while True:
        try:
            return await attempt()
        except ConnectionError:
            await asyncio.sleep(delay())
"""
HOUR = 3600.0


@pytest.fixture
def retrying(monkeypatch: pytest.MonkeyPatch) -> Any:
    """A function of a framework that tries again after a delay, and that its integration has named."""
    framework = types.ModuleType("a_framework_that_retries")
    exec(FRAMEWORK, framework.__dict__)
    monkeypatch.setitem(sys.modules, framework.__name__, framework)
    register_backoff(framework.__name__, ("retrying",))
    return framework.retrying


class Service:
    """The outside: it refuses at first, and takes its time to answer. In a replay it is gone.

    Args:
        seed: Decides how long each answer takes.
        refusals: How often it refuses, by name.
    """

    def __init__(self, seed: int, **refusals: int) -> None:
        self.gone = False
        self.log: list[str] = []
        self.ask = boundary(self._ask, name="ask")
        self._random = random.Random(seed)
        self._refusals = refusals
        self._left: dict[str, int] = {}

    def begin(self) -> None:
        """Refuse again what was refused in the run before, and note what comes of this run."""
        self.log, self._left = [], dict(self._refusals)

    async def _ask(self, name: str) -> str:
        """Answer, or refuse."""
        assert not self.gone, "was reached"
        await asyncio.sleep(self._random.choice((0, 0.001, 0.002)))
        if self._left.get(name, 0):
            self._left[name] -= 1
            raise ConnectionError(name)
        return f"{name}!"

    async def asking(self, name: str) -> None:
        """Be asked again and again."""
        for turn in range(6):
            answer = await self.ask(f"{name}{turn}")
            self.log.append(answer)


Retried = Callable[[str, float], Awaitable[None]]
"""Ask, and try again after a delay."""


async def beside_calls(service: Service, retried: Retried) -> None:
    """Try again beside tasks that go on asking."""
    await asyncio.gather(retried("p", 0.002), service.asking("a"), retried("q", 0.003), service.asking("b"))


async def after_calls(service: Service, retried: Retried) -> None:
    """Try two things again that have failed at the same time; one goes on asking, and comes to the other's turn."""

    async def going_on() -> None:
        await retried("p", 0.001)
        await service.asking("a")

    await asyncio.gather(going_on(), retried("q", 0.01))


async def beside_sleeps(service: Service, retried: Retried) -> None:
    """Try again beside a task that sleeps by itself, and one that asks."""

    async def sleeping() -> None:
        for turn in range(4):
            await asyncio.sleep(0.0015)
            service.log.append(f"slept {turn}")

    await asyncio.gather(service.asking("a"), retried("p", 0.002), sleeping(), retried("q", 0.001))


async def beside_threads(service: Service, retried: Retried) -> None:
    """Try again beside a task that works in threads, and one that asks."""

    async def working() -> None:
        for turn in range(3):
            done = await asyncio.to_thread(str, turn)
            service.log.append(done)

    await asyncio.gather(working(), service.asking("a"), retried("p", 0.002), retried("q", 0.001))


@pytest.mark.parametrize(
    "program", [beside_calls, after_calls, beside_sleeps, beside_threads], ids=lambda program: program.__name__
)
@pytest.mark.parametrize("longer", [1, 1e6], ids=["as long", "for hours"])
def test_a_wait_comes_in_the_recorded_order(
    program: Callable[[Service, Retried], Awaitable[None]], longer: float, retrying: Any, tmp_path: Path, replays: int
) -> None:
    """What is tried again goes on where it did in the recording, however long the wait would be."""

    async def run(service: Service) -> list[str]:
        async def retried(name: str, delay: float) -> None:
            answer = await retrying(lambda: service.ask(name), lambda: delay * (longer if service.gone else 1))
            service.log.append(answer)

        service.begin()
        await program(service, retried)
        return service.log

    def same_again(service: Service, path: Path) -> None:
        recorded_as_replayed(path, lambda: asyncio.run(run(service)), 3, service)

    for seed in range(replays):
        same_again(Service(seed, p=2, q=1), tmp_path / f"{seed}.yaml")


def test_what_sleeps_meanwhile_wakes_as_often(retrying: Any, tmp_path: Path) -> None:
    """Where nothing is recorded of an order, the sleeps of the program's own code pass as the wait does."""

    async def program(seconds: float) -> list[str]:
        log, refusals = list[str](), iter([True, False])

        async def attempt() -> None:
            if next(refusals):
                raise ConnectionError

        async def watch() -> None:
            for look in range(3):
                await asyncio.sleep(seconds)
                log.append(f"look {look}")

        async def retried() -> None:
            await retrying(attempt, lambda: 3.5 * seconds)
            log.append("tried again")

        await asyncio.gather(retried(), watch())
        return log

    path = tmp_path / "c.yaml"
    with use_cassette(path, mode="once"):
        asyncio.run(program(0))
    with use_cassette(path) as session:
        assert asyncio.run(program(HOUR)) == ["look 0", "look 1", "look 2", "tried again"]
    assert session.report.nondeterminism == ()


def test_a_wait_in_virtual_time(retrying: Any, tmp_path: Path) -> None:
    """With virtual time a wait takes its time, as every other one, and nobody waits for it."""
    service, path = Service(0, p=1), tmp_path / "c.yaml"
    service.begin()

    async def retried(seconds: float) -> None:
        service.log.append(await retrying(lambda: service.ask("p"), lambda: seconds))

    async def program() -> None:
        async def sleeping() -> None:
            await asyncio.sleep(HOUR / 2)
            service.log.append("slept")

        await asyncio.gather(retried(HOUR), sleeping())

    with use_cassette(path, mode="once"):
        asyncio.run(retried(0))
    service.log.clear()
    with use_cassette(path, pace="virtual"):
        asyncio.run(program())
    assert service.log == ["slept", "p!"]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("held", "limit"),
    [
        (lambda: time.sleep(0.05), 0.02),
        (lambda: subprocess.run(["sleep", "0.4"], timeout=9, check=True), 0.7),
    ],
    ids=["a sleep", "sleeps between looks at a process"],
)
def test_a_sleep_that_is_not_awaited_takes_its_time_for_the_loop(
    tmp_path: Path, held: Callable[[], object], limit: float
) -> None:
    """A replay skips a sleep that holds up the loop, and code that compares the loop's time with a deadline sees it."""
    service = Service(0)

    async def program() -> bool:
        async def held_up() -> bool:
            deadline = asyncio.get_running_loop().time() + limit
            await service.ask("a")
            held()
            return asyncio.get_running_loop().time() > deadline

        service.begin()
        late, _ = await asyncio.gather(held_up(), service.ask("b"))
        return late

    with use_cassette(tmp_path / "c.yaml", mode="all"):
        recorded = asyncio.run(program())
    service.gone = True
    for _ in range(2):
        with use_cassette(tmp_path / "c.yaml", allow_hosts={"subprocess"}) as replay:
            assert asyncio.run(program()) == recorded
        assert replay.report.nondeterminism == ()
