"""Scopes of anyio cancel their tasks in each round of the loop until they have ended: so does a replay."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import anyio
import pytest

from agenttape_core import boundary, use_cassette

Ask = Callable[[str], Awaitable[str]]


class World:
    """The outside. It answers two questions at the same moment, and takes its time to end what is cancelled."""

    def __init__(self) -> None:
        self.gone = False
        self._asked = 0
        self._both = asyncio.Event()

    async def at_once(self, question: str) -> str:
        """Answer when two have asked."""
        assert not self.gone, "was reached"
        self._asked += 1
        if self._asked == 2:
            asyncio.get_running_loop().call_soon(self._both.set)
        await self._both.wait()
        return f"{question}!"

    async def never(self, rounds: str) -> str:
        """Do not answer; when cancelled, end after some rounds of the loop."""
        assert not self.gone, "was reached"
        try:
            await asyncio.Event().wait()
        finally:
            with anyio.CancelScope(shield=True):
                for _ in range(int(rounds)):
                    await asyncio.sleep(0)
        return ""


async def answered_at_once(world: World) -> list[str]:
    """The first answer cancels the scope; the second is there already, so its task goes on."""
    ask, log = boundary(world.at_once), list[str]()

    async def first(scope: anyio.CancelScope) -> None:
        log.append(await ask("first"))
        scope.cancel()

    async def second() -> None:
        try:
            log.append(await ask("second"))
        except asyncio.CancelledError:
            log.append("second was cancelled")
            raise

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(first, tasks.cancel_scope)
        tasks.start_soon(second)
    return log


async def ends_after_rounds(world: World) -> list[str]:
    """Calls that were cancelled end one after the other, while a task outside of the scope counts the rounds."""
    ask, log = boundary(world.never), list[str]()

    async def asks(rounds: str) -> None:
        try:
            await ask(rounds)
        finally:
            log.append(f"{rounds} has ended")

    async def counts() -> None:
        for number in range(8):
            await asyncio.sleep(0)
            log.append(f"round {number}")

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(asks, "2")
        tasks.start_soon(asks, "5")
        counting = asyncio.create_task(counts())
        await asyncio.sleep(0)
        tasks.cancel_scope.cancel()
    await counting
    return log


@pytest.mark.parametrize("program", [answered_at_once, ends_after_rounds], ids=lambda program: program.__name__)
def test_what_a_scope_cancels_ends_as_it_did(program: Callable[[World], Awaitable[Any]], tmp_path: Path) -> None:
    """What a scope finds answered is not cancelled, and what it cancels ends between the same steps."""

    async def main(world: World) -> Any:
        return await program(world)

    with use_cassette(tmp_path / "c.yaml", mode="once"):
        recorded = asyncio.run(main(World()))
    for _ in range(3):
        world = World()
        world.gone = True
        with use_cassette(tmp_path / "c.yaml") as session:
            assert asyncio.run(main(world)) == recorded
        assert session.report.nondeterminism == ()
