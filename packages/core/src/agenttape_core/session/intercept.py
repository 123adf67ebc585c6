"""The four shapes of a call (plain, coroutine, generator, async generator) as thin shells over one decision."""

from __future__ import annotations

from asyncio import CancelledError
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Iterator
from contextlib import aclosing, contextmanager
from itertools import count
from types import TracebackType
from typing import Any, Literal

from agenttape_core.errors import AgentTapeError
from agenttape_core.locks import Lock
from agenttape_core.scheduling import Awaited, answering
from agenttape_core.schema import Outcome, Plain, Usage
from agenttape_core.session.answered_call import AnsweredCall
from agenttape_core.session.call import ANSWER_WATCHERS, answered
from agenttape_core.session.executed_call import ExecutedCall, Failure, keep_so_far
from agenttape_core.session.session_call import SessionCall

Ended = Literal["exhausted", "closed", "raised"]
Apply = Callable[[Any], object]
"""Repeats the side effects of a replayed call in addition to its result, one at a time, in order."""
AsyncApply = Callable[[Any], Awaitable[object]]
_DONE = object()
_EXECUTED = "this call is to be executed: only one that `is_replayed` can be replayed"


def replay_call(call: SessionCall, apply: Apply | None = None) -> Any:
    """Answer a call that is replayed: with the recorded value or error, at the pace of the session.

    Args:
        call: The call.
        apply: Does again what else the call did. What it raises takes the place of the answer.
    """
    assert call.is_replayed, _EXECUTED
    outcome = call.direct_outcome()
    if outcome is not None and outcome.status == "returned" and call.session.scheduler.comes_at_once():
        value = call.value(outcome)
        if ANSWER_WATCHERS:
            answered(call)
        return value
    paced, arrivals = call.paced(), call.arrivals
    try:
        with arrivals.coming(call.recording or None):
            if paced is not None:
                paced.wait()
            if apply is not None:
                for effect in call.effects():
                    arrivals.effect()
                    apply(effect)
            if call.may_be_late:
                call.wait_to_be_abandoned()
            return call.replay()
    finally:
        answered(call)


async def areplay_call(call: SessionCall, apply: AsyncApply | None = None) -> Any:
    """Like `replay_call`, for a coroutine. One that was cancelled waits until it is cancelled again."""
    assert call.is_replayed, _EXECUTED
    outcome = call.direct_outcome()
    if outcome is not None and outcome.status == "returned":
        # Even a direct answer takes its place in the loop: one that came without a round of it would starve what waits
        # for sockets, and end loops of tasks that run until something else has happened (decision 0120).
        with call.awaiting() as awaited:
            await awaited.next()
            answered(call)
            return call.value(outcome)
    paced = call.paced()
    with call.awaiting() as awaited:
        if call.was_cancelled or awaited.knows_effects:  # one that was cancelled may be from here on
            await _reapply(call, awaited, apply)
        if paced is not None:
            with answering():
                await paced.await_()
        if call.was_cancelled:
            await cancelled_again(call, awaited)
        else:
            await awaited.next()
            if call.may_be_late:
                await call.await_to_be_abandoned()
            if not awaited.knows_effects:
                await _reapply(call, awaited, apply)
            answered(call)
        return call.replay()


async def cancelled_again(call: AnsweredCall, awaited: Awaited) -> None:
    """Wait until a call that was cancelled is cancelled again. Return if that doesn't happen."""
    try:
        with answering():
            await call.await_cancellation()
    except CancelledError:
        await awaited.cancelled()
        raise


async def _reapply(call: AnsweredCall, awaited: Awaited, apply: AsyncApply | None, after: int | None = None) -> None:
    """Repeat the side effects of a call, each at its recorded time if that is known."""
    if apply is None:
        return
    for effect in call.effects(after):
        if awaited.knows_effects:
            await awaited.next()
        try:
            with answering():
                await apply(effect)
        except Exception:  # of the program's code, so it may be any
            if awaited.knows_effects:  # it ended with that
                await awaited.next()
            raise


def replay_stream(
    call: SessionCall, apply: Apply | None = None, receive: Callable[[Any], Any] | None = None
) -> Iterator[Any]:
    """Like `replay_call`, for a generator: each chunk comes when it is due, and effects where they were between chunks.

    Args:
        call: The call.
        apply: As for `replay_call`.
        receive: Gets each chunk as it arrives, and returns the chunk for the reader. What it does is done inside of the
            call, as a provider would do it.
    """
    assert call.is_replayed, _EXECUTED
    outcome = call.direct_outcome()
    if outcome is not None and outcome.status == "streamed" and call.session.scheduler.comes_at_once():
        return _at_once(call, outcome, receive)
    return _when_due(call, apply, receive)


