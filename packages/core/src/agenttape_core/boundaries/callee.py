"""The callable inside a boundary, and the request that a call of it becomes."""

from __future__ import annotations

import functools
import inspect
import types
from collections.abc import Callable, Collection
from dataclasses import replace
from typing import Any, get_args

from agenttape_core.boundaries.arguments import Parameters
from agenttape_core.boundaries.streams import joined, split
from agenttape_core.errors import ConfigurationError, UnrecordableValueError
from agenttape_core.integration import (
    Boundary,
    Crossing,
    below,
    current_session,
    state_of,
    that_may_change,
    usage_in,
)
from agenttape_core.schema import KINDS, MODEL_KINDS, Kind

_MESSAGES = "messages"
_MODELS = MODEL_KINDS | {"embeddings"}


class Callee:
    """A callable that is a boundary.

    Args:
        function: The callable; no class.
        kind: The kind of the boundary.
        name: Its name; by default the callable's.
        drop: Parameters that are not part of the request.
        writes: Whether a call changes the contents of the method's object; by default, it does for the kind `memory`.

    Raises:
        ConfigurationError: If one of them cannot be used.
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
        self.boundary = replace(plain, usage=usage_in) if kind in _MODELS else plain
        self._parameters = Parameters(self.inner, self.name, drop)
        self._writes = kind == "memory" if writes is None else writes

    def has_shape(self, test: Callable[[Any], bool]) -> bool:
        """Return whether the callable, or the `__call__` of an object, passes a test of `inspect`."""
        return test(self.inner) or test(self.inner.__call__)

    def cross(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[Crossing | None, dict[str, Any]]:
        """Begin the crossing of a call, or return `None` without a session; and the arguments that it may change.

        Raises:
            CassetteMissError: If the call may be neither served nor executed.
            TypeError: If the arguments do not fit the parameters.
            UnrecordableValueError: If an argument cannot be written.
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
            crossing = session.cross(
                self.boundary, self.name, body, position=below(session, self.name), holder=holder, writes=self._writes
            )
        except UnrecordableValueError as error:
            error.add_note(f'  or leave the argument out of the request of {self.name}: @boundary(..., drop=("…",))')
            raise
        if not crossing.is_served:
            is_method = receiver is not None and isinstance(self.inner, types.FunctionType)
            crossing.code = types.MethodType(self.inner, receiver) if is_method else self.inner
            crossing.unrecorded = self._parameters.dropped((*self._args, *args), {**self._kwargs, **kwargs})
        return crossing, may_change

    def crossed(
        self, args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> tuple[Crossing | None, Callable[[], Any], dict[str, Any]]:
        """Begin the crossing of a call; return it, a function that makes the real call, and what that may change.

        Args:
            args: The positional arguments.
            kwargs: Those given by name.
        """
        crossing, may_change = self.cross(args, kwargs)
        return crossing, functools.partial(self.function, *args, **kwargs), may_change

    def request(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> dict[str, Any]:
        """Return the request of a call: the name, and the arguments by the names of their parameters.

        A list called `messages` is stored next to the other arguments, as in the requests of chat models: of a
        conversation, only the new messages are stored.

        Raises:
            TypeError: If the arguments do not fit the parameters.
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
