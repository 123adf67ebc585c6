"""Time travel: list the steps of a recorded run, replay it, and fork it at any step."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from langgraph.pregel import Pregel

from agenttape_core import Report, use_cassette
from agenttape_core.errors import ConfigurationError
from agenttape_core.integration import Source, current_session
from agenttape_core.tools.compare import named_cassette
from agenttape_langgraph.time_travel.fork import Fork, atime_travel, time_travel
from agenttape_langgraph.time_travel.initial_checkpoints import initial_checkpoints
from agenttape_langgraph.time_travel.reasked_calls import match_on, reasked_calls
from agenttape_langgraph.time_travel.recorded_run import RecordedRun, RecordedStep, holds_runs, steps_of
from agenttape_langgraph.time_travel.request import ThreadRequest, takes
from agenttape_langgraph.time_travel.script import Enter, Leave, Script, adrive, drive
from agenttape_langgraph.time_travel.thread_run import ThreadEnd, ThreadRun

__all__ = [
    "Fork",
    "RecordedStep",
    "ThreadReplay",
    "areplay_thread",
    "atime_travel",
    "replay_thread",
    "steps_of",
    "time_travel",
]


# `replay_thread`: run a recorded thread again, from its recorded inputs and with the recorded answers of humans.


@dataclass(frozen=True)
class ThreadReplay(ThreadEnd):
    """A thread that was replayed.

    Args:
        report: The report of the session: the calls that were replayed.
    """

    report: Report


@takes(ThreadRequest)
def replay_thread(request: ThreadRequest) -> ThreadReplay:  # noqa: D417 - its arguments are the fields of the request
    """Run a recorded thread again: every invocation with its recorded input, every interrupt with its recorded answer.

    The graph really runs, and all that it calls is replayed. A derived cassette is replayed with its edits. The graph's
    own saver is left alone: the run has one in memory.

    Args:
        cassette: The recorded run.
        graph: The compiled graph.
        thread_id: The thread. It may be left out if the cassette has only one.
        inputs: Inputs that replace recorded ones, by the number of the invocation, for example values that a cassette
            cannot hold.
        config: More configuration of the graph; recorded values need not be repeated.
        context: The context of the run, for graphs with a `context_schema`.
        saver: A saver that holds the thread, if the thread had checkpoints before the recording began; by default the
            graph's own. It is only read.
        redact: The rules that the cassette was recorded with, as in `use_cassette`.

    Raises:
        ConfigurationError: If the cassette does not tell how the graph was run, or an input cannot be rebuilt.
        CassetteMissError: If the graph makes a call that was not recorded.
        UnusedInteractionsError: If it does not make every recorded call, the cassette holds one thread only, and its
            last run did not end with its process.
        CassetteError: If the cassette cannot be read.
    """
    return drive(_replay(request))


@takes(ThreadRequest)
async def areplay_thread(request: ThreadRequest) -> ThreadReplay:
    """Do what `replay_thread` does, with the asynchronous methods of the graph and the savers."""
    return await adrive(_replay(request))


def _replay(request: ThreadRequest) -> Script[ThreadReplay]:
    recorded = RecordedRun(named_cassette(request.cassette), request.thread_id)
    initial = yield from initial_checkpoints(recorded, request)
    session = yield Enter(
        use_cassette(
            recorded.cassette.path,
            mode="replay",
            match_on=match_on(recorded),
            on_unused="fail" if recorded.is_only and not recorded.died else "ignore",
            redact=request.redact,
        )
    )
    end = yield from ThreadRun(request, recorded, session, initial, ends=recorded.plan.ends).script()
    yield Leave()
    return ThreadReplay(end.state, end.graph, end.config, session.report)


# -- Begin a recorded thread again in the session that is open, as `agenttape replay --run` does.


def restart(app: Any, source: Source) -> Callable[[], Any] | None:
    """Return a function that runs all invocations of a recorded thread again, with the recorded answers of humans.

    Returns `None` for any other `app`; a recording without steps of a graph, such as an imported one, is left to
    others. Raises `ConfigurationError` if it holds several threads to choose from.
    """
    if not isinstance(app, Pregel) or not holds_runs(source.cassette):
        return None
    recorded = RecordedRun(source.cassette, source.thread_id)
    inputs = {1: source.given()} if source.is_replaced else None
    script = _script(ThreadRequest(source.cassette, app, inputs=inputs), recorded)
    return (lambda: adrive(script)) if source.entry.awaited else (lambda: drive(script))


def _script(request: ThreadRequest, recorded: RecordedRun) -> Script[Any]:
    session = current_session()
    if session is None:
        raise ConfigurationError("a thread begins again within a session: with use_cassette(...)")
    session.recordings.index.also_match(reasked_calls(recorded))
    initial = yield from initial_checkpoints(recorded, request)
    end = yield from ThreadRun(request, recorded, session, initial, ends=recorded.plan.ends).script()
    return end.values
