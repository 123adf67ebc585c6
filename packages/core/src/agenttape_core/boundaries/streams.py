"""Generators as streams.

A stream goes in one direction. A value that its reader sends into it would be part of the request, and is refused. The
return value of a generator is recorded as the last chunk: `{"$return": value}`.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Generator, Iterator, Sequence
from contextlib import aclosing, closing
from dataclasses import dataclass
from typing import Any, NoReturn

from agenttape_core.errors import UnreadableValueError, UnrecordableValueError
from agenttape_core.integration import SessionCall, TypeCodec, register_codecs


@dataclass(frozen=True, slots=True)
class Returned:
    """The return value of a generator, as the last chunk of its stream."""

    value: Any


register_codecs(
    [
        TypeCodec(
            tag="$return",
            handles=lambda value: type(value) is Returned,
            encode=lambda returned, nested: nested(returned.value),
            decode=lambda plain, nested: Returned(nested(plain)),
        )
    ]
)


def joined(chunks: list[Any]) -> list[Any]:
    """Return the value of a recorded stream for a plain call: the list of its chunks."""
    return [chunk for chunk in chunks if type(chunk) is not Returned]


def split(value: Any) -> Sequence[Any]:
    """Return a recorded list as chunks of a stream. Raises `UnreadableValueError` if the value isn't a list."""
    if isinstance(value, list):
        return value
    why = "a generator asks for it, and it was recorded by a function that returned no list; record it again"
    raise UnreadableValueError(type(value).__qualname__, why)


def one_way(session_call: SessionCall, chunks: Generator[Any, None, None]) -> Generator[Any, Any, Any]:
    """Pass a stream on to its reader, which can't send into it, and return the real generator's result."""
    returned = None
    with closing(chunks):
        for chunk in chunks:
            if type(chunk) is Returned:  # and read on: only exhaustion ends the stream
                returned = chunk.value
            elif (sent := (yield chunk)) is not None:
                _refuse(session_call, sent)
    return returned


async def one_way_async(session_call: SessionCall, chunks: AsyncGenerator[Any, None]) -> AsyncGenerator[Any, Any]:
    """Like `one_way`, for an async stream, which has no result; its recording may be of a generator that had one."""
    async with aclosing(chunks):
        async for chunk in chunks:
            if type(chunk) is not Returned and (sent := (yield chunk)) is not None:
                _refuse(session_call, sent)


def with_return_value(generator: Generator[Any, Any, Any]) -> Iterator[Any]:
    """Yield the values of a generator, and its return value as the last chunk."""
    value = yield from generator
    if value is not None:
        yield Returned(value)


def _refuse(session_call: SessionCall, sent: Any) -> NoReturn:
    with session_call.session.latch:
        why = f"the stream of {session_call.request.name} is recorded in one direction; ask each question by a call"
        raise UnrecordableValueError("send()", type(sent), why)
