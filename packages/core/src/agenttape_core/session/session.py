"""One use of one cassette."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple, NoReturn

from agenttape_core.engine import Decision, Execute, Policy, Refuse, RunThrough, Serve, decide
from agenttape_core.errors import (
    AgentTapeError,
    CassetteMissError,
    DriftError,
    ServedWriteError,
    UnrecordableValueError,
    shown_path,
)
from agenttape_core.guard import how_to_end, warn_of_late
from agenttape_core.guard.caller import caller
from agenttape_core.matching import Candidate as Match
from agenttape_core.matching import CanonicalRequest, Position, task_branch
from agenttape_core.scheduling import SCOPES as _SCOPES
from agenttape_core.scheduling import Scopes
from agenttape_core.schema import MODEL_KINDS
from agenttape_core.session.answered_call import AnsweredCall
from agenttape_core.session.answers import answer_of, miss_result
from agenttape_core.session.base_session import BaseSession
from agenttape_core.session.boundary import Boundary
from agenttape_core.session.call import begun
from agenttape_core.session.candidates import Candidate
from agenttape_core.session.entered_session import EnteredSession
from agenttape_core.session.executed_call import RUNNING, ExecutedCall, executing
from agenttape_core.session.finding import found_for
from agenttape_core.session.held_secrets import HeldSecrets
from agenttape_core.session.ids_of_run import Asked
from agenttape_core.session.intercept import Crossing
from agenttape_core.session.miss import refusal_reason
from agenttape_core.session.report import Crossed
from agenttape_core.session.served_writes import ServedWrite, note_served_write, served_write_on
from agenttape_core.session.sources import original


class _Call(NamedTuple):
    """The facts of a call that has been decided.

    Args:
        boundary: The family of the call.
        request: The request.
        position: Where it is made.
        owner: The object whose call it is.
        body: The request before it was redacted.
        number: Its number in this run.
        parent: The crossing that is executing around it.
    """

    boundary: Boundary
    request: CanonicalRequest
    position: Position
    owner: Any
    body: Mapping[str, Any]
    number: int
    parent: ExecutedCall | None

    def facts(self, session: BaseSession) -> tuple[BaseSession, Boundary, CanonicalRequest, Position]:
        """Return what each call has."""
        return session, self.boundary, self.request, self.position


class Session(EnteredSession):
    """One use of one cassette. Thread-safe and task-safe.

    Integrations call `cross` and act on what it returns; users get a session from `use_cassette`.

    Args:
        setup: All that it is made of.
    """

    def cross(
        self,
        boundary: Boundary,
        name: str,
        body: Mapping[str, Any],
        *,
        position: Position | None = None,
        owner: Any = None,
        ids: tuple[str, ...] = (),
        ids_around: tuple[str, ...] = (),
        parent: ExecutedCall | None = None,
        holder: Any = None,
        writes: bool = False,
        is_idempotent: bool = False,
    ) -> Crossing:
        """Decide what happens on a call.

        Args:
            boundary: The family of the call.
            name: Which one: the class of the model, the name of the tool.
            body: The request: encodable values, `Keyed` where building them is costly.
            position: Where the call is made; by default below the crossing that executes around it, or the root.
            owner: The object whose call it is.
            ids: Run-specific ids of the call that are not part of the request, for example the id of a tool call.
            ids_around: Run-specific ids of what the call can see around it, such as the messages of a conversation.
                They are recorded where its outcome holds one of them.
            parent: The crossing that is executing around this one; by default the one of this context.
            holder: The state of the object that the call reads or changes; by default that of the owner.
            writes: Whether the call changes what the object holds.
            is_idempotent: Whether the boundary says that a call of it may be made again, or only reads.

        Raises:
            CassetteMissError: If the call may be neither served nor executed.
            ServedWriteError: If it would be executed on an object after a write to it was served.
            UnrecordableValueError: If the body cannot be written.
        """
        if self._has_left and self.is_replay:
            self._refuse_late(boundary.kind, name)
        self.scheduler.begins_call()
        frozen = self.frozen_here()
        if frozen is not None:
            frozen.progressed()
        self.answering.__enter__()  # what waits for the decision takes no frozen time
        try:
            request = self._canonical.request(boundary.kind, name, body, ids, ids_around)
            parent = parent if parent is not None and parent.session is self else self.around(position)
            position = position if position is not None else self._position(name, parent)
            if self._named:
                self._met.update((boundary.kind, name))
            candidate = self._candidate_at(boundary, request, position) if self._setup.candidates is not None else None
            policy = self.policy if boundary.takes_candidates else self._policy_without_candidates()
            decision = self._decide(
                policy, request, position.address, is_tried=candidate is not None, again=is_idempotent
            )
        except AgentTapeError as error:
            self.latch(error)  # an agent that eats it must not end green
            raise
        finally:
            self.answering.__exit__()
        if self.held is not None:
            self._note_secrets(self.held, position, body, begins_run=isinstance(decision, RunThrough))
        if writes or isinstance(decision, Execute):
            self._follow_writes(decision, request, position, owner if holder is None else holder)
        call = _Call(boundary, request, position, owner, body, self.ledger.next_number(), parent)
        crossing: Crossing
        if isinstance(decision, Serve):
            crossing = self._served(call, decision.found)
        elif isinstance(decision, RunThrough):
            crossing = self._stepped_into(call, decision.found)
        elif isinstance(decision, Refuse):
            crossing = self._refused(call, decision)
        else:
            crossing = self._executed(call, candidate)
        begun(crossing)
        return crossing

    def _position(self, name: str, parent: ExecutedCall | None) -> Position:
        """Return where a call is made that no framework knows the place of."""
        base = parent.position if parent is not None else self.root
        return base.child(name, branch=task_branch(base))

    def _served(self, call: _Call, found: Match) -> AnsweredCall:
        """Return a call that a recording answers."""
        self._note_answer(call, found, is_served=True)
        self.ledger.served_at.setdefault(found.number, call.position.order)
        self.scheduler.serves(found.number)
        return AnsweredCall(*call.facts(self), number=call.number, owner=call.owner, found=found)

    def _stepped_into(self, call: _Call, found: Match) -> ExecutedCall:
        """Return a recorded call whose code is run again."""
        self._note_answer(call, found, is_served=False)
        self.ledger.ran_through(call.number, found.number, call.position.order)
        facts = call.facts(self)
        return ExecutedCall(*facts, number=call.number, owner=call.owner, parent=call.parent, found=found)

    def _executed(self, call: _Call, candidate: Candidate | None) -> ExecutedCall:
        """Return a call that is executed for real."""
        boundary, request, position, owner, _, number, parent = call
        self.scheduler.depart()
        self._departed("executed", request, position)
        self.report.add(executed=Crossed(boundary.kind, request.name, position.address, number))
        executed = ExecutedCall(self, boundary, request, position, number=number, owner=owner, parent=parent)
        if candidate is not None:
            executed.candidate, executed.metadata = candidate, {"candidate": candidate.label}
        return executed

    def _refused(self, call: _Call, refusal: Refuse) -> AnsweredCall:
        """Return a call without a recording: a function of the user answers it, or it is a miss."""
        around = call.parent.number if call.parent is not None else None
        fake = self._setup.fakes.get(call.request.name)
        if fake is not None and refusal.found is None:
            self.report.add(faked=Crossed(call.boundary.kind, call.request.name, call.position.address, call.number))
            answer = answer_of(fake, call.body, around)
        else:
            answer = miss_result(self._drift(call.request, call.position, refusal), around)
        return AnsweredCall(*call.facts(self), number=call.number, owner=call.owner, answer=answer)

    def _note_answer(self, call: _Call, found: Match, *, is_served: bool) -> None:
        """Note that a recording answers a call, or that its code is run again."""
        request, position, parent = call.request, call.position, call.parent
        if parent is not None:
            self.ledger.inside[found.number] = parent.number
        recorded = original(self.source, found.number)
        crossed = Crossed(request.kind, request.name, position.address, recorded, found.rung, same=found.same)
        if self._setup.notes_departures:
            self._moved(request, position, found)
        if is_served:
            self.report.add(served=crossed)
        else:
            self.report.add(ran_through=crossed)
        if self.events is not None:
            event = "call.served" if is_served else "call.run_through"
            self.events.crossed(event, crossed, self.ledger.inside.get(crossed.number))
        if request.ids or self.ledger.texts is not None:
            self._note_asked(request, found)

    def _candidate_at(self, boundary: Boundary, request: CanonicalRequest, position: Position) -> Candidate | None:
        """Return the candidate that is asked in the place of the program's own model, if there is one."""
        candidates = self._setup.candidates
        if candidates is None or not (boundary.takes_candidates and candidates.may_be_at(request.kind)):
            return None
        return candidates.at(position.address)

    def _note_secrets(
        self, held: HeldSecrets, position: Position, body: Mapping[str, Any], *, begins_run: bool
    ) -> None:
        """Note what a request holds, where what is served later may reach a call that is executed."""
        with self.latching(), self.answering:
            held.note(position.address, body, begins_run=begins_run)

    def _note_asked(self, request: CanonicalRequest, found: Match) -> None:
        """Note what is needed of a recording that stays: the ids that it was asked with, and texts for steps."""
        if request.ids and self.ledger.writes:
            self.ledger.asked.setdefault(found.number, Asked(request, found.same))
        if self.policy.updates and self.ledger.texts is not None:
            self.ledger.texts.note(self.source.interaction(found.number))

    def unreported_crossing(
        self,
        boundary: Boundary,
        name: str,
        body: Callable[[], Mapping[str, Any]],
        position: Position | None,
        owner: Any,
    ) -> ExecutedCall | None:
        """Return the crossing of a call that is executed, and that may turn out to be none; see `program_calls`.

        Args:
            boundary: The family of the call.
            name: The name of the boundary.
            body: Makes the request.
            position: Where the call is made; by default below the root.
            owner: The object whose call it is.

        Returns:
            `None` if its request cannot be written.
        """
        try:
            request = self._canonical.request(boundary.kind, name, body(), (), ())
        except UnrecordableValueError:
            return None
        position = position or self.root.child(name, branch=task_branch(self.root))
        number = self.ledger.next_number()
        return ExecutedCall(self, boundary, request, position, number=number, owner=owner)

    def _refuse_late(self, kind: str, name: str) -> NoReturn:
        """Refuse a call of what a replay has started, and which runs on after its end."""
        summary = f"{kind} {name} was called after the replay of {shown_path(self.path)} had ended"
        miss = CassetteMissError(summary, f"  called at {caller()}\n  {how_to_end()}")
        self.report.add_failure(missed=summary)
        warn_of_late(miss)
        raise miss

    def _policy_without_candidates(self) -> Policy:
        """Return the policy for models that no candidate replaces: a trial makes all other models live."""
        candidates = self._setup.candidates
        if candidates is None or not candidates.is_everywhere:
            return self.policy
        return self.policy._replace(live=self.policy.live - MODEL_KINDS)

    def _decide(
        self, policy: Policy, request: CanonicalRequest, address: str, *, is_tried: bool = False, again: bool = False
    ) -> Decision:
        """Find, decide, then use: a recording that is found and refused stays for the next call that asks for it."""
        kind, name = request.kind, request.name
        if is_tried or not policy.may_serve(kind, name):
            return decide(policy, kind, name, None, is_tried=is_tried)
        while True:
            candidate = found_for(self, self._recordings, request, address)
            decision = decide(policy, kind, name, candidate, is_idempotent=again)
            if not isinstance(decision, Serve | RunThrough):
                return decision
            if self._recordings.use(decision.found, alone=isinstance(decision, RunThrough)):
                return decision
            # Another thread has found the same recording, and was faster: find again among the others.

    def _follow_writes(self, decision: Decision, request: CanonicalRequest, position: Position, holder: Any) -> None:
        """Note a write that is served, and refuse what would be executed on an object after one was."""
        if holder is None:
            return
        if isinstance(decision, Execute):
            if served_write_on(holder) is not None:
                owner = request.name.rpartition(".")[0] or request.name  # a method's name follows that of its class
                call = f"{request.kind} {request.name} at {position.address}"
                self.refuse_after_served_write(holder, owner, call)
        elif isinstance(decision, Serve):  # else it is executed, stepped into or refused
            note_served_write(holder, ServedWrite(f"{request.kind} {request.name}", str(self.path)))

    def refuse_after_served_write(self, holder: Any, name: str, call: str) -> None:
        """Refuse to execute a call on an object that does not hold what was written to it.

        Args:
            holder: The state of the object.
            name: The name of its class.
            call: The call, in words.

        Raises:
            ServedWriteError: If a write to the object was served.
        """
        written = served_write_on(holder)
        if written is not None:
            error = ServedWriteError(call, name, *written)
            self.latch(error)
            raise error

    def _drift(self, request: CanonicalRequest, position: Position, refusal: Refuse) -> DriftError:
        known = len(self._recordings.numbers(request.fingerprint))
        reason = refusal_reason(refusal, known, self._bar(request.kind, request.name))
        return self.miss(request, position, reason, lossy=refusal.found is not None)

    def around(self, position: Position | None = None) -> ExecutedCall | None:
        """Return the innermost crossing of this session that executes around a call made here.

        Args:
            position: Where the call is made, as far as a framework knows.
        """
        innermost = executing() or self._executing_elsewhere(position)
        return innermost if innermost is not None and innermost.session is self else None

    def _bar(self, kind: str, name: str) -> str:
        """Return why a boundary is only ever served; empty where it might be executed."""
        if self.policy.is_barred(kind, name):
            return "the run has departed from its recording, live does not name this call"
        return "it is frozen" if self.policy.is_frozen(kind, name) else ""

    def _executing_elsewhere(self, position: Position | None) -> ExecutedCall | None:
        """Return the boundary that a thread without a context most likely works for: the innermost, if there is one.

        Real code may start threads that know nothing of the session. What they call belongs to that code. It does not
        if a framework knows the place of the call, in the same tree and not below that boundary: then it runs beside,
        as in an event loop that is older than the session.
        """
        if SCOPES.innermost() is not None:
            return None
        origin = SCOPES.origin()
        if origin is not None and origin.membership.session is self:
            begun_in: ExecutedCall | None = origin.crossing
            return begun_in if begun_in is not None and not begun_in.has_ended else None
        # A request that is under way starts no threads that make others: those run beside it.
        running = [crossing for crossing in self.extension(RUNNING)[:] if crossing.boundary.kind != "http"]
        innermost = running[-1] if running else None
        if innermost is None or not all(map(innermost.is_below, running)):
            return None
        return None if position is not None and position.is_beside(innermost.position) else innermost

    def executes_now(self) -> bool:
        """Return whether a boundary is being executed for real at this moment."""
        return any(crossing.reaches_out() for crossing in self.extension(RUNNING)[:])


SCOPES: Scopes[Session] = _SCOPES
"""The sessions of this process."""
