"""Calls that never end in a recording: tasks that are left in a loop which stops, or runs on in another thread."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import AsyncIterator, Callable, Coroutine, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, nullcontext
from contextvars import copy_context
from itertools import chain, repeat
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest

from agenttape_core import boundary, open_cassette, use_cassette
from agenttape_core.errors import AfterRecordingWarning

from ...kit.replaying import recorded_as_replayed

executed: list[str] = []


@boundary("chat")
async def chat(text: str) -> str:
    """Answer, or never."""
    executed.append(text)
    if text.startswith("left"):
        await asyncio.Event().wait()
    return text


@boundary("chat", name="stream")
async def stream(text: str) -> AsyncIterator[str]:
    """Answer one chunk, and never another."""
    executed.append(text)
    yield "one"
    await asyncio.Event().wait()
    yield "two"


@boundary("tool")
async def work(text: str) -> str:
    """Ask within."""
    return await chat(f"left in {text}")


async def _read(text: str) -> None:
    async for _ in stream(text):
        pass


LEFT: dict[str, Callable[[], Coroutine[Any, Any, Any]]] = {
    "call": lambda: chat("left"),
    "tool": lambda: work("tool"),
    "stream": lambda: _read("left stream"),
}


@pytest.mark.parametrize("kind", LEFT)
def test_left_call_is_recorded_and_named(kind: str, tmp_path: Path) -> None:
    """What hadn't ended is recorded as such, with a warning that names it, and a replay asks for it without a miss."""

    @contextmanager
    def background() -> Iterator[Callable[[Coroutine[Any, Any, Any]], Any]]:
        """Run coroutines in a loop of another thread, as synchronous wrappers do; cancel what's left at the end."""
        loop = asyncio.new_event_loop()
        thread = threading.Thread(target=loop.run_forever, daemon=True)
        thread.start()
        yield lambda coroutine: asyncio.run_coroutine_threadsafe(coroutine, loop).result()

        async def cancel() -> None:
            left = [task for task in asyncio.all_tasks() if task is not asyncio.current_task()]
            for task in left:
                task.cancel()
            await asyncio.gather(*left, return_exceptions=True)

        asyncio.run_coroutine_threadsafe(cancel(), loop).result()
        loop.call_soon_threadsafe(loop.stop)
        thread.join()
        loop.close()

    async def ask(tasks: list[Any]) -> str:
        tasks.append(asyncio.create_task(LEFT[kind]()))
        for _ in range(5):
            await asyncio.sleep(0)
        return await chat("asked")

    def run(mode: str) -> str:
        tasks: list[Any] = []
        with background() as submit, use_cassette(tmp_path / "c.yaml", mode=mode) as session:
            said: str = submit(ask(tasks))
        if mode == "none":
            assert not session.report.missed
            assert not session.report.unused
        return said

    # A stream that is left is recorded as closed, as everywhere.
    expected = pytest.warns(AfterRecordingWarning, match="had not ended when the recording did")
    with expected if kind != "stream" else nullcontext():
        assert run("all") == "asked"
    del executed[:]
    for _ in range(2):
        assert run("none") == "asked"
    assert executed == []
    statuses = [each.outcome.status for each in open_cassette(tmp_path / "c.yaml").interactions()]
    assert len(statuses) == (3 if kind == "tool" else 2)


def test_call_that_is_cancelled_gives_no_warning(tmp_path: Path) -> None:
    """`asyncio.run` cancels what is left, so that is recorded as cancelled, and nothing is said."""

    async def ask() -> str:
        task = asyncio.create_task(chat("left"))
        await asyncio.sleep(0)
        assert not task.done()
        return await chat("asked")

    assert recorded_as_replayed(tmp_path / "c.yaml", lambda: asyncio.run(ask()), 1) == "asked"


@pytest.mark.parametrize("kind", ["call", "tool"])
def test_call_that_a_thread_is_in_is_named(kind: str, tmp_path: Path) -> None:
    """A call that still holds up a thread at the end isn't recorded, so the recording says that a replay misses it."""
    begun, may_end = threading.Event(), threading.Event()

    @boundary("chat")
    def slow(text: str) -> str:
        begun.set()
        may_end.wait()
        return text

    @boundary("tool")
    def around(text: str) -> str:
        return slow(text)

    thread = threading.Thread(target=slow if kind == "call" else around, args=("left",))
    with (  # noqa: PT031 - the warning comes at the end of the session
        pytest.warns(AfterRecordingWarning, match="so a replay misses it\n  join its thread"),
        use_cassette(tmp_path / "c.yaml", mode="all"),
    ):
        thread.start()
        begun.wait()
    may_end.set()
    thread.join()


REPLAYS = 5


def cancelled_by_loop(threads: int) -> list[str]:
    """Cancel work in a loop, for which a pool of one thread has no thread."""
    out: list[str] = []
    release = threading.Event()

    async def program() -> None:
        with ThreadPoolExecutor(threads) as pool:
            run = asyncio.get_running_loop().run_in_executor
            first, late = run(pool, release.wait), run(pool, out.append, "late")
            await asyncio.sleep(0.001)
            late.cancel()
            await asyncio.sleep(0)
            release.set()
            await first
            out.append("first")

    asyncio.run(program())
    return out


def cancelled_by_thread(threads: int) -> list[str]:
    """Do the same without a loop."""
    out: list[str] = []
    release = threading.Event()
    with ThreadPoolExecutor(threads) as pool:
        first, late = pool.submit(release.wait), pool.submit(out.append, "late")
        time.sleep(0.001)
        out.append(f"cancelled: {late.cancel()}")
        release.set()
        first.result()
    return out


@pytest.mark.parametrize("program", [cancelled_by_loop, cancelled_by_thread], ids=lambda program: program.__name__)
def test_work_that_had_not_begun_when_it_was_cancelled_does_not_begin(program: Callable[[int], list[str]]) -> None:
    """However quick the threads of a replay are."""
    threads = chain([1], repeat(2))
    assert "late" not in recorded_as_replayed(Path("c.yaml"), lambda: program(next(threads)), REPLAYS)


def test_what_nobody_waits_for_is_done_before_the_session_ends() -> None:
    """Afterwards its time and ids would be real."""

    def draws() -> list[object]:
        """Draw an id and the time."""
        return [uuid4(), time.time()]

    with ThreadPoolExecutor(1) as pool:
        with use_cassette("c", mode="all"):
            work = pool.submit(copy_context().run, draws)
        recorded = work.result()
        for _ in range(REPLAYS):
            with use_cassette("c") as session:
                work = pool.submit(copy_context().run, draws)
            assert work.result() == recorded
            assert session.report.nondeterminism == ()
