"""Work in threads that is cancelled, or that nobody waits for, has come as far in a replay as when it was recorded."""

from __future__ import annotations

import asyncio
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from contextvars import copy_context
from uuid import uuid4

import pytest

from agenttape_core import use_cassette

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
def test_work_that_had_not_begun_when_it_was_cancelled_does_not_begin(program: object) -> None:
    """However quick the threads of a replay are."""
    assert callable(program)
    with use_cassette("c", mode="all"):
        recorded = program(1)
    assert "late" not in recorded
    for _ in range(REPLAYS):
        with use_cassette("c") as session:
            assert program(2) == recorded
        assert session.report.nondeterminism == ()


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
