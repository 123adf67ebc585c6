"""Let what a replay answers be cancelled, or come too late, as it did when it was recorded.

A call that was cancelled waits until the program cancels it again. A synchronous call can't be cancelled: when a
timeout fires around `asyncio.to_thread`, `run_in_executor` or `Future.result`, the work continues in its thread, and
the program doesn't wait for it any more. What such a call returns then comes too late, so in a replay it must come too
late as well: it waits until the program gives it up again.
"""

from __future__ import annotations

import asyncio
import functools
import threading
from collections.abc import Callable, Collection, Iterator
from contextlib import ExitStack, contextmanager, suppress
from time import monotonic
from typing import Any

from agenttape_core.scheduling.clock import Ending, LoopClock, Waiter, real_timer, resolve
from agenttape_core.scheduling.handles import timers_of_ours
from agenttape_core.scheduling.participants import trio_here
from agenttape_core.scheduling.stalls import Lateness
from agenttape_core.scheduling.thread_starts import current_work

_POLL = 0.005
"""Seconds between two looks of code that trio runs."""


def is_cancellation_requested() -> bool:
    """True if the cancellation that the caller handles was requested of its task.

    Otherwise the code that it called has raised a `CancelledError` of its own, such as that of a future it awaited.
    """
    try:
        task = asyncio.current_task()
    except RuntimeError:  # no loop runs in this thread
        return False
    return task is not None and task.cancelling() > 0


async def until_cancelled(ending: Ending, *, passes_time: bool) -> None:
    """Wait until the task of the caller is cancelled. Return if nothing will do so any more.

    Args:
        ending: The time to wait.
        passes_time: Whether the clock of the loop may pass to its next timer, instead of waiting for it.
    """
    if (trio := trio_here()) is not None:
        await trio.sleep(ending.longest)
        return
    loop = asyncio.get_running_loop()
    if passes_time and isinstance(loop, asyncio.BaseEventLoop):  # others keep their timers to themselves
        await LoopClock.of(loop).wait(ending)
        return
    is_over = loop.create_future()
    with timers_of_ours():
        timer = loop.call_later(ending.longest, resolve, is_over)
    try:
        await is_over
    finally:
        timer.cancel()


@contextmanager
def ending_after(ending: Ending, loop: asyncio.AbstractEventLoop, end: Callable[[], object]) -> Iterator[None]:
    """Call this when nothing will come any more, unless the block has ended before; see `real_timer`.

    Args:
        ending: The time for which the caller waits.
        loop: The loop of the caller.
        end: Called in the loop.
    """
    late, timers = Lateness(), list[asyncio.TimerHandle]()

    def look() -> None:
        more = 0.0 if _stands_still(loop) else late.more()
        if more:
            timers.append(real_timer(loop, more, look))
        else:
            end()

    timers.append(real_timer(loop, ending.longest, look))
    try:
        yield
    finally:
        timers[-1].cancel()


async def comes_yet(tasks: Collection[asyncio.Future[Any]]) -> bool:
    """Wait until one of some tasks is done, and return True; return False if it takes so long that none will be.

    That takes real time. By the recorded time, a timer of a second comes before the answer of a slow model.
    """
    loop, ending, began = asyncio.get_running_loop(), Ending(0.0, 0.0), monotonic()
    while not any(task.done() for task in tasks) and monotonic() - began < ending.longest:  # else it came early
        over = loop.create_future()
        with ending_after(ending, loop, functools.partial(resolve, over)):
            await asyncio.wait({*tasks, over}, return_when=asyncio.FIRST_COMPLETED)
    return any(task.done() for task in tasks)


@contextmanager
def passing_time(loop: asyncio.AbstractEventLoop, ending: Ending, pool: Any) -> Iterator[None]:
    """Let the clock of an idle loop pass to its next timer, while a thread is inside.

    Args:
        loop: The loop, of another thread.
        ending: The time for which the caller waits.
        pool: The pool whose thread the caller is: while it waits, it does no work for the loop.
    """
    if not isinstance(loop, asyncio.BaseEventLoop):  # others keep their timers to themselves
        yield
        return
    waiter = Waiter(ending, pool=pool)
    with suppress(RuntimeError):  # the loop is closed
        loop.call_soon_threadsafe(lambda: LoopClock.of(loop).begin(waiter))
    try:
        yield
    finally:
        with suppress(RuntimeError):
            loop.call_soon_threadsafe(lambda: LoopClock.of(loop).end(waiter))


def _stands_still(loop: asyncio.AbstractEventLoop) -> bool:
    return isinstance(loop.time, LoopClock) and loop.time.stands_still


def until_abandoned(ending: Ending, *, passes_time: bool, over: threading.Event | None = None) -> bool:
    """Wait until the work of the caller's thread is given up; false if nothing waits for it, or does so for too long.

    Args:
        ending: The time to wait.
        passes_time: Whether the clocks of the event loops that wait for it may pass to their next timers.
        over: Set where the caller need not wait any more either: as good as given up.
    """
    is_over = over if over is not None else threading.Event()
    with _listening(is_over.set, ending, passes_time=passes_time) as is_awaited:
        if not is_awaited:
            return False
        late, seconds = Lateness(), ending.longest
        while seconds and not is_over.wait(seconds):
            seconds = late.more()
        return is_over.is_set()


async def auntil_abandoned(ending: Ending, *, passes_time: bool) -> bool:
    """Like `until_abandoned`, in an event loop that runs in such a thread."""
    if (trio := trio_here()) is not None:
        until, is_over = monotonic() + ending.longest, threading.Event()
        with _listening(is_over.set, ending, passes_time=passes_time) as is_awaited:
            while is_awaited and not is_over.is_set() and monotonic() < until:
                await trio.sleep(_POLL)
            return is_over.is_set()
    loop = asyncio.get_running_loop()
    over: asyncio.Future[bool] = loop.create_future()

    def end(*, is_abandoned: bool) -> None:
        if not over.done():
            over.set_result(is_abandoned)

    def give_up() -> None:
        with suppress(RuntimeError):  # the loop is closed
            loop.call_soon_threadsafe(functools.partial(end, is_abandoned=True))

    with _listening(give_up, ending, passes_time=passes_time) as is_awaited:
        if not is_awaited:
            return False
        with ending_after(ending, loop, functools.partial(end, is_abandoned=False)):
            return await over


@contextmanager
def _listening(listener: Callable[[], None], ending: Ending, *, passes_time: bool) -> Iterator[bool]:
    """Call this when the work of the caller is given up; true if the caller does such work."""
    works = [*current.outwards()] if (current := current_work()) is not None else []
    with ExitStack() as stack:
        for work in works:
            work.listen(listener)
            if passes_time and work.loop is not None:
                stack.enter_context(passing_time(work.loop, ending, work.pool))
        yield bool(works)
