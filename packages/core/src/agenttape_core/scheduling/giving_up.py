"""Work in threads, and whether those who wait for it have given it up.

A synchronous call cannot be cancelled. When a timeout fires around `asyncio.to_thread`, `run_in_executor` or
`Future.result`, the work goes on in its thread, and nobody waits for it any more. What such a call returns then comes
too late for the program, so in a replay it must come too late as well: it waits until the program gives it up again.
"""

from __future__ import annotations

import asyncio
import functools
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from contextlib import ExitStack, contextmanager, suppress
from time import monotonic
from typing import Any
from weakref import ref

from agenttape_core.locks import Lock
from agenttape_core.scheduling.cancellation import Ending, ending_after, passing_time
from agenttape_core.scheduling.executing import runs_outside_program
from agenttape_core.scheduling.holder import Lateness
from agenttape_core.scheduling.python_parts import WORK_ITEM
from agenttape_core.scheduling.strands import OVER, Strand, begun_here, trio_here

_POLL = 0.005
"""Seconds between two looks of code that trio runs."""


class Work:
    """A piece of work of a thread pool. Thread-safe.

    Args:
        pool: The pool.
        code: The function that does it.
    """

    def __init__(self, pool: Any, code: Any) -> None:
        self._pool = ref(pool)
        self.strand: Strand | None = None
        self._loop = ref(loop) if (loop := _loop_here()) is not None else None
        self._outer = _threads.work
        self.room: Any = _awaiting.room
        """The event loop that waits for its result, as the session sees it."""
        self.strand = begun_here(code, self._pool)
        self.is_inside: bool = runs_outside_program() or (self._outer is not None and self._outer.is_inside)
        """True if it was submitted by the code of a call that is executed for real, and no part of the program."""
        self._is_given_up = self._has_begun = False
        self._listeners: list[Callable[[], None]] = []
        self._lock = Lock()

    @property
    def pool(self) -> Any:
        """The pool whose thread does it."""
        return self._pool()

    @property
    def loop(self) -> asyncio.AbstractEventLoop | None:
        """The event loop that has submitted it, and mostly waits for it."""
        return self._loop() if self._loop is not None else None

    @property
    def is_given_up(self) -> bool:
        """True if nobody waits for it any more, or for work that it is part of."""
        return any(work._is_given_up for work in self.outwards())  # noqa: SLF001 - of its own class

    def outwards(self) -> Iterator[Work]:
        """Yield it, then the work that has submitted it, and so on."""
        work: Work | None = self
        while work is not None:
            yield work
            work = work._outer  # noqa: SLF001 - of its own class

    def give_up(self) -> None:
        """Note that whoever waited for it does so no more."""
        with self._lock:
            self._is_given_up = True
            listeners, self._listeners = self._listeners, []
        for listener in listeners:
            listener()

    def listen(self, listener: Callable[[], None]) -> None:
        """Call this when it is given up, or at once if it is already."""
        with self._lock:
            if not self._is_given_up:
                self._listeners.append(listener)
                return
        listener()

    def begin(self) -> None:
        """Begin it in the thread of the caller, once it has the turn. It ends when its future has been told."""
        if self.strand is not None and not self._has_begun and self.strand.state != OVER:
            self._has_begun = True
            self.strand.begin()

    def do(self, work: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Any:
        """Do it, in the thread of the caller."""
        before, _threads.work = _threads.work, self
        self.begin()
        try:
            return work(*args, **kwargs)
        finally:
            if self.strand is not None:
                self.strand.strands.gate()
                if WORK_ITEM is None:
                    self.strand.end()
            _threads.work = before
            self._is_given_up, self._outer = self.is_given_up, None  # work that submits itself anew makes no chain

    def drop(self) -> None:
        """Note that it was cancelled, and will never be done."""
        if self.strand is not None and self.strand.state != OVER:
            self.strand.strands.withdraw(self.strand)

    def watch(self, future: Any) -> None:
        """Learn from the future of the work whether it is given up."""
        if type(future) is Future:  # other classes keep their own ways
            vars(future)["_agenttape_work"] = self
            future.__class__ = _Awaited


class _Awaiting(threading.local):
    room: Any = None


_awaiting = _Awaiting()


@contextmanager
def awaited_by_loop(room: Any) -> Iterator[None]:
    """Note that an event loop waits for the work that is submitted inside.

    Args:
        room: The loop, as the session sees it: see `loops`.
    """
    _awaiting.room = room
    try:
        yield
    finally:
        _awaiting.room = None


class _Threads(threading.local):
    work: Work | None = None
    submitted: Work | None = None


_threads = _Threads()


def current_work() -> Work | None:
    """Return the work of a thread pool that the caller's thread does."""
    return _threads.work


@contextmanager
def submitting(work: Work) -> Iterator[None]:
    """While inside, a piece of work is submitted to its pool by the thread of the caller."""
    before, _threads.submitted = _threads.submitted, work
    try:
        yield
    finally:
        _threads.submitted = before


def being_submitted() -> Work | None:
    """Return the work that the thread of the caller submits; `None` if its future is known already."""
    work, _threads.submitted = _threads.submitted, None
    return work


class _Awaited(Future[Any]):
    """A future that tells its work when whoever waits for it gives it up.

    In a set, the futures of a session are in the order in which their work was submitted. `concurrent.futures` makes
    sets of those that it is given.
    """

    _agenttape_work: Work

    def __hash__(self) -> int:
        strand = self._agenttape_work.strand
        return strand.number if strand is not None else super().__hash__()

    def set_running_or_notify_cancel(self) -> bool:
        self._agenttape_work.begin()
        return super().set_running_or_notify_cancel()

    def cancel(self) -> bool:
        work = self._agenttape_work
        is_cancelled = super().cancel()
        if is_cancelled:
            work.drop()
        elif not self.done():
            work.give_up()
        return is_cancelled

    def result(self, timeout: float | None = None) -> Any:
        with self._giving_up():
            return super().result(timeout)

    def exception(self, timeout: float | None = None) -> BaseException | None:
        with self._giving_up():
            return super().exception(timeout)

    @contextmanager
    def _giving_up(self) -> Iterator[None]:
        try:
            yield
        except TimeoutError as error:
            if error is not getattr(self, "_exception", None):  # that is the error of the work
                self._agenttape_work.give_up()
            raise


def until_given_up(ending: Ending, *, passes_time: bool, over: threading.Event | None = None) -> bool:
    """Wait until the work of the caller's thread is given up; false if nobody waits for it, or does so for too long.

    Args:
        ending: The time to wait.
        passes_time: Whether the clocks of the event loops that wait for it may pass to their next timers.
        over: Set where the caller need not wait any more either: as good as given up.
    """
    given_up = over if over is not None else threading.Event()
    with _listening(given_up.set, ending, passes_time=passes_time) as is_awaited:
        if not is_awaited:
            return False
        late, seconds = Lateness(), ending.longest
        while seconds and not given_up.wait(seconds):
            seconds = late.more()
        return given_up.is_set()


async def auntil_given_up(ending: Ending, *, passes_time: bool) -> bool:
    """Like `until_given_up`, in an event loop that runs in such a thread."""
    if (trio := trio_here()) is not None:
        until, given_up = monotonic() + ending.longest, threading.Event()
        with _listening(given_up.set, ending, passes_time=passes_time) as is_awaited:
            while is_awaited and not given_up.is_set() and monotonic() < until:
                await trio.sleep(_POLL)
            return given_up.is_set()
    loop = asyncio.get_running_loop()
    over: asyncio.Future[bool] = loop.create_future()

    def end(*, is_given_up: bool) -> None:
        if not over.done():
            over.set_result(is_given_up)

    def give_up() -> None:
        with suppress(RuntimeError):  # the loop is closed
            loop.call_soon_threadsafe(functools.partial(end, is_given_up=True))

    with _listening(give_up, ending, passes_time=passes_time) as is_awaited:
        if not is_awaited:
            return False
        with ending_after(ending, loop, functools.partial(end, is_given_up=False)):
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


def _loop_here() -> asyncio.AbstractEventLoop | None:
    try:
        return asyncio.get_running_loop()
    except RuntimeError:  # none runs in this thread
        return None
