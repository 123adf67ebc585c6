"""A wait between two attempts is not waited in a replay, and comes in its turn all the same."""

from __future__ import annotations

import asyncio
import random
import sys
import types
from collections.abc import Awaitable, Callable
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from agenttape_core import boundary, use_cassette
from agenttape_core.integration.patching import register_backoff

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
        self._random = random.Random(seed)
        self._refusals = refusals
        self._left: dict[str, int] = {}

    @property
    def ask(self) -> Callable[[str], Awaitable[str]]:
        """Answers, or refuses."""
        self._left = dict(self._refusals)

        @boundary
        async def ask(name: str) -> str:
            assert not self.gone, "was reached"
            await asyncio.sleep(self._random.choice((0, 0.001, 0.002)))
            if self._left.get(name, 0):
                self._left[name] -= 1
                raise ConnectionError(name)
            return f"{name}!"

        return ask


Program = Callable[[Service, Any, float], Awaitable[Any]]


async def asking(ask: Any, name: str, log: list[str]) -> None:
    """Ask again and again."""
    for turn in range(6):
        answer = await ask(f"{name}{turn}")
        log.append(answer)


async def trying(ask: Any, retrying: Any, log: list[str], name: str, delay: float, *, longer: float) -> None:
    """Ask, and try again after a while."""
    log.append(await retrying(lambda: ask(name), lambda: delay * longer))


async def beside_calls(service: Service, retrying: Any, longer: float) -> Any:
    """Try again beside tasks that go on asking."""
    log: list[str] = []
    ask = service.ask
    retried = partial(trying, ask, retrying, log, longer=longer)
    await asyncio.gather(retried("p", 0.002), asking(ask, "a", log), retried("q", 0.003), asking(ask, "b", log))
    return log


async def after_calls(service: Service, retrying: Any, longer: float) -> Any:
    """Try two things again that have failed at the same time; one goes on asking, and comes to the other's turn."""
    log: list[str] = []
    ask = service.ask
    retried = partial(trying, ask, retrying, log, longer=longer)

    async def going_on() -> None:
        await retried("p", 0.001)
        await asking(ask, "a", log)

    await asyncio.gather(going_on(), retried("q", 0.01))
    return log


async def beside_sleeps(service: Service, retrying: Any, longer: float) -> Any:
    """Try again beside a task that sleeps by itself, and one that asks."""
    log: list[str] = []
    ask = service.ask
    retried = partial(trying, ask, retrying, log, longer=longer)

    async def sleeping() -> None:
        for turn in range(4):
            await asyncio.sleep(0.0015)
            log.append(f"slept {turn}")

    await asyncio.gather(asking(ask, "a", log), retried("p", 0.002), sleeping(), retried("q", 0.001))
    return log


async def beside_threads(service: Service, retrying: Any, longer: float) -> Any:
    """Try again beside a task that works in threads, and one that asks."""
    log: list[str] = []
    ask = service.ask
    retried = partial(trying, ask, retrying, log, longer=longer)

    async def working() -> None:
        for turn in range(3):
            done = await asyncio.to_thread(str, turn)
            log.append(done)

    await asyncio.gather(working(), asking(ask, "a", log), retried("p", 0.002), retried("q", 0.001))
    return log


@pytest.mark.parametrize(
    "program", [beside_calls, after_calls, beside_sleeps, beside_threads], ids=lambda program: program.__name__
)
@pytest.mark.parametrize("longer", [1, 1e6], ids=["as long", "for hours"])
def test_a_wait_comes_in_the_recorded_order(
    program: Program, longer: float, retrying: Any, tmp_path: Path, replays: int
) -> None:
    """What is tried again goes on where it did in the recording, however long the wait would be."""
    for seed in range(replays):
        service, path = Service(seed, p=2, q=1), tmp_path / f"{seed}.yaml"
        with use_cassette(path, mode="once"):
            recorded = asyncio.run(program(service, retrying, 1))  # type: ignore[arg-type]
        service.gone = True
        for _ in range(3):
            with use_cassette(path) as session:
                assert asyncio.run(program(service, retrying, longer)) == recorded  # type: ignore[arg-type]
            assert session.report.nondeterminism == ()


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

    async def program(ask: Any) -> list[str]:
        log: list[str] = []

        async def retried() -> None:
            log.append(await retrying(lambda: ask("p"), lambda: HOUR))

        async def sleeping() -> None:
            await asyncio.sleep(HOUR / 2)
            log.append("slept")

        await asyncio.gather(retried(), sleeping())
        return log

    service, path = Service(0, p=1), tmp_path / "c.yaml"

    async def recorded() -> None:
        ask = service.ask
        await retrying(lambda: ask("p"), lambda: 0)

    with use_cassette(path, mode="once"):
        asyncio.run(recorded())
    with use_cassette(path, pace="virtual"):
        assert asyncio.run(program(service.ask)) == ["slept", "p!"]
