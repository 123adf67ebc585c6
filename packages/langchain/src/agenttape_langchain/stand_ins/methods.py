"""The shared bases of stand-ins: methods that are replayed by name, and batches."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from langchain_core.runnables.config import get_config_list

from agenttape_core.integration import Boundary, SessionCall, named_arguments
from agenttape_core.integration.leaves import kept
from agenttape_core.integration.stand_ins import Recorded, RecordedPart, StandIn, replayed_method
from agenttape_langchain.requests import Methods, method_body


class Replaying(StandIn):
    """An object whose methods are replayed from a recording."""

    _recorded: RecordedPart

    def _cross(self, boundary: Boundary, method: str, **arguments: Any) -> SessionCall:
        """Begin a call of a method."""
        return self._recorded.cross(boundary, lambda settings: method_body(method, arguments, settings))


class InOrder:
    """A runnable that answers the inputs of a batch one after another: equal ones get their recordings in order.

    Without a session, the threads of LangChain's batches have no order. Answers that take time still come in parallel.
    """

    _recorded: Recorded

    def batch(self, inputs: Any, config: Any = None, **options: Any) -> list[Any]:
        """Answer inputs."""
        return super().batch(inputs, self._one_by_one(inputs, config), **options)  # type: ignore[misc, no-any-return]

    def batch_as_completed(self, inputs: Any, config: Any = None, **options: Any) -> Iterator[tuple[int, Any]]:
        """Answer inputs, and yield each answer with the place of its input."""
        yield from super().batch_as_completed(inputs, self._one_by_one(inputs, config), **options)  # type: ignore[misc]

    def _one_by_one(self, inputs: Any, config: Any) -> Any:
        if self._recorded.session.pace is not None:
            return config
        return [{**each, "max_concurrency": 1} for each in get_config_list(config, len(inputs))]


def replayed(methods: Methods, name: str) -> tuple[Callable[..., Any], Callable[..., Any]]:
    """Return a method of a table as one that is replayed, and its asynchronous form."""
    method = methods[name]

    def cross(self: Replaying, args: tuple[Any, ...], kwargs: dict[str, Any]) -> SessionCall:
        return self._cross(method.boundary, name, **named_arguments(None, method.names, *kept(args, kwargs)))

    return replayed_method(name, cross)
