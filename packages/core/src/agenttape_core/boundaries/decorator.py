"""`boundary`, `record_call` and `arecord_call`: the names that a user writes."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Awaitable, Callable, Collection
from typing import Any, ParamSpec, TypeVar, overload

from agenttape_core.boundaries.callee import Callee
from agenttape_core.boundaries.shapes import taped, taped_coroutine
from agenttape_core.errors import ConfigurationError
from agenttape_core.schema import Kind

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
    """Make a boundary of a function: recorded once, and served ever after.

    Use it bare (`@boundary`), with arguments (`@boundary("tool", name="get_weather")`), or on code that is not yours
    (`search = boundary("retrieval")(client.search)`): functions, coroutine functions, generators, async generators,
    methods of any sort, `functools.partial`, callable objects. The result is a function of the same shape; outside
    any session it behaves like the real one.

    Args:
        kind: `chat`, `completion`, `embeddings`, `retrieval`, `tool`, `node`, `memory`, `http` or `call`.
        name: The name of the boundary within its kind; by default the qualified name of the function.
        drop: Parameters that are not part of the request, such as a connection. The object or class of a method never
            is.
        writes: Whether a call of a method changes what its object holds. After such a call was served, none is executed
            on the object. By default the methods of the kind `memory` do: say `writes=False` where one only reads.

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
    return taped(Callee(function, kind, name, drop, writes=writes))


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
    result: T = await taped_coroutine(callee)(*args, **kwargs)
    return result
