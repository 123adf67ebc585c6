"""The owners of the callbacks of an event loop: the program of a session, a call of it, or nobody we know.

A callback of a loop, its *handle*, runs in a context of its own, and what a session notes in the context of its program
tells them apart. Where the context says that a call executes, the callback belongs to the outside; so do those that
watch sockets, and those that other threads have put there.
"""

from __future__ import annotations

import asyncio
import threading
from asyncio.transports import BaseTransport
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any, Final

from agenttape_core.scheduling.executing import EXECUTING, is_awaited_outside_program, runs_outside_program
from agenttape_core.scheduling.lent_callbacks import Lent
from agenttape_core.scheduling.scopes import SCOPES
from agenttape_core.scheduling.strands import current_strand

ANSWERING: ContextVar[bool] = ContextVar("agenttape_answering", default=False)
"""True in a context whose call waits to be answered from its recording."""

ACTIVE: dict[Any, list[Any]] = {}
"""The lines (see `schedule`) that wait for something, by their loops."""

TIMED: dict[Any, list[Any]] = {}
"""The lines whose programs have set timers, by their loops."""

PROGRAM: Final = object()
"""The owner of a handle that is a step of the program."""


class Posted:
    """A callback that another thread has put into a loop.

    Args:
        callback: It.
        work: The work of a thread pool that the other thread did; `None` if it did none that is known.
        is_result: Whether it hands over the result of the work.
    """

    __slots__ = (
        "callback",
        "handed",
        "is_inside",
        "is_let_through",
        "is_of_call",
        "is_result",
        "label",
        "line",
        "strand",
        "work",
    )

    def __init__(self, callback: Callable[..., Any], work: Any, *, is_result: bool) -> None:
        self.is_result = is_result
        self.strand = current_strand()
        """The strand that has put it there; `None` for a thread that is none."""
        self.label = self.strand.label if self.strand is not None else ""
        """The label under which the strand passed gates then."""
        self.callback = callback
        self.work = work
        self.is_of_call = not is_result and runs_outside_program()
        """True if the code of a call that is executed for real has put it there; a replay serves the call."""
        self.is_inside: bool = self.is_of_call or (work is not None and work.is_inside)
        """True if such code has put it there, or has submitted the work: nothing of the program."""
        self.line: Any = None
        """The line of the loop, of a thread that belongs to a session."""
        self.is_let_through = False
        self.handed: Any = None
        """The wait of the thread that has put it there: see `handing_over`; `None` if it does not wait."""

    def __call__(self, *args: Any) -> Any:
        """Call it."""
        return self.callback(*args)

    def looks(self, args: tuple[Any, ...]) -> None:
        """Look who awaits the future that it answers: a call that is executed for real, and nothing of the program?

        Args:
            args: The arguments that it is called with.
        """
        if not self.is_inside and self.work is None:
            futures = (getattr(self.callback, "__self__", None), *args[:1])
            self.is_inside = any(map(is_awaited_outside_program, futures))

    def __repr__(self) -> str:
        return repr(self.callback)


class _Ours(threading.local):
    now: bool = False


_ours = _Ours()


@contextmanager
def timers_of_ours() -> Iterator[None]:
    """While inside, the timers that this thread sets are not the program's."""
    before, _ours.now = _ours.now, True
    try:
        yield
    finally:
        _ours.now = before


def are_timers_ours() -> bool:
    """Return True inside `timers_of_ours`."""
    return _ours.now


@contextmanager
def answering() -> Iterator[None]:
    """While inside, the callbacks of this task are no steps of the program: it waits for an answer."""
    before = ANSWERING.get()
    ANSWERING.set(True)
    try:
        yield
    finally:
        ANSWERING.set(before)  # no token: an abandoned coroutine is closed in the context of its collector


class Looking:
    """The base of objects of ours whose methods a loop calls to see how it stands: a loop with no others is idle."""

    __slots__ = ()


def owner_of(handle: Any, session: object) -> Any:
    """Return the owner of a handle: `PROGRAM`, the crossing that executes, or `None` if it is not of a session.

    Args:
        handle: The handle, of one of Python's own loops.
        session: The session.
    """
    callback = handle._callback  # noqa: SLF001 - no public name tells it
    context = handle._context if type(callback) is not Lent else callback.lender  # noqa: SLF001 - in Python 3.11 no public name tells it
    membership = context.get(SCOPES.variable)
    if membership is None or membership.innermost() is not session or (context.get(ANSWERING)):
        return None
    if type(callback) is Posted:
        return None
    bound = getattr(callback, "__self__", None)
    if bound is handle._loop or isinstance(bound, BaseTransport | Looking) or _is_cancelling(bound):  # noqa: SLF001
        return None
    crossing = context.get(EXECUTING)
    return PROGRAM if crossing is None or crossing.session is not session else crossing


def context_of(handle: Any) -> Any:
    """Return the context that tells who has given a callback to a loop: for most, the one that it is called in."""
    callback = handle._callback  # noqa: SLF001 - no public name tells it
    callback = callback.callback if type(callback) is Posted else callback
    return callback.lender if type(callback) is Lent else handle._context  # noqa: SLF001 - as above


def is_of_program(session: object) -> bool:
    """Return True if what happens here is the program of a session, outside of all of its calls."""
    crossing = EXECUTING.get()
    return crossing is None or crossing.session is not session


def is_idle(loop: Any) -> bool:
    """Return True if a loop has no callback to call but those of `Looking` objects."""
    ready = loop._ready  # noqa: SLF001 - no public name tells it
    if not ready:
        return True
    return not _is_to_call(ready[0]) and not any(map(_is_to_call, tuple(ready)))  # other threads add to it


def _is_to_call(handle: Any) -> bool:
    bound = getattr(handle._callback, "__self__", None)  # noqa: SLF001 - no public name tells it
    return not handle._cancelled and not isinstance(bound, Looking) and not _is_cancelling(bound)  # noqa: SLF001


def _is_cancelling(bound: Any) -> bool:
    """Return True for a scope of anyio that cancels its tasks, in each round of the loop until they have ended."""
    kind = type(bound)
    return kind.__name__ == "CancelScope" and kind.__module__ == "anyio._backends._asyncio"


def has_steps(loop: Any, session: object, known: int = 0) -> bool:
    """Return True if a loop has steps of a session's program to make, or of calls whose code is the program's.

    Args:
        loop: The loop.
        session: The session.
        known: The number of callbacks at the beginning that are known to be none.
    """
    ready = loop._ready  # noqa: SLF001
    for place in range(known, len(ready)):  # other threads add to it; mostly the first one decides
        handle = ready[place]
        if type(handle) is asyncio.TimerHandle:
            continue  # a delivery, if it is the program's
        owner = None if handle._cancelled else owner_of(handle, session)  # noqa: SLF001
        if owner is PROGRAM or (owner is not None and owner.is_of_program):
            return True
    return False


def runs_handles(loop: asyncio.AbstractEventLoop) -> bool:
    """Return True for the loops of Python itself, whose handles can be followed."""
    return isinstance(loop, asyncio.BaseEventLoop) and hasattr(loop, "_ready")
