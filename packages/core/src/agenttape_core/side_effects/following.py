"""The path from the object whose code runs to the clients that it may use.

From a function, a method or an object (with its class and its attributes) the path follows the names in the code
(globals, closures, defaults, imports inside of it) and the functions, classes and objects that the program itself
defines, however far that goes; containers are searched, and so are objects of frameworks, which only connect the
program's own objects: a graph leads to the functions of its nodes, its tools and its saver.

For other libraries, only the object itself, its direct attributes and the closures of their functions are searched:
their own clients are below other boundaries, or can be watched.

Boundaries aren't searched, because their effects are recorded and replayed separately: models, stores, retrievers,
tools of frameworks; functions with `@boundary`; objects of the program with such methods. So an agent that is a tool is
judged by its own functions, each of its tools separately, and a store over a native client doesn't count.

It does count where code goes past the boundary: where it names an attribute that the interface does not have
(`store.client`, `store.delete_collection`), or the class, to make an object of it.

Handles that are open already count as clients (`handles`): a file, a pipe, a mapped file, wherever the way meets one.

A saver of checkpoints isn't a boundary: it's part of the graph, and works in a replay as well. One over a native client
would connect there, so it counts; one over a client that can be seen has acted while recording.
"""

from __future__ import annotations

import contextlib
import dis
import functools
import inspect
import os
import sys
import threading
import types
import weakref
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from contextvars import ContextVar
from itertools import islice
from typing import Any

from agenttape_core.guard.caller import is_library
from agenttape_core.named_tuples import NamedTuple
from agenttape_core.side_effects.clients import BY_NAME, BY_OBJECT, HARMLESS, THREADS
from agenttape_core.side_effects.handles import (
    DESCRIPTOR_FUNCTIONS,
    handle_of,
    inside,
    is_of_logs,
    is_stream,
    may_be_handle,
    standard_streams,
)
from agenttape_core.side_effects.interfaces import interface_of, is_marked, is_of_framework, is_recorded

TOO_FAR = "…"  # returned where there is more than can be followed

_OURS = "agenttape_"

_WIDE, _FAR = 200, 10_000  # the greatest number of items of a container that are looked at, and of objects

_LEAVES = (str, bytes, int, float, complex, bool, type(None))


class Met(NamedTuple):
    """The client or handle that is met on a way."""

    what: str  # the first one, or `TOO_FAR`; empty if there is none
    is_near: bool  # whether few objects were looked at, so that the next call can afford to look again


def met(root: Any, watched: frozenset[str], *, is_automatic: bool) -> Met:
    """Return the first client or handle that is met from an object.

    `watched` are the names of the clients; with `is_automatic`, untaped objects are boundaries as well.
    """
    way = _Way(root, watched, is_automatic)
    return Met(way.met(), way.is_short)


