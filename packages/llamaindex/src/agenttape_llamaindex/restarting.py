"""Begin a recorded workflow again in the session that is open, as `agenttape replay --run` does.

A recording that holds the ticks of the run has the events that came from outside later; another one has the event that
the run began with.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from workflows import Workflow
from workflows.events import StartEvent

from agenttape_core.errors import ConfigurationError
from agenttape_core.integration import Source
from agenttape_llamaindex._compat import answered_steps
from agenttape_llamaindex.threads import script_of

_EVENT = "event"
"""The key of the name of the class, beside the fields of an event."""


def restart(app: Any, source: Source) -> Callable[[], Any] | None:
    """Return a function that runs a workflow again with its recorded events.

    Returns `None` for any other `app`; a recording of a server is left to others. Raises `ConfigurationError` if an
    event cannot be rebuilt, or the recording has no input.
    """
    if not isinstance(app, Workflow) or source.is_request:
        return None
    script = None if source.is_replaced else script_of(source.cassette.path, app)
    if script is not None:
        return lambda: _played(script, app)
    _refuse_answers(app, source)
    event = _begun_with(app, source)
    return lambda: _run(app, event)


async def _played(script: Any, workflow: Workflow) -> Any:
    result, _ = await script.play(workflow)
    return result


async def _run(workflow: Workflow, event: StartEvent) -> Any:
    return await workflow.run(start_event=event)


def _refuse_answers(workflow: Workflow, source: Source) -> None:
    """Refuse a run in which a person answered, where the answers are not known: it would wait for them."""
    answered = answered_steps(workflow) & {step.name for step in source.cassette.steps() if step.kind == "node"}
    if answered:
        raise ConfigurationError(
            f"{source.cassette.path}: step {min(answered)} was given an answer from outside, and the "
            "recording does not hold it\n  observe the run with TapeEventHandler, which keeps what comes from outside, "
            "and leave --input out"
        )


def _begun_with(workflow: Workflow, source: Source) -> StartEvent:
    given = source.given()
    if not isinstance(given, dict):
        raise ConfigurationError(
            f"{source.cassette.path}: expected the fields of an event as the input of a workflow, found "
            f"a {type(given).__name__}"
        )
    fields = {key: value for key, value in given.items() if key != _EVENT}
    made = workflow.start_event_class
    try:
        return made(**fields)
    except (TypeError, ValueError) as error:
        raise ConfigurationError(
            f"{source.cassette.path}: the recorded input does not fit {made.__name__}: {error}"
        ) from error