def _at_once(call: AnsweredCall, outcome: Outcome, receive: Callable[[Any], Any] | None) -> Iterator[Any]:
    """Yield the chunks of a stream with no waits."""
    try:
        for chunk in call.chunks(outcome):
            yield chunk if receive is None else receive(chunk)
    except AgentTapeError as error:
        call.session.latch.keep(error)
        raise
    answered(call)


def _when_due(call: AnsweredCall, apply: Apply | None, receive: Callable[[Any], Any] | None) -> Iterator[Any]:
    """Yield the chunks of a stream, each when it is due."""
    chunks, paced = call.replay_chunks(), call.paced()
    arrivals, may_be_late = call.arrivals, False
    for number in count():
        with arrivals.coming(call.recording or None):
            if paced is not None:
                paced.wait(number)
            if apply is not None:
                for effect in call.effects(number):
                    arrivals.effect()
                    apply(effect)
            may_be_late = call.may_be_late if number == 0 else may_be_late
            if may_be_late:
                call.wait_to_be_abandoned(number)
                call.wait_to_be_left(number)
            chunk = next(chunks, _DONE)
            if receive is not None and chunk is not _DONE:
                chunk = receive(chunk)
        if chunk is _DONE:
            answered(call)
            return
        yield chunk


async def areplay_stream(call: SessionCall, apply: AsyncApply | None = None) -> AsyncGenerator[Any, None]:
    """Like `replay_stream`, for an async generator. A stream that was cut short waits at its end to be cut again."""
    assert call.is_replayed, _EXECUTED
    chunks, paced = call.replay_chunks(), call.paced()
    with call.awaiting() as awaited:
        for number in count():
            if paced is not None:
                with answering():
                    await paced.await_(number)
            is_left = call.is_left_after(number)
            if awaited.knows_effects:
                await _reapply(call, awaited, apply, number)
            if not is_left:
                await awaited.next()
            if not awaited.knows_effects:
                await _reapply(call, awaited, apply, number)
            await call.await_to_be_abandoned(number)
            if is_left:
                await cancelled_again(call, awaited)
            chunk = next(chunks, _DONE)
            if chunk is _DONE:
                answered(call)
                break
            try:
                yield chunk
            except BaseException:
                await awaited.cancelled()
                raise


def intercept(call: SessionCall, execute: Callable[[], Any], apply: Apply | None = None) -> Any:
    """Replay the call, step into it, or execute and record it.

    `KeyboardInterrupt`, `SystemExit` and our own halts are not outcomes: they pass and leave no record.

    Args:
        call: The call.
        execute: Makes the real call.
        apply: Does again what else a replayed call did; the real call notes it with `ExecutedCall.effected`.
    """
    if call.is_replayed:
        return replay_call(call, apply)
    try:
        with call.executing():
            value = execute()
    except (Exception, CancelledError) as error:
        call.arrivals.next()
        call.raised(error)
        raise
    call.arrivals.next()
    call.returned(value)
    return value


async def aintercept(call: SessionCall, execute: Callable[[], Awaitable[Any]], apply: AsyncApply | None = None) -> Any:
    """Like `intercept`, for a coroutine."""
    if call.is_replayed:
        return await areplay_call(call, apply)
    try:
        async with awaited(call):
            with call.executing():
                value = await execute()
    except (Exception, CancelledError) as error:
        call.raised(error)
        raise
    call.returned(value)
    return value


class awaited:  # noqa: N801 - it's used as a function; an async generator would be one of the program's
    """Awaits the real code of a call inside, at its place among all that its event loop waits for.

    Args:
        call: The call.
        unless: Returns true if it turned out to be part of the program; by default it's none.
        is_cancelled: Called if it's cancelled after its code has ended, before that has come.
    """

    def __init__(
        self,
        call: SessionCall,
        unless: Callable[[], bool] | None = None,
        is_cancelled: Callable[[CancelledError], object] | None = None,
    ) -> None:
        self._call = call
        self._unless = unless
        self._is_cancelled = is_cancelled

    async def __aenter__(self) -> None:
        self._awaiting = self._call.awaiting()
        awaited = self._awaiting.__enter__()
        self._arriving = awaited.arriving(self._unless)
        await self._arriving.__aenter__()
        self._call.arrivals.awaited = awaited

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        try:
            await self._arriving.__aexit__(kind, error, trace)
        except CancelledError as cancelled:
            if error is None and self._is_cancelled is not None:
                self._is_cancelled(cancelled)
            raise
        finally:
            self._awaiting.__exit__(kind, error, trace)


