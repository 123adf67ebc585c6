"""The boundary around a function: a function of the same shape, which outside of a session only calls the real one."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import Any

from agenttape_core.boundaries.callee import Callee
from agenttape_core.boundaries.streams import one_way, one_way_async, with_return_value
from agenttape_core.boundaries.unfinished import finished, refusing_unfinished
from agenttape_core.integration import (
    Call,
    Crossing,
    async_generator,
    changing_arguments,
    coroutine,
    generator,
    plain,
)
from agenttape_core.side_effects import mark_boundary

_NAMES = ("__module__", "__name__", "__qualname__", "__doc__")


def taped(callee: Callee) -> Callable[..., Any]:
    """Return a function that behaves like the callee, and is a boundary."""
    if callee.has_shape(inspect.isasyncgenfunction):
        return _named(async_generator(_unnamed, functools.partial(_describe_async_generator, callee)), callee)
    if callee.has_shape(inspect.isgeneratorfunction):
        return _named(generator(_unnamed, functools.partial(_describe_generator, callee)), callee)
    if callee.has_shape(inspect.iscoroutinefunction):
        return taped_coroutine(callee)
    return _named(plain(_unnamed, functools.partial(_describe, callee)), callee)


def taped_coroutine(callee: Callee) -> Callable[..., Any]:
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
    crossing, real, may_change = callee.crossed(args, kwargs)
    if crossing is None:
        return Call(None, real)
    return Call(crossing, real, around=lambda: _around(crossing, may_change), pack=finished)


@contextmanager
def _around(crossing: Crossing, may_change: dict[str, Any]) -> Iterator[None]:
    with refusing_unfinished(crossing), _changing(crossing, may_change):
        yield


def _changing(crossing: Crossing, may_change: dict[str, Any]) -> AbstractContextManager[None]:
    return changing_arguments(crossing, may_change) if may_change else nullcontext()


def _describe_generator(callee: Callee, /, *args: Any, **kwargs: Any) -> Call:
    crossing, real, may_change = callee.crossed(args, kwargs)
    if crossing is None:
        return Call(None, real)
    return Call(
        crossing,
        lambda: with_return_value(real()),
        around=lambda: _changing(crossing, may_change),
        relay=lambda chunks: one_way(crossing, chunks),
    )


def _describe_async_generator(callee: Callee, /, *args: Any, **kwargs: Any) -> Call:
    crossing, real, may_change = callee.crossed(args, kwargs)
    if crossing is None:
        return Call(None, real)
    return Call(
        crossing,
        real,
        around=lambda: _changing(crossing, may_change),
        relay=lambda chunks: one_way_async(crossing, chunks),
    )
