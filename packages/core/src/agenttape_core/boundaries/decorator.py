"""`boundary`, `record_call` and `arecord_call`: the names that a user writes."""

from __future__ import annotations

import functools
import inspect
from collections.abc import AsyncIterator, Awaitable, Callable, Collection, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import Any, ParamSpec, TypeVar, overload

from agenttape_core.boundaries.callee import Callee
from agenttape_core.boundaries.streams import one_way, one_way_async, with_return_value
from agenttape_core.errors import ConfigurationError, UnrecordableValueError
from agenttape_core.integration import Call, SessionCall, async_generator, coroutine, generator, plain, value_codec
from agenttape_core.integration.changed_arguments import changing_arguments
from agenttape_core.schema import Kind
from agenttape_core.side_effects import mark_boundary

P = ParamSpec("P")
T = TypeVar("T")
FunctionT = TypeVar("FunctionT", bound=Callable[..., Any])


@overload
def boundary(
    function: FunctionT, /, *, name: str | None = None, drop: Collection[str] = (), writes: bool | None = None
) -> FunctionT: ...
@overload
def boundary(
    kind: Kind = "call", /, *, name: str | None = None, drop: Collection[str] = (), writes: bool | None = None
) -> Callable[[FunctionT], FunctionT]: ...
def boundary(
    kind: Any = "call", /, *, name: str | None = None, drop: Collection[str] = (), writes: bool | None = None
) -> Any:
    """Make a boundary of a function: recorded once, and replayed ever after.

    Use it bare (`@boundary`), with arguments (`@boundary("tool", name="get_weather")`), or on code that is not yours
    (`search = boundary("retrieval")(client.search)`): functions, coroutine functions, generators, async generators,
    methods of any sort, `functools.partial`, callable objects. The result is a function of the same shape; outside
    any session it behaves like the real one.

    Args:
        kind: `chat`, `completion`, `embeddings`, `retrieval`, `tool`, `node`, `memory`, `http` or `call`.
        name: The name of the boundary within its kind; by default the qualified name of the function.
        drop: Parameters that are not part of the request, such as a connection. The object or class of a method never
            is.
        writes: Whether a call of a method changes what its object holds. After such a call was replayed, none is
            executed on the object. By default the methods of the kind `memory` do: say `writes=False` where one only
            reads.

    Raises:
        ConfigurationError: Right away, if the kind or parameter doesn't exist, or if this can't be a boundary. A call
            raises the errors of the session: a miss, or a value that cannot be recorded.
    """
    if not isinstance(kind, str):
        return _decorated(kind, "call", name, drop, writes)
    return functools.partial(_decorated, kind=kind, name=name, drop=drop, writes=writes)


def _decorated(function: Any, kind: str, name: str | None, drop: Collection[str], writes: bool | None) -> Any:
    if isinstance(function, classmethod | staticmethod):
        return type(function)(_decorated(function.__func__, kind, name, drop, writes))
    return _taped(Callee(function, kind, name, drop, writes=writes))


def record_call(kind: Kind, function: Callable[P, T], /, *args: P.args, **kwargs: P.kwargs) -> T:
    """Make one call a boundary: the same as `boundary(kind)(function)(*args, **kwargs)`.

    A generator function gives its generator, an async one its async generator: loop over it, and do not await it.

    Args:
        kind: The kind of boundary.
        function: The function that is called.
        *args: Its positional arguments.
        **kwargs: Its keyword arguments.

    Raises:
        ConfigurationError: If the kind doesn't exist, or if the function can't be a boundary.
    """
    return boundary(kind)(function)(*args, **kwargs)


async def arecord_call(kind: Kind, function: Callable[P, Awaitable[T]], /, *args: P.args, **kwargs: P.kwargs) -> T:
    """Make one call whose result is awaited a boundary.

    Args:
        kind: The kind of boundary.
        function: A coroutine function, or any other that returns something to be awaited.
        *args: Its positional arguments.
        **kwargs: Its keyword arguments.

    Raises:
        ConfigurationError: If the kind doesn't exist, or if the function can't be a boundary or is a generator.
    """
    callee = Callee(function, kind)
    if callee.has_shape(inspect.isgeneratorfunction) or callee.has_shape(inspect.isasyncgenfunction):
        raise ConfigurationError(
            f"the generator {callee.name} is not awaited: loop over record_call({kind!r}, {callee.name}, …)"
        )
    result: T = await _taped_coroutine(callee)(*args, **kwargs)
    return result


