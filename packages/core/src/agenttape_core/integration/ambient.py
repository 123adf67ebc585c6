"""Meet every object of a family while sessions are open, by wrapping the leaf methods of its classes.

Embeddings, stores and histories are plain classes without a method of the framework that every call passes through.
So the methods are wrapped where they are written: in each class that exists, and in each that is defined meanwhile.
Afterwards every class is what it was.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from typing import Any

from agenttape_core.integration.alias import is_alias_class
from agenttape_core.integration.leaves import Family, only_ambient

_MISSING = object()


@contextmanager
def wrapping(family: Family) -> Iterator[None]:
    """Wrap the leaf methods of all classes of a family while inside."""
    with ExitStack() as undo:
        _wrap_base(undo, family)
        for cls in _below(family.base):
            _wrap_class(undo, family, cls)
        _follow(undo, family)
        yield


def _below(base: type) -> list[type]:
    """Return all subclasses, each once."""
    found: dict[type, None] = {}
    waiting: list[type] = list(base.__subclasses__())
    while waiting:
        cls = waiting.pop()
        if cls not in found:
            found[cls] = None
            waiting += cls.__subclasses__()
    return list(found)


def _wrap_base(undo: ExitStack, family: Family) -> None:
    for name in sorted(family.defaults):
        _wrap(undo, family, family.base, name)


def _wrap_class(undo: ExitStack, family: Family, cls: type) -> None:
    if is_alias_class(cls) or cls in family.delegating or not family.is_boundary(cls):
        return
    for name in family.leaves:
        where = next((parent for parent in cls.__mro__ if name in vars(parent)), None)
        if where is cls or (where is not None and not issubclass(where, family.base)):
            _wrap(undo, family, cls, name)  # the second is a method that a class has of elsewhere


def _wrap(undo: ExitStack, family: Family, cls: type, name: str) -> None:
    real = inspect.getattr_static(cls, name)
    if not _is_method(real) or getattr(real, "__isabstractmethod__", False):
        return
    before = vars(cls).get(name, _MISSING)
    leaf = family.leaves[name]
    wrapped = leaf.around(real, only_ambient(family, leaf))
    setattr(cls, name, wrapped)
    undo.callback(_restore, cls, name, wrapped, before)


def _is_method(value: Any) -> bool:
    return isinstance(value, property) or (
        inspect.isroutine(value) and not isinstance(value, staticmethod | classmethod)
    )


def _restore(cls: type, name: str, wrapped: Any, before: Any) -> None:
    if vars(cls).get(name) is not wrapped:  # someone else has replaced it since, and will put back what was ours
        return
    if before is _MISSING:
        delattr(cls, name)
    else:
        setattr(cls, name, before)


def _follow(undo: ExitStack, family: Family) -> None:
    """Wrap the methods of classes that are defined from now on, as soon as they are."""
    base: Any = family.base
    before = vars(base).get("__init_subclass__", _MISSING)

    def __init_subclass__(cls: Any, /, **kwargs: Any) -> None:  # noqa: N807 - it becomes the method of that name
        real: Callable[..., None]
        real = super(base, cls).__init_subclass__ if before is _MISSING else before.__get__(None, cls)
        real(**kwargs)
        _wrap_class(undo, family, cls)

    hook: Any = classmethod(__init_subclass__)
    base.__init_subclass__ = hook
    undo.callback(_restore, base, "__init_subclass__", hook, before)
