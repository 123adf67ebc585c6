"""Objects that run on every replay while the calls they make are taped: the shapes of their methods."""

from __future__ import annotations

from collections.abc import AsyncGenerator, AsyncIterator, Callable, Generator, Iterator
from contextlib import AbstractContextManager, nullcontext
from typing import Any

from agenttape_core.integration.shapes import Shape, async_generator, coroutine, generator
from agenttape_core.scheduling import taking_part
from agenttape_core.session import current_session

_END: Any = object()


def taking_part_here() -> AbstractContextManager[None]:
    """Let calls inside take part in the current session, if there is one."""
    session = current_session()
    return taking_part(session) if session is not None else nullcontext()


def taking_part_while(real: Callable[[], Any], shape: Shape) -> Callable[[], Any]:
    """Return a call during which the session in force is ambient.

    Args:
        real: Makes the real call.
        shape: The shape of the function that is called.
    """
    if shape is coroutine:

        async def awaited() -> Any:
            with taking_part_here():
                return await real()

        return awaited
    if shape is generator:
        return lambda: stream_taking_part(real())
    if shape is async_generator:
        return lambda: async_stream_taking_part(real())

    def called() -> Any:
        with taking_part_here():
            return real()

    return called


def stream_taking_part(real: Generator[Any, Any, Any]) -> Iterator[Any]:
    """Yield the items of a generator; the session is ambient only while the generator's own code runs.

    Args:
        real: The generator.
    """
    try:
        while True:
            with taking_part_here():
                item = next(real, _END)
            if item is _END:
                return
            yield item
    finally:
        with taking_part_here():
            real.close()


async def async_stream_taking_part(real: AsyncGenerator[Any, Any]) -> AsyncIterator[Any]:
    """Like `stream_taking_part`, for an async generator.

    Args:
        real: The generator.
    """
    try:
        while True:
            with taking_part_here():
                item = await anext(real, _END)
            if item is _END:
                return
            yield item
    finally:
        with taking_part_here():
            await real.aclose()
