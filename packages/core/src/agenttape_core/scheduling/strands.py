"""A strand: a sequential part of a run, and what the code of its thread says of it. See `threads`."""

from __future__ import annotations

import _thread
import asyncio
import functools
import os
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, suppress
from contextvars import Context
from typing import Any, Protocol, TypeVar, cast

from agenttape_core.guard.caller import is_library
from agenttape_core.scheduling.executing import EXECUTING, runs_outside_program
from agenttape_core.side_effects import function_of

_release: Callable[..., None] = _thread.LockType.release  # the real one, at which nobody takes turns


class TakingTurns(Protocol):
    """The threads of a session, as one of them sees them: see `threads`."""

    is_on: bool
    has_ended: bool
    turn: Any
    """The turn of the session, which is on once there is a second participant, or an event loop."""
    waits: Any
    """Their waits: see `threads`."""

    def fork(self, above: Strand, pool: Any, *, is_own: bool) -> Strand:
        """Return a strand for what a strand begins now."""

    def begin(self, strand: Strand) -> None:
        """Begin a strand in the caller's thread."""

    def end(self, strand: Strand) -> None:
        """End a strand."""

    def gate(self) -> None:
        """Wait for the turn, unless the caller has it."""

    def leave_turn(self, strand: Strand, state: int) -> None:
        """Let others have the turn."""

    def withdraw(self, strand: Strand) -> None:
        """End work that was cancelled before it began."""

    def resting(self) -> AbstractContextManager[None]:
        """While inside, a loop that runs in this thread waits for others, which have the turn."""


NEW, RUNNING, WAITING, AWAY, BLOCKING, SLEEPING, OVER = range(7)


class Strand:
    """A sequential part of a run: a thread, or a piece of work of a thread pool.

    Args:
        strands: Those of its session.
        label: Its label.
        number: Its number among all of the session, in the order in which they were begun.
        pool: The pool whose work it is, as a weak reference; `None` for a thread.
        is_own: Whether it runs code of the program, and not of a library.
    """

    __slots__ = (
        "is_exchangeable",
        "is_held",
        "is_loose",
        "is_out",
        "is_own",
        "is_real",
        "joins",
        "label",
        "native",
        "number",
        "outer",
        "pool",
        "state",
        "strands",
        "thread",
        "wait",
        "wake",
    )

    def __init__(
        self, strands: TakingTurns, label: str, number: int = 0, pool: Any = None, *, is_own: bool = True
    ) -> None:
        self.strands = strands
        self.label = label
        self.number = number
        self.pool = pool
        self.is_own = is_own
        self.state = NEW
        self.outer: Strand | None = None
        self.thread = self.native = 0
        self.wake = _thread.allocate_lock()
        self.wake.acquire()
        self.is_held = False
        """True while it keeps the turn, however long it waits where nobody sees it."""
        self.wait: Any = None
        """The wait for which it has left the turn; `None` if it is in none that ends when somebody tells it."""
        self.joins: Any = None
        """The thread or the pool whose end it waits for; `None` if it waits for none."""
        self.is_loose = False
        """True if it takes its work in no fixed order: it waits without the turn."""
        self.is_exchangeable = False
        """True if any other thread of its pool may do its work."""
        self.is_real = False
        """True while it executes a call for real."""
        self.is_out = False
        """True while the code of such a call runs that is nothing of the program, or has acted outside."""

    @property
    def has_begun(self) -> bool:
        """True once its thread has begun, or a thread of its pool has taken it."""
        return self.state != NEW

    def begin(self) -> None:
        """Let the caller's thread be this strand."""
        self.outer, HERE.strand = HERE.strand, self
        self.strands.begin(self)

    def end(self) -> None:
        """Let it be what it was."""
        if HERE.strand is self:
            HERE.strand = self.outer
        self.strands.end(self)


class _Here(threading.local):
    strand: Strand | None = None
    is_internal = False


HERE = _Here()


def current_strand() -> Strand | None:
    """Return the strand of the caller's thread."""
    return HERE.strand


