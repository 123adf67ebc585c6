"""What the leaf calls of all families have in common: a method that is served, or executed and recorded.

A family is a base class of the framework and its leaf methods. `tape` makes aliases of its objects; a session that is
ambient meets the objects themselves, by the same wrappers around the same methods (`subclasses.py`).
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, TypeVar

from agenttape_core.integration.alias import StandIn, alias_class, is_alias, original_of, state_of
from agenttape_core.matching import Position
from agenttape_core.session import (
    Boundary,
    Crossing,
    Session,
    aintercept,
    aintercept_stream,
    below,
    current_session,
    executing,
    intercept,
    intercept_stream,
)

T = TypeVar("T")

Cross = Callable[[Any, tuple[Any, ...], dict[str, Any]], Crossing | None]
"""Begins the crossing of a call of a method (object, arguments), or says that it belongs to nothing that is taped."""

Shape = Callable[[Callable[..., Any], Cross], Callable[..., Any]]
"""Wraps a real method."""


@dataclass(frozen=True, slots=True)
class Leaf:
    """A leaf method.

    Args:
        shape: How it is called: `plain`, `coroutine`, `generator`, `async_generator`, or a shape of the family's own.
        cross: Begins the crossing of a call of it.
        inherited: Takes over a call that an alias's method makes of the one of its base class; by default such a call
            is part of the alias's.
    """

    shape: Shape
    cross: Cross
    inherited: Cross | None = None


@dataclass(frozen=True, slots=True)
class Family:
    """The classes that implement one interface of the framework.

    Args:
        base: The interface.
        leaves: Its leaf methods by name.
        defaults: Those that count as leaves even where a class leaves them as the interface has them. Asynchronous
            methods belong here that go on in a thread: which of several calls is the first is certain only before.
        is_boundary: Whether what a class does is outside of the process at all.
        delegating: Classes of the framework that implement leaf methods by others of them. Theirs are no leaves: they
            run on every replay, with all that the framework tells of them, and the calls that they make are served.
    """

    base: type
    leaves: Mapping[str, Leaf]
    defaults: frozenset[str] = frozenset()
    is_boundary: Callable[[type], bool] = field(default=lambda _: True)
    delegating: tuple[type, ...] = ()

    def leaves_of(self, cls: type) -> list[str]:
        """Return the leaf methods that a class has."""
        return [name for name in self.leaves if self._has(cls, name)] if self.is_boundary(cls) else []

    def _has(self, cls: type, name: str) -> bool:
        method = inspect.getattr_static(cls, name, None)  # others may be made anew each time that they are asked for
        if method is None or getattr(method, "__isabstractmethod__", False):
            return False
        others = (inspect.getattr_static(other, name, None) for other in (self.base, *self.delegating))
        return name in self.defaults or all(method is not other for other in others)


def alias_for(cls: type, family: Family, make: Callable[[Any], type]) -> type:
    """Return the class of aliases for the objects of a class.

    Args:
        cls: The class.
        family: Its family.
        make: The module-level function that makes such classes.
    """
    own = {}
    for name in family.leaves_of(cls):
        leaf = family.leaves[name]
        own[name] = leaf.shape(inspect.getattr_static(cls, name), leaf.cross)
    return alias_class(cls, own, make)


def only_ambient(family: Family, leaf: Leaf) -> Cross:
    """Let a method of a class itself cross only where sessions want that, and not for aliases, which have their own."""

    def crossed(self: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Crossing | None:
        if is_alias(self):
            return leaf.inherited(self, args, kwargs) if leaf.inherited is not None else None
        session = current_session()
        if session is None or not session.ambient or isinstance(self, StandIn):
            return None
        return leaf.cross(self, args, kwargs) if family.is_boundary(type(self)) else None

    return crossed


def begin(
    boundary: Boundary,
    owner: Any,
    name: str,
    body: Callable[[Session], Mapping[str, Any]],
    place: Callable[[Session], Position | None] | None = None,
    *,
    ids: tuple[str, ...] = (),
) -> Crossing | None:
    """Begin the crossing of a call, or nothing where it belongs to no session or to a call of the same object.

    Args:
        boundary: The family of the call.
        owner: The object that is called.
        name: Which boundary it is.
        body: Makes the request.
        place: Makes the position; by default it is found by where the caller's code runs.
        ids: Run-specific ids of the call that are not part of what is asked.
    """
    session = current_session()
    if session is None:
        return None
    state, outer = state_of(owner), executing()
    if outer is not None and outer.is_inside(state):
        return None
    position = place(session) if place is not None else None
    position = position or below(session, name)
    return session.cross(boundary, name, body(session), position=position, owner=state, ids=ids)


def named_arguments(
    method: Callable[..., Any] | None, names: tuple[str, ...], args: tuple[Any, ...], kwargs: Mapping[str, Any]
) -> dict[str, Any]:
    """Return the arguments of a call by name, as they were given: defaults are the method's own business.

    Args:
        method: The method of the class, if it has one of that name: it knows the names of further
            arguments, and may have its own for these.
        names: How the interface names the first positional arguments.
        args: The positional arguments, without `self`.
        kwargs: The others.
    """
    own = _positional(method) if method is not None and (kwargs or len(args) > len(names)) else ()
    places = (*names, *own[len(names) :], *(f"argument_{n}" for n in range(len(args))))
    common = dict(zip(own, names, strict=False))
    return {**dict(zip(places, args, strict=False)), **{common.get(key, key): item for key, item in kwargs.items()}}


@functools.lru_cache(512)
def _positional(method: Callable[..., Any]) -> tuple[str, ...]:
    """Return the names of a method's positional parameters, without `self`."""
    kinds = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
    return tuple(p.name for p in inspect.signature(method).parameters.values() if p.kind in kinds)[1:]


