"""Requests of code that a layer above has recorded: they are passed on, and are no gap in the recording."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar

_PASSED_ON: ContextVar[bool] = ContextVar("agenttape_passed_on", default=False)


@contextmanager
def passing_on() -> Iterator[None]:
    """Pass on what code sends that runs inside, and what tasks send that it starts: a layer above records it.

    For connections that outlive a call, such as that to a tool server. During a call its kind says so.
    """
    token = _PASSED_ON.set(True)
    try:
        yield
    finally:
        _PASSED_ON.reset(token)


def is_passed_on() -> bool:
    """Return whether the caller is inside of `passing_on`."""
    return _PASSED_ON.get()
