"""The four shapes of a call (plain, coroutine, generator, async generator) as thin shells over one decision."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from typing import Any, Literal

from agenttape_core.schema import Plain
from agenttape_core.session.codecs import value_codec
from agenttape_core.session.crossing import Crossing

Ended = Literal["exhausted", "closed", "raised"]
_DONE = object()


def intercept(crossing: Crossing, execute: Callable[[], Any]) -> Any:
    """Serve the call, or execute and record it.

    Cancellation, `KeyboardInterrupt` and our own halts are not outcomes: they pass and leave no record.
    """
    if crossing.found is not None:
        return crossing.replay()
    try:
        with crossing.executing():
            value = execute()
    except Exception as error:
        crossing.raised(error)
        raise
    crossing.returned(value)
    return value


async def aintercept(crossing: Crossing, execute: Callable[[], Awaitable[Any]]) -> Any:
    """Like `intercept`, for a coroutine."""
    if crossing.found is not None:
        return crossing.replay()
    try:
        with crossing.executing():
            value = await execute()
    except Exception as error:
        crossing.raised(error)
        raise
    crossing.returned(value)
    return value


class _Stream:
    """What arrived on a stream so far; records it exactly once, however it ends."""

    def __init__(self, crossing: Crossing) -> None:
        self._crossing = crossing
        self._chunks: list[Plain] = []
        self._values: list[Any] = []

    def arrived(self, chunk: Any) -> None:
        self._crossing.chunk_arrived()
        with self._crossing.session.recording():
            plain = value_codec().encode(chunk)
        self._chunks.append(plain)

    def ended(self, how: Ended, error: Exception | None = None) -> None:
        usage = None
        if how == "exhausted" and self._chunks:
            decode = value_codec().decode
            usage = self._crossing.boundary.usage(self._crossing.boundary.join([decode(c) for c in self._chunks]))
        self._crossing.streamed(self._chunks, how, error, usage)


def intercept_stream(crossing: Crossing, execute: Callable[[], Iterator[Any]]) -> Iterator[Any]:
    """Like `intercept`, for a generator. A stream closed early or broken midway is recorded as exactly that."""
    if crossing.found is not None:
        yield from crossing.replay_chunks()
        return
    stream = _Stream(crossing)
    chunks = iter(())
    try:
        with crossing.executing():
            chunks = iter(execute())
        while True:
            with crossing.executing():
                chunk = next(chunks, _DONE)
            if chunk is _DONE:
                break
            stream.arrived(chunk)
            yield chunk
    except GeneratorExit:
        stream.ended("closed")
        _close(crossing, chunks)
        raise
    except Exception as error:
        stream.ended("raised", error)
        raise
    stream.ended("exhausted")


def _close(crossing: Crossing, chunks: Any) -> None:
    with crossing.executing():
        close = getattr(chunks, "close", None)
        if close is not None:
            close()


async def aintercept_stream(crossing: Crossing, execute: Callable[[], AsyncIterator[Any]]) -> AsyncIterator[Any]:
    """Like `intercept_stream`, for an async generator."""
    if crossing.found is not None:
        for chunk in crossing.replay_chunks():
            yield chunk
        return
    stream = _Stream(crossing)
    with crossing.executing():
        chunks = execute()
    try:
        while True:
            with crossing.executing():
                chunk = await anext(chunks, _DONE)
            if chunk is _DONE:
                break
            stream.arrived(chunk)
            yield chunk
    except GeneratorExit:
        stream.ended("closed")
        await _aclose(crossing, chunks)
        raise
    except Exception as error:
        stream.ended("raised", error)
        raise
    stream.ended("exhausted")


async def _aclose(crossing: Crossing, chunks: Any) -> None:
    with crossing.executing():
        close = getattr(chunks, "aclose", None)
        if close is not None:
            await close()
