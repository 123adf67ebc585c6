"""The beginning of a call, once it is decided what happens on it: it is noted, and made."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from agenttape_core.engine import Refuse
from agenttape_core.errors import UnrecordedCallError
from agenttape_core.matching import Candidate as Match
from agenttape_core.matching import CanonicalRequest, Position
from agenttape_core.named_tuples import NamedTuple
from agenttape_core.schema import FAKED, Outcome
from agenttape_core.session.answered_call import AnsweredCall
from agenttape_core.session.boundary import Boundary
from agenttape_core.session.call import Call
from agenttape_core.session.candidates import Candidate
from agenttape_core.session.executed_call import ExecutedCall
from agenttape_core.session.miss import miss_of, refusal_reason
from agenttape_core.session.recorded_errors import record_error
from agenttape_core.session.recording import keep_answer
from agenttape_core.session.report import CallRecord
from agenttape_core.session.sources import original

if TYPE_CHECKING:
    from agenttape_core.session.session import Session  # the type alone: it begins its calls by what is here

SessionCall = AnsweredCall | ExecutedCall
"""A call at a boundary: `is_replayed` is true of one that is answered without being executed."""


class Facts(NamedTuple):
    """The facts of a call that is decided."""

    session: Session
    boundary: Boundary  # its family
    request: CanonicalRequest
    position: Position  # where it is made
    number: int  # its number in this run
    owner: Any  # the object whose call it is
    parent: ExecutedCall | None  # the call that is executing around it


def answered(facts: Facts, found: Match) -> AnsweredCall:
    """Begin a call that a recording answers."""
    session, boundary, request, position, number, owner, parent = facts
    if session.only_replays and parent is None and not session.listeners:
        call_record = CallRecord(
            request.kind, request.name, position.address, found.number, found.match_rule, same=found.same
        )
    else:
        call_record = _note_answer(facts, found, is_replayed=True)
        session.scheduler.replays(found.number)
    session.report.add(replayed=call_record)
    session.ledger.replayed_at.setdefault(found.number, position.order)
    return AnsweredCall(session, boundary, request, position, number=number, owner=owner, found=found)


def step_into(facts: Facts, found: Match) -> ExecutedCall:
    """Begin a recorded call whose code is run again."""
    session, boundary, request, position, number, owner, parent = facts
    session.report.add(stepped_into=_note_answer(facts, found, is_replayed=False))
    session.ledger.stepped_into(number, found.number, position.order)
    return ExecutedCall(session, boundary, request, position, number=number, owner=owner, parent=parent, found=found)


def executed(facts: Facts, candidate: Candidate | None) -> ExecutedCall:
    """Begin a call that is executed for real, by a candidate if one is given."""
    session, boundary, request, position, number, owner, parent = facts
    session.scheduler.diverge()
    session.report.add(executed=CallRecord(boundary.kind, request.name, position.address, number))
    for listener in session.listeners:
        listener.executed(request, position)
    call = ExecutedCall(session, boundary, request, position, number=number, owner=owner, parent=parent)
    if candidate is not None:
        call.candidate, call.metadata = candidate, {"candidate": candidate.label}
    return call


def faked(facts: Facts, fake: Callable[..., Any], body: Mapping[str, Any]) -> AnsweredCall:
    """Begin a call without a recording that a user's function answers, given the original request."""
    session, boundary, request, position, number, owner, parent = facts
    session.report.add(faked=CallRecord(boundary.kind, request.name, position.address, number))
    answer = _answer_of(fake, body, parent.number if parent is not None else None)
    return AnsweredCall(session, boundary, request, position, number=number, owner=owner, answer=answer)


def missed(facts: Facts, refusal: Refuse) -> AnsweredCall:
    """Begin a call that is neither answered nor executed, in a run that continues. Else raises `CassetteMissError`."""
    session, boundary, request, position, number, owner, parent = facts
    known = len(session.recordings.index.numbers(request.fingerprint))
    reason = refusal_reason(refusal, known, _bar(session, request.kind, request.name, position.address))
    unrecorded = miss_of(session, request, position, reason, lossy=refusal.found is not None)
    answer = _miss_result(unrecorded, parent.number if parent is not None else None)
    return AnsweredCall(session, boundary, request, position, number=number, owner=owner, answer=answer)


def _bar(session: Session, kind: str, name: str, address: str) -> str:
    """Return why a boundary is only ever replayed; empty where it might be executed."""
    if session.policy.is_barred(kind, name, address):
        return "the run has diverged from its recording, live does not name this call"
    return "it is replay-only" if session.policy.is_replay_only(kind, name, address) else ""


def _note_answer(facts: Facts, found: Match, *, is_replayed: bool) -> CallRecord:
    """Note that a recording answers a call, or that its code is run again, and return it as the report has it."""
    session, request, position, parent = facts.session, facts.request, facts.position, facts.parent
    if parent is not None:
        session.ledger.inside[found.number] = parent.number
    recorded = original(session.source, found.number)
    call_record = CallRecord(request.kind, request.name, position.address, recorded, found.match_rule, same=found.same)
    for listener in session.listeners:
        listener.answered(request, found, call_record, is_replayed=is_replayed)
    return call_record


def _miss_result(unrecorded: UnrecordedCallError, parent: int | None) -> Callable[[Call], Any]:
    """Return the answer of a missed call: the error result of its boundary, or an error that is raised."""

    def refused(call: Call) -> Any:
        said = call.session.redactor.text(unrecorded.said)
        keep_answer(call, parent, Outcome(status="refused", value=said))
        return call.boundary.missed(call, unrecorded)

    return refused


def _answer_of(fake: Callable[..., Any], body: Mapping[str, Any], parent: int | None) -> Callable[[Call], Any]:
    """Return the answer of a faked call: the fake's result or exception, given the original arguments."""

    def faked(call: Call) -> Any:
        redactor, codec = call.session.redactor, call.session.codec
        try:
            value = call.boundary.faked(call, _called(fake, body))
        except Exception as error:
            with call.session.latch:
                record = record_error(error, codec)
                redacted = type(record).model_validate(redactor.value(record.model_dump()))
            keep_answer(call, parent, Outcome(status="raised", error=redacted), [FAKED])
            raise
        with call.session.latch:
            plain = redactor.value(codec.encode(value))
        keep_answer(call, parent, Outcome(status="returned", value=plain), [FAKED])
        return value

    return faked


def _called(fake: Callable[..., Any], body: Mapping[str, Any]) -> Any:
    given = body.get("arguments", body)
    if isinstance(given, Mapping):
        return fake(**given)
    return fake(*given) if isinstance(given, list | tuple) else fake(given)
