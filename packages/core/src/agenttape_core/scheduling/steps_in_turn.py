"""Runs a coroutine function of a framework in turn with the threads of its session, from one wait to the next."""

from __future__ import annotations

import functools
from collections.abc import Callable, Coroutine, Generator
from typing import Any, TypeVar, cast

from agenttape_core.scheduling.strands import current_strand, in_order

F = TypeVar("F", bound=Callable[..., Any])


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
        strand = current_strand()
        if strand is None or not strand.strands.is_on:
            return await function(*args, **kwargs)
        return await _InSteps(function(*args, **kwargs))

    return cast("F", seen)
