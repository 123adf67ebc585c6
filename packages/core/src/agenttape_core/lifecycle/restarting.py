"""Recorded runs begun again without the test or the request that began them: integrations register how.

A run begins again in the session that is open: `agenttape replay --run` opens one that replays the recording.
"""

from __future__ import annotations

import inspect
import sys
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from agenttape_core.errors import ConfigurationError, UnreadableValueError, shown_path
from agenttape_core.lifecycle.entry_points import installed_names, load_integration
from agenttape_core.named_tuples import NamedTuple
from agenttape_core.schema import Entry, Plain
from agenttape_core.schema.installed import published
from agenttape_core.session import value_codec
from agenttape_core.storage import Cassette

GROUP = "agenttape.restarts"  # the group of entry points of the ways to begin again a run that a request began
REQUEST = "$request"  # the tag of the input of a run that an HTTP request began
_REMEDY = (
    "record it again with this version of AgentTape, around a graph, a chain, an agent or a workflow;\n"
    "  a program of plain Python keeps its input by cassette.note_input(...), a server by TapeInbound; or give the "
    "input: --input JSON"
)


class Source(NamedTuple):
    """A recorded run that is to begin again.

    Args:
        cassette: Its recording.
        input: Its input as plain data.
        entry: The call that began it.
        thread_id: The thread to run again, where the recording holds several.
        is_replaced: Whether the user gave an input instead of the recorded one.
        headers: Headers to send in addition to the recorded ones, as `Name: value`.
    """

    cassette: Cassette
    input: Plain
    entry: Entry
    thread_id: str | None = None
    is_replaced: bool = False
    headers: tuple[str, ...] = ()

    @property
    def is_request(self) -> bool:
        """True if an HTTP request began the run."""
        return isinstance(self.input, dict) and REQUEST in self.input

    def given(self) -> Any:
        """Return the input.

        Raises:
            ConfigurationError: If it cannot be rebuilt from the cassette.
        """
        try:
            return value_codec().decode(self.input)
        except UnreadableValueError as error:
            raise ConfigurationError(
                f"{shown_path(self.cassette.path)}: the input of the run cannot be rebuilt: {error}\n"
                "  let the module of --app import its classes, or give the input: --input JSON"
            ) from error


Begin = Callable[[], Any]  # begins a run and returns its answer, or an awaitable of it
_ways: list[Callable[[Any, Source], Begin | None]] = []


def register_restart(way: Callable[[Any, Source], Begin | None]) -> None:
    """Register how programs of one kind begin a recorded run again.

    Args:
        way: Returns a function that begins it in the current session, or `None` if the program is of another kind. It
            may not import a framework that is not imported already: a program of it could not be there.
    """
    _ways.insert(0, way)


def source_of(
    cassette: Cassette, *, thread_id: str | None = None, given: Plain = None, headers: Sequence[str] = ()
) -> Source:
    """Return a recorded run that is to begin again.

    `thread_id` chooses one of several threads, `given` replaces the recorded input, and `headers` (`Name: value`) are
    added to the recorded ones. Raises `ConfigurationError` if the recording has no input.
    """
    header = cassette.header
    known = given if given is not None else header.input
    has_steps = any(step.input is not None for step in cassette.outermost_steps())
    if known is None and not has_steps:
        raise ConfigurationError(f"{shown_path(cassette.path)} does not hold the input of its run\n  {_REMEDY}")
    return Source(cassette, known, header.volatile.entry, thread_id, given is not None, tuple(headers))


def begin_of(app: Any, source: Source) -> Begin:
    """Return the function that begins a recorded run again with a program.

    `app` is a graph, a chain, an agent, a workflow, or a function. Raises `ConfigurationError` if it can't be run, or
    the input can't be rebuilt.
    """
    for framework in sorted(installed_names() & sys.modules.keys()):
        load_integration(framework)
    ways = [*(published(GROUP) if source.is_request else ()), *_ways]
    begin = next((begin for begin in (way(app, source) for way in ways) if begin is not None), None)
    return begin if begin is not None else _plain(app, source)


def _plain(app: Any, source: Source) -> Begin:
    """Begin a function, or an object with `invoke`, `run` or a method that the recording names."""
    if source.input is None:
        raise ConfigurationError(f"{shown_path(source.cassette.path)} does not hold the input of its run\n  {_REMEDY}")
    names = (source.entry.method, "ainvoke" if source.entry.awaited else "invoke", "invoke", "run")
    method = next((found for name in names if name and callable(found := getattr(app, name, None))), None)
    called = method if method is not None else app
    if not callable(called):
        raise ConfigurationError(
            f"--app names a {type(app).__qualname__}: expected a graph, a chain, an agent, a workflow or a function"
        )
    given = source.given()
    return lambda: called(**given) if _takes(called, given) else called(given)


def _takes(function: Callable[..., Any], given: Any) -> bool:
    """Return whether an input is a dictionary of the arguments of a function."""
    if not isinstance(given, Mapping) or not all(isinstance(name, str) for name in given):
        return False
    try:
        inspect.signature(function).bind(**given)
    except (TypeError, ValueError):
        return False
    return True
