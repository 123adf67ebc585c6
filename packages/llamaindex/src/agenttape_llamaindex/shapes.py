"""The four shapes of a leaf call of an LLM, over one decision.

A streaming method runs when it is called, and its stream later: what it raises at once is raised at once on replay, and
its place in the run is where it was called. An alias runs the method itself, so that it meets what the method hands on.
"""

from __future__ import annotations

import functools
import weakref
from collections.abc import AsyncGenerator, Callable, Generator
from contextlib import aclosing, closing
from typing import Any

from agenttape_core.integration import (
    Crossing,
    Describe,
    aintercept,
    aintercept_stream,
    aserve,
    aserve_stream,
    intercept,
    intercept_stream,
    serve,
    serve_stream,
)
from agenttape_llamaindex.codec.streams import Sort
from agenttape_llamaindex.delegation import Handing, handing_of

_DONE = object()

Kind = tuple[str, Sort]
"""A leaf method, and the sort of its responses."""


_taped: weakref.WeakSet[Callable[..., Any]] = weakref.WeakSet()


def untaped(function: Callable[..., Any]) -> Callable[..., Any]:
    """Return the function of a method of a class, also while the class is wrapped for ambient sessions."""
    return function.__wrapped__ if function in _taped else function  # type: ignore[attr-defined]


def _noted(method: Callable[..., Any]) -> Callable[..., Any]:
    _taped.add(method)
    return method


def plain(real: Callable[..., Any], describe: Describe, kind: Kind) -> Callable[..., Any]:
    """Wrap a method that returns a response.

    Args:
        real: The method.
        describe: Describes a call.
        kind: Which method it is.
    """

    @functools.wraps(real)
    def method(self: Any, *args: Any, **kwargs: Any) -> Any:
        call = describe(self, *args, **kwargs)
        crossing = call.crossing
        if crossing is None:
            return call.real()
        handing = handing_of(crossing, kind[0], real)
        if handing is None:
            return kind[1].converted(intercept(crossing, call.real))
        return _handed(handing, call.real)

    return _noted(method)


def coroutine(real: Callable[..., Any], describe: Describe, kind: Kind) -> Callable[..., Any]:
    """Wrap a method that is awaited; see `plain`."""

    @functools.wraps(real)
    async def method(self: Any, *args: Any, **kwargs: Any) -> Any:
        call = describe(self, *args, **kwargs)
        crossing = call.crossing
        if crossing is None:
            return await call.real()
        handing = handing_of(crossing, kind[0], real)
        if handing is None:
            return kind[1].converted(await aintercept(crossing, call.real))
        return await _ahanded(handing, call.real)

    return _noted(method)


def _handed(handing: Handing, execute: Callable[[], Any]) -> Any:
    """Run a method that may hand its call on; what it does itself is recorded if it does not."""
    try:
        with handing.running():
            value = execute()
    except Exception as error:
        handing.failed(error)
        raise
    if not handing.is_taken:
        handing.crossing.returned(value)
    return value


async def _ahanded(handing: Handing, execute: Callable[[], Any]) -> Any:
    """Like `_handed`, for a coroutine."""
    try:
        with handing.running():
            value = await execute()
    except Exception as error:
        handing.failed(error)
        raise
    if not handing.is_taken:
        handing.crossing.returned(value)
    return value


class _Opened:
    """A stream that was made for real. If nobody ever reads it, it is recorded as closed when the session ends."""

    def __init__(self, crossing: Crossing) -> None:
        self._crossing = crossing
        crossing.session.watch(self._unread)

    def begin(self) -> None:
        """Note that somebody reads it."""
        self._crossing.session.unwatch(self._unread)

    def _unread(self) -> None:
        self.begin()
        self._crossing.streamed([], "closed")


def stream(real: Callable[..., Any], describe: Describe, kind: Kind) -> Callable[..., Any]:
    """Wrap a method that returns a generator of responses; see `plain`."""
    sort = kind[1]

    @functools.wraps(real)
    def method(self: Any, *args: Any, **kwargs: Any) -> Any:
        call = describe(self, *args, **kwargs)
        crossing = call.crossing
        if crossing is None:
            return call.real()
        handing = handing_of(crossing, kind[0], real)
        if handing is not None:
            responses = _made(handing, call.real)
            return _passed(handing, responses) if handing.is_decided else _undecided(handing, responses, sort)
        if crossing.is_served:
            return served(crossing, sort)
        responses = _made(Handing(crossing, ()), call.real)
        return _recorded(crossing, responses, sort, _Opened(crossing))

    return _noted(method)


def _made(handing: Handing, execute: Callable[[], Any]) -> Any:
    try:
        with handing.running():
            return execute()
    except Exception as error:
        handing.failed(error)
        raise


def served(crossing: Crossing, sort: Sort) -> Generator[Any, None, None]:
    """Return the stream of a call that is served, or raise what it raised before there was one."""
    stream: Generator[Any, None, None] = serve(crossing) if _raised(crossing) else _served(crossing, sort)
    return stream


