"""`async with use_cassette(...)` works in other loops than asyncio's."""

from __future__ import annotations

import asyncio
import functools
from pathlib import Path
from typing import Any

import anyio
import pytest

from agenttape_core import boundary, use_cassette
from agenttape_core.errors import CassetteMissError

pytestmark = pytest.mark.usefixtures("project")

trio = pytest.importorskip("trio")


@boundary("tool")
async def look(question: str) -> str:
    """Take a while to answer."""
    await anyio.sleep({"slow": 0.002, "endless": 60}.get(question, 0))
    return f"{question}!"


async def program(mode: str) -> dict[str, str]:
    """Make two calls side by side in a block."""
    answers = {}

    async def one(question: str) -> None:
        answers[question] = await look(question)

    async with use_cassette("c", mode=mode) as cassette, anyio.create_task_group() as group:
        group.start_soon(one, "slow")
        group.start_soon(one, "quick")
    assert len(cassette.report.replayed) == (2 if mode == "none" else 0)
    return answers


@pytest.mark.parametrize("backend", ["trio", "asyncio"])
@pytest.mark.parametrize("recorded_by", ["trio", "asyncio"])
def test_a_block_in_each_loop(backend: str, recorded_by: str) -> None:
    """A recording of one loop replays in the other, and in anyio's backends."""
    expected = {"slow": "slow!", "quick": "quick!"}
    assert anyio.run(program, "all", backend=recorded_by) == expected
    assert anyio.run(program, "none", backend=backend) == expected


def test_the_order_of_tasks_is_named() -> None:
    """A replay says that trio has an order of its own, unless its tasks made their calls one after another."""

    async def run(mode: str, name: str, *, beside: bool) -> tuple[str, ...]:
        async with use_cassette(name, mode=mode) as cassette, trio.open_nursery() as group:
            for question in ("slow", "quick"):
                group.start_soon(look, question) if beside else await look(question)
        return cassette.report.nondeterminism

    trio.run(functools.partial(run, "all", "beside", beside=True))
    trio.run(functools.partial(run, "all", "apart", beside=False))
    [said] = trio.run(functools.partial(run, "none", "beside", beside=True))
    assert said.startswith("trio ran calls side by side")
    assert trio.run(functools.partial(run, "none", "apart", beside=False)) == ()


def test_a_decorated_function() -> None:
    """A decorated coroutine function records the first time, and replays the second."""

    @use_cassette("c", mode="once")
    async def run() -> str:
        return await look("quick")

    assert trio.run(run) == trio.run(run) == "quick!"
    assert Path("cassettes/c.yaml").exists()


def test_a_miss_and_a_cancellation() -> None:
    """A swallowed miss fails the block, even if the block is cancelled since."""
    trio.run(program, "all")

    async def run() -> None:
        with trio.CancelScope() as scope:
            async with use_cassette("c", on_unused="ignore"):
                with pytest.raises(CassetteMissError):
                    await look("new")
                scope.cancel()
                await trio.sleep(1)

    with pytest.raises(CassetteMissError) as caught:
        trio.run(run)
    assert isinstance(caught.value.__cause__, trio.Cancelled)


def as_a_guest(code: Any, mode: str) -> Any:
    """Run a coroutine function in trio, beside a loop of asyncio in its thread."""

    async def host() -> Any:
        loop, ended = asyncio.get_running_loop(), asyncio.get_running_loop().create_future()
        trio.lowlevel.start_guest_run(
            code, mode, run_sync_soon_threadsafe=loop.call_soon_threadsafe, done_callback=ended.set_result
        )
        return (await ended).unwrap()

    return asyncio.run(host())


def test_a_loop_that_is_a_guest_of_asyncio() -> None:
    """It runs in a thread with a loop of asyncio, whose threads and futures it can't await."""
    for mode in ("all", "none"):
        assert as_a_guest(program, mode) == {"slow": "slow!", "quick": "quick!"}


@pytest.mark.slow
@pytest.mark.parametrize("is_guest", [False, True], ids=["alone", "guest"])
def test_a_call_that_was_cancelled_in_asyncio(*, is_guest: bool) -> None:
    """A replay in trio, alone or as a guest of asyncio, waits until the call is cancelled again, at any pace."""

    async def cut_short(mode: str, **options: Any) -> list[str]:
        """Make a call that a timeout cancels, and one that ends."""
        made = []
        async with use_cassette("c", mode=mode, **options):
            with anyio.move_on_after(0.1):
                await look("endless")
                made.append("it ended")
            made.append(await look("slow"))
        return made

    assert anyio.run(cut_short, "all") == ["slow!"]
    for options in ({}, {"pace": "recorded"}):
        replay = functools.partial(cut_short, **options)
        assert (as_a_guest(replay, "none") if is_guest else trio.run(replay, "none")) == ["slow!"]
