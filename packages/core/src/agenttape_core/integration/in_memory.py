"""Classes that keep their data in this process: they are part of the program, so they run in every replay."""

from __future__ import annotations

import dis
import inspect
import itertools
from collections.abc import Collection, Iterator
from types import CodeType, FunctionType
from typing import Any, TypeVar
from weakref import WeakKeyDictionary, WeakSet

from agenttape_core.errors import ConfigurationError
from agenttape_core.integration.alias import is_alias_class

ClassT = TypeVar("ClassT", bound=type)

DECLARED: WeakSet[type] = WeakSet()


def in_memory(cls: ClassT) -> ClassT:
    """Declare that objects of a class, and of its subclasses, keep their data in this process.

    They aren't boundaries: they run while recording and in each replay, so that they hold the program's data. What they
    call, such as an embedding model, is recorded and replayed. Decorate a class of yours, or call it with one that is
    not: `in_memory(Chroma)`.

    Args:
        cls: A class of stores, histories or retrievers of a framework.

    Raises:
        ConfigurationError: If it isn't a class.
    """
    if not isinstance(cls, type):
        raise ConfigurationError(
            f"in_memory() takes a class, found an object of the class {type(cls).__qualname__}\n"
            f"  in_memory({type(cls).__qualname__}) declares that all its objects keep what they hold in this process"
        )
    DECLARED.add(cls)
    return cls


class InMemoryClasses:
    """The classes of one family whose objects keep their data in this process.

    Those are the declared ones, the known ones, and all that derive from either. A class that derives from a known one
    and overrides a leaf does something else if the code of that neither calls the method that it overrides nor uses any
    other part of the known class: it may be the client of a service.

    Args:
        known: The classes of the framework and of others that are known to do so, as `module.QualName`.
        leaves: The names of the leaf methods of the family.
    """

    def __init__(self, known: Collection[str], leaves: Collection[str]) -> None:
        self._known = frozenset(known)
        self._leaves = frozenset(leaves)
        self._answers: WeakKeyDictionary[type, bool] = WeakKeyDictionary()

    def __contains__(self, cls: type) -> bool:
        """Return whether the objects of a class keep their data in this process."""
        if DECLARED and not DECLARED.isdisjoint(cls.__mro__):
            return True
        answer = self._answers.get(cls)
        if answer is None:
            answer = self._answers[cls] = self._derives_from_known(cls)
        return answer

    def _derives_from_known(self, cls: type) -> bool:
        overridden: list[Any] = []
        for parent in cls.__mro__:
            if is_alias_class(parent):
                continue
            if f"{parent.__module__}.{parent.__qualname__}" in self._known:
                known = _Parts(parent)
                return all(map(known.are_used_by, overridden))
            overridden += (vars(parent)[name] for name in self._leaves & vars(parent).keys())
        return False


class _Parts:
    """The parts of a class: its methods, and the attributes that it gives its objects."""

    def __init__(self, cls: type) -> None:
        parents = [parent for parent in cls.__mro__ if parent.__module__.partition(".")[0] not in _GENERAL]
        self._classes = {parent.__name__ for parent in parents}
        self._names = set(getattr(cls, "model_fields", ()))
        for parent in parents:
            self._names |= {name for name, value in vars(parent).items() if callable(value) and name[:2] != "__"}
            made = vars(parent).get("__init__")
            if isinstance(made, FunctionType):
                self._names |= {step.argval for step in dis.get_instructions(made) if step.opname == "STORE_ATTR"}

    def are_used_by(self, method: Any) -> bool:
        """Return whether the code of a method that overrides one of the class uses the class."""
        function = inspect.unwrap(getattr(method, "fget", None) or method)
        if not isinstance(function, FunctionType) or not function.__code__.co_argcount:
            return False
        return any(self._is_used_in(code, function.__code__.co_varnames[0]) for code in _codes(function.__code__))

    def _is_used_in(self, code: CodeType, receiver: str) -> bool:
        if "__class__" in code.co_freevars or not self._classes.isdisjoint(code.co_names):
            return True  # `super()` reads `__class__`
        steps = [step for step in dis.get_instructions(code) if step.opname not in {"CACHE", "EXTENDED_ARG"}]
        return any(
            step.opname in _ATTRIBUTES and step.argval in self._names and _is_of(receiver, before)
            for before, step in itertools.pairwise(steps)
        )


_GENERAL = frozenset({"abc", "builtins", "pydantic", "typing"})
_ATTRIBUTES = frozenset({"LOAD_ATTR", "LOAD_METHOD", "STORE_ATTR"})


def _is_of(receiver: str, step: dis.Instruction) -> bool:
    """Return whether an instruction puts the receiver of a method on the stack, alone or as the last of two."""
    loaded = step.argval[-1] if isinstance(step.argval, tuple) else step.argval
    return step.opname.startswith(("LOAD_FAST", "LOAD_DEREF")) and loaded == receiver


def _codes(code: CodeType) -> Iterator[CodeType]:
    """Yield the code of a function, and of the functions inside."""
    yield code
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield from _codes(constant)