def _served(crossing: Crossing, sort: Sort) -> Generator[Any, None, None]:
    read = sort.reader()
    for chunk in serve_stream(crossing):
        with crossing.session.latching():
            response = read(chunk)
        yield response


def _recorded(crossing: Crossing, responses: Any, sort: Sort, opened: _Opened) -> Generator[Any, None, None]:
    opened.begin()
    chunks: Any = intercept_stream(crossing, lambda: sort.of(iter(responses)))
    with closing(chunks):
        for chunk in chunks:
            yield chunk.response


def _passed(handing: Handing, responses: Any) -> Generator[Any, None, None]:
    """Yield what a method yields that has handed its call on."""
    iterator = iter(responses)
    try:
        while True:
            with handing.running():
                response = next(iterator, _DONE)
            if response is _DONE:
                return
            yield response
    finally:
        if (close := getattr(iterator, "close", None)) is not None:
            close()


def _undecided(handing: Handing, responses: Any, sort: Sort) -> Generator[Any, None, None]:
    """Return the stream of a method that may hand its call on when its stream is read."""
    opened = _Opened(handing.crossing)

    def generate() -> Generator[Any, None, None]:
        opened.begin()
        iterator = iter(responses)
        with handing.first():
            first = next(iterator, _DONE)
        rest = iterator if first is _DONE else _chain(first, iterator)
        yield from _passed(handing, rest) if handing.is_taken else _recorded(handing.crossing, rest, sort, opened)

    return generate()


def _chain(first: Any, rest: Any) -> Generator[Any, None, None]:
    try:
        yield first
        yield from rest
    finally:
        if (close := getattr(rest, "close", None)) is not None:
            close()


def async_stream(real: Callable[..., Any], describe: Describe, kind: Kind) -> Callable[..., Any]:
    """Wrap a coroutine that gives an async generator of responses; see `plain`."""
    sort = kind[1]

    @functools.wraps(real)
    async def method(self: Any, *args: Any, **kwargs: Any) -> Any:
        call = describe(self, *args, **kwargs)
        crossing = call.crossing
        if crossing is None:
            return await call.real()
        handing = handing_of(crossing, kind[0], real)
        if handing is not None:
            responses = await _amade(handing, call.real)
            return _apassed(handing, responses) if handing.is_decided else _aundecided(handing, responses, sort)
        if crossing.is_served:
            return await aserved(crossing, sort)
        responses = await _amade(Handing(crossing, ()), call.real)
        return _arecorded(crossing, responses, sort, _Opened(crossing))

    return _noted(method)


async def _amade(handing: Handing, execute: Callable[[], Any]) -> Any:
    try:
        with handing.running():
            return await execute()
    except Exception as error:
        handing.failed(error)
        raise


async def aserved(crossing: Crossing, sort: Sort) -> AsyncGenerator[Any, None]:
    """Like `served`, for an async stream."""
    stream: AsyncGenerator[Any, None] = await aserve(crossing) if _raised(crossing) else _aserved(crossing, sort)
    return stream


async def _aserved(crossing: Crossing, sort: Sort) -> AsyncGenerator[Any, None]:
    read = sort.reader()
    async with aclosing(aserve_stream(crossing)) as chunks:
        async for chunk in chunks:
            with crossing.session.latching():
                response = read(chunk)
            yield response


async def _arecorded(crossing: Crossing, responses: Any, sort: Sort, opened: _Opened) -> AsyncGenerator[Any, None]:
    opened.begin()
    chunks: Any = aintercept_stream(crossing, lambda: sort.aof(aiter(responses)))
    async with aclosing(chunks):
        async for chunk in chunks:
            yield chunk.response


async def _apassed(handing: Handing, responses: Any) -> AsyncGenerator[Any, None]:
    iterator = aiter(responses)
    try:
        while True:
            with handing.running():
                response = await anext(iterator, _DONE)
            if response is _DONE:
                return
            yield response
    finally:
        if (close := getattr(iterator, "aclose", None)) is not None:
            await close()


def _aundecided(handing: Handing, responses: Any, sort: Sort) -> AsyncGenerator[Any, None]:
    opened = _Opened(handing.crossing)

    async def generate() -> AsyncGenerator[Any, None]:
        opened.begin()
        iterator = aiter(responses)
        with handing.first():
            first = await anext(iterator, _DONE)
        rest = iterator if first is _DONE else _achain(first, iterator)
        made = _apassed(handing, rest) if handing.is_taken else _arecorded(handing.crossing, rest, sort, opened)
        async with aclosing(made) as stream:
            async for response in stream:
                yield response

    return generate()


async def _achain(first: Any, rest: Any) -> AsyncGenerator[Any, None]:
    try:
        yield first
        async for response in rest:
            yield response
    finally:
        if (close := getattr(rest, "aclose", None)) is not None:
            await close()


def _raised(crossing: Crossing) -> bool:
    """Whether the recorded call raised before there was a stream."""
    found = crossing.found
    return found is not None and crossing.session.source.outcome(found.number).status == "raised"
