"""Unfinished results: an awaitable or an iterator isn't a value yet, and a recording of it would be empty."""

from __future__ import annotations

import inspect
from collections.abc import AsyncIterator, Awaitable, Iterator
from contextlib import contextmanager
from typing import Any

from agenttape_core.errors import UnrecordableValueError
from agenttape_core.integration import Crossing, value_codec

_TO_AWAIT = "its result has yet to be awaited: declare the boundary `async def`, or call it by `await arecord_call(…)`"
_TO_READ = "its items have yet to be read: make the boundary a generator function, recorded item by item"


class _Unfinished(BaseException):
    """A signal, not an error: `intercept` lets a `BaseException` pass without recording an outcome."""

    def __init__(self, value: Any) -> None:
        self.value = value


def finished(value: Any) -> Any:
    """Return a result; inside `refusing_unfinished`, refuse an unfinished one that no codec handles."""
    if isinstance(value, Awaitable | Iterator | AsyncIterator) and not _is_known(value):
        raise _Unfinished(value)
    return value


def _is_known(value: Any) -> bool:
    try:
        value_codec().encode(value)
    except UnrecordableValueError:
        return False
    return True


@contextmanager
def refusing_unfinished(crossing: Crossing) -> Iterator[None]:
    """Refuse unfinished results, even if the session keeps opaque values: no replay could await or read one.

    Raises:
        UnrecordableValueError: If the result is unfinished. The call leaves no record, and its session fails.
    """
    try:
        yield
    except _Unfinished as unfinished:
        value = unfinished.value
        if inspect.iscoroutine(value):
            value.close()  # its caller gets the error instead, and cannot await it
        why = _TO_AWAIT if isinstance(value, Awaitable) else _TO_READ
        with crossing.session.latch:
            raise UnrecordableValueError("$", type(value), why) from None
