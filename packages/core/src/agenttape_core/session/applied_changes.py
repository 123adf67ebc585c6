"""Changes of recorded calls: one that is about to be answered gets the outcome that was chosen for it."""

from __future__ import annotations

from typing import Any

from agenttape_core.errors import ConfigurationError, UnrecordableValueError
from agenttape_core.schema import Outcome
from agenttape_core.session.call import Call
from agenttape_core.session.recorded_errors import record_error
from agenttape_core.session.report import ReachedChange
from agenttape_core.session.sources import Alteration, Edited, original


class ChangedCall:
    """A recorded call whose outcome is changed, in the terms of its boundary. `outcome` is the recorded one."""

    def __init__(self, call: Call, outcome: Outcome) -> None:
        self._call = call
        self.outcome = outcome
        self.error: Exception | None = None

    def answer(self) -> Any:
        """Return the recorded answer as programs of the framework know it, a fresh object.

        Raises `ConfigurationError` if the recorded call brought none.
        """
        value = recorded_value(self._call, self.outcome)
        if value is None and self.outcome.status not in {"returned", "streamed"}:
            raise ConfigurationError(f"it has no recorded answer: it {self.outcome.status}")
        return self._call.boundary.told(self._call, value)

    def returning(self, answer: Any) -> Outcome:
        """Return the outcome of a call that returns an answer."""
        call = self._call
        value = call.boundary.faked(call, answer)
        return Outcome(status="returned", value=call.session.codec.encode(value), usage=call.boundary.usage(value))

    def raising(self, error: Exception, after: int | None = None) -> Outcome:
        """Return the outcome of a call that raises an error: right away, or after a number of its chunks."""
        self.error = error
        record = record_error(error, self._call.session.codec)
        if after is None:
            return Outcome(status="raised", error=record)
        chunks = (self.outcome.chunks or [])[:after]
        effects = [effect for effect in self.outcome.effects if effect.after <= after]
        return Outcome(status="streamed", chunks=chunks, ended="raised", error=record, effects=effects)


def recorded_value(call: Call, outcome: Outcome) -> Any:
    """Return the value that was recorded, a fresh object; `None` for a call that brought no whole one."""
    decode = call.session.codec.decode
    if outcome.status == "streamed" and not outcome.has_failed and outcome.ended == "exhausted":
        return call.boundary.join([decode(chunk) for chunk in outcome.chunks or ()])
    return decode(outcome.value) if outcome.status == "returned" else None


def changed_outcome(call: Call, number: int, source: Edited, change: Alteration) -> tuple[Outcome, Exception | None]:
    """Return the outcome that a changed call has in this run, and note that the change was reached.

    Returns the outcome, and the error that it raises, with attributes that a cassette cannot hold; `None` if none does.
    Raises `ConfigurationError` if the change cannot be made.
    """
    session, recorded = call.session, original(source, number)
    changed = ChangedCall(call, source.outcome(number))
    kind, address = call.boundary.kind, call.position.address
    try:
        made = change.outcome(changed)
    except (ConfigurationError, UnrecordableValueError) as error:
        raise ConfigurationError(f"the change of interaction {recorded}, {kind} at {address}: {error}") from error
    outcome = Outcome.model_validate(session.redactor.value(made.model_dump()))
    source.land(number, outcome)
    session.report.add_reached(ReachedChange(kind, source.interaction(number).name, address, recorded, str(change)))
    session.recordings.has_changed = True
    session.scheduler.diverge()  # the recorded order of threads holds up to here
    session.diverge()
    return outcome, changed.error
