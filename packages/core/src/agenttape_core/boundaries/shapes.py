"""The four shapes of a function (plain, coroutine, generator, async generator) as boundaries.

Each is a function of the same shape, so that whoever asks `inspect` is told the truth. Outside a session it does
nothing but call the real one.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import AsyncGenerator, Callable, Generator
from typing import Any

from agenttape_core.boundaries.callee import Callee
from agenttape_core.boundaries.streams import astream, stream
from agenttape_core.boundaries.unfinished import finished, refusing_unfinished
from agenttape_core.integration import aintercept, intercept

_NAMES = ("__module__", "__name__", "__qualname__", "__doc__")


def taped(callee: Callee) -> Callable[..., Any]:
    """Return a function that does what the callee does, and is a boundary."""
    if callee.has_shape(inspect.isasyncgenfunction):
        shape = _async_generator(callee)
    elif callee.has_shape(inspect.isgeneratorfunction):
        shape = _generator(callee)
    elif callee.has_shape(inspect.iscoroutinefunction):
        shape = coroutine(callee)
    else:
        shape = _plain(callee)
    if inspect.isroutine(callee.inner):
        functools.update_wrapper(shape, callee.inner)
    else:  # an object: what it holds is its own
        functools.update_wrapper(shape, type(callee.inner), assigned=_NAMES, updated=())
    shape.__wrapped__ = callee.function  # type: ignore[attr-defined]
    return shape


def _plain(callee: Callee) -> Callable[..., Any]:
    def tape_call(*args: Any, **kwargs: Any) -> Any:
        crossing = callee.cross(args, kwargs)
        if crossing is None:
            return callee.function(*args, **kwargs)
        with refusing_unfinished(crossing):
            return intercept(crossing, lambda: finished(callee.function(*args, **kwargs)))

    return tape_call


def coroutine(callee: Callee) -> Callable[..., Any]:
    """Return the boundary around a coroutine function, or around a function that returns something to be awaited."""

    async def tape_call(*args: Any, **kwargs: Any) -> Any:
        crossing = callee.cross(args, kwargs)
        if crossing is None:
            return await callee.function(*args, **kwargs)

        async def execute() -> Any:
            return finished(await callee.function(*args, **kwargs))

        with refusing_unfinished(crossing):
            return await aintercept(crossing, execute)

    return tape_call


def _generator(callee: Callee) -> Callable[..., Any]:
    def tape_call(*args: Any, **kwargs: Any) -> Generator[Any, Any, Any]:
        crossing = callee.cross(args, kwargs)
        if crossing is None:
            return (yield from callee.function(*args, **kwargs))
        return (yield from stream(crossing, lambda: callee.function(*args, **kwargs)))

    return tape_call


def _async_generator(callee: Callee) -> Callable[..., Any]:
    async def tape_call(*args: Any, **kwargs: Any) -> AsyncGenerator[Any, Any]:
        crossing = callee.cross(args, kwargs)
        real = functools.partial(callee.function, *args, **kwargs)
        chunks = real() if crossing is None else astream(crossing, real)
        try:  # what `yield from` does for plain generators: https://peps.python.org/pep-0380/
            chunk = await anext(chunks)
            while True:
                try:
                    sent = yield chunk
                except GeneratorExit:
                    await chunks.aclose()
                    raise
                except BaseException as error:  # noqa: BLE001 - whatever its reader throws is for the real one
                    chunk = await chunks.athrow(error)
                else:
                    chunk = await chunks.asend(sent)
        except StopAsyncIteration:
            return

    return tape_call
