"""The four shapes of a call (plain, coroutine, generator, async generator), each an adapter over one description.

An integration describes a call once, as a `Call`: its session call, the real call, and what else is special about
it. The adapter of the right shape does the rest: it makes the real call if no session tapes it, and else replays the
recording or executes and records. Each adapter returns a function of the shape of the real one, so that `inspect`
reports the truth.
"""

from __future__ import annotations

import functools
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Generator, Iterator
from contextlib import AbstractContextManager, aclosing, closing, nullcontext
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Any, TypeAlias, cast

from agenttape_core.locks import Lock
from agenttape_core.session import (
    SessionCall,
    aintercept,
    aintercept_stream,
    areplay_call,
    areplay_stream,
    intercept,
    intercept_stream,
    replay_call,
    replay_stream,
)


def as_it_is(value: Any) -> Any:
    """Return the value: the default wherever an integration may change one."""
    return value


def _directly(replay_it: Callable[[], Any]) -> Any:
    return replay_it()


@dataclass(eq=False, repr=False, slots=True)
class Call:
    """One call of a taped function.

    Args:
        session_call: The call in the session, or `None` if no session tapes the call: then only `real` is called.
        real: Makes the real call, and returns the function's result: a value, an awaitable, an iterator.
        executing: Opens the context in which the real call executes, and gives the function that makes it there.
            By default that is `real`, in no context.
        around: Opens a context around all of a call that crosses, whether it is replayed or executed.
        pack: Converts a value, or a chunk of a stream, to its recorded form. The caller of an executed call gets the
            value itself.
        unpack: Converts the recorded form to the value for the caller.
        apply: Repeats an effect of a replayed call; see `intercept`.
        aapply: Repeats an effect of a replayed call that is awaited.
        on_chunk: Called with each chunk that is replayed, before the reader gets it; awaited in an async stream.
        replaying: Replays the call, given the function that does so, where a framework wants something around that.
        relay: Passes a stream on to its reader, replayed or executed.
    """

    session_call: SessionCall | None
    real: Callable[[], Any]
    executing: Callable[[], AbstractContextManager[Callable[[], Any]]] | None = None
    around: Callable[[], AbstractContextManager[Any]] = nullcontext
    pack: Callable[[Any], Any] = as_it_is
    unpack: Callable[[Any], Any] = as_it_is
    apply: Callable[[Any], object] | None = None
    aapply: Callable[[Any], Any] | None = None
    on_chunk: Callable[[Any], Any] | None = None
    replaying: Callable[[Callable[[], Any]], Any] = _directly
    relay: Callable[[Any], Any] = as_it_is

    def execution(self) -> AbstractContextManager[Callable[[], Any]]:
        """Open the context in which the real call executes."""
        return nullcontext(self.real) if self.executing is None else self.executing()

    def unpacked(self, session_call: SessionCall, recorded: Any) -> Any:
        """Convert a recorded value for the caller; a recording that can't be unpacked fails the session."""
        if self.unpack is as_it_is:
            return recorded
        with session_call.session.latch:
            return self.unpack(recorded)

    @property
    def is_recorded_as_it_is(self) -> bool:
        """True if the real call can be intercepted without anything in between."""
        return self.pack is as_it_is and self.executing is None


Describe: TypeAlias = Callable[..., Call]
"""Describes a call; takes exactly the arguments of the function that is called."""

Shape: TypeAlias = Callable[[Callable[..., Any], Describe], Callable[..., Any]]
"""Wraps a real function, given the description of its calls: `plain` and its siblings."""


def plain(real: Callable[..., Any], describe: Describe) -> Callable[..., Any]:
    """Wrap a function that returns.

    Args:
        real: The function.
        describe: Describes a call of it.
    """

    @functools.wraps(real)
    def call(*args: Any, **kwargs: Any) -> Any:
        described = describe(*args, **kwargs)
        session_call = described.session_call
        if _WAIT.get() is not None:
            described.real = waiting_first(described.real)
        if session_call is None:
            return described.real()
        if described.around is nullcontext:  # as for most calls: to enter it takes longer than to look
            return _value(described, session_call)
        with described.around():
            return _value(described, session_call)

    return call


