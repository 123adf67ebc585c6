"""Tape every object of a family while sessions are open, by wrapping the leaf methods of its classes.

Embeddings, stores and histories are plain classes without a method of the framework that every call passes through. So
the methods are wrapped where they are written: in each class that exists, and in each that is defined meanwhile.
Afterwards every class is restored.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from operator import is_
from types import FunctionType
from typing import Any, TypeAlias
from weakref import WeakKeyDictionary

from agenttape_core.guard.patching import Left
from agenttape_core.integration.alias import is_alias, is_alias_class
from agenttape_core.integration.in_memory import DECLARED
from agenttape_core.integration.leaves import Family
from agenttape_core.named_tuples import NamedTuple
from agenttape_core.side_effects import INTERFACES, Interface

_MISSING = object()


def wrapping(*families: Family, is_program: bool = False) -> Wrapped:
    """Wrap the leaf methods of all classes of families while inside.

    Args:
        families: The families.
        is_program: Whether their objects are part of the program, so that only calls that reach outside directly are
            recorded.

    Returns:
        A context manager, which may be entered again when it has been left.
    """
    return Wrapped(
        [
            _Wrapping(each, None if is_program else Interface(each.base, partial(_is_recorded, each)))
            for each in families
        ]
    )


@contextmanager
def holding_in_memory(cls: type) -> Iterator[None]:
    """Note while inside that objects of a class only hold things in this process, so that a call may use them freely.

    A subclass may hold more, and is looked into.

    Args:
        cls: The class. One that a `Family` recognizes as such needn't be noted.
    """
    interface = Interface(cls, lambda value, _: type(value) is cls)
    INTERFACES.setdefault(cls, []).append(interface)
    try:
        yield
    finally:
        INTERFACES[cls].remove(interface)


def _is_recorded(family: Family, value: Any, is_automatic: bool) -> bool:
    """Return whether the calls of an object of a family are recorded, or made of such calls and of memory."""
    if is_alias(value) or family.is_made_of_parts(value):
        return True
    return is_automatic and family.is_boundary(type(value))


def _mro_of(classes: Iterable[type]) -> list[type]:
    """Return classes with all that they inherit from, each once."""
    return list(dict.fromkeys(each for cls in classes for each in cls.__mro__))


class _Found(NamedTuple):
    """The methods of a family to wrap, and the data to check that they are still all of them.

    Every start of a session checks that, so the compared data is laid out for loops in C.
    """

    classes: list[type]  # the classes of the family
    declared: int  # the number of classes that were declared to be in memory
    names: list[Mapping[str, Any]]  # the namespaces of these classes and of those they inherit from
    sizes: list[int]  # the numbers of their names
    # How every attribute there that has the name of a leaf is read, and that name.
    getters: list[tuple[Callable[[str], Any], str]]
    named: list[Any]  # these attributes
    methods: list[tuple[type, str, Any, Any]]  # the methods to wrap, each with its wrapper


_Method: TypeAlias = tuple[type, str, Any]
_found: WeakKeyDictionary[Family, _Found] = WeakKeyDictionary()
_left = Left()


class _Wrapping:
    """The methods of a family that are wrapped. `interface` is the family's, if its objects are boundaries."""

    def __init__(self, family: Family, interface: Interface | None) -> None:
        self.family = family
        self.interface = interface
        self.before: list[tuple[type, str, Any, Any]] = []
        """The methods that are wrapped now, each with the attribute that it replaces, the first one first."""
        self._names = family.leaves.keys()
        self.following: Any = None  # called for each class that is defined while they are wrapped
        self.followed: Any = None  # the function that is called inside of that: the one of before

    def wrap(self, methods: Iterable[_Method]) -> None:
        """Wrap methods."""
        for cls, name, real in methods:
            before = vars(cls).get(name, _MISSING)
            if _left.any:
                real, before = _left.below(real), _left.below(before)  # noqa: PLW2901 - it stood below ours
            ours = self.family.automatic(cls, name, real)
            setattr(cls, name, ours)
            self.before.append((cls, name, ours, before))

    def look_at(self, classes: list[type]) -> _Found:
        """Look at all classes of the family but those that are local to a function."""
        every = _mro_of([self.family.base, *classes])
        named = [(vars(cls), name) for cls in every for name in self._names & vars(cls).keys()]
        methods = [*self._of_base(), *self.of_classes(classes, every)]
        return _Found(
            classes=classes,
            declared=len(DECLARED),
            names=[vars(cls) for cls in every],
            sizes=[len(vars(cls)) for cls in every],
            getters=[(names.get, name) for names, name in named],
            named=[names[name] for names, name in named],
            methods=[(cls, name, real, self.family.automatic(cls, name, real)) for cls, name, real in methods],
        )

    def _of_base(self) -> Iterator[_Method]:
        for name in sorted(self.family.defaults):
            places = (vars(cls) for cls in self.family.base.__mro__)
            real = next(place[name] for place in places if name in place)
            if _is_implemented(real):
                yield self.family.base, name, real

    def follower(self, before: Any) -> Any:
        """Return the function that is called for each class defined from here on, given the previous one."""
        base: Any = self.family.base

        def __init_subclass__(cls: Any, /, **kwargs: Any) -> None:  # noqa: N807 - it becomes the method of that name
            real: Callable[..., None]
            real = super(base, cls).__init_subclass__ if before is _MISSING else before.__get__(None, cls)
            real(**kwargs)
            self.wrap(self.of_classes([cls], cls.__mro__))

        return classmethod(__init_subclass__)

    def of_classes(self, classes: Iterable[type], every: Iterable[type]) -> Iterator[_Method]:
        """Yield the leaf methods of classes. `every` are they, and all that they inherit from."""
        named = (cls for cls in every if not self._names.isdisjoint(vars(cls)))
        foreign = {cls for cls in named if not issubclass(cls, self.family.base)}
        for cls in classes:
            methods = self._methods(cls, foreign)
            if methods and self._is_wanted(cls):
                yield from ((cls, name, real) for name, real in methods.items() if _is_implemented(real))

    def _methods(self, cls: type, foreign: set[type]) -> dict[str, Any]:
        """Return the leaf methods that are written in a class, or that it inherits from outside of the family."""
        own = vars(cls)
        if foreign.isdisjoint(cls.__mro__):
            return {name: own[name] for name in self._names & own.keys()}
        places = {name: next((each for each in cls.__mro__ if name in vars(each)), None) for name in self._names}
        return {name: vars(place)[name] for name, place in places.items() if place is cls or place in foreign}

    def _is_wanted(self, cls: type) -> bool:
        return not is_alias_class(cls) and cls not in self.family.delegating and self.family.is_boundary(cls)


