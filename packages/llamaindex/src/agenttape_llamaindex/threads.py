"""Threads of workflows: what LangGraph keeps in a thread, a workflow keeps in its `Context`, one for each run.

A cassette with the ticks of a run holds its thread: the event that it began with, those that came from outside later,
and the state after each step.
"""

from __future__ import annotations

import asyncio
import re
from collections import deque
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from workflows import Context, Workflow
from workflows.events import Event

from agenttape_core import Interaction, Report, Rule, Step, open_cassette, use_cassette
from agenttape_core.errors import ConfigurationError
from agenttape_core.integration.cassettes import write_cassette
from agenttape_llamaindex._compat import state_items
from agenttape_llamaindex.workflows.events import EVENT_OF_TEXT
from agenttape_llamaindex.workflows.reading import RecordedRun, Tick, recorded_run, recorded_runs, runs_in
from agenttape_llamaindex.workflows.serializing import ReadingSerializer

_NTH, _BRANCH = re.compile(r"#\d+"), re.compile(r"~\d+")
_PATIENCE = 60.0


@dataclass(frozen=True)
class ThreadReplay:
    """A thread that was replayed.

    Args:
        result: What the run returned; `None` if the recorded one waited for an event at its end, or was cancelled.
        context: Its context.
        values: The values of the context's store at its end.
        report: The report of the session: the calls that were replayed.
    """

    result: Any
    context: Context[Any]
    values: dict[str, Any]
    report: Report


def export_thread(cassette: str | Path, path: str | Path, *, run: int = -1) -> Path:
    """Write a thread into one file: the ticks of a run, with all its calls and steps, without other runs.

    The file is a cassette: `replay_thread`, `context_at`, `steps_of` and `use_cassette` take it. A run that others came
    before in its file is the first one there. Secrets have the pseudonyms that they have in the cassette.

    Args:
        cassette: The cassette: the file of a `TapeEventHandler`, or of a session with the workflow on a `TapeRuntime`.
        path: The file to write, `.yaml` or `.jsonl`. It must not exist.
        run: The recorded run: 0 is the first, -1 the last. A workflow inside another one is exported with that.

    Returns:
        The path of the file.

    Raises:
        CassetteError: If the cassette cannot be read, or the file cannot be written.
        ConfigurationError: If the cassette has no such run, or the file exists.
    """
    target = Path(path)
    if target.exists():
        raise ConfigurationError(f"{target} exists already: an export is a new file")
    opened, own = open_cassette(cassette), _root(recorded_run(cassette, run).address)
    volatile = opened.header.volatile
    mine = volatile.model_copy(
        update={
            "turns": [[_first(place) for place in turn] for turn in volatile.turns if _all_of(turn, own)],
            "schedule": [
                one.model_copy(update={"calls": [_first(place) for place in one.calls]})
                for one in volatile.schedule
                if _all_of(one.calls, own)
            ],
        }
    )
    records = _records(opened.records(), own)
    write_cassette(target, opened.header.model_copy(update={"volatile": mine}), list(records))
    return target


def _records(records: Any, own: str) -> Iterator[Interaction | Step]:
    """Yield the records of a run, and those that belong to none."""
    for record in records:
        if record.address == "":
            yield record
        elif _root(record.address) == own:
            yield record.model_copy(update={"address": _first(record.address)})


def _root(address: str) -> str:
    return address.partition("/")[0]


def _first(address: str) -> str:
    """Return an address below the first run of its name."""
    root, slash, below = address.partition("/")
    return _BRANCH.sub("~1", _NTH.sub("", root)) + slash + below


def _all_of(places: Sequence[str], own: str) -> bool:
    return all(_root(place) == own for place in places)


def replay_thread(
    cassette: str | Path,
    workflow: Workflow,
    *,
    run: int = -1,
    redact: bool | Sequence[Rule] = True,
    timeout: float = _PATIENCE,
) -> ThreadReplay:
    """Run a recorded thread again: with the event that it began with, and those that came from outside in their places.

    The workflow really runs, and all that it calls is replayed.

    Args:
        cassette: The recorded run.
        workflow: The workflow that was recorded, or a changed one.
        run: The recorded run: 0 is the first, -1 the last.
        redact: The rules that the cassette was recorded with, as in `use_cassette`.
        timeout: The time after which a run that does not end is given up, in seconds.

    Raises:
        CassetteMissError: If the workflow makes a call that was not recorded.
        ConfigurationError: If the cassette has no such run, the run continued with the context of another one, an event
            cannot be rebuilt, the run does not end, or an event loop is running: await `areplay_thread` then.
        UnusedInteractionsError: If it does not make every recorded call, and the cassette holds this run only.
        CassetteError: If the cassette cannot be read.
    """
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return asyncio.run(areplay_thread(cassette, workflow, run=run, redact=redact, timeout=timeout))
    raise ConfigurationError("replay_thread runs an event loop, and one is running here: await areplay_thread(...)")


