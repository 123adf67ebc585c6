"""Aliases: objects of a dynamic subclass that share the state of the original object."""

from __future__ import annotations

import functools
import inspect
import sys
from collections.abc import Callable
from typing import Any, TypeVar

from pydantic import BaseModel

from agenttape_core.errors import ConfigurationError

if sys.version_info >= (3, 14):
    from annotationlib import Format

    _signature = functools.partial(inspect.signature, annotation_format=Format.FORWARDREF)  # names may be unknown here
else:
    _signature = inspect.signature

_MARK = "__agenttape_alias__"
_FORWARDS = "__agenttape_forwards__"
_OF_PYDANTIC = frozenset({"__dict__", "__pydantic_fields_set__", "__pydantic_extra__", "__pydantic_private__"})
"""The attributes in which a pydantic object keeps its state: the slots of `BaseModel`."""

ObjectT = TypeVar("ObjectT")


def is_alias(value: object) -> bool:
    """Return whether an object is taped already."""
    return is_alias_class(type(value))


def is_alias_class(cls: type) -> bool:
    """Return whether the objects of a class are taped already."""
    method: Any = cls.__reduce_ex__  # which every class has; pydantic's take long to say that they have no mark
    return method is _reduce or _MARK in cls.__dict__  # an alias may have a method of its own for that


def alias_class(cls: type, methods: dict[str, Any], make: Callable[[Any], type]) -> type:
    """Return a subclass that looks like `cls` but has these methods.

    Args:
        cls: The class.
        methods: The methods that the subclass overrides.
        make: The module-level function that makes such subclasses; aliases are pickled by its name.
    """
    looks = {"__module__": cls.__module__, "__qualname__": cls.__qualname__, "__doc__": cls.__doc__}
    for name, method in methods.items():
        if inspect.isfunction(method):
            hold_signature(method, getattr(cls, name))
    own = {**methods, "__reduce_ex__": _reduce, _MARK: staticmethod(make)}
    alias: type = _forwarding(type(cls))(cls.__name__, (cls,), {**looks, **own})
    setattr(alias, _FORWARDS, True)
    return alias


MethodT = TypeVar("MethodT", bound=Callable[..., Any])


class _OfMethod(inspect.Signature):
    """The signature of a method. Without its first parameter, which `inspect` leaves out when it's bound, it's kept."""

    _bound: inspect.Signature | None = None
    _names: dict[str, Any] | None = None
    """The globals of the function, by which the strings among its annotations are resolved once it's called."""

    def replace(self, **changes: Any) -> inspect.Signature:  # type: ignore[override]
        """Return a signature with changes."""
        parameters = changes.get("parameters") if len(changes) == 1 else None
        if type(parameters) is not tuple or parameters != tuple(self.parameters.values())[1:]:
            return super().replace(**changes)
        if self._bound is None:
            self._bound = super().replace(parameters=[self._resolved(each) for each in parameters])
        return self._bound

    def _resolved(self, parameter: inspect.Parameter) -> inspect.Parameter:
        """Return a parameter with its annotation as an object: LangChain doesn't look behind a signature for that."""
        if not isinstance(parameter.annotation, str):
            return parameter
        try:
            return parameter.replace(annotation=eval(parameter.annotation, self._names))  # noqa: S307 - typing does it
        except Exception:  # noqa: BLE001 - a name that only type checkers know, or any error of the expression
            return parameter


def hold_signature(method: MethodT, real: Callable[..., Any] | None = None) -> MethodT:
    """Keep the signature of a method with it, and return the method.

    LangChain reads it on every call: to make it of the code, and to look for that behind a wrapper, takes longer than
    most of our work on a call.

    Args:
        method: The method.
        real: The function that it wraps, if it wraps one.
    """
    found = _signature(method if real is None else real)
    held = _OfMethod([*found.parameters.values()], return_annotation=found.return_annotation)
    held._names = getattr(inspect.unwrap(method if real is None else real), "__globals__", {})  # noqa: SLF001 - ours
    method.__signature__ = held  # type: ignore[attr-defined]
    return method


@functools.cache
def _forwarding(meta: type) -> Any:
    """Return a metaclass that sets class attributes on the original: `type(self).calls += 1` counts for both."""

    class Forwarding(meta):  # type: ignore[misc]  # pydantic's metaclass, or a provider's own
        def __setattr__(cls, name: str, value: Any) -> None:  # noqa: N805
            if _FORWARDS in vars(cls) and not name.startswith("__"):
                setattr(cls.__base__, name, value)
            else:
                super().__setattr__(name, value)

    return Forwarding


def alias_of(value: ObjectT, make: Callable[[Any], type], *, again: bool = False) -> ObjectT:
    """Return an alias that shares the state of an object, so that a change of either is seen by both.

    Args:
        value: The object. An alias is returned unchanged.
        make: Gives the class of aliases for a class; called with `type(value)`.
        again: Whether to make an alias of an alias that tapes another kind of call.

    Raises:
        ConfigurationError: If the object keeps its state where it cannot be shared.
    """
    if is_alias(value) and (not again or getattr(type(value), _MARK) == make):
        return value
    state = _state_of(value)
    return _sharing(make(type(value)), value, state)  # type: ignore[no-any-return]


def original_of(value: ObjectT) -> ObjectT:
    """Return the original object of an alias, made again around their common state; others are returned unchanged.

    Real work is done by the original: a class may act on which of its methods a subclass has overridden.
    """
    return _sharing(type(value).__base__, value, _state_of(value)) if is_alias(value) else value


def state_of(value: Any) -> Any:
    """Return the state that an object shares with its aliases: the owner of their calls."""
    return getattr(value, "__dict__", value)


def _sharing(cls: Any, value: Any, state: frozenset[str]) -> Any:
    twin = object.__new__(cls)  # a `__new__` of the class may need arguments, or keep track of its objects
    for name in state:
        object.__setattr__(twin, name, getattr(value, name))
    return twin


def _state_of(value: Any) -> frozenset[str]:
    """Return the attributes that hold the state of an object."""
    if isinstance(value, BaseModel):
        return _OF_PYDANTIC
    if any(_slots(cls) for cls in type(value).__mro__):
        raise ConfigurationError(
            f"cannot tape {type(value).__module__}.{type(value).__qualname__}: it keeps its state in __slots__, which "
            "no other object can share\n"
            "  open a session with auto=True, which tapes it as it is, or give the class a __dict__ and no slots"
        )
    return frozenset({"__dict__"})


@functools.cache
def _slots(cls: type) -> bool:
    slots = vars(cls).get("__slots__", ())
    return bool({slots} if isinstance(slots, str) else set(slots) - {"__dict__", "__weakref__"})


def _reduce(self: Any, _protocol: Any) -> Any:
    """Pickle an alias as its original object, to be taped again: a dynamic class has no name to load it by."""
    return alias_of, (original_of(self), getattr(type(self), _MARK))
