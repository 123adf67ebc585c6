"""An event loop of another package, whose callbacks and waits can't be seen: its threads aren't held up."""

from __future__ import annotations

import asyncio
import os
import select
from collections import deque
from collections.abc import Callable, Coroutine, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextvars import Context
from pathlib import Path
from time import monotonic
from typing import Any

import pytest

from agenttape_core import boundary, use_cassette
from agenttape_core.scheduling import python_parts

LIMIT = 20.0
"""Seconds after which a wait is over that another thread ends."""


class Foreign(asyncio.AbstractEventLoop):
    """A loop that waits in C code, as those of rloop and winloop do."""

    def __init__(self) -> None:
        self._ready: deque[asyncio.Handle] = deque()
        self._reads, self._writes = os.pipe()
        self._pool = ThreadPoolExecutor()

    def get_debug(self) -> bool:
        return False

    is_closed = get_debug

    def time(self) -> float:
        return monotonic()

    def call_soon(self, callback: Callable[..., object], *args: Any, context: Context | None = None) -> asyncio.Handle:
        handle = asyncio.Handle(callback, args, self, context)
        self._ready.append(handle)
        os.write(self._writes, b".")
        return handle

    call_soon_threadsafe = call_soon

    def create_future(self) -> asyncio.Future[Any]:
        return asyncio.Future(loop=self)

    def create_task(self, coro: Any, **options: Any) -> asyncio.Task[Any]:
        return asyncio.Task(coro, loop=self, **options)

    def run_in_executor(self, _: Any, func: Callable[..., Any], *args: Any) -> Any:
        return asyncio.wrap_future(self._pool.submit(func, *args), loop=self)

    def run_until_complete(self, future: Any) -> Any:
        until = monotonic() + LIMIT
        asyncio._set_running_loop(self)
        try:
            task = self.create_task(future)
            while not task.done():
                assert select.select([self._reads], [], [], max(0.0, until - monotonic()))[0], "waited in vain"
                os.read(self._reads, 1)
                self._ready.popleft()._run()
            return task.result()
        finally:
            asyncio._set_running_loop(None)
            self._pool.shutdown()
            os.close(self._reads)
            os.close(self._writes)


def run(program: Coroutine[Any, Any, Any]) -> Any:
    """Run a program in such a loop."""
    return Foreign().run_until_complete(program)


@pytest.fixture(autouse=True)
def _is_new() -> Iterator[None]:
    """Forget the loop afterwards: later sessions of this process would name it."""
    with pytest.warns(RuntimeWarning, match="another event loop .* than is known: its tasks have no order"):
        yield
    python_parts.UNKNOWN.clear()


def test_a_call_may_wait_for_a_thread(tmp_path: Path) -> None:
    """While a call is awaited there, a thread of a pool continues, and the call may need it."""
    is_gone = False

    async def program() -> list[str]:
        loop, may_answer = asyncio.get_running_loop(), asyncio.Event()

        @boundary("call")
        def look(question: str) -> str:
            assert not is_gone
            return f"{question}!"

        @boundary("call")
        async def ask(question: str) -> str:
            assert not is_gone
            await may_answer.wait()
            return f"{question}?"

        def work() -> str:
            answer = look("thread")
            loop.call_soon_threadsafe(may_answer.set)
            return answer

        return await asyncio.gather(ask("loop"), asyncio.to_thread(work))

    with use_cassette(tmp_path / "c.yaml", mode="once"):
        assert run(program()) == ["loop?", "thread!"]
    is_gone = True
    with use_cassette(tmp_path / "c.yaml") as session:
        assert run(program()) == ["loop?", "thread!"]
    assert any("its tasks have no order" in line for line in session.report.nondeterminism)