# The boundary around a function: a function of the same shape, which outside of a session only calls the real one.

_NAMES = ("__module__", "__name__", "__qualname__", "__doc__")


def _taped(callee: Callee) -> Callable[..., Any]:
    """Return a function that behaves like the callee, and is a boundary."""
    if callee.has_shape(inspect.isasyncgenfunction):
        return _named(async_generator(_unnamed, functools.partial(_describe_async_generator, callee)), callee)
    if callee.has_shape(inspect.isgeneratorfunction):
        return _named(generator(_unnamed, functools.partial(_describe_generator, callee)), callee)
    if callee.has_shape(inspect.iscoroutinefunction):
        return _taped_coroutine(callee)
    return _named(plain(_unnamed, functools.partial(_describe, callee)), callee)


def _taped_coroutine(callee: Callee) -> Callable[..., Any]:
    """Return the boundary around a coroutine function, or around a function that returns something to be awaited."""
    return _named(coroutine(_unnamed, functools.partial(_describe, callee)), callee)


def _unnamed() -> None:
    """Stand for the callee until `_named`: it may be an object, whose attributes must not become the boundary's."""


def _named(function: Callable[..., Any], callee: Callee) -> Callable[..., Any]:
    if inspect.isroutine(callee.inner):
        functools.update_wrapper(function, callee.inner)
    else:
        functools.update_wrapper(function, type(callee.inner), assigned=_NAMES, updated=())
    function.__wrapped__ = callee.function  # type: ignore[attr-defined]
    mark_boundary(function)
    return function


def _describe(callee: Callee, /, *args: Any, **kwargs: Any) -> Call:
    session_call, real, may_change = callee.call_record(args, kwargs)
    if session_call is None:
        return Call(None, real)
    return Call(session_call, real, around=lambda: _around(session_call, may_change), pack=_finished)


@contextmanager
def _around(session_call: SessionCall, may_change: dict[str, Any]) -> Iterator[None]:
    with _refusing_unfinished(session_call), _changing(session_call, may_change):
        yield


def _changing(session_call: SessionCall, may_change: dict[str, Any]) -> AbstractContextManager[None]:
    return changing_arguments(session_call, may_change) if may_change else nullcontext()


def _describe_generator(callee: Callee, /, *args: Any, **kwargs: Any) -> Call:
    session_call, real, may_change = callee.call_record(args, kwargs)
    if session_call is None:
        return Call(None, real)
    return Call(
        session_call,
        lambda: with_return_value(real()),
        around=lambda: _changing(session_call, may_change),
        relay=lambda chunks: one_way(session_call, chunks),
    )


def _describe_async_generator(callee: Callee, /, *args: Any, **kwargs: Any) -> Call:
    session_call, real, may_change = callee.call_record(args, kwargs)
    if session_call is None:
        return Call(None, real)
    return Call(
        session_call,
        real,
        around=lambda: _changing(session_call, may_change),
        relay=lambda chunks: one_way_async(session_call, chunks),
    )


# Unfinished results: an awaitable or an iterator isn't a value yet, and a recording of it would be empty.

_TO_AWAIT = "its result has yet to be awaited: declare the boundary `async def`, or call it by `await arecord_call(…)`"
_TO_READ = "its items have yet to be read: make the boundary a generator function, recorded item by item"


class _Unfinished(BaseException):
    """A signal, not an error: `intercept` lets a `BaseException` pass without recording an outcome."""

    def __init__(self, value: Any) -> None:
        self.value = value


def _finished(value: Any) -> Any:
    """Return a result; inside `_refusing_unfinished`, refuse an unfinished one that no codec handles."""
    if isinstance(value, Awaitable | Iterator | AsyncIterator) and not _is_known(value):
        raise _Unfinished(value)
    return value


def _is_known(value: Any) -> bool:
    try:
        value_codec().encode(value)
    except UnrecordableValueError:
        return False
    return True


@contextmanager
def _refusing_unfinished(session_call: SessionCall) -> Iterator[None]:
    """Refuse unfinished results, even if the session keeps opaque values: no replay could await or read one."""
    try:
        yield
    except _Unfinished as unfinished:
        value = unfinished.value
        if inspect.iscoroutine(value):
            value.close()  # its caller gets the error instead, and cannot await it
        why = _TO_AWAIT if isinstance(value, Awaitable) else _TO_READ
        with session_call.session.latch:
            raise UnrecordableValueError("$", type(value), why) from None