# -- the shapes of a leaf method --------------------------------------------------------------------------------------


class _Executed:
    """The value of a real call, which its caller gets as it is, whatever it is recorded as."""

    def __init__(self, pack: Callable[[Any], Any], unpack: Callable[[Any], Any]) -> None:
        self._pack = pack
        self._unpack = unpack
        self._values: list[Any] = []

    def packed(self, value: Any) -> Any:
        self._values.append(value)
        return self._pack(value)

    def or_else(self, served: Any) -> Any:
        return self._values[0] if self._values else self._unpack(served)


def _same(value: Any) -> Any:
    return value


def plain(
    real: Callable[..., Any], cross: Cross, pack: Callable[[Any], Any] = _same, unpack: Callable[[Any], Any] = _same
) -> Callable[..., Any]:
    """Wrap a method that returns.

    Args:
        real: The method.
        cross: Begins the crossing of a call.
        pack: Says what is recorded for a value.
        unpack: Gives the value back of what was recorded.
    """

    @functools.wraps(real)
    def method(self: Any, *args: Any, **kwargs: Any) -> Any:
        args, kwargs = kept(args, kwargs)
        crossing = cross(self, args, kwargs)
        if crossing is None:
            return real(original_of(self), *args, **kwargs)
        executed = _Executed(pack, unpack)
        return executed.or_else(intercept(crossing, lambda: executed.packed(real(original_of(self), *args, **kwargs))))

    return method


def coroutine(
    real: Callable[..., Any], cross: Cross, pack: Callable[[Any], Any] = _same, unpack: Callable[[Any], Any] = _same
) -> Callable[..., Any]:
    """Wrap a method that is awaited; see `plain`."""

    @functools.wraps(real)
    async def method(self: Any, *args: Any, **kwargs: Any) -> Any:
        args, kwargs = kept(args, kwargs)
        crossing = cross(self, args, kwargs)
        if crossing is None:
            return await real(original_of(self), *args, **kwargs)
        executed = _Executed(pack, unpack)

        async def execute() -> Any:
            return executed.packed(await real(original_of(self), *args, **kwargs))

        return executed.or_else(await aintercept(crossing, execute))

    return method


def generator(real: Callable[..., Iterator[T]], cross: Cross) -> Callable[..., Iterator[T]]:
    """Wrap a method that yields."""

    @functools.wraps(real)
    def method(self: Any, *args: Any, **kwargs: Any) -> Iterator[T]:
        crossing = cross(self, args, kwargs)
        if crossing is None:
            yield from real(original_of(self), *args, **kwargs)
            return
        yield from intercept_stream(crossing, lambda: real(original_of(self), *args, **kwargs))

    return method


def async_generator(real: Callable[..., AsyncIterator[T]], cross: Cross) -> Callable[..., AsyncIterator[T]]:
    """Wrap a method that yields asynchronously."""

    @functools.wraps(real)
    async def method(self: Any, *args: Any, **kwargs: Any) -> AsyncIterator[T]:
        crossing = cross(self, args, kwargs)
        if crossing is None:
            async for item in real(original_of(self), *args, **kwargs):
                yield item
            return
        async for item in aintercept_stream(crossing, lambda: real(original_of(self), *args, **kwargs)):
            yield item

    return method


def kept(args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """Return arguments that can be read twice, by the request and by the real call."""
    if not any(isinstance(value, Iterator) for value in (*args, *kwargs.values())):
        return args, kwargs
    return tuple(map(_listed, args)), {key: _listed(value) for key, value in kwargs.items()}


def _listed(value: Any) -> Any:
    return list(value) if isinstance(value, Iterator) else value
