"""The four shapes of a leaf call of an LLM, over one decision.

They differ from core's in two ways. A streaming method runs when it is called, and its stream later: an error that it
raises immediately is also raised immediately in a replay, and its address is the location of the call. And a method may
delegate its call to another one, see `delegation`; therefore an alias runs its own method, not its original's.
"""

from __future__ import annotations

import functools
import weakref
from collections.abc import AsyncGenerator, Callable, Generator
from contextlib import aclosing, nullcontext
from io import IOBase
from typing import Any, cast

from agenttape_core.integration import Call, Cross, SessionCall, areplay_call, leaf_call, replay_call
from agenttape_core.integration.leaves import DescribeLeaf
from agenttape_core.integration.request_values import leave_at_end
from agenttape_core.integration.shapes import Describe, achunks_of, awaiting_first, chunks_of, waiting_first
from agenttape_llamaindex.codec.streams import Sort
from agenttape_llamaindex.delegation import LeafCall, running_call

# -- The ids that an LLM keeps on itself in a call, and sends with the next one: that of the response before.
#
# They are set by the real call, so a replayed one sets them again: a call that is executed after it goes on in the same
# conversation. Only texts in private attributes whose names end with `_id` count, for others may be secrets.

_KEPT = "kept"
"""The key of an effect that such ids are."""


class KeptIds:
    """The ids that an LLM keeps, before a call of it."""

    __slots__ = ("_before", "_llm")

    def __init__(self, llm: Any) -> None:
        self._llm = llm
        self._before = _ids_of(llm)

    def changed(self) -> dict[str, Any] | None:
        """Return the effect of the call on them; `None` if it had none."""
        now = _ids_of(self._llm)
        changed = {name: value for name, value in now.items() if self._before.get(name) != value}
        return {_KEPT: changed} if changed else None

    def apply(self, effect: Any) -> None:
        """Repeat the effect of a replayed call."""
        for name, value in effect.get(_KEPT, {}).items():
            setattr(self._llm, name, value)

    async def aapply(self, effect: Any) -> None:
        """Repeat the effect of a replayed call that is awaited."""
        self.apply(effect)


def _ids_of(llm: Any) -> dict[str, Any]:
    private = getattr(llm, "__pydantic_private__", None) or {}
    return {name: each for name, each in private.items() if name.endswith("_id") and isinstance(each, str | None)}


_DONE = object()

Method = tuple[str, Sort]
"""A leaf method, and the sort of its responses."""

_taped: weakref.WeakSet[Callable[..., Any]] = weakref.WeakSet()


def untaped(function: Callable[..., Any]) -> Callable[..., Any]:
    """Return the function of a method of a class, also while the class is wrapped for automatic sessions."""
    return function.__wrapped__ if function in _taped else function  # type: ignore[attr-defined]


def _marked(method: Callable[..., Any]) -> Callable[..., Any]:
    _taped.add(method)
    return method


def plain(real: Callable[..., Any], describe: Describe, leaf: Method) -> Callable[..., Any]:
    """Wrap a method that returns a response.

    `describe` describes a call of it; `leaf` has its name, and the sort of its responses.
    """
    name, sort = leaf

    @functools.wraps(real)
    def method(*args: Any, **kwargs: Any) -> Any:
        call = describe(*args, **kwargs)
        limited = waiting_first(call.real)
        session_call = call.session_call
        if session_call is None:
            return limited()
        running, kept = running_call(session_call, name), KeptIds(args[0])
        if running is None:
            return sort.converted(replay_call(session_call, kept.apply))
        try:
            with running.coming(), running.calling():
                response = (limited if running.run is not None else call.real)()
            running.effected(kept.changed())
        finally:
            if running.run is not None:
                session_call.arrivals.next()  # as where it is replayed
        running.returned(response)
        return response

    return _marked(method)


def coroutine(real: Callable[..., Any], describe: Describe, leaf: Method) -> Callable[..., Any]:
    """Wrap a method that is awaited; see `plain`."""
    name, sort = leaf

    @functools.wraps(real)
    async def method(*args: Any, **kwargs: Any) -> Any:
        call = describe(*args, **kwargs)
        limited = awaiting_first(call.real)
        session_call = call.session_call
        if session_call is None:
            return await limited()
        running, kept = running_call(session_call, name), KeptIds(args[0])
        if running is None:
            return sort.converted(await areplay_call(session_call, kept.aapply))
        async with running.awaiting():
            with running.calling():
                response = await (limited if running.run is not None else call.real)()
        running.effected(kept.changed())
        running.returned(response)
        return response

    return _marked(method)


def stream(real: Callable[..., Any], describe: Describe, leaf: Method) -> Callable[..., Any]:
    """Wrap a method that returns a generator of responses; see `plain`."""
    name, sort = leaf

    @functools.wraps(real)
    def method(*args: Any, **kwargs: Any) -> Any:
        call = describe(*args, **kwargs)
        limited = waiting_first(call.real)
        session_call = call.session_call
        if session_call is None:
            return limited()
        running, kept = running_call(session_call, name), KeptIds(args[0])
        if running is None:
            session_call.arrivals.next()  # as where it is opened for real
            return replayed(session_call, sort, kept)
        try:
            with running.calling():
                responses = (limited if running.run is not None else call.real)()
        finally:
            session_call.arrivals.next()
        return _followed(running, responses, sort, kept)

    return _marked(method)


