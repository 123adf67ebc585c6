"""Changes that land: a recorded call that is about to be served gets the outcome that was chosen for it."""

from __future__ import annotations

from typing import Any, NamedTuple, Protocol

from agenttape_core.errors import ConfigurationError, UnrecordableValueError
from agenttape_core.matching import Candidate, Position
from agenttape_core.schema import Outcome
from agenttape_core.session.base_session import BaseSession
from agenttape_core.session.boundary import Boundary
from agenttape_core.session.recorded_errors import record_error
from agenttape_core.session.report import Landed
from agenttape_core.session.sources import Edited, original


class Served(Protocol):
    """A crossing that is answered from its recording, as far as a change has to know it."""

    session: BaseSession
    boundary: Boundary
    position: Position
    found: Candidate


class Answered(NamedTuple):
    """The outcome of a served call.

    Args:
        outcome: The outcome, as a cassette holds it.
        error: The error that a change raises, with attributes that a cassette cannot hold; `None` if none does.
    """

    outcome: Outcome
    error: Exception | None = None


class LandingCall:
    """A recorded call whose outcome is changed, in the terms of its boundary.

    Args:
        crossing: The call in this run.
        outcome: What was recorded.
    """

    def __init__(self, crossing: Served, outcome: Outcome) -> None:
        self._crossing = crossing
        self.outcome = outcome
        self.error: Exception | None = None

    def answer(self) -> Any:
        """Return the recorded answer as programs of the framework know it, a fresh object.

        Raises:
            ConfigurationError: If the recorded call brought none.
        """
        value = recorded_value(self._crossing, self.outcome)
        if value is None and self.outcome.status not in {"returned", "streamed"}:
            raise ConfigurationError(f"it has no recorded answer: it {self.outcome.status}")
        return self._crossing.boundary.told(self._crossing, value)

    def returning(self, answer: Any) -> Outcome:
        """Return the outcome of a call that returns an answer."""
        crossing = self._crossing
        value = crossing.boundary.faked(crossing, answer)
        usage = crossing.boundary.usage(value)
        return Outcome(status="returned", value=crossing.session.codec.encode(value), usage=usage)

    def raising(self, error: Exception, after: int | None = None) -> Outcome:
        """Return the outcome of a call that raises an error: at once, or after so many of its chunks."""
        self.error = error
        record = record_error(error, self._crossing.session.codec)
        if after is None:
            return Outcome(status="raised", error=record)
        chunks = (self.outcome.chunks or [])[:after]
        effects = [effect for effect in self.outcome.effects if effect.after <= after]
        return Outcome(status="streamed", chunks=chunks, ended="raised", error=record, effects=effects)


def recorded_value(crossing: Served, outcome: Outcome) -> Any:
    """Return the value that was recorded, a fresh object; `None` for a call that brought no whole one."""
    decode = crossing.session.codec.decode
    if outcome.status == "streamed" and not outcome.has_failed and outcome.ended == "exhausted":
        return crossing.boundary.join([decode(chunk) for chunk in outcome.chunks or ()])
    return decode(outcome.value) if outcome.status == "returned" else None


def answered_with(crossing: Served) -> Answered:
    """Return the outcome that a served call has in this run. A change of it lands here.

    Raises:
        ConfigurationError: If the change cannot be made.
    """
    session, number = crossing.session, crossing.found.number
    source = session.source
    change = source.change_of(number) if isinstance(source, Edited) else None
    if change is None or not isinstance(source, Edited):
        return Answered(source.outcome(number))
    call = LandingCall(crossing, source.outcome(number))
    boundary = crossing.boundary
    where = f"{boundary.kind} at {crossing.position.address}"
    try:
        made = change.outcome(call)
    except (ConfigurationError, UnrecordableValueError) as error:
        raise ConfigurationError(f"the change of interaction {original(source, number)}, {where}: {error}") from error
    outcome = Outcome.model_validate(session.redactor.value(made.model_dump()))
    source.land(number, outcome)
    name = source.interaction(number).name
    session.landed(Landed(boundary.kind, name, crossing.position.address, original(source, number), str(change)))
    return Answered(outcome, call.error)