class _Way:
    """One path, with the client found on it."""

    def __init__(self, root: Any, watched: frozenset[str], is_automatic: bool) -> None:
        self._root, self._watched, self._is_automatic = root, watched, is_automatic
        self._queue: deque[tuple[Any, bool]] = deque([(root, True)])
        # Keep the object: once it's gone, another object may get its id.
        self._seen = {id(each): each for each in standard_streams()}
        self._names: set[str] = set()
        self._boundaries: list[Any] = []
        self._by_name: dict[str, None] = {}

    @property
    def is_short(self) -> bool:
        """True if few objects were looked at."""
        return len(self._seen) <= _WIDE

    def met(self) -> str:
        while self._queue or self._passed():
            value, is_followed = self._queue.popleft()
            if isinstance(value, _LEAVES) or id(value) in self._seen:
                continue
            if len(self._seen) > _FAR:
                return TOO_FAR
            self._seen[id(value)] = value
            if value is not self._root and self._is_boundary(value):
                self._boundaries.append(value)
            elif found := self._look(value, is_followed):
                return found
        return next((name for name in self._by_name if any(map(BY_NAME[name].fullmatch, self._names))), "")

    def _look(self, value: Any, is_followed: bool) -> str:
        """Return the value if it's a client or a handle; else continue with its content."""
        kind: type = type(value)
        if may_be_handle(kind) and ((handle := handle_of(value)) is not None or is_of_logs(kind)):
            return handle or ""  # your program logs again where a replay runs it again
        client = _client(value, self._watched)
        if client in BY_NAME and not _always_reaches(value, client):
            self._by_name[client] = None
            if _has_name(value):
                self._names.add(value.__name__)
            elif client in BY_OBJECT:
                return ""  # a pool of threads holds a queue of the package
            client = ""
        if client or not is_followed:
            return client
        if isinstance(value, types.MethodType) and isinstance(value.__func__, types.FunctionType):
            self._names.add(value.__func__.__name__)
        if isinstance(value, types.FunctionType) and self._is_followed(value):
            reads = _reads(value.__code__)
            self._names |= reads.attributes
            client = next(filter(None, (_named(name, self._watched) for name in reads.imports)), "")
            if client in BY_NAME:
                self._by_name[client] = None
                client = ""
        self._queue.extend(islice(_parts(value, is_root=value is self._root), _WIDE))
        return client

    def _is_followed(self, function: types.FunctionType) -> bool:
        return function is self._root or is_own(_home(function))

    def _is_boundary(self, value: Any) -> bool:
        if isinstance(value, types.FunctionType):
            return _is_boundary(value, is_automatic=self._is_automatic)
        cls = type(value)
        if is_recorded(value, is_automatic=self._is_automatic):
            return True
        return is_own(cls.__module__) and _has_boundaries(cls, is_automatic=self._is_automatic)

    def _passed(self) -> bool:
        """Go on with the boundaries that the code met so far goes past; return whether there is one."""
        passed = [value for value in self._boundaries if _is_passed(value, self._names)]
        self._boundaries = [value for value in self._boundaries if not any(value is other for other in passed)]
        for value in passed:
            self._queue.extend(islice(_parts(value, is_root=False), _WIDE))
        return bool(self._queue)


def _has_name(value: Any) -> bool:
    """Return whether a value is a class or a function, with its own name and module."""
    if isinstance(value, type | types.FunctionType | types.BuiltinFunctionType):
        return True
    return type(value).__name__ == "cython_function_or_method"


def _home(function: types.FunctionType) -> str:
    return str(function.__globals__.get("__name__"))


def _client(value: Any, watched: frozenset[str]) -> str:
    """Return the client that a module is, or that an object, a class or a function comes from."""
    if isinstance(value, types.ModuleType):
        return _named(value.__name__, watched)
    return _named((value if _has_name(value) else type(value)).__module__, watched)


def _named(name: Any, watched: frozenset[str]) -> str:
    while isinstance(name, str) and name:
        if name in watched:
            return name
        name = name.rpartition(".")[0]
    return ""


def _always_reaches(value: Any, client: str) -> bool:
    """Return whether a value of a client that is judged by names is one of its objects that always reach outside."""
    if client not in BY_OBJECT or isinstance(value, types.ModuleType) or _has_name(value):
        return False
    home = type(value).__module__
    return home not in HARMLESS and f"{home}.{type(value).__qualname__}" != THREADS


def _is_boundary(function: types.FunctionType, *, is_automatic: bool) -> bool:
    """Return whether a function is a boundary: made by `@boundary`, or a method wrapped by an automatic session."""
    return _home(function).startswith(_OURS) and (is_automatic or is_marked(function))


def _has_boundaries(cls: type, *, is_automatic: bool) -> bool:
    """Return whether a class of the program has boundaries among its methods, and has no effect without being named."""
    own = [item for base in cls.__mro__ if is_own(base.__module__) for item in vars(base).items()]
    functions = {name: value for name, value in own if isinstance(value, types.FunctionType)}
    return any(_is_boundary(value, is_automatic=is_automatic) for value in functions.values()) and not any(
        name.startswith("__") and name not in _MAKING and is_own(_home(value)) for name, value in functions.items()
    )


_MAKING = frozenset(
    {"__init__", "__new__", "__post_init__", "__init_subclass__", "__repr__", "__str__", "__eq__", "__hash__"}
)
"""The methods that are called where an object is made, shown or compared, and do not reach outside for a caller."""