class Wrapped:
    """The methods of families that are wrapped while inside.

    Every opening of a session looks at all classes of all families, hundreds in a process with a large test suite. So
    the findings are cached, and hold until a class has come, gone or changed; and no function of a family is called.
    """

    def __init__(self, wrappings: Sequence[_Wrapping]) -> None:
        self._wrappings = wrappings

    def __enter__(self) -> None:
        try:
            for wrapping in self._wrappings:
                family, base = wrapping.family, wrapping.family.base
                below: dict[type, None] = {}
                unseen: list[type] = [base]
                while unseen:
                    subclasses: list[type] = unseen.pop().__subclasses__()
                    new = [each for each in subclasses if each not in below]
                    below |= dict.fromkeys(new)
                    unseen += new
                lasting = [cls for cls in below if "<locals>" not in cls.__qualname__]  # others would never be freed
                found = _found.get(family)
                if (
                    found is None
                    or found.classes != lasting
                    or found.declared != len(DECLARED)
                    or list(map(len, found.names)) != found.sizes
                    or not all(map(is_, [get(name) for get, name in found.getters], found.named))
                ):
                    found = _found[family] = wrapping.look_at(lasting)
                if _left.any:
                    wrapping.wrap([method[:3] for method in found.methods])
                else:
                    for cls, name, _, ours in found.methods:
                        wrapping.before.append((cls, name, ours, vars(cls).get(name, _MISSING)))
                        setattr(cls, name, ours)
                if len(lasting) < len(below):
                    local = [cls for cls in below if "<locals>" in cls.__qualname__]
                    wrapping.wrap(wrapping.of_classes(local, _mro_of(local)))
                # From here on methods are wrapped as soon as their class is defined.
                before = vars(base).get("__init_subclass__", _MISSING)
                following = wrapping.following
                if following is None or before is not wrapping.followed:
                    following, wrapping.followed = wrapping.follower(before), before
                    wrapping.following = following
                wrapping.before.append((base, "__init_subclass__", following, before))
                base.__init_subclass__ = following  # type: ignore[method-assign]
                if wrapping.interface is not None:
                    INTERFACES.setdefault(base, []).append(wrapping.interface)
        except BaseException:
            self.__exit__()
            raise

    def __exit__(self, *_: object) -> None:
        """Put every method back, the last one first, unless someone else has replaced ours and will restore it.

        Then ours comes back when its follower is gone, as after the `monkeypatch` of a test. The next session wraps the
        function below it.
        """
        for wrapping in reversed(self._wrappings):
            interfaces = INTERFACES.get(wrapping.family.base, [])
            if wrapping.interface in interfaces:
                interfaces.remove(wrapping.interface)
            before_all, wrapping.before = wrapping.before, []
            for cls, name, ours, before in reversed(before_all):
                if vars(cls).get(name) is not ours:
                    _left.add(ours, before)
                elif before is _MISSING:
                    delattr(cls, name)
                else:
                    setattr(cls, name, before)


def _is_implemented(value: Any) -> bool:
    """Return whether an attribute of a class is a method of its objects, with its own code."""
    if getattr(value, "__isabstractmethod__", False):
        return False
    return isinstance(value, FunctionType | property) or (
        inspect.isroutine(value) and not isinstance(value, staticmethod | classmethod)
    )
