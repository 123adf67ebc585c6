"""Begin a recorded thread again in the session that is open, as `agenttape replay --run` does."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from langgraph.pregel import Pregel

from agenttape_core.errors import ConfigurationError
from agenttape_core.integration import Source, current_session
from agenttape_langgraph.time_travel.drivers import adrive, drive
from agenttape_langgraph.time_travel.initial_checkpoints import initial_checkpoints
from agenttape_langgraph.time_travel.reasked_calls import reasked_calls
from agenttape_langgraph.time_travel.recorded_run import RecordedRun, holds_runs
from agenttape_langgraph.time_travel.request import ThreadRequest
from agenttape_langgraph.time_travel.script import Script
from agenttape_langgraph.time_travel.thread_run import ThreadRun


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