def _is_passed(value: Any, names: set[str]) -> bool:
    """Return whether code that names these attributes goes past a boundary, to something that it holds."""
    if isinstance(value, types.FunctionType):
        return False  # of a function, nothing but its call
    base = interface_of(type(value)) or object
    fields = getattr(base, "model_fields", {})
    return any(not hasattr(base, name) and name not in fields and _holds(value, name) for name in names)


def _holds(value: Any, name: str) -> bool:
    found = inspect.getattr_static(value, name, None)
    return not isinstance(found, _LEAVES) and not (
        isinstance(found, types.FunctionType) and _home(found).startswith(_OURS)
    )


class _Reads(NamedTuple):
    """The names that a piece of code reads."""

    globals: tuple[str, ...]
    attributes: frozenset[str]
    imports: tuple[str, ...]
    of_names: frozenset[tuple[str, str]]  # each attribute that is read right after a name, with that: `os.write`


@functools.lru_cache(maxsize=4096)
def _reads(code: types.CodeType) -> _Reads:
    """Return the names that a piece of code reads, including the functions inside of it."""
    globals_: dict[str, None] = {}
    attributes: set[str] = set()
    imports: dict[str, None] = {}
    of_names: set[tuple[str, str]] = set()
    pieces = [code]
    while pieces:
        piece = pieces.pop()
        pieces.extend(const for const in piece.co_consts if isinstance(const, types.CodeType))
        head: Any = None
        for step in dis.get_instructions(piece):
            if step.opname in ("LOAD_GLOBAL", "LOAD_NAME"):
                globals_[step.argval] = None
            elif step.opname == "IMPORT_NAME":
                imports[step.argval] = None
            elif step.opname in _OF_ATTRIBUTES:
                attributes.add(step.argval)
            if step.opname == "IMPORT_FROM" and imports:
                imports[f"{next(reversed(imports))}.{step.argval}"] = None
            if step.opname in _OF_ATTRIBUTES and isinstance(head, str):
                of_names.add((head, step.argval))
            head = step.argval if step.opname.startswith("LOAD_") else None
    return _Reads(tuple(globals_), frozenset(attributes), tuple(imports), frozenset(of_names))


_OF_ATTRIBUTES = frozenset({"LOAD_ATTR", "LOAD_METHOD", "IMPORT_FROM"})


def _parts(value: Any, *, is_root: bool) -> Iterator[tuple[Any, bool]]:
    """Give what lies directly in a value, and whether to look into that as well."""
    for kinds, contents in _CONTENTS:
        if isinstance(value, kinds):
            return ((item, True) for item in contents(value))
    if isinstance(value, types.FunctionType):
        return _of_function(value, is_root=is_root)
    if isinstance(value, types.ModuleType):
        return iter(())  # what is used of it is found where it is named
    if isinstance(value, type):
        return _of_class(value, is_root=is_root)
    if isinstance(value, types.GeneratorType | types.CoroutineType | types.AsyncGeneratorType):
        return ((held, True) for held in inside(value))
    return _of_object(value, is_root=is_root)


_CONTENTS: tuple[tuple[Any, Callable[[Any], Iterable[Any]]], ...] = (
    (dict, lambda value: islice(list(value.values()), _WIDE)),
    ((list, tuple, set, frozenset, deque), lambda value: islice(list(value), _WIDE)),
    (types.MethodType, lambda value: (value.__func__, value.__self__)),
    (functools.partial, lambda value: (value.func, value.args, value.keywords)),
    ((staticmethod, classmethod), lambda value: (value.__func__,)),
    (property, lambda value: (value.fget,)),
    (types.BuiltinMethodType, lambda value: (value.__self__,)),
    (type(functools.cache(len)), lambda value: (value.__wrapped__,)),
    (ContextVar, lambda value: (value.get(None),)),
    (threading.local, lambda value: (vars(value), type(value))),
    (weakref.ref, lambda value: (value(),)),
)


