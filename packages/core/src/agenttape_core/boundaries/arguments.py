"""The arguments of a call by the names of their parameters: the part of a request that a caller chooses."""

from __future__ import annotations

import inspect
from collections.abc import Collection
from inspect import BoundArguments, Parameter, Signature
from types import ModuleType
from typing import Any
from weakref import WeakKeyDictionary

from agenttape_core.boundaries.receivers import is_method_of
from agenttape_core.errors import ConfigurationError

_UNKNOWN = Signature([Parameter("args", Parameter.VAR_POSITIONAL), Parameter("kwargs", Parameter.VAR_KEYWORD)])
"""The signature of a callable that has none to show, as some functions written in C."""


class Parameters:
    """The parameters of a callable, and which of them are part of a request.

    Args:
        function: The callable.
        name: Its name in errors.
        drop: The parameters that are not part of a request.

    Raises:
        ConfigurationError: If a name to drop isn't a parameter.
    """

    def __init__(self, function: Any, name: str, drop: Collection[str]) -> None:
        self._function = function
        self._name = name
        self._signatures = _signatures(function)
        self._drop = _checked_drop(drop, self._signatures[0], name)
        self._is_method_of: WeakKeyDictionary[type, bool] = WeakKeyDictionary()

    def named(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> dict[str, Any]:
        """Return the arguments of a call by name, defaults filled in; `*args` is a list, `**kwargs` a dict.

        Left out are the object or class that the callable is a method of, and the dropped parameters.

        Raises:
            TypeError: If the arguments do not fit the parameters.
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
        """Return the object that is called, or whose method is; `None` for a function, and for a method of a class.

        Args:
            args: The positional arguments of the call.
        """
        function = self._function
        found = getattr(function, "__self__", None if inspect.isroutine(function) else function)
        if args and self._is_method(args[0]):
            found = args[0]
        return None if isinstance(found, type | ModuleType) else found

    def bound(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> BoundArguments:
        """Return all arguments of a call by name, defaults filled in.

        Raises:
            TypeError: If they do not fit the parameters.
        """
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
            return is_method_of(self._function, receiver)
        known = self._is_method_of.get(type(receiver))
        if known is None:
            known = self._is_method_of[type(receiver)] = is_method_of(self._function, receiver)
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
