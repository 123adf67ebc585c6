"""Aliases: objects of a dynamic subclass that share the state of the object they stand for."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from typing import Any, TypeVar

_MARK = "__agenttape_alias__"
_FORWARDS = "__agenttape_forwards__"
_SHARED = ("__dict__", "__pydantic_fields_set__", "__pydantic_extra__", "__pydantic_private__")

ObjectT = TypeVar("ObjectT")


def is_alias(value: object) -> bool:
    """Whether an object is taped already."""
    return hasattr(type(value), _MARK)


def alias_class(cls: type, methods: dict[str, Any], make: Callable[[Any], type]) -> type:
    """Return a subclass that looks like `cls` but has these methods of its own.

    Args:
        cls: The class.
        methods: What the subclass overrides.
        make: The module-level function that makes such subclasses; aliases are pickled by its name.
    """
    looks = {"__module__": cls.__module__, "__qualname__": cls.__qualname__, "__doc__": cls.__doc__}
    for name, method in methods.items():
        # The framework asks for the signature on every call; given here, it need not be looked for behind the wrapper.
        method.__signature__ = inspect.signature(getattr(cls, name))
    own = {**methods, "__reduce_ex__": _reduce, _MARK: staticmethod(make)}
    alias: type = _forwarding(type(cls))(cls.__name__, (cls,), {**looks, **own})
    setattr(alias, _FORWARDS, True)
    return alias


@functools.cache
def _forwarding(meta: type) -> Any:
    """Return a metaclass whose classes pass on what is set on them: `type(self).calls += 1` counts on the original."""

    class Forwarding(meta):  # type: ignore[misc]  # pydantic's metaclass, or a provider's own
        def __setattr__(cls, name: str, value: Any) -> None:  # noqa: N805
            if _FORWARDS in vars(cls) and not name.startswith("__"):
                setattr(cls.__base__, name, value)
            else:
                super().__setattr__(name, value)

    return Forwarding


def alias_of(value: ObjectT, make: Callable[[Any], type]) -> ObjectT:
    """Return an alias that shares the state of a pydantic object, so that a change of either is seen by both.

    Args:
        value: The object. An alias is returned as it is.
        make: Gives the class of aliases for a class; called with `type(value)`.
    """
    if is_alias(value):
        return value
    cls: Any = make(type(value))
    alias = cls.__new__(cls)
    for name in _SHARED:
        object.__setattr__(alias, name, getattr(value, name))
    return alias  # type: ignore[no-any-return]


def _reduce(self: Any, _protocol: Any) -> Any:
    """Pickle an alias as the object it stands for, to be taped again: a dynamic class has no name to load it by."""
    return alias_of, (_original(self), getattr(type(self), _MARK))


def _original(alias: Any) -> Any:
    cls: Any = type(alias).__base__
    value = cls.__new__(cls)
    for name in _SHARED:
        object.__setattr__(value, name, getattr(alias, name))
    return value
