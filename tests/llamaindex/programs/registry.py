"""The programs by name, and their results as data that can be compared."""

# Annotations are evaluated at once: tools find the context among their parameters by its class.
from collections.abc import Awaitable, Callable
from typing import Any, TypeAlias

from pydantic import BaseModel

from ..scripted import World

Program: TypeAlias = Callable[[World], Awaitable[Any]]
PROGRAMS: dict[str, Program] = {}
"""Every program by name."""


def program(run: Program) -> Program:
    """Keep a program under its name."""
    PROGRAMS[run.__name__] = run
    return run


def shown(value: Any) -> Any:
    """Return what was produced as data that can be compared, types included."""
    if isinstance(value, BaseModel):
        return {"is": type(value).__name__, **{key: shown(item) for key, item in value.model_dump().items()}}
    if isinstance(value, dict):
        return {key: shown(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [type(value).__name__, *map(shown, value)]
    return value if value is None or isinstance(value, str | int | float | bool) else f"{type(value).__name__}: {value}"


async def followed(handler: Any) -> Any:
    """Return the events and the result of a workflow that runs."""
    events = [shown(event) async for event in handler.stream_events()]
    return {"events": events, "result": shown(await handler)}


def shown_response(response: Any) -> Any:
    """Return the text, the sources and the metadata of a response."""
    sources = [(node.node.node_id, node.node.get_content(), node.score) for node in response.source_nodes]
    return {"text": str(response), "sources": sources, "metadata": response.metadata}
