"""Shared by the stand-ins whose methods are replayed by name: stores, memories, readers."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Unpack

from agenttape_core.integration import SessionCall, named_arguments
from agenttape_core.integration.leaves import kept
from agenttape_core.integration.stand_ins import Options, RecordedPart, replayed_method
from agenttape_llamaindex.requests import method_body
from agenttape_llamaindex.stores import ASYNC_NAMES, Methods
from agenttape_llamaindex.workflows.halts import halts_end_streams_for

_Pair = tuple[Callable[..., Any], Callable[..., Any]]


def recorded_methods(
    cassette: str | Path, methods: Methods, name: str | None, **options: Unpack[Options]
) -> RecordedPart:
    """Return the recorded calls of the methods of an interface.

    Several interfaces have methods of the same name, so their arguments count as well. `name` is the recorded class of
    the object, if the cassette holds several; `options` are `on_repeat` and `pace`. Raises `CassetteError` if there's
    no such cassette, or it cannot be read, and `ConfigurationError` if it holds no such call.
    """

    def settings_in(request: Mapping[str, Any]) -> Mapping[str, Any] | None:
        method, given = methods.get(request.get("method", "")), request.get("arguments", {})
        if method is None or (given and method.names and given.keys().isdisjoint(method.names)):
            return None
        settings: Mapping[str, Any] = request.get("settings", {})
        return settings

    kinds = frozenset({method.boundary.kind for method in methods.values()})
    recorded = RecordedPart(cassette, kinds, settings_in, name=name, **options)
    halts_end_streams_for(recorded)
    return recorded


def replayed(methods: Methods, name: str) -> _Pair:
    """Return a method of a table as one that is replayed, and its asynchronous form."""
    method = methods[name]

    def cross(self: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> SessionCall:
        arguments = named_arguments(None, method.names, *kept(args, kwargs))
        recorded: RecordedPart = self._recorded
        return recorded.cross(method.boundary, lambda settings: method_body(name, arguments, settings))

    return replayed_method(name, cross, ASYNC_NAMES.get(name))
