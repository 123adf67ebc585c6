"""Drawings of programs: integrations register how one of theirs is drawn, so that tools can hold runs against it.

Beside readers, in the same module of an integration: see `agenttape_core.schema.readers`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from agenttape_core.named_tuples import NamedTuple
from agenttape_core.schema.readers import register_installed


class EventType(NamedTuple):
    """A type of events that steps pass to one another.

    Args:
        name: Its name, as runs name it.
        made_by: The steps that return it, as they declare.
        taken_by: The steps that take it.
    """

    name: str
    made_by: tuple[str, ...] = ()
    taken_by: tuple[str, ...] = ()


class Drawing(NamedTuple):
    """The parts of a program that its runs could exercise.

    Args:
        nodes: The names of its nodes or steps.
        edges: The edges between nodes that know each other, as pairs of names.
        events: The types of events, where steps are joined by events.
    """

    nodes: tuple[str, ...]
    edges: tuple[tuple[str, str], ...] = ()
    events: tuple[EventType, ...] = ()


_draws: list[Callable[[Any], Drawing | None]] = []


def register_drawing(draw: Callable[[Any], Drawing | None]) -> None:
    """Register a function that draws programs of one kind.

    Args:
        draw: Returns the drawing of an object, or `None` if it is of another kind. It may not import a framework that
            is not imported already: an object of it could not be there.
    """
    _draws.append(draw)


def drawing_of(program: Any) -> Drawing | None:
    """Return the drawing of a program, by the installed integrations; `None` if it is of no kind that they know."""
    register_installed()
    return next((drawn for drawn in (draw(program) for draw in _draws) if drawn is not None), None)
