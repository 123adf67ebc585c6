"""The listeners of a session, each for one rare thing that is asked of it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Literal

from agenttape_core.engine import IDEMPOTENT, Decision, StepInto
from agenttape_core.errors import CassetteMissError, shown_path
from agenttape_core.guard import how_to_end, warn_of_late
from agenttape_core.guard.caller import caller
from agenttape_core.matching import Candidate as Match
from agenttape_core.matching import CanonicalRequest, Position, Selector
from agenttape_core.schema import KINDS, IndexRow
from agenttape_core.session.events import Events
from agenttape_core.session.id_mapping import Asked
from agenttape_core.session.listening import Listener
from agenttape_core.session.miss import differing_parts
from agenttape_core.session.report import CallRecord, Divergence
from agenttape_core.session.secret_scope import HeldSecrets
from agenttape_core.session.session import Session
from agenttape_core.session.slot import Slot

if TYPE_CHECKING:  # a miss is rare
    from agenttape_core.matching import Nearest


def listen(session: Session) -> None:
    """Let all listen to a session that its options ask for."""
    policy = session.policy
    if policy.live or policy.replay_only or policy.step_into:
        session.listeners.append(session.extension(NAMES))
    if session.held is not None:
        session.listeners.append(_Secrets(session, session.held))
    if session.setup.notes_divergences:
        session.listeners.append(_Divergences(session))
    if session.events is not None:
        session.listeners.append(_Events(session, session.events))
    if session.setup.sink is not None:
        session.listeners.append(_Asked(session))


class Names(Listener):
    """The names in options that a call has had: one that none has is probably misspelt."""

    def __init__(self, session: Session) -> None:
        policy = session.policy
        self._session = session
        self.named = policy.live | policy.replay_only | (policy.step_into or Selector())
        self._met: set[str] = set()

    def begins(self, kind: str, name: str) -> None:
        """Note the kind and the name of a call."""
        self._met.update((kind, name))

    def unmatched(self) -> list[str]:
        """Return the selectors in options that select no call, neither of this run nor of the cassette."""
        if not self.named:
            return []
        report, known = self._session.report, {*self._met, *KINDS, IDEMPOTENT}
        met = [*report.replayed, *report.recorded, *report.stepped_into]
        calls: list[IndexRow | CallRecord] = [*self._session.source.entries, *met]
        return sorted(str(key) for key in self.named - known if not Selector((key,), calls).among(calls))


NAMES: Slot[Names] = Slot(Names)


class LateCalls(Listener):
    """Refuses calls from work that a replay has started, and that continues after its end."""

    def __init__(self, session: Session) -> None:
        self._session = session

    def begins(self, kind: str, name: str) -> None:
        """Refuse it: always raises `CassetteMissError`."""
        session = self._session
        summary = f"{kind} {name} was called after the replay of {shown_path(session.path)} had ended"
        miss = CassetteMissError(summary, f"  called at {caller()}\n  {how_to_end()}")
        session.report.add_failure(missed=summary)
        warn_of_late(miss)
        raise miss


class _Secrets(Listener):
    """Keeps the secrets in requests, if a replayed value may later reach a call that is made for real."""

    def __init__(self, session: Session, held: HeldSecrets) -> None:
        self._session = session
        self._held = held

    def decided(self, position: Position, body: Mapping[str, Any], decision: Decision) -> None:
        with self._session.latch, self._session.answering:
            self._held.note(position.address, body, begins_run=isinstance(decision, StepInto))


class _Divergences(Listener):
    """Notes the calls that differ from their recordings, in a run with changes."""

    def __init__(self, session: Session) -> None:
        self._session = session

    def answered(self, request: CanonicalRequest, found: Match, call_record: CallRecord, *, is_replayed: bool) -> None:
        del is_replayed
        if not found.same:
            recorded = self._session.source.interaction(found.number).request
            from agenttape_core.matching import differences  # few calls differ from their recordings

            differing = tuple((one.path, one.recorded, one.asked) for one in differences(recorded, request.body))
            self._note("changed", request, call_record.address, call_record.number, differing)

    def executed(self, request: CanonicalRequest, position: Position) -> None:
        self._note("executed", request, position.address)

    def missed(self, request: CanonicalRequest, position: Position, near: Nearest | None, *, is_fatal: bool) -> None:
        del is_fatal
        number = near.row.number if near is not None else None
        self._note("missed", request, position.address, number, tuple(differing_parts(near)))

    def _note(
        self,
        what: Literal["changed", "missed", "executed"],
        request: CanonicalRequest,
        address: str,
        number: int | None = None,
        differing: tuple[tuple[str, Any, Any], ...] = (),
    ) -> None:
        divergence = Divergence(what, request.kind, request.name, address, number, differing)
        self._session.report.add_divergence(divergence)


class _Events(Listener):
    """Passes on what becomes of calls as it happens."""

    def __init__(self, session: Session, events: Events) -> None:
        self._session = session
        self._events = events

    def answered(self, request: CanonicalRequest, found: Match, call_record: CallRecord, *, is_replayed: bool) -> None:
        del request, found
        inside = self._session.ledger.inside.get(call_record.number)
        self._events.call_record("call.replayed" if is_replayed else "call.stepped_into", call_record, inside)

    def missed(self, request: CanonicalRequest, position: Position, near: Nearest | None, *, is_fatal: bool) -> None:
        del near
        event = "call.missed" if is_fatal else "call.refused"
        self._events.tell(event, kind=request.kind, name=request.name, address=position.address)


class _Asked(Listener):
    """Notes facts about a recording that stays: its request in this run if it has ids or differs; texts for steps."""

    def __init__(self, session: Session) -> None:
        self._session = session

    def answered(self, request: CanonicalRequest, found: Match, call_record: CallRecord, *, is_replayed: bool) -> None:
        del call_record, is_replayed
        ledger = self._session.ledger
        if request.ids or (self._session.setup.notes_divergences and not found.same):
            ledger.asked.setdefault(found.number, Asked(request, found.same))
        if self._session.policy.updates and ledger.texts is not None:
            ledger.texts.note(self._session.source.interaction(found.number))