def begun_here(code: Any, pool: Any = None) -> Strand | None:
    """Return a strand for what the caller begins: a thread, or work for a pool; `None` outside of strands.

    What the client of a model does in threads is none: in a replay there is no such thread.

    Args:
        code: The function that it runs.
        pool: The pool, as a weak reference.
    """
    above = HERE.strand
    if above is None or above.strands.has_ended or runs_outside_program():
        return None
    strand = above.strands.fork(above, pool, is_own=is_of_program(code))
    if pool is None and (found := function_of(code)) is not None and found.co_filename.endswith(_POOL):
        strand.is_loose, strand.is_exchangeable = True, found.co_name == WORKS
    return strand


def is_of_program(code: Any) -> bool:
    """Return whether what is run is code of the program, and not of a library."""
    while isinstance(code, functools.partial):
        is_context = isinstance(getattr(code.func, "__self__", None), Context)
        code = code.args[0] if is_context and code.args else code.func
    found = function_of(code)
    return found is not None and not is_library(found.co_filename)


_POOL = os.path.join("multiprocessing", "pool.py")  # noqa: PTH118 - a part of a name
WORKS = "worker"
"""The function there whose threads do the work of a pool; its others look after that."""


@contextmanager
def being(strand: Strand | None) -> Iterator[None]:
    """While inside, the caller's thread is a strand."""
    if strand is None:
        yield
        return
    strand.begin()
    try:
        yield
    finally:
        strand.end()


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
    strand = HERE.strand
    if strand is None or not strand.strands.is_on or in_loop():
        yield
        return
    strand.strands.gate()
    before, strand.is_held = strand.is_held, True
    try:
        yield
    finally:
        strand.is_held = before
        if strand.is_out:
            strand.strands.leave_turn(strand, AWAY)


F = TypeVar("F", bound=Callable[..., Any])


def is_told_at_once() -> bool:
    """Return True if the caller is neither inside of a call nor one of several that take turns: see `in_order`.

    What nobody but an integration is told there needs none of what `told_outside` and the order of threads do for the
    program.
    """
    strand = HERE.strand
    is_alone = strand is None or not strand.strands.turn.is_on
    return EXECUTING.get() is None and (is_alone or asyncio._get_running_loop() is not None)  # noqa: SLF001 - see `in_loop`


def in_order(function: F) -> F:
    """Return a function of a framework whose effects other threads can see: `visible` around it."""

    @functools.wraps(function)
    def seen(*args: Any, **kwargs: Any) -> Any:
        strand = HERE.strand
        if strand is None or not strand.strands.is_on or in_loop():
            return function(*args, **kwargs)
        if strand.strands.turn.is_on:  # it may come to be while the function runs
            strand.strands.gate()
        before, strand.is_held = strand.is_held, True  # as above, for what happens often
        try:
            return function(*args, **kwargs)
        finally:
            strand.is_held = before
            if strand.is_out:
                strand.strands.leave_turn(strand, AWAY)

    return cast("F", seen)


@contextmanager
def unbroken() -> Iterator[None]:
    """Keep the turn inside for longer than usual."""
    strand = HERE.strand
    if strand is None:
        yield
        return
    before, strand.is_held = strand.is_held, True
    try:
        yield
    finally:
        strand.is_held = before


@contextmanager
def blocking(joins: Any, *, timed: bool = False) -> Iterator[None]:
    """Let others have the turn while the caller waits inside; afterwards it passes a gate.

    Args:
        joins: The thread or the pool whose end it waits for.
        timed: Whether it waits for no longer than a time.
    """
    strand = HERE.strand
    if strand is None or HERE.is_internal or not strand.strands.is_on:
        yield
        return
    if in_loop():
        with strand.strands.resting():
            yield
        return
    strand.joins = joins
    strand.strands.leave_turn(strand, SLEEPING if timed else BLOCKING)
    HERE.is_internal = True
    try:
        yield
    finally:
        HERE.is_internal, strand.joins = False, None
        strand.strands.gate()


def let_pass(lock: Any) -> None:
    """Release a lock at which one thread waits, if nobody has: two others may do so at the same time."""
    with suppress(RuntimeError):  # it is free; to look first would let somebody else come in between
        _release(lock)


def is_in_run() -> bool:
    """Return whether the caller's thread is part of the run of a session."""
    return HERE.strand is not None


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
    HERE.strand = None


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forget)
