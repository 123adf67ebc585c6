"""Calls made to their end, in any of LlamaIndex's eight forms."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from inspect import isawaitable
from typing import Any

CHATS = ("chat", "achat", "stream_chat", "astream_chat")
COMPLETIONS = ("complete", "acomplete", "stream_complete", "astream_complete")


def finished(result: Any) -> Any:
    """Return the outcome of a call: its answer, or the list of all its chunks.

    Args:
        result: The returned value: an answer, a generator, a coroutine, or a coroutine of an async generator.
    """
    if isawaitable(result):
        return asyncio.run(afinished(result))
    return list(result) if isinstance(result, Iterator) else result


async def afinished(result: Awaitable[Any]) -> Any:
    """Return the outcome of a call inside an event loop; see `finished`."""
    value = await result
    return [item async for item in value] if isinstance(value, AsyncIterator) else value


def read(result: Any, most: int, each: Callable[[Any], None] = lambda _: None) -> list[Any]:
    """Read a stream up to some chunk, and close it.

    Args:
        result: The value that a streaming call returned.
        most: The number of chunks to read at most.
        each: Called with each chunk when it arrives.
    """
    if isawaitable(result):
        return asyncio.run(_aread(result, most, each))
    chunks = []
    for chunk in result:
        each(chunk)
        chunks.append(chunk)
        if len(chunks) == most:
            break
    _closed(result)
    return chunks


def _closed(stream: Any) -> None:
    stream.close()
    if next(stream, None) is not None:
        raise AssertionError("a stream yields more after it was closed")


async def _aread(result: Awaitable[Any], most: int, each: Callable[[Any], None]) -> list[Any]:
    stream = await result
    chunks = []
    async for chunk in stream:
        each(chunk)
        chunks.append(chunk)
        if len(chunks) == most:
            break
    await stream.aclose()
    if await anext(stream, None) is not None:
        raise AssertionError("a stream yields more after it was closed")
    return chunks
