"""The participants of a run: threads, pieces of work of pools, and the thread in which an event loop runs."""

from __future__ import annotations

import _thread
import asyncio
import functools
import os
import sys
import threading
from collections.abc import Callable, Coroutine, Generator, Iterator
from contextlib import contextmanager, suppress
from contextvars import Context
from typing import TYPE_CHECKING, Any, TypeVar, cast

from agenttape_core.guard import in_telemetry
from agenttape_core.guard.caller import is_library
from agenttape_core.named_tuples import NamedTuple
from agenttape_core.scheduling.executing import EXECUTING, runs_outside_program
from agenttape_core.side_effects import function_of

if TYPE_CHECKING:
    from agenttape_core.scheduling.threads import Threads

_release: Callable[..., None] = _thread.LockType.release  # the real one, without turns


class OwnLock(_thread.RLock):  # type: ignore[misc] # mypy takes it for a function
    """A lock without turns."""

    __enter__ = vars(_thread.RLock)["__enter__"]
    __exit__ = vars(_thread.RLock)["__exit__"]


class Key(NamedTuple):
    """The name of an arrival, the same in each run.

    Args:
        base: Its origin: the address of a call, the label of a thread, the timers of a loop.
        number: Its place among those of that origin; the first one is 1.
    """

    base: str
    number: int


NEW, RUNNING, WAITING, AWAY, BLOCKING, SLEEPING, OVER = range(7)


class Participant:
    """A thread of the run, or a piece of work of a pool; an event loop that runs in it takes part as that thread.

    Args:
        threads: Those of its session.
        label: Its label.
        number: Its number among all of the session, in the order in which they were begun.
        pool: The pool whose work it is, as a weak reference; `None` for a thread.
        is_own: Whether it runs code of the program, and not of a library.
    """

    __slots__ = (
        "answers",
        "base",
        "effects",
        "held_by",
        "is_disregarded",
        "is_exchangeable",
        "is_held",
        "is_left_out",
        "is_out",
        "is_own",
        "is_real",
        "is_unordered",
        "joins",
        "label",
        "native",
        "number",
        "offered",
        "outer",
        "pool",
        "rests",
        "stalls",
        "state",
        "thread",
        "threads",
        "wait",
        "wake",
    )

    def __init__(self, threads: Threads, label: str, number: int = 0, pool: Any = None, *, is_own: bool = True) -> None:
        self.threads = threads
        self.label = label
        self.number = number
        self.pool = pool
        self.is_own = is_own
        self.state = NEW
        self.outer: Participant | None = None
        self.thread = self.native = 0
        self.wake = _thread.allocate_lock()
        self.wake.acquire()
        self.is_held = False
        """True while it keeps the turn, however long it waits where it can't be seen."""
        self.held_by = 0  # the number of calls whose code runs in its loop: they overlap, and end in any order
        self.wait: Any = None
        """The wait for which it has left the turn; `None` if it's in none that ends when it's told."""
        self.joins: Any = None
        """The thread or the pool whose end it waits for; `None` if it waits for none."""
        self.is_unordered = False
        """True if it takes its work in no fixed order: it waits without the turn."""
        self.is_exchangeable = False
        """True if any other thread of its pool may do its work."""
        self.is_real = False
        """True while it executes a call for real."""
        self.is_out = False
        """True while the code of such a call runs that is nothing of the program, or has acted outside."""
        self.base = ""
        """The origin by which its thread continues, while it waits."""
        self.answers = ""
        """The address of the call that is answered here, with its effects."""
        self.is_left_out = False
        """True while its thread does what code outside of the program has asked it for: that has no order."""
        self.is_disregarded = False
        """True if the others don't wait for it until it comes to something again: it waits where it can't be seen."""
        self.effects = ""
        """The address of the executed call that had an effect here last."""
        self.rests = False
        """True while an event loop that runs here has no work of the session."""
        self.offered: Key | None = None
        """The key of the arrival by which its thread continues, while it waits for that."""
        self.stalls: Any = None
        """The look at a thread that has the turn and may be blocked where it can't be seen."""

    @property
    def has_begun(self) -> bool:
        """True once its thread has begun, or a thread of its pool has taken it."""
        return self.state != NEW

    def begin(self) -> None:
        """Let the caller's thread be this participant."""
        self.outer, HERE.participant = HERE.participant, self
        self.threads.begin(self)

    def end(self) -> None:
        """Let it be what it was."""
        if HERE.participant is self:
            HERE.participant = self.outer
        self.threads.end(self)


class _Here(threading.local):
    participant: Participant | None = None
    is_internal = False


HERE = _Here()


def current_participant() -> Participant | None:
    """Return the participant of the caller's thread."""
    return HERE.participant


def begun_here(code: Any, pool: Any = None) -> Participant | None:
    """Return a participant for what the caller begins: a thread, or work for a pool; `None` outside of participants.

    Threads of a model's client aren't participants: a replay has none of them. Threads of telemetry aren't either, as
    they report at their own times.

    Args:
        code: The function that it runs.
        pool: The pool, as a weak reference.
    """
    above = HERE.participant
    if above is None or above.threads.has_ended or runs_outside_program() or (pool is None and in_telemetry()):
        return None
    participant = above.threads.fork(above, pool, is_own=is_of_program(code))
    if pool is None and (found := function_of(code)) is not None and found.co_filename.endswith(_POOL):
        participant.is_unordered, participant.is_exchangeable = True, found.co_name == WORKS
    return participant


def is_of_program(code: Any) -> bool:
    """Return whether the running code is the program's, and not a library's."""
    while isinstance(code, functools.partial):
        is_context = isinstance(getattr(code.func, "__self__", None), Context)
        code = code.args[0] if is_context and code.args else code.func
    found = function_of(code)
    return found is not None and not is_library(found.co_filename)


