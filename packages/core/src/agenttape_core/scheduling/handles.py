"""The owners of the callbacks of an event loop: the program of a session, a call of it, or nobody we know.

A callback of a loop, its *handle*, runs in a context of its own, and what a session notes in the context of its program
tells them apart. Where the context says that a call executes, the callback belongs to the outside; so do those that
watch sockets, and those that other threads have put there.
"""

from __future__ import annotations

import threading
from asyncio.transports import BaseTransport
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any, Final

from agenttape_core.scheduling.executing import EXECUTING, PASSED_ON
from agenttape_core.scheduling.lent_callbacks import Lent
from agenttape_core.scheduling.scopes import SCOPES

ANSWERING: ContextVar[bool] = ContextVar("agenttape_answering", default=False)
"""True in a context whose call waits to be answered from its recording."""

PROGRAM: Final = object()
"""The owner of a handle that is a step of the program."""


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
    membership = SCOPES.of_program(context)
    if membership is None or membership.innermost() is not session or context.get(ANSWERING) or context.get(PASSED_ON):
        return None
    bound = getattr(callback, "__self__", None)
    if bound is handle._loop or isinstance(bound, BaseTransport | Looking) or _is_cancelling(bound):  # noqa: SLF001
        return None
    crossing = context.get(EXECUTING)
    return PROGRAM if crossing is None or crossing.session is not session else crossing


def _is_cancelling(bound: Any) -> bool:
    """Return True for a scope of anyio that cancels its tasks, in each round of the loop until they have ended."""
    kind = type(bound)
    return kind.__name__ == "CancelScope" and kind.__module__ == "anyio._backends._asyncio"
