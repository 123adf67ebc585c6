"""The callable inside a boundary, and the request that a call of it becomes."""

from __future__ import annotations

import functools
import inspect
import types
from collections.abc import Callable, Collection
from inspect import BoundArguments, Parameter, Signature
from types import FunctionType, ModuleType
from typing import Any, get_args
from weakref import WeakKeyDictionary

from agenttape_core.boundaries.streams import joined, split
from agenttape_core.errors import ConfigurationError, UnrecordableValueError
from agenttape_core.integration import Boundary, SessionCall, below, current_session, state_of
from agenttape_core.integration.answers import usage_in
from agenttape_core.integration.changed_arguments import that_may_change
from agenttape_core.schema import KINDS, MODEL_KINDS, Kind

_MESSAGES = "messages"
_MODELS = MODEL_KINDS | {"embeddings"}


class Callee:
    """A callable that is a boundary.

    `name` is by default the callable's; parameters in `drop` are not part of the request; `writes` is whether a call
    changes the contents of the method's object, by default for the kind `memory`. Raises `ConfigurationError` if one of
    them cannot be used.
    """

    def __init__(
        self,
        function: Callable[..., Any],
        kind: str,
        name: str | None = None,
        drop: Collection[str] = (),
        *,
        writes: bool | None = None,
    ) -> None:
        _check_function(function)
        self.function = function
        self.inner, self._args, self._kwargs = _without_partials(function)
        self.name = _name_of(self.inner) if name is None else _checked_name(name)
        plain = Boundary(_checked_kind(kind), join=joined, split=split)
        self.boundary = plain._replace(usage=usage_in) if kind in _MODELS else plain
        self._parameters = Parameters(self.inner, self.name, drop)
        self._writes = kind == "memory" if writes is None else writes

    def has_shape(self, test: Callable[[Any], bool]) -> bool:
        """Return whether the callable, or the `__call__` of an object, passes a test of `inspect`."""
        return test(self.inner) or test(self.inner.__call__)

    def cross(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[SessionCall | None, dict[str, Any]]:
        """Begin a call, or return `None` without a session; and the arguments that it may change.

        Raises `CassetteMissError` if the call may be neither replayed nor executed, `TypeError` if the arguments do not
        fit the parameters, and `UnrecordableValueError` if an argument cannot be written.
        """
        session = current_session()
        if session is None:
            return None, {}
        body = self.request(args, kwargs)
        given = body["arguments"] if _MESSAGES not in body else {**body["arguments"], _MESSAGES: body[_MESSAGES]}
        receiver = self._parameters.receiver((*self._args, *args))
        may_change = that_may_change(given, receiver if args and receiver is args[0] else None)
        holder = state_of(receiver) if receiver is not None else None
        try:
            session_call = session.cross(
                self.boundary, self.name, body, position=below(session, self.name), holder=holder, writes=self._writes
            )
        except UnrecordableValueError as error:
            error.add_note(f'  or leave the argument out of the request of {self.name}: @boundary(..., drop=("…",))')
            raise
        if not session_call.is_replayed:
            is_method = receiver is not None and isinstance(self.inner, types.FunctionType)
            session_call.code = types.MethodType(self.inner, receiver) if is_method else self.inner
            session_call.unrecorded = self._parameters.dropped((*self._args, *args), {**self._kwargs, **kwargs})
        return session_call, may_change

    def call_record(
        self, args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> tuple[SessionCall | None, Callable[[], Any], dict[str, Any]]:
        """Begin a call; return it, a function that makes the real call, and what that may change."""
        session_call, may_change = self.cross(args, kwargs)
        return session_call, functools.partial(self.function, *args, **kwargs), may_change

    def request(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> dict[str, Any]:
        """Return the request of a call: the name, and the arguments by the names of their parameters.

        A list called `messages` is stored next to the other arguments, as in the requests of chat models: of a
        conversation, only the new messages are stored. Raises `TypeError` if the arguments do not fit the parameters.
        """
        arguments = self._parameters.named((*self._args, *args), {**self._kwargs, **kwargs})
        body: dict[str, Any] = {"name": self.name, "arguments": arguments}
        if isinstance(arguments.get(_MESSAGES), list):
            body[_MESSAGES] = arguments.pop(_MESSAGES)
        return body


def _checked_kind(kind: str) -> str:
    if kind not in KINDS:
        raise ConfigurationError(f"unknown kind of boundary {kind!r}; choose one of: {', '.join(get_args(Kind))}")
    return kind


def _check_function(function: Any) -> None:
    shown = getattr(function, "__qualname__", None) or type(function).__qualname__
    if inspect.isclass(function):
        raise ConfigurationError(f"the class {shown} cannot be a boundary: decorate its methods")
    if isinstance(function, property | functools.cached_property):  # noqa: TID251 - of a user
        raise ConfigurationError(f"a {shown} cannot be a boundary: put `@{shown}` above `@boundary`")
    if not callable(function):
        raise ConfigurationError(f"expected a function or a kind of boundary, found a value of the type {shown}")


def _without_partials(function: Any) -> tuple[Any, tuple[Any, ...], dict[str, Any]]:
    args: tuple[Any, ...] = ()
    kwargs: dict[str, Any] = {}
    while isinstance(function, functools.partial):
        args, kwargs, function = (*function.args, *args), {**function.keywords, **kwargs}, function.func
    return function, args, kwargs


def _name_of(function: Any) -> str:
    """Return the name of a callable, without the functions that it was defined in (up to `<locals>`)."""
    name: str = getattr(function, "__qualname__", None) or type(function).__qualname__
    return name.rpartition("<locals>.")[2]


def _checked_name(name: Any) -> str:
    if not isinstance(name, str) or not name:
        raise ConfigurationError(f"the name of a boundary must be a text that is not empty, found {name!r}")
    return name


# The arguments of a call by the names of their parameters: the part of a request that a caller chooses.

_UNKNOWN = Signature([Parameter("args", Parameter.VAR_POSITIONAL), Parameter("kwargs", Parameter.VAR_KEYWORD)])
"""The signature of a callable that has none to show, as some functions written in C."""


class Parameters:
    """The parameters of a callable, and which of them are part of a request.

    `name` is for errors; parameters in `drop` are not part of a request. Raises `ConfigurationError` if a name to drop
    isn't a parameter.
    """

    def __init__(self, function: Any, name: str, drop: Collection[str]) -> None:
        self._function = function
        self._name = name
        self._signatures = _signatures(function)
        self._drop = _checked_drop(drop, self._signatures[0], name)
        self._is_method_of: WeakKeyDictionary[type, bool] = WeakKeyDictionary()

    def named(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> dict[str, Any]:
        """Return the arguments of a call by name, defaults filled in; `*args` is a list, `**kwargs` a dict.

        Left out are the object or class that the callable is a method of, and the dropped parameters. Raises
        `TypeError` if the arguments do not fit the parameters.
        """
        bound = self.bound(args, kwargs)
        if args and self._is_method(args[0]):
            _leave_out_first(bound)
        named: dict[str, Any] = {}
        for name, value in bound.arguments.items():
            kind = bound.signature.parameters[name].kind
            if name in self._drop:
                continue
            if kind is Parameter.VAR_POSITIONAL:
                named[name] = list(value)
            elif kind is Parameter.VAR_KEYWORD:  # sorted, so that their order in a call does not change a file
                named[name] = {key: value[key] for key in sorted(value) if key not in self._drop}
            else:
                named[name] = value
        return named

    def dropped(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[Any, ...]:
        """Return the arguments of a call that are not part of its request."""
        if not self._drop:
            return ()
        bound = self.bound(args, kwargs)
        return tuple(value for name, value in {**bound.arguments, **bound.kwargs}.items() if name in self._drop)

    def receiver(self, args: tuple[Any, ...]) -> Any:
        """Return the object that is called, or whose method is; `None` for a function, and for a method of a class."""
        function = self._function
        found = getattr(function, "__self__", None if inspect.isroutine(function) else function)
        if args and self._is_method(args[0]):
            found = args[0]
        return None if isinstance(found, type | ModuleType) else found

    def bound(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> BoundArguments:
        """Return all arguments of a call by name, with defaults. Raises `TypeError` if they don't fit."""
        problems = []
        for signature in self._signatures:
            try:
                bound = signature.bind(*args, **kwargs)
            except TypeError as error:
                problems.append(error)
            else:
                bound.apply_defaults()
                return bound
        raise TypeError(f"{self._name}() {problems[0]}") from None

    def _is_method(self, receiver: Any) -> bool:
        if isinstance(receiver, type):  # the answer for one class is not that for another of the same metaclass
            return _is_method_of(self._function, receiver)
        known = self._is_method_of.get(type(receiver))
        if known is None:
            known = self._is_method_of[type(receiver)] = _is_method_of(self._function, receiver)
        return known


def _signatures(function: Any) -> list[Signature]:
    """Return the signature that a callable declares, and its own where the two differ.

    A decorated function declares the signature of the innermost one, which its decorator may call with other arguments.
    """
    try:
        declared, own = inspect.signature(function), inspect.signature(function, follow_wrapped=False)
    except (TypeError, ValueError):
        return [_UNKNOWN]
    return [declared] if declared == own else [declared, own]


def _checked_drop(drop: Any, signature: Signature, name: str) -> frozenset[str]:
    if isinstance(drop, str) or not all(isinstance(item, str) for item in drop):
        raise ConfigurationError(f"drop={drop!r}: expected a tuple of the names of parameters")
    parameters = signature.parameters
    unknown = sorted(set(drop) - set(parameters))
    if unknown and all(parameter.kind is not Parameter.VAR_KEYWORD for parameter in parameters.values()):
        names = ", ".join(parameters) or "none"
        raise ConfigurationError(f"drop names {', '.join(map(repr, unknown))}; the parameters of {name} are: {names}")
    return frozenset(drop)


def _leave_out_first(bound: BoundArguments) -> None:
    """Leave out the first positional argument, which may be one of `*args`."""
    first = next(iter(bound.arguments))
    if bound.signature.parameters[first].kind is Parameter.VAR_POSITIONAL:
        bound.arguments[first] = bound.arguments[first][1:]
    else:
        del bound.arguments[first]


# The receiver of a call: the first argument, if the function is a method of that object or class.
#
# A decorator can't tell: it sees the function before there is a class, and `@staticmethod` may be above it. So the
# class of the argument is searched for the function when the call is made.

_LONGEST_CHAIN = 20  # the number of decorators to look through; a chain that goes in circles ends there


def _is_method_of(function: Any, receiver: Any) -> bool:
    """Return whether a call of `function` with `receiver` as its first argument is the call of a method of it."""
    if not isinstance(function, FunctionType):
        return False  # a bound method and a callable object have their receiver already
    if isinstance(receiver, type) and _has(receiver, function, of_class=True):
        return True
    return _has(type(receiver), function, of_class=False)


def _has(cls: type, function: FunctionType, *, of_class: bool) -> bool:
    """Return whether a class, or one it derives from, has the function: for itself, or for its instances."""
    return any(
        isinstance(attribute, classmethod) is of_class and _holds(attribute, function)
        for base in cls.__mro__
        if base.__module__ != "builtins"  # these cannot hold a function of Python, and are the most frequent arguments
        for attribute in list(vars(base).values())
    )


def _holds(attribute: Any, function: FunctionType) -> bool:
    """Return whether an attribute of a class is the function, however decorated, and binds its first argument."""
    for _ in range(_LONGEST_CHAIN):
        if attribute is function:
            return True
        match attribute:
            case None | staticmethod():
                return False
            case classmethod():
                attribute = attribute.__func__
            case property():
                attribute = attribute.fget
            case functools.cached_property() | functools.partialmethod():  # noqa: TID251 - of a user
                attribute = attribute.func
            case _:
                attribute = inspect.getattr_static(attribute, "__wrapped__", None)
    return False