def _of_function(function: types.FunctionType, *, is_root: bool) -> Iterator[tuple[Any, bool]]:
    for cell in function.__closure__ or ():
        with contextlib.suppress(ValueError):  # it is empty
            yield cell.cell_contents, True
    if not is_root and not is_own(_home(function)):  # the wrapper of a library is part of the function that it wraps
        yield function.__dict__.get("__wrapped__"), True
        return
    reads = _reads(function.__code__)
    for name in reads.globals:
        value = function.__globals__.get(name)
        yield value, True
        yield from _of_module(value, reads.attributes)
    for name in reads.imports:
        yield from _of_module(sys.modules.get(name), reads.attributes)
    yield from ((value, True) for value in _of_os(reads, function.__globals__))
    yield function.__defaults__, True
    yield function.__kwdefaults__, True
    yield function.__dict__, True


def _of_module(module: Any, attributes: frozenset[str]) -> Iterator[tuple[Any, bool]]:
    """Give what code names of a module, and of the modules in it."""
    modules, met = [module], 0
    while modules and met < _WIDE:
        module = modules.pop()
        if not isinstance(module, types.ModuleType):
            continue
        met += 1
        for name in attributes & vars(module).keys():
            value = vars(module)[name]
            if not _is_of_descriptors(value):
                yield value, True  # of `os`, "write" is the attribute of many other things
            if isinstance(value, types.ModuleType) and value.__name__.startswith(f"{module.__name__}."):
                modules.append(value)


def _of_os(reads: _Reads, names: dict[str, Any]) -> Iterator[Any]:
    """Give what code names of `os` itself: `os.write` by whatever name the module has there."""
    for head, name in reads.of_names:
        if names.get(head) is os or (head not in names and (head == "os" or "os" in reads.imports)):
            yield _unwrapped(vars(os).get(name))
    yield from (_unwrapped(vars(os).get(name.partition(".")[2])) for name in reads.imports if name.startswith("os."))


def _is_of_descriptors(value: Any) -> bool:
    real = _unwrapped(value)
    return isinstance(real, types.BuiltinFunctionType) and real in DESCRIPTOR_FUNCTIONS


def _unwrapped(value: Any) -> Any:
    """Return a function of `os` without the wrapper that it has in a session."""
    return getattr(value, "__wrapped__", value) if isinstance(value, types.FunctionType) else value


def _of_class(cls: type, *, is_root: bool) -> Iterator[tuple[Any, bool]]:
    if is_root or is_own(cls.__module__):
        for base in cls.__mro__:
            if is_own(base.__module__):
                yield from ((value, True) for name, value in list(vars(base).items()) if not _is_about(name, value))
    elif interface_of(cls) is not None:  # whoever makes an object of it makes its client, which its module names
        module = sys.modules.get(cls.__module__)
        yield from ((value, False) for value in (list(vars(module).values()) if module is not None else ()))


def _is_about(name: str, value: Any) -> bool:
    """Return whether an entry of a class describes its objects, as annotations do, rather than being part of them."""
    return name.startswith("__") and not isinstance(value, types.FunctionType | classmethod | staticmethod)


def _of_object(value: Any, *, is_root: bool) -> Iterator[tuple[Any, bool]]:
    cls: type = type(value)
    is_of_program = is_root or is_own(cls.__module__)
    if is_of_program:
        yield cls, True
    is_followed = is_of_program or is_of_framework(cls) or is_stream(cls)
    yield from ((inner, is_followed) for inner in _attributes(value, cls))
    if not is_of_program:
        yield from ((held, is_followed) for held in inside(value))


def _attributes(value: Any, cls: type) -> Iterator[Any]:
    """Return the attributes of an object, without running its code."""
    with contextlib.suppress(AttributeError, TypeError):
        yield from list(object.__getattribute__(value, "__dict__").values())
    for base in cls.__mro__:
        for slot in vars(base).values():
            if isinstance(slot, types.MemberDescriptorType):
                with contextlib.suppress(AttributeError, TypeError):  # it is not set
                    yield slot.__get__(value, cls)


def is_own(module: str) -> bool:
    """Return True if a module belongs to the program."""
    if module in sys.builtin_module_names or module.startswith(_OURS):
        return False
    loaded = sys.modules.get(module)
    filename = getattr(loaded, "__file__", None)
    if filename is None:  # a notebook, a package without a file, or what was never imported as a module
        return module == "__main__" or loaded is None
    return not is_library(filename)