def async_stream(real: Callable[..., Any], describe: Describe, leaf: Method) -> Callable[..., Any]:
    """Wrap a coroutine that returns an async generator of responses; see `plain`."""
    name, sort = leaf

    @functools.wraps(real)
    async def method(*args: Any, **kwargs: Any) -> Any:
        call = describe(*args, **kwargs)
        limited = awaiting_first(call.real)
        session_call = call.session_call
        if session_call is None:
            return await limited()
        running, kept = running_call(session_call, name), KeptIds(args[0])
        if running is None:
            return await areplayed(session_call, sort, kept)
        async with running.awaiting():
            with running.calling():
                responses = await (limited if running.run is not None else call.real)()
        return _afollowed(running, responses, sort, kept)

    return _marked(method)


# -- streams that are replayed -----------------------------------------------------------------------------------------


def replayed(session_call: SessionCall, sort: Sort, kept: KeptIds | None = None) -> Generator[Any, None, None]:
    """Return the stream of a call that is replayed, or raise the error that it raised before there was a stream.

    `sort` is the sort of its responses; `kept` are the ids that its object keeps, unless it is a stand-in.
    """
    if _raised_at_once(session_call):
        replay_call(session_call)
    return cast("Generator[Any, None, None]", chunks_of(_recording(session_call, sort, kept), session_call))


async def areplayed(session_call: SessionCall, sort: Sort, kept: KeptIds | None = None) -> AsyncGenerator[Any, None]:
    """Return an async stream; see `replayed`."""
    if _raised_at_once(session_call):
        await areplay_call(session_call)
    with session_call.awaiting() as awaited:  # as its method is awaited, before there is a stream
        await awaited.next()
    return cast("AsyncGenerator[Any, None]", achunks_of(_recording(session_call, sort, kept), session_call))


def _raised_at_once(session_call: SessionCall) -> bool:
    return session_call.is_replayed and session_call.outcome().status == "raised"


def _recording(session_call: SessionCall, sort: Sort, kept: KeptIds | None) -> Call:
    call = Call(session_call, lambda: None, unpack=sort.reader())
    if kept is not None:
        call.apply, call.aapply = kept.apply, kept.aapply
    return call


# -- streams of methods that run --------------------------------------------------------------------------------------


class _Unread:
    """A stream that is not read yet. If it never is, it is recorded as closed when the session ends."""

    def __init__(self, call: LeafCall) -> None:
        self._call = call
        call.session_call.session.watch(self._close)

    def read(self) -> None:
        """Note that it is read now."""
        self._call.session_call.session.unwatch(self._close)

    def _close(self) -> None:
        self.read()
        if self._call.run is not None:
            self._call.run.session_call.streamed([], "closed")


def _followed(call: LeafCall, responses: Any, sort: Sort, kept: KeptIds) -> Generator[Any, None, None]:
    """Return the stream of a method, recorded unless this is a replay of a method that has delegated its call."""
    unread = _Unread(call)

    def generate() -> Generator[Any, None, None]:
        unread.read()
        steps = _steps(call, responses, kept)
        if call.run is None:
            yield from steps
        else:
            yield from chunks_of(Call(call.session_call, lambda: steps, pack=sort.writer()), call.session_call)

    return generate()


def _steps(call: LeafCall, responses: Any, kept: KeptIds) -> Generator[Any, None, None]:
    """Yield the responses of a method; at each step it may call another one, or take a step of the stream of one."""
    with call.running():
        iterator = iter(responses)
    try:
        while True:
            with call.coming(), call.running():
                response = next(iterator, _DONE)
            if response is _DONE:
                call.effected(kept.changed())
                return
            call.answered(response)
            yield response
    finally:
        if (close := getattr(iterator, "close", None)) is not None:
            close()


def _afollowed(call: LeafCall, responses: Any, sort: Sort, kept: KeptIds) -> AsyncGenerator[Any, None]:
    """Return an async stream; see `_followed`."""
    unread = _Unread(call)

    async def generate() -> AsyncGenerator[Any, None]:
        unread.read()
        steps = _asteps(call, responses, kept)
        if call.run is None:
            chunks: Any = steps
        else:
            chunks = achunks_of(Call(call.session_call, lambda: steps, pack=sort.writer()), call.session_call)
        async with aclosing(chunks):
            async for chunk in chunks:
                yield chunk

    return generate()


async def _asteps(call: LeafCall, responses: Any, kept: KeptIds) -> AsyncGenerator[Any, None]:
    """Yield the responses of an async stream; see `_steps`."""
    with call.running():
        iterator = aiter(responses)
    try:
        while True:
            async with nullcontext() if call.run is not None else call.awaiting():
                with call.running():
                    response = await anext(iterator, _DONE)
            if response is _DONE:
                call.effected(kept.changed())
                return
            call.answered(response)
            yield response
    finally:
        if (close := getattr(iterator, "aclose", None)) is not None:
            await close()


# -- Open files, which some calls get in the place of paths: the request has their content, and the real code the file.


def file_call(**options: Any) -> DescribeLeaf:
    """Return the description of a call that may get open files, given options of `leaf_call`.

    A replay leaves them at their end, as the real code does.
    """
    describe_leaf = leaf_call(read_by_request=IOBase, **options)

    def describe(real: Callable[..., Any], cross: Cross, self: Any, /, *args: Any, **kwargs: Any) -> Call:
        call = describe_leaf(real, cross, self, *args, **kwargs)
        if call.session_call is not None and call.session_call.is_replayed:
            leave_at_end(*args, *kwargs.values())
        return call

    return describe
