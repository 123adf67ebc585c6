"""One way of making a call, whichever of LlamaIndex's eight forms it has."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from inspect import isawaitable
from typing import Any

CHATS = ("chat", "achat", "stream_chat", "astream_chat")
COMPLETIONS = ("complete", "acomplete", "stream_complete", "astream_complete")


def finished(result: Any) -> Any:
    """Return what a call comes to: its answer, or the list of all that it streams.

    Args:
        result: What the call returned: an answer, a generator, a coroutine, or a coroutine of an async generator.
    """
    if isawaitable(result):
        return asyncio.run(afinished(result))
    return list(result) if isinstance(result, Iterator) else result


async def afinished(result: Awaitable[Any]) -> Any:
    """Do the same inside an event loop."""
    value = await result
    return [item async for item in value] if isinstance(value, AsyncIterator) else value


def read(result: Any, most: int, each: Callable[[Any], None] = lambda _: None) -> list[Any]:
    """Read a stream up to some chunk, and close it.

    Args:
        result: What a streaming call returned.
        most: How many chunks are read.
        each: What is done with each chunk when it arrives.
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
        raise AssertionError("a closed stream goes on")


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
        raise AssertionError("a closed stream goes on")
    return chunks