async def areplay_thread(
    cassette: str | Path,
    workflow: Workflow,
    *,
    run: int = -1,
    redact: bool | Sequence[Rule] = True,
    timeout: float = _PATIENCE,  # noqa: ASYNC109 - the argument of the twin
) -> ThreadReplay:
    """Do what `replay_thread` does, in the event loop that is running."""
    script = Script(cassette, recorded_run(cassette, run), workflow)
    runs = recorded_runs(cassette)
    is_whole = all(_root(each.address) == _root(script.address) for each in runs) and not script.ends_waiting
    async with use_cassette(
        cassette, mode="replay", on_unused="fail" if is_whole else "ignore", redact=redact
    ) as session:
        try:
            async with asyncio.timeout(timeout):
                result, context = await script.play(workflow)
        except TimeoutError:
            raise ConfigurationError(
                f"{cassette}: the run did not end within {timeout:g} s; it waits for an event that was not recorded, "
                "or takes longer: pass timeout="
            ) from None
        values = dict(state_items(await context.store.get_state()))
    return ThreadReplay(result, context, values, session.report)


def script_of(cassette: str | Path, workflow: Workflow) -> Script | None:
    """Return the events that came into the last run of a cassette from outside; `None` if it holds no ticks.

    Raises `ConfigurationError` if an event cannot be rebuilt, or the run did not begin with one.
    """
    found = runs_in(record for record in open_cassette(cassette).records() if isinstance(record, Step))
    return Script(cassette, found[-1], workflow) if found else None


@dataclass(frozen=True, slots=True)
class _Answer:
    """An event that came from outside."""

    after: int  # the number of events that the run had published by then
    event: Event


class Script:
    """The events that came into a recorded run from outside, and their places.

    `cassette` is for messages; `workflow` reads the events. Raises `ConfigurationError` if an event cannot be rebuilt,
    or the run did not begin with one.
    """

    def __init__(self, cassette: str | Path, run: RecordedRun, workflow: Workflow) -> None:
        self.address = run.address
        serializer = ReadingSerializer(workflow)
        answers: list[_Answer] = []
        self._published = 0
        for tick in run.ticks:
            self._published += sum(not _is_text(event) for event in tick.published)
            if tick.kind == "add_event" and tick.outside:
                answers.append(_Answer(self._published, _event(cassette, tick, serializer)))
        if run.snapshot is not None or not answers or answers[0].after:
            raise ConfigurationError(
                f"{cassette}: the run {run.address} went on with the Context of another one\n"
                "  continue from a step of it: workflow.run(ctx=context_at(...)), in a session with the same cassette"
            )
        self._start, *self._answers = answers
        last, _ = run.steps()[-1]  # its first step is the event that it began with
        self.ends_waiting = last.status == "waiting" or last.kind == "cancel"

    async def play(self, workflow: Workflow) -> tuple[Any, Context[Any]]:
        """Run the workflow, and return its result and its context."""
        handler = workflow.run(start_event=self._start.event)  # type: ignore[arg-type]  # it is one
        assert handler.ctx is not None
        waiting, seen = deque(self._answers), 0
        self._send(handler.ctx, waiting, seen)
        async for event in handler.stream_events():
            seen += type(event).__name__ != EVENT_OF_TEXT
            self._send(handler.ctx, waiting, seen)
            if self.ends_waiting and seen >= self._published and not waiting:
                await handler.cancel_run()
                return None, handler.ctx
        return await handler, handler.ctx

    @staticmethod
    def _send(context: Context[Any], waiting: deque[_Answer], seen: int) -> None:
        while waiting and waiting[0].after <= seen:
            context.send_event(waiting.popleft().event)


def _is_text(event: Any) -> bool:
    """Return whether an event repeats the one before: a recording keeps the last of several in a row."""
    return isinstance(event, dict) and str(event.get("qualified_name", "")).rpartition(".")[2] == EVENT_OF_TEXT


def _event(cassette: str | Path, tick: Tick, serializer: ReadingSerializer) -> Event:
    if tick.plain is None:
        raise ConfigurationError(f"{cassette}: the event {tick.name} was not recorded: {tick.note}")
    try:
        event = serializer.deserialize_value(tick.plain["event"])
    except (ValueError, KeyError, TypeError) as error:
        raise ConfigurationError(f"{cassette}: the event {tick.name} cannot be rebuilt: {error}") from error
    if not isinstance(event, Event):
        raise ConfigurationError(f"{cassette}: the event {tick.name} cannot be rebuilt: it isn't an event")
    return event