class RealStream:
    """The chunks of a real stream so far; records them exactly once, however the stream ends.

    Only an exception from the real stream counts as its error. A reader that stops, by closing the stream or by raising
    where a chunk was handed to it, leaves a closed stream behind; so does one that still waits when the session ends.
    """

    def __init__(self, call: ExecutedCall) -> None:
        self._call = call
        self._chunks: list[Plain] = []
        self._open = True
        self._lock = Lock()
        call.session.watch(self.cut)

    @contextmanager
    def reading(self) -> Iterator[None]:
        """Run a step of the real stream inside."""
        try:
            with self._call.executing():
                yield
        except (Exception, CancelledError) as error:
            self._end("raised", error)
            raise
        except BaseException:
            self._finish()  # the end of the program is not an outcome: it leaves no record
            raise

    def arrived(self, chunk: Any) -> None:
        """Keep a chunk before the reader can change it."""
        self._call.chunk_arrived()
        with self._call.session.latch:
            self._chunks.append(self._call.session.codec.encode(chunk))

    def keep_so_far(self) -> None:
        """Keep the chunks so far for a recovery, in case that the end is never recorded."""
        keep_so_far(self._call, self._chunks)

    def exhaust(self) -> None:
        """Record the end of the stream."""
        decode = self._call.session.codec.decode
        with self._call.session.latch:
            usage = self._call.boundary.usage_of_stream([decode(chunk) for chunk in self._chunks])
        self._end("exhausted", usage=usage)

    async def comes(self, come: Callable[[], object]) -> None:
        """Call this when a chunk may reach the program that comes at any time."""
        await self._call.arrivals.awaited.effect_comes(come)

    def raised(self, error: Failure) -> None:
        """Record the error of the stream, or that its reader was cancelled, unless its end is known."""
        self._end("raised", error)

    def close(self) -> None:
        """Record that the reader stopped."""
        self._end("closed")

    def cut(self) -> None:
        """Record that the session has ended."""
        if not self._call.is_abandoned:
            self.close()
        elif self._finish():
            self._call.cancelled(self._chunks)

    def _end(self, how: Ended, error: Failure | None = None, usage: Usage | None = None) -> None:
        if self._finish():
            self._call.streamed(self._chunks, how, error, usage)

    def _finish(self) -> bool:
        """Note that the stream is over; whether it was not before."""
        with self._lock:
            first, self._open = self._open, False
        self._call.session.unwatch(self.cut)
        return first


def intercept_stream(
    call: SessionCall, execute: Callable[[], Iterator[Any]], apply: Apply | None = None
) -> Iterator[Any]:
    """Like `intercept`, for a generator. A stream closed early or broken midway is recorded as exactly that."""
    if call.is_replayed:
        yield from replay_stream(call, apply)
        return
    stream, chunks = RealStream(call), None
    while True:
        try:
            with stream.reading():
                chunks = chunks if chunks is not None else iter(execute())
                chunk = next(chunks, _DONE)
        finally:
            call.arrivals.next()
        if chunk is _DONE:
            break
        try:
            stream.arrived(chunk)
            yield chunk
        except BaseException:
            stream.close()
            with call.executing():
                if (close := getattr(chunks, "close", None)) is not None:
                    close()
            raise
    stream.exhaust()


async def aintercept_stream(
    call: SessionCall, execute: Callable[[], AsyncIterator[Any]], apply: AsyncApply | None = None
) -> AsyncIterator[Any]:
    """Like `intercept_stream`, for an async generator."""
    if call.is_replayed:
        async with aclosing(areplay_stream(call, apply)) as replayed:
            async for chunk in replayed:
                yield chunk
        return
    stream = RealStream(call)
    with stream.reading():
        chunks = aiter(execute())
    with call.awaiting() as awaited:
        call.arrivals.awaited = call.arrivals.tells = awaited
        while True:
            try:
                async with awaited.arriving():
                    with stream.reading():
                        chunk = await anext(chunks, _DONE)
            except CancelledError as error:
                stream.raised(error)  # if it was cancelled with a chunk that had not reached the program
                raise
            if chunk is _DONE:
                break
            try:
                stream.arrived(chunk)
                yield chunk
            except BaseException:
                stream.close()
                if (close := getattr(chunks, "aclose", None)) is not None:
                    async with awaited.leaving():
                        with call.executing():
                            await close()
                raise
    stream.exhaust()
