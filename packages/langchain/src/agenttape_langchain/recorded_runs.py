"""The recorded run that an outermost run is: it goes by its thread, the rest of its `configurable`, and its input."""

from __future__ import annotations

import re

from agenttape_core.integration import (
    Plain,
    Position,
    RecordedRuns,
    Session,
    Slot,
    register_run_reader,
    without_ids,
)

_THREAD = "thread_id"
"""The key of a conversation in the configurable part of a config."""

_COMMAND = "$command"
"""The tag of LangGraph's commands in a cassette."""

_FIRST = r"[^/]+/[^/]*@1(?!\d)"
"""The address of a node in the first superstep of an outermost graph."""


def _comparable(plain: Plain) -> Plain:
    """Return an input without ids; answers to questions are given to the ids of these."""
    command = plain.get(_COMMAND) if isinstance(plain, dict) else None
    if isinstance(command, dict) and isinstance(command.get("resume"), dict):
        plain = {_COMMAND: {**command, "resume": list(command["resume"].values())}}
    return without_ids(plain)


_RUNS: Slot[RecordedRuns] = Slot(lambda session: RecordedRuns(session, _THREAD, _comparable))


def recorded_runs(session: Session) -> RecordedRuns:
    """Return the recorded outermost runs of a session."""
    return session.extension(_RUNS)


def goes_on(session: Session, position: Position) -> None:
    """Note that a graph which has just begun continues a thread: it isn't a recorded run that began one.

    A recorded run began a thread if it ran the first superstep on its own input. One that answered a question, or
    was invoked with `None`, continued: it ran the first superstep again if the thread was interrupted there.
    """
    runs = recorded_runs(session)
    if _continued(runs.recorded_input(position.address)):
        return
    if any(re.match(_FIRST, label) for label in runs.steps_inside(position.address)):
        runs.is_other(position)


def _continued(given: Plain) -> bool:
    """Return whether the recorded input of a run is one that only continues: `None`, or answers to questions."""
    command = given.get(_COMMAND) if isinstance(given, dict) else None
    return given is None or (isinstance(command, dict) and "resume" in command)


register_run_reader(lambda session, address: recorded_runs(session).differences(address))
