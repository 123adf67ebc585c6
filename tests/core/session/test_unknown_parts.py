from __future__ import annotations

import asyncio
import os
import select
import subprocess
import sys
from collections import deque
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextvars import Context
from pathlib import Path
from textwrap import dedent
from time import monotonic
from typing import Any

import pytest

from agenttape_core import boundary, use_cassette
from agenttape_core.scheduling import python_parts

LINE = "Python {}.{}.{} has another {} than is known"


@pytest.mark.process
@pytest.mark.parametrize(
    ("changed", "part"),
    [
        ("class", "class of the work of pools"),
        ("way", "way to begin the threads of pools"),
        ("loop", f"event loop ({asyncio.SelectorEventLoop.__module__}.{asyncio.SelectorEventLoop.__qualname__})"),
        ("nothing", ""),
    ],
)
def test_a_part_of_another_shape_is_named_once(changed: str, part: str, tmp_path: Path) -> None:
    """A process warns once and runs as ever; a replay that needs the part names it, with the version."""
    program = dedent("""
        import asyncio, sys, threading, warnings
        from concurrent.futures import ThreadPoolExecutor
        from concurrent.futures import thread as pools

        class Work(pools._WorkItem):
            def __init__(self, later, *args):
                super().__init__(later, *args)

        def begin(*args):
            pass

        if sys.argv[1] == "class":
            pools._WorkItem = Work
        begin.__module__ = pools.__name__ if sys.argv[1] == "way" else __name__

        from agenttape_core import boundary, use_cassette
        from agenttape_core.scheduling import loops

        if sys.argv[1] == "loop":
            loops.is_seen = lambda loop: False  # as if asyncio had other names

        @boundary("tool")
        def look(city):
            return city + "!"

        @boundary("tool")
        async def alook(city):
            return city + "!"

        async def both():
            return await asyncio.gather(alook("Paris"), alook("Rome"), alook("Oslo"))

        def program():
            if sys.argv[1] == "loop":
                return asyncio.run(both())
            thread = threading.Thread(target=begin, args=(1, 2))
            thread.start()
            thread.join()
            with ThreadPoolExecutor(2) as pool:
                return list(pool.map(look, ["Paris", "Rome", "Oslo"]))

        with warnings.catch_warnings(record=True) as warned:
            warnings.simplefilter("always")
            for mode in ("once", "replay", "replay"):
                with use_cassette("c", mode=mode) as session:
                    assert program() == ["Paris!", "Rome!", "Oslo!"]
        print([str(each.message).partition(":")[0] for each in warned if each.category is RuntimeWarning])
        print([line.partition(":")[0] for line in session.report.nondeterminism])
    """)

    run = [sys.executable, "-c", program, changed]
    printed = subprocess.run(run, cwd=tmp_path, capture_output=True, text=True, check=True, timeout=60).stdout
    line = LINE.format(*sys.version_info[:3], part)
    assert printed.splitlines() == [str([line] if part else [])] * 2


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


def test_a_call_may_wait_for_a_thread(tmp_path: Path, request: pytest.FixtureRequest) -> None:
    """While a call is awaited in a loop of another package, a thread of a pool continues, and the call may need it."""
    request.addfinalizer(python_parts.UNKNOWN.clear)  # or later sessions of this process would name the loop
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

    with (  # noqa: PT031 - the warning comes once
        pytest.warns(RuntimeWarning, match="another event loop .* than is known: its tasks have no order"),
    ):
        for mode in ("record", "replay"):
            with use_cassette(tmp_path / "c.yaml", mode=mode) as session:
                assert Foreign().run_until_complete(program()) == ["loop?", "thread!"]
            is_gone = True
    assert any("its tasks have no order" in line for line in session.report.nondeterminism)
