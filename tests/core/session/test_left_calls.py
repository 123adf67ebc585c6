"""Calls that never end in a recording: tasks that are left in a loop which stops, or runs on in another thread."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator, Callable, Coroutine, Iterator
from contextlib import contextmanager, nullcontext
from pathlib import Path
from typing import Any

import pytest

from agenttape_core import boundary, open_cassette, use_cassette
from agenttape_core.errors import AfterRecordingWarning

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

    with use_cassette(tmp_path / "c.yaml", mode="all"):
        assert asyncio.run(ask()) == "asked"
    with use_cassette(tmp_path / "c.yaml"):
        assert asyncio.run(ask()) == "asked"


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
