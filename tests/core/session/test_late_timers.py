from __future__ import annotations

import asyncio
import hashlib
import sys
import time
from collections.abc import Awaitable, Callable, Coroutine
from contextlib import nullcontext, suppress
from pathlib import Path
from typing import Any

import anyio
import pytest
import uvloop

from agenttape_core import boundary, use_cassette
from agenttape_core.scheduling import python_parts

from ...kit.replaying import recorded_as_replayed

LIMIT = 0.05
"""Seconds that each timer takes. The machine is held up for longer in the replay, and not in the recording."""


class World:
    """The outside, and the machine."""

    def __init__(self) -> None:
        self.gone = False
        self.ask = boundary("call", name="ask")(self._ask)
        self.hang = boundary("call", name="hang")(self._hang)

    def hold_up(self) -> None:
        """Hold the event loop up in a replay."""
        if self.gone:
            time.sleep(2 * LIMIT)

    def compute(self) -> None:
        """Compute for as long as that in a replay."""
        hashlib.pbkdf2_hmac("sha256", b"", b"", 400_000 if self.gone else 1)

    async def _ask(self, question: str) -> str:
        """Answer after a round of the loop."""
        assert not self.gone, "was reached"
        await asyncio.sleep(0)
        return f"{question}!"

    async def _hang(self, _: str) -> str:
        """Never answer."""
        assert not self.gone, "was reached"
        await asyncio.Event().wait()
        return ""


async def due_rounds_before_a_call(world: World) -> list[str]:
    """The timer is due some rounds of the loop before the call begins."""
    async with asyncio.timeout(LIMIT):
        world.hold_up()
        for _ in range(3):
            await asyncio.sleep(0)
        return [await world.ask("a"), await world.ask("b")]


async def due_before_another_timer(world: World) -> list[str]:
    """The timer is due before a shorter one, which was set later."""
    async with asyncio.timeout(LIMIT):
        world.hold_up()
        await asyncio.sleep(LIMIT / 10)
        return [await world.ask("a")]


async def due_before_a_thread_ends(world: World) -> list[str]:
    """The timer is due while a thread computes."""
    async with asyncio.timeout(LIMIT):
        await asyncio.to_thread(world.compute)
        return [await world.ask("a")]


async def due_before_a_scope_is_entered(world: World) -> list[str]:
    """The deadline of a scope of anyio has passed when it's entered."""
    scope = anyio.move_on_after(LIMIT)
    world.hold_up()
    with scope:
        await asyncio.sleep(0)
        return [await world.ask("a")]
    return ["late"]


async def due_before_a_scope_with_a_new_deadline_is_entered(world: World) -> list[str]:
    """So has one that was set in place of another."""
    scope = anyio.CancelScope()
    scope.deadline = anyio.current_time() + LIMIT
    world.hold_up()
    with scope:
        await asyncio.sleep(0)
        return [await world.ask("a")]
    return ["late"]


async def due_within_a_scope(world: World) -> list[str]:
    """The deadline passes within the scope, before its call begins."""
    with anyio.fail_after(LIMIT):
        world.hold_up()
        await asyncio.sleep(0)
        return [await world.ask("a")]


PROGRAMS = [
    due_rounds_before_a_call,
    due_before_another_timer,
    due_before_a_thread_ends,
    due_before_a_scope_is_entered,
    due_before_a_scope_with_a_new_deadline_is_entered,
    due_within_a_scope,
]


async def outcome(program: Callable[[World], Awaitable[list[str]]], world: World) -> list[str]:
    """Return what a program returns, or that it was late."""
    await world.ask("warm")  # what a first call loads takes longer than the limit
    try:
        return await program(world)
    except TimeoutError:
        return ["timed out"]


Run = Callable[[Coroutine[Any, Any, Any]], Any]
each_loop = pytest.mark.parametrize("run", [asyncio.run, uvloop.run], ids=["asyncio", "uvloop"])


@each_loop
@pytest.mark.parametrize("program", PROGRAMS, ids=lambda program: program.__name__)
def test_a_machine_that_is_held_up_takes_no_other_path(
    program: Callable[[World], Awaitable[list[str]]], run: Run, tmp_path: Path
) -> None:
    """A replay that is held up for longer than a timer takes has the recorded outcome."""
    world = World()
    recorded_as_replayed(tmp_path / "c.yaml", lambda: run(outcome(program, world)), 1, world)