def _value(call: Call, session_call: SessionCall) -> Any:
    if session_call.is_replayed:
        if call.replaying is not _directly:
            return call.replaying(lambda: call.unpacked(session_call, replay_call(session_call, call.apply)))
        recorded = replay_call(session_call, call.apply)
        return recorded if call.unpack is as_it_is else call.unpacked(session_call, recorded)
    if call.is_recorded_as_it_is:
        return intercept(session_call, call.real)
    value = None

    def execute() -> Any:
        nonlocal value
        with call.execution() as real:
            value = real()
        return call.pack(value)

    intercept(session_call, execute)
    return value


def coroutine(real: Callable[..., Any], describe: Describe) -> Callable[..., Any]:
    """Wrap a function that is awaited: a coroutine function, or one that returns an awaitable."""

    @functools.wraps(real)
    async def call(*args: Any, **kwargs: Any) -> Any:
        described = describe(*args, **kwargs)
        session_call = described.session_call
        if _WAIT.get() is not None:
            described.real = awaiting_first(described.real)
        if session_call is None:
            return await described.real()
        with described.around():
            return await _awaited(described, session_call)

    return call


async def _awaited(call: Call, session_call: SessionCall) -> Any:
    if session_call.is_replayed:
        if call.replaying is _directly and call.unpack is as_it_is:
            return await areplay_call(session_call, call.aapply)

        async def replay_it() -> Any:
            return call.unpacked(session_call, await areplay_call(session_call, call.aapply))

        return await call.replaying(replay_it)
    if call.is_recorded_as_it_is:
        return await aintercept(session_call, call.real)
    value = None

    async def execute() -> Any:
        nonlocal value
        with call.execution() as real:
            value = await real()
        return call.pack(value)

    await aintercept(session_call, execute)
    return value


def generator(real: Callable[..., Any], describe: Describe) -> Callable[..., Any]:
    """Wrap a function that yields. It crosses when its stream is first read, as its code would run only then."""

    @functools.wraps(real)
    def call(*args: Any, **kwargs: Any) -> Generator[Any, Any, Any]:
        described = describe(*args, **kwargs)
        session_call = described.session_call
        if _WAIT.get() is not None:
            described.real = _waiting_before_chunks(described.real)
        if session_call is None:
            return (yield from described.real())
        with described.around():
            return (yield from described.relay(chunks_of(described, session_call)))

    return call


def chunks_of(call: Call, session_call: SessionCall) -> Iterator[Any]:
    """Return the stream of a call: replayed, or executed and recorded while it is read."""
    if session_call.is_replayed:
        return cast("Iterator[Any]", call.replaying(lambda: _replayed(call, session_call)))
    return intercept_stream(session_call, call.real) if call.is_recorded_as_it_is else _recorded(call, session_call)


def _replayed(call: Call, session_call: SessionCall) -> Iterator[Any]:
    on_chunk = call.on_chunk
    if call.unpack is as_it_is and on_chunk is None:
        return replay_stream(session_call, call.apply)

    def receive(recorded: Any) -> Any:
        chunk = recorded if call.unpack is as_it_is else call.unpacked(session_call, recorded)
        if on_chunk is not None:
            on_chunk(chunk)
        return chunk

    return replay_stream(session_call, call.apply, receive)


def _recorded(call: Call, session_call: SessionCall) -> Iterator[Any]:
    chunk = None

    def execute() -> Iterator[Any]:
        nonlocal chunk
        with call.execution() as real:
            chunks = real()
            try:
                for chunk in chunks:
                    yield call.pack(chunk)
            finally:
                if (close := getattr(chunks, "close", None)) is not None:
                    close()

    packed = cast("Generator[Any, None, None]", intercept_stream(session_call, execute))
    with closing(packed):
        for _ in packed:  # in step with `execute`: what it packed last is what has just been recorded
            yield chunk


def async_generator(real: Callable[..., Any], describe: Describe) -> Callable[..., Any]:
    """Wrap a function that yields asynchronously; see `generator`."""

    @functools.wraps(real)
    async def call(*args: Any, **kwargs: Any) -> AsyncGenerator[Any, Any]:
        described = describe(*args, **kwargs)
        session_call = described.session_call
        if _WAIT.get() is not None:
            described.real = _awaiting_before_chunks(described.real)
        with nullcontext() if session_call is None else described.around():
            chunks: Any = aiter(
                described.real() if session_call is None else described.relay(achunks_of(described, session_call))
            )
            try:  # what `yield from` does for plain generators: https://peps.python.org/pep-0380/
                chunk = await anext(chunks)
                while True:
                    try:
                        sent = yield chunk
                    except GeneratorExit:
                        if (close := getattr(chunks, "aclose", None)) is not None:
                            await close()
                        raise
                    except BaseException as error:
                        if (throw := getattr(chunks, "athrow", None)) is None:
                            raise
                        chunk = await throw(error)
                    else:
                        chunk = await (anext(chunks) if sent is None else chunks.asend(sent))
            except StopAsyncIteration:
                return

    return call


