"""Code of a server that an application calls while it is recorded: it is none of the application's."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Generator
from contextvars import Context
from typing import Any, ParamSpec, TypeVar

P = ParamSpec("P")
T = TypeVar("T")


def in_context(context: Context, function: Callable[P, Awaitable[T]]) -> Callable[P, Awaitable[T]]:
    """Return a function that runs in a separate context, within the task of its caller.

    A server that resumes reading when an application wants more, or takes the next request of a connection after it has
    answered one, gives later data the context in which it was called. Requests would be found in the session of an
    earlier one.

    Args:
        context: The context.
        function: The function.
    """

    async def called(*args: P.args, **kwargs: P.kwargs) -> T:
        return await _Steps(context, function(*args, **kwargs))

    return called


class _Steps(Awaitable[T]):
    """An awaitable whose steps are made in a context.

    Args:
        context: The context.
        awaitable: The awaitable.
    """

    def __init__(self, context: Context, awaitable: Awaitable[T]) -> None:
        self._context = context
        self._awaitable = awaitable

    def __await__(self) -> Generator[Any, Any, T]:
        coroutine = self._awaited()
        step: Callable[[Any], Any] = coroutine.send
        given: Any = None
        while True:
            try:
                waits_for = self._context.run(step, given)
            except StopIteration as end:
                value: T = end.value
                return value
            try:
                step, given = coroutine.send, (yield waits_for)
            except BaseException as error:  # noqa: BLE001 - it is the awaitable's to handle, also a cancellation
                step, given = coroutine.throw, error

    async def _awaited(self) -> T:
        return await self._awaitable
