"""Classes by their names: `module:QualName`, as a cassette spells them. Nothing is ever imported for a name.

A class that a function defines is found among the living ones. A test defines its class again in each run, and the one
before may not be freed yet, so of several the last is meant.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any

from agenttape_core.errors import UnreadableValueError, UnrecordableValueError

_LOCAL = ".<locals>."
_is_answer: ContextVar[bool] = ContextVar("agenttape_is_answer", default=False)


def class_name(cls: type) -> str:
    """Return the name of a class as a cassette spells it: `module:QualName`."""
    return f"{cls.__module__}:{cls.__qualname__}"


def loaded_class(name: str, below: type = object) -> type | None:
    """Return the class of that name if its module is already imported; never import anything.

    Args:
        name: The name.
        below: A class from which one that a function defines derives: there are fewer to look at.
    """
    module_name, _, qualname = name.partition(":")
    found: Any = sys.modules.get(module_name)
    if found is not None and _LOCAL in qualname:
        return _last_defined(module_name, qualname, below)
    for part in qualname.split("."):
        found = vars(found).get(part) if found is not None and hasattr(found, "__dict__") else None
    return found if isinstance(found, type) else None


def _last_defined(module: str, qualname: str, below: type) -> type | None:
    found = None
    seen, left = {id(below)}, [below]  # by id, as a metaclass may compare its classes otherwise
    for cls in left:  # it grows
        for each in _derived(cls):
            if id(each) not in seen:
                seen.add(id(each))
                left.append(each)
                if each.__qualname__ == qualname and each.__module__ == module:
                    found = each
    return found


def _derived(cls: type) -> list[type]:
    """Return the classes that derive from a class directly, in the order in which they were defined."""
    return type.__subclasses__(cls)


@contextmanager
def writing_answers() -> Iterator[None]:
    """Write inside a call's return value, so that the program gets it again: even values of local classes.

    A request is the same however its class is called, and a reader needs no value.
    """
    before = _is_answer.set(True)
    try:
        yield
    finally:
        _is_answer.reset(before)


def are_answers_written() -> bool:
    """Return True inside `writing_answers`."""
    return _is_answer.get()


def recordable_class(value: Any) -> str:
    """Return the name of the class of a value; see `subclass_name`."""
    return subclass_name(type(value))


def subclass_name(cls: type) -> str:
    """Return the name under which a class is found again.

    Raises:
        UnrecordableValueError: If there is none.
    """
    name = class_name(cls)
    if _LOCAL in cls.__qualname__:
        is_found = _is_answer.get() and cls.__module__ in sys.modules and _is_last_defined(cls)
    else:
        is_found = loaded_class(name) is cls
    if not is_found:
        why = "its class cannot be found again by name: define it at the top level of a module"
        raise UnrecordableValueError("$", cls, why)
    return name


def _is_last_defined(cls: type) -> bool:
    siblings = reversed(_derived(cls.__base__ or object))
    return next((each for each in siblings if class_name(each) == class_name(cls)), None) is cls


def class_of(name: str, sort: type) -> Any:
    """Return the loaded class of a name. Raises `UnreadableValueError` if it is not loaded, or of another sort."""
    cls = loaded_class(name, sort)
    if cls is None:
        raise UnreadableValueError(name, "the class is not loaded; import its module before the replay")
    if not issubclass(cls, sort):
        raise UnreadableValueError(name, f"expected a {sort.__name__}, found another class of that name")
    return cls
