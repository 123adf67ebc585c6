"""Work in threads, and whether those who wait for it have given it up.

A synchronous call cannot be cancelled. When a timeout fires around `asyncio.to_thread`, `run_in_executor` or
`Future.result`, the work goes on in its thread, and nobody waits for it any more. What such a call returns then comes
too late for the program, so in a replay it must come too late as well: it waits until the program gives it up again.
"""

from __future__ import annotations

import asyncio
import functools
import sys
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from contextlib import ExitStack, contextmanager, suppress
from types import FrameType
from typing import Any
from weakref import ref

from agenttape_core.locks import Lock
from agenttape_core.scheduling.cancellation import Ending, ending_after, passing_time
from agenttape_core.scheduling.executing import runs_outside_program
from agenttape_core.scheduling.holder import Lateness
from agenttape_core.scheduling.strands import OVER, Strand, begun_here, current_strand, in_loop

_SUBMITTING = asyncio.BaseEventLoop.run_in_executor.__code__
_NEAR = 8
"""Frames between a pool and the event loop that submits to it: those of classes of pools that others write."""


class Work:
    """A piece of work of a thread pool. Thread-safe.

    Args:
        pool: The pool.
        code: The function that does it.
        scope: As for `begun_here`.
        is_strand: Whether what it does is in an order that is recorded.
    """

    sort = "job"
    key = ""
    """Its number among the work of the program itself, outside of its calls."""

    def __init__(self, pool: Any, code: Any, scope: str = "", *, is_strand: bool = True) -> None:
        self._pool = ref(pool)
        self.strand: Strand | None = None
        self._loop = ref(loop) if (loop := _loop_here()) is not None else None
        self._outer = _threads.work
        self.line: Any = _awaiting.line
        """The line of the event loop that waits for its result: see `schedule`."""
        self.number: int = self.line.makes_work(self, _awaiting.owner) if self.line is not None else 0
        """Its number among those that the loop waits for."""
        self.strand = begun_here(code, self._pool, scope) if is_strand else None
        self.is_inside: bool = runs_outside_program() or (self._outer is not None and self._outer.is_inside)
        """True if it was submitted by the code of a call that is executed for real, and no part of the program."""
        self.served: int | None = None
        """The number of the recording that it was served last, where somebody chooses the order of calls."""
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

    def is_served(self, number: int) -> None:
        """Note that a call which it makes is answered from a recording."""
        for work in self.outwards():
            work.served = number

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
                self.strand.strands.gate(is_call=False)
            _threads.work = before
            self._is_given_up, self._outer = self.is_given_up, None  # work that submits itself anew makes no chain

    def begins_all_the_same(self) -> bool:
        """Return True if it is cancelled in a replay in which a thread is late, as it had begun in the recording."""
        return self.strand is not None and self.strand.strands.begins_all_the_same(self.strand)

    def drop(self) -> None:
        """Note that it was cancelled, and will never be done."""
        if self.strand is not None and self.strand.state != OVER:
            self.strand.strands.withdraw(self.strand)

    def is_cancelled(self, *, is_done: bool) -> None:
        """Note that it is cancelled after it has begun."""
        if self.strand is not None:
            self.strand.strands.is_cancelled(self.strand)
        if not is_done:
            self.give_up()

    def watch(self, future: Any) -> None:
        """Learn from the future of the work whether it is given up."""
        if type(future) is Future:  # other classes keep their own ways
            vars(future)["_agenttape_work"] = self
            vars(future)["_agenttape_is_marked"] = False
            future.__class__ = _Awaited


class _Awaiting(threading.local):
    line: Any = None
    owner: Any = None


_awaiting = _Awaiting()


@contextmanager
def awaited_by_loop(line: Any, owner: Any) -> Iterator[None]:
    """Note that an event loop waits for the work that is submitted inside.

    Args:
        line: The line of the loop: see `schedule`.
        owner: The call that is executed, and whose code submits it; `None` for the program.
    """
    _awaiting.line, _awaiting.owner = line, owner
    try:
        yield
    finally:
        _awaiting.line = _awaiting.owner = None


class _Threads(threading.local):
    work: Work | None = None
    submitted: Work | None = None


_threads = _Threads()


def current_work() -> Work | None:
    """Return the work of a thread pool that the caller's thread does."""
    return _threads.work


def submitted(pool: Any, code: Any, scope: Callable[[], str]) -> Work:
    """Return a piece of work that is submitted now; a strand, if what submits it comes in an order that is recorded.

    A thread in which an event loop runs has no turns. What the loop itself submits is in the order of its tasks; what a
    task submits and waits for in the thread of the loop depends on which piece of work is done first, by chance.

    Args:
        pool: The pool.
        code: The function that does it.
        scope: Returns the sequential part of the run that submits it.
    """
    strand = current_strand()
    if strand is None or not in_loop() or strand.strands.takes_loops:
        return Work(pool, code)
    return Work(pool, code, scope(), is_strand=_is_submitted_by_loop())


def _is_submitted_by_loop() -> bool:
    frame: FrameType | None = sys._getframe(1)  # noqa: SLF001 - gives the stack without building a list
    for _ in range(_NEAR):
        if frame is None:
            return False
        if frame.f_code is _SUBMITTING:
            return True
        frame = frame.f_back
    return False


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
    _agenttape_is_marked: bool
    """True if it was marked as running before the thread that does its work had the turn."""

    def __hash__(self) -> int:
        strand = self._agenttape_work.strand
        return strand.number if strand is not None else super().__hash__()

    def set_running_or_notify_cancel(self) -> bool:
        self._agenttape_work.begin()
        return self._agenttape_is_marked or super().set_running_or_notify_cancel()

    def cancel(self) -> bool:
        work = self._agenttape_work
        if not (self.running() or self.done()) and work.begins_all_the_same():
            self._agenttape_is_marked = super().set_running_or_notify_cancel()
        is_cancelled = super().cancel()
        if is_cancelled:
            work.drop()
        else:
            work.is_cancelled(is_done=self.done())
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
            if work.line is not None:
                stack.enter_context(work.line.is_parked(work.number))
            if passes_time and work.loop is not None:
                stack.enter_context(passing_time(work.loop, ending, work.pool))
        yield bool(works)


def _loop_here() -> asyncio.AbstractEventLoop | None:
    try:
        return asyncio.get_running_loop()
    except RuntimeError:  # none runs in this thread
        return None