def achunks_of(call: Call, session_call: SessionCall) -> AsyncIterator[Any]:
    """Return the async stream of a call: replayed, or executed and recorded while it is read."""
    if session_call.is_replayed:
        return cast("AsyncIterator[Any]", call.replaying(lambda: _areplayed(call, session_call)))
    return aintercept_stream(session_call, call.real) if call.is_recorded_as_it_is else _arecorded(call, session_call)


async def _areplayed(call: Call, session_call: SessionCall) -> AsyncIterator[Any]:
    async with aclosing(areplay_stream(session_call, call.aapply)) as chunks:
        async for recorded in chunks:
            chunk = call.unpacked(session_call, recorded)
            if call.on_chunk is not None:
                await call.on_chunk(chunk)
            yield chunk


async def _arecorded(call: Call, session_call: SessionCall) -> AsyncIterator[Any]:
    chunk = None

    async def execute() -> AsyncIterator[Any]:
        nonlocal chunk
        with call.execution() as real:
            chunks = real()
            try:
                async for chunk in chunks:
                    yield call.pack(chunk)
            finally:
                if (close := getattr(chunks, "aclose", None)) is not None:
                    await close()

    packed = cast("AsyncGenerator[Any, None]", aintercept_stream(session_call, execute))
    async with aclosing(packed):
        async for _ in packed:  # in step with `execute`, as in `_recorded`
            yield chunk


# Waits for rate limiters that are left to the leaf calls which these let through, where they are executed for real.


class _LimiterWait:
    """A wait for a rate limiter that the next leaf call takes over. Thread-safe.

    `acquire` waits in the shape of the call: it returns, or is awaited.
    """

    def __init__(self, acquire: Callable[[], Any]) -> None:
        self._acquire = acquire
        self._is_left = True
        self._lock = Lock()

    def take(self) -> Callable[[], Any] | None:
        """Return what waits; `None` if another call has taken it, as of tasks that began with the same context."""
        with self._lock:
            is_left, self._is_left = self._is_left, False
        return self._acquire if is_left else None


_WAIT: ContextVar[_LimiterWait | None] = ContextVar("agenttape_limiter_wait", default=None)


def leave_to_call(acquire: Callable[[], Any]) -> None:
    """Leave it to the next leaf call in this context to wait for a rate limiter."""
    _WAIT.set(_LimiterWait(acquire))


def _taken() -> Callable[[], Any] | None:
    wait = _WAIT.get()
    if wait is None:
        return None
    _WAIT.set(None)
    return wait.take()


def waiting_first(real: Callable[[], Any]) -> Callable[[], Any]:
    """Return a real call that waits for the rate limiter before, if this was left to it."""
    acquire = _taken()
    if acquire is None:
        return real

    def call() -> Any:
        acquire()
        return real()

    return call


def awaiting_first(real: Callable[[], Any]) -> Callable[[], Any]:
    """Do the same for a call that is awaited."""
    acquire = _taken()
    if acquire is None:
        return real

    async def call() -> Any:
        await acquire()
        return await real()

    return call


def _waiting_before_chunks(real: Callable[[], Iterator[Any]]) -> Callable[[], Iterator[Any]]:
    """Do the same for a call that yields."""
    acquire = _taken()
    if acquire is None:
        return real

    def call() -> Iterator[Any]:
        acquire()
        return (yield from real())

    return call


def _awaiting_before_chunks(real: Callable[[], AsyncIterator[Any]]) -> Callable[[], AsyncIterator[Any]]:
    """Do the same for a call that yields asynchronously."""
    acquire = _taken()
    if acquire is None:
        return real

    async def call() -> AsyncIterator[Any]:
        await acquire()
        chunks = real()
        try:
            async for chunk in chunks:
                yield chunk
        finally:
            if (close := getattr(chunks, "aclose", None)) is not None:
                await close()

    return call