@each_loop
def test_scopes_of_anyio_that_time_out_do_so_again(run: Run, tmp_path: Path) -> None:
    """Scopes whose deadline passed while a call hung end again, whatever the time of the loop is; those of 0 s, too."""

    async def program(world: World) -> list[str]:
        log = list[str]()
        with anyio.move_on_after(0):
            await asyncio.sleep(0)
            log.append("continued")
        with anyio.move_on_after(LIMIT) as scope:
            await world.hang("a")
        log.append(f"moved on {scope.cancelled_caught}")
        try:
            with anyio.fail_after(LIMIT):
                await world.hang("b")
        except TimeoutError:
            log.append("timed out")
        return log

    world = World()
    found = recorded_as_replayed(tmp_path / "c.yaml", lambda: run(outcome(program, world)), 1, world)
    assert found == ["moved on True", "timed out"]


@each_loop
@pytest.mark.parametrize("made", [asyncio.timeout_at, lambda end: anyio.CancelScope(deadline=end)])
def test_timeouts_over_before_their_block(made: Callable[[float], Any], run: Run, tmp_path: Path) -> None:
    """A timeout that is used up before its block begins ends the block, as it does without a session."""

    async def program(world: World) -> list[str]:
        limit = made(asyncio.get_running_loop().time() + LIMIT / 10)
        await asyncio.sleep(LIMIT / 5)
        log = [await world.ask("a")]
        with limit if isinstance(limit, anyio.CancelScope) else suppress(TimeoutError):
            async with nullcontext() if isinstance(limit, anyio.CancelScope) else limit:
                log.append(await world.ask("b"))
        return log

    world = World()
    plain = run(program(world))
    assert plain == recorded_as_replayed(tmp_path / "c.yaml", lambda: run(program(world)), 3, world) == ["a!"]


@each_loop
def test_timers_of_less_than_a_millisecond(run: Run, tmp_path: Path) -> None:
    """Short sleeps in parallel end in their order, though uvloop calls what takes so little in its next round."""

    async def program(world: World) -> list[str]:
        log = list[str]()

        async def one(number: int) -> None:
            await asyncio.sleep(0.0001)
            log.append(str(number))

        await asyncio.gather(*map(one, range(3)))
        return [*log, await world.ask("a")]

    world = World()
    found = recorded_as_replayed(tmp_path / "c.yaml", lambda: run(program(world)), 2, world)
    assert found == ["0", "1", "2", "a!"]


@each_loop
def test_a_scope_that_cancels_waits_for_no_timer_that_is_gone(run: Run, tmp_path: Path) -> None:
    """A replay that lacks a recorded timer names it, and continues, though a scope cancels in each round till then."""

    async def program(world: World) -> list[str]:
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(world.hang, "a")
            await asyncio.sleep(0)
            if not world.gone:
                await asyncio.sleep(LIMIT / 10)
            tasks.cancel_scope.cancel()
        return [await world.ask("b")]

    world = World()
    with use_cassette(tmp_path / "c.yaml", mode="all"):
        recorded = run(program(world))
    world.gone = True
    with use_cassette(tmp_path / "c.yaml") as replay:
        assert run(program(world)) == recorded
    assert replay.report.nondeterminism == ("L~ did not come before hang$, as it did in the recording",)


@each_loop
@pytest.mark.parametrize("scope", [anyio.move_on_after, anyio.fail_after])
def test_scopes_held_up_as_they_are_made(run: Run, scope: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A replay that is held up between the moment and the making of a scope has the recorded outcome."""
    world, of_anyio = World(), sys.modules["anyio._backends._asyncio"].AsyncIOBackend
    real = of_anyio.current_time

    def current_time() -> float:
        now: float = real()
        world.hold_up()
        return now

    async def program() -> list[str]:
        with scope(LIMIT):
            return [await world.ask("a"), await world.ask("b")]
        return ["timed out"]

    monkeypatch.setattr(of_anyio, "current_time", current_time)
    recorded_as_replayed(tmp_path / "c.yaml", lambda: run(program()), 1, world)


def test_another_anyio_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A session warns of a version of anyio whose timers it doesn't know, and leaves them alone."""
    scope = type("CancelScope", (), {"_timeout": lambda self: None})
    monkeypatch.setattr("anyio._backends._asyncio.CancelScope", scope)
    monkeypatch.setattr(python_parts, "UNKNOWN", {})
    with (
        pytest.warns(RuntimeWarning, match="anyio .* has another timer in its scopes than is known"),
        use_cassette(tmp_path / "c.yaml", mode="once"),
    ):
        pass
    assert {"__init__", "deadline"}.isdisjoint(vars(scope))


class Both:
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


async def answered_at_once(world: Both) -> list[str]:
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


async def ends_after_rounds(world: Both) -> list[str]:
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
def test_what_a_scope_cancels_ends_as_it_did(
    program: Callable[[Both], Coroutine[Any, Any, list[str]]], tmp_path: Path
) -> None:
    """What a scope finds answered is not cancelled, and what it cancels ends between the same steps."""
    world = Both()
    recorded_as_replayed(tmp_path / "c.yaml", lambda: asyncio.run(program(world)), 3, world)