_POOL = os.path.join("multiprocessing", "pool.py")  # noqa: PTH118 - a part of a name
WORKS = "worker"
"""The function there whose threads do the work of a pool; its others look after that."""


@contextmanager
def being(participant: Participant | None) -> Iterator[None]:
    """While inside, the caller's thread is a participant."""
    if participant is None:
        yield
        return
    participant.begin()
    try:
        yield
    finally:
        participant.end()


@contextmanager
def starting() -> Iterator[None]:
    """While inside, a thread is started: it is waited for, but not until it comes to a gate."""
    before, HERE.is_internal = HERE.is_internal, True
    with unbroken():
        try:
            yield
        finally:
            HERE.is_internal = before


@contextmanager
def visible() -> Iterator[None]:
    """Do inside what other threads of the session can see: they see it in this order in every replay.

    For what a framework lets threads do to each other, such as calling handlers or putting parts on a stream. Not for
    what waits for another thread.
    """
    participant = HERE.participant
    if participant is None or not participant.threads.is_on or in_loop():
        yield
        return
    participant.threads.wait_for_turn()
    before, participant.is_held = participant.is_held, True
    try:
        yield
    finally:
        participant.is_held = before
        if participant.is_out:
            participant.threads.leave_turn(participant, AWAY)


F = TypeVar("F", bound=Callable[..., Any])


def is_notified_directly() -> bool:
    """Return True if the caller is neither inside of a call nor one of several that take turns: see `in_order`.

    If only an integration is notified there, neither `notified_outside` nor the order of threads is needed.
    """
    participant = HERE.participant
    is_alone = participant is None or not participant.threads.turn.is_on
    return EXECUTING.get() is None and (is_alone or asyncio._get_running_loop() is not None)  # noqa: SLF001 - see `in_loop`


def in_order(function: F) -> F:
    """Return a function of a framework whose effects other threads can see: `visible` around it."""

    @functools.wraps(function)
    def seen(*args: Any, **kwargs: Any) -> Any:
        participant = HERE.participant
        if participant is None or not participant.threads.is_on or in_loop():
            return function(*args, **kwargs)
        if participant.threads.turn.is_on:  # it may come to be while the function runs
            participant.threads.wait_for_turn()
        before, participant.is_held = participant.is_held, True  # as above, for what happens often
        try:
            return function(*args, **kwargs)
        finally:
            participant.is_held = before
            if participant.is_out:
                participant.threads.leave_turn(participant, AWAY)

    return cast("F", seen)


@contextmanager
def unbroken() -> Iterator[None]:
    """Keep the turn inside for longer than usual."""
    participant = HERE.participant
    if participant is None:
        yield
        return
    before, participant.is_held = participant.is_held, True
    try:
        yield
    finally:
        participant.is_held = before


@contextmanager
def blocking(joins: Any, *, timed: bool = False) -> Iterator[None]:
    """Let others have the turn while the caller waits inside; afterwards it passes a gate.

    Args:
        joins: The thread or the pool whose end it waits for.
        timed: Whether it waits for no longer than a time.
    """
    participant = HERE.participant
    if participant is None or HERE.is_internal or not participant.threads.is_on:
        yield
        return
    if in_loop():
        with participant.threads.resting():
            yield
        return
    participant.joins = joins
    participant.threads.leave_turn(participant, SLEEPING if timed else BLOCKING)
    HERE.is_internal = True
    try:
        yield
    finally:
        HERE.is_internal, participant.joins = False, None
        participant.threads.wait_for_turn()


def let_pass(lock: Any) -> None:
    """Release a lock at which one thread waits, unless that's done: two others may do so at the same time."""
    with suppress(RuntimeError):  # it is free; to look first would let another one come in between
        _release(lock)


def is_in_run() -> bool:
    """Return whether the caller's thread is part of the run of a session."""
    return HERE.participant is not None


def in_loop() -> bool:
    """Return whether an event loop runs in the caller's thread: its tasks have an order of their own."""
    return asyncio._get_running_loop() is not None  # noqa: SLF001 - the public one raises, which is slow


def in_task() -> bool:
    """Return whether the caller runs in a task of asyncio, and not in a loop that is its guest, nor in a callback."""
    return in_loop() and asyncio.current_task() is not None


def trio_here() -> Any:
    """Return the module of trio if it runs the caller, alone or as a guest of asyncio; `None` in a task of asyncio."""
    return None if in_task() else sys.modules.get("trio")


def _forget() -> None:
    HERE.participant = None


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forget)


class _InSteps:
    """A coroutine whose steps other threads can see.

    Args:
        coroutine: It.
    """

    def __init__(self, coroutine: Coroutine[Any, Any, Any]) -> None:
        self._coroutine = coroutine

    def __await__(self) -> Generator[Any, Any, Any]:
        send, throw = in_order(self._coroutine.send), in_order(self._coroutine.throw)
        try:
            awaited = send(None)
            while True:
                try:
                    sent = yield awaited
                except GeneratorExit:
                    self._coroutine.close()
                    raise
                except BaseException as error:  # noqa: BLE001 - it is the coroutine's
                    awaited = throw(error)
                else:
                    awaited = send(sent)
        except StopIteration as stop:
            return stop.value


def steps_in_order(function: F) -> F:
    """Return a coroutine function of a framework of which other threads can see what it does between two waits."""

    @functools.wraps(function)
    async def seen(*args: Any, **kwargs: Any) -> Any:
        participant = current_participant()
        if participant is None or not participant.threads.is_on:
            return await function(*args, **kwargs)
        return await _InSteps(function(*args, **kwargs))

    return cast("F", seen)
