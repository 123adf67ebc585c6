"""`replay_source`: a recorded run begun again from its own input, without the test or the request that began it."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator, Sequence
from dataclasses import dataclass
from inspect import isawaitable
from pathlib import Path
from typing import Any

from agenttape_core.errors import ConfigurationError
from agenttape_core.lifecycle.restarting import Begin, Source, begin_of, source_of
from agenttape_core.lifecycle.use_cassette import use_cassette
from agenttape_core.session import Report, plain_value
from agenttape_core.settings import load_settings
from agenttape_core.storage import cassette_path, open_cassette


@dataclass(frozen=True, slots=True)
class SourceReplay:
    """A recorded run that was run again.

    Args:
        answer: The value that the program returned; for a stream, the list of its parts; of a server the status and
            the body, with the lines in which they differ from the recorded ones.
        report: The report of the session: the calls that were replayed.
    """

    answer: Any
    report: Report


def replay_source(
    source: str | Path,
    app: Any,
    *,
    thread_id: str | None = None,
    given: Any = None,
    headers: Sequence[str] = (),
    **options: Any,
) -> SourceReplay:
    """Run a recorded run again from the input in its header; a LangGraph thread with its recorded answers of humans.

    The program really runs, and all that it calls is replayed.

    Args:
        source: The recording: a bare name under the cassette folder, or a path.
        app: A graph, a chain, an agent, a workflow, or a function; for a request that `TapeInbound` has recorded, the
            ASGI application.
        thread_id: The thread to run again, where the recording holds several.
        given: An input to use instead of the recorded one.
        headers: Headers to send in addition to the recorded ones, as `Name: value`.
        options: More options of `use_cassette`, such as `candidate`.

    Raises:
        ConfigurationError: If the recording has no input, the program can't be run, an option is wrong, or an event
            loop is running: await `areplay_source` then.
        CassetteMissError: If the program makes a call that was not recorded.
        UnusedInteractionsError: If it does not make every recorded call.
        CassetteError: If the recording cannot be read.
    """
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        begun = _source(source, thread_id, given, headers)
        if begun.entry.inside:
            return asyncio.run(_replayed(begun, app, options))
        with use_cassette(begun.cassette.path, mode="replay", **options) as session:
            answer = run_to_its_end(begin_of(app, begun), is_awaited=begun.entry.awaited)
        return SourceReplay(answer, session.report)
    raise ConfigurationError("replay_source runs an event loop, and one is running here: await areplay_source(...)")


async def areplay_source(
    source: str | Path,
    app: Any,
    *,
    thread_id: str | None = None,
    given: Any = None,
    headers: Sequence[str] = (),
    **options: Any,
) -> SourceReplay:
    """Do what `replay_source` does, in the event loop that is running."""
    return await _replayed(_source(source, thread_id, given, headers), app, options)


async def _replayed(begun: Source, app: Any, options: dict[str, Any]) -> SourceReplay:
    async with use_cassette(begun.cassette.path, mode="replay", **options) as session:
        answer = await finished(begin_of(app, begun))
    return SourceReplay(answer, session.report)


def run_to_its_end(begin: Begin, *, is_awaited: bool) -> Any:
    """Begin a run, and return its answer, of a stream a list; with `is_awaited`, it needs a loop from its beginning."""
    if is_awaited:
        return asyncio.run(finished(begin))
    answer = begin()
    if isawaitable(answer) or isinstance(answer, AsyncIterator):
        return asyncio.run(finished(lambda: answer))
    return list(answer) if isinstance(answer, Iterator) else answer


async def finished(begin: Begin) -> Any:
    """Begin a run in the event loop that is running, and return its answer; of a stream the list of its parts."""
    answer = begin()
    if isawaitable(answer):
        answer = await answer
    if isinstance(answer, AsyncIterator):
        return [item async for item in answer]
    return list(answer) if isinstance(answer, Iterator) else answer


def _source(source: str | Path, thread_id: str | None, given: Any, headers: Sequence[str]) -> Source:
    cassette = open_cassette(cassette_path(source, load_settings().cassette_dir))
    plain = plain_value(given) if given is not None else None
    return source_of(cassette, thread_id=thread_id, given=plain, headers=headers)
