"""Interfaces whose objects are boundaries, and the frameworks they belong to, as integrations register them.

Side effects of such an object are recorded and replayed by its own boundary, so they don't belong to the call around
it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any
from weakref import WeakSet

from agenttape_core.named_tuples import NamedTuple


class Interface(NamedTuple):
    """A class of a framework whose objects are boundaries."""

    base: type  # the class
    # Whether an object derived from it is a boundary, or keeps all that it holds in this process; given the object,
    # and whether the session is automatic.
    is_recorded: Callable[[Any, bool], bool]


INTERFACES: dict[type, list[Interface]] = {}  # the interfaces whose objects can be boundaries now, by their classes
_frameworks: set[str] = set()
_marked: WeakSet[Callable[..., Any]] = WeakSet()


def interface_of(cls: type) -> type | None:
    """Return the interface that a class implements; `None` if there is none."""
    return next((base for base in cls.__mro__ if INTERFACES.get(base)), None)


def is_recorded(value: Any, *, is_automatic: bool) -> bool:
    """Return whether an object's own boundary records its effects, or it has none.

    With `is_automatic`, the session tapes objects that the user did not tape.
    """
    found = (interface for base in type(value).__mro__ for interface in list(INTERFACES.get(base, ())))
    return any(interface.is_recorded(value, is_automatic) for interface in found)


def mark_boundary(function: Callable[..., Any]) -> None:
    """Mark our function as a boundary wherever it is called, even if objects are taped one by one."""
    _marked.add(function)


def is_marked(function: Callable[..., Any]) -> bool:
    """Return whether a function of ours is marked as a boundary."""
    return function in _marked


def register_frameworks(modules: Iterable[str]) -> None:
    """Note the root modules of a framework: its objects only connect the program's own."""
    _frameworks.update(name.partition(".")[0] for name in modules)


def is_of_framework(cls: type) -> bool:
    """Return whether a class belongs to a framework, or derives from such a class."""
    return any(base.__module__.partition(".")[0] in _frameworks for base in cls.__mro__)
