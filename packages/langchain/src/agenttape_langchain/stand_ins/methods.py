"""The shared base of stand-ins whose methods are replayed by name."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from agenttape_core.integration import Boundary, SessionCall, kept, named_arguments
from agenttape_core.integration.stand_ins import RecordedPart, StandIn, replayed_method
from agenttape_langchain.requests import method_body


class Replaying(StandIn):
    """An object whose methods are replayed from a recording."""

    _recorded: RecordedPart

    def _cross(self, boundary: Boundary, method: str, **arguments: Any) -> SessionCall:
        """Begin a call of a method."""
        return self._recorded.cross(boundary, lambda settings: method_body(method, arguments, settings))


def replayed(boundary: Boundary, method: str, names: tuple[str, ...]) -> tuple[Callable[..., Any], Callable[..., Any]]:
    """Return a method that is replayed, and its asynchronous form.

    `names` are the interface's names of its positional arguments.
    """

    def cross(self: Replaying, args: tuple[Any, ...], kwargs: dict[str, Any]) -> SessionCall:
        return self._cross(boundary, method, **named_arguments(None, names, *kept(args, kwargs)))

    return replayed_method(method, cross)
