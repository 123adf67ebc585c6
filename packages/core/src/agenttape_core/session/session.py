"""One use of one cassette."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, NoReturn

from agenttape_core.engine import Decision, Execute, Policy, Refuse, RunThrough, Serve, decide
from agenttape_core.errors import (
    CassetteMissError,
    DriftError,
    ServedWriteError,
    UnrecordableValueError,
    shown_path,
)
from agenttape_core.guard import how_to_end, warn_of_late
from agenttape_core.guard.caller import caller
from agenttape_core.matching import (
    Candidate,
    CanonicalRequest,
    Position,
    task_branch,
)
from agenttape_core.scheduling import SCOPES as _SCOPES
from agenttape_core.scheduling import Scopes
from agenttape_core.schema import MODEL_KINDS
from agenttape_core.session.boundary import Boundary
from agenttape_core.session.candidates import Candidate as TriedCandidate
from agenttape_core.session.crossing import Crossing, begun
from agenttape_core.session.entered_session import EnteredSession
from agenttape_core.session.executed_around import executing
from agenttape_core.session.executed_crossing import RUNNING, ExecutedCrossing
from agenttape_core.session.faked_crossing import FakedCrossing
from agenttape_core.session.finding import found_for
from agenttape_core.session.ids_of_run import Asked
from agenttape_core.session.miss import refusal_reason
from agenttape_core.session.refused_crossing import RefusedCrossing
from agenttape_core.session.report import Crossed
from agenttape_core.session.run_through_crossing import RunThroughCrossing
from agenttape_core.session.served_crossing import ServedCrossing
from agenttape_core.session.served_writes import ServedWrite, note_served_write, served_write_on
from agenttape_core.session.sources import original
from agenttape_core.session.under_way import under_way


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
        parent: ExecutedCrossing | None = None,
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
        with self.latching(), under_way(self):
            request = self._canonical.request(boundary.kind, name, body, ids, ids_around)
        parent = parent if parent is not None and parent.session is self else self.around(position)
        if position is None:
            base = parent.position if parent is not None else self.root
            position = base.child(name, branch=task_branch(base))
        if self._named:
            self._met.update((boundary.kind, name))
        candidate = self._candidate_at(boundary, request, position)
        with under_way(self):
            policy = self.policy if boundary.takes_candidates else self._policy_without_candidates()
            decision = self._decide(
                policy, request, position.address, is_tried=candidate is not None, again=is_idempotent
            )
        self._note_secrets(position, body, begins_run=isinstance(decision, RunThrough))
        self._follow_writes(decision, request, position, owner if holder is None else holder, writes=writes)
        number = self.ledger.next_number()
        if parent is not None and isinstance(decision, Serve | RunThrough):
            self.ledger.inside[decision.found.number] = parent.number
        if isinstance(decision, Serve):
            found = decision.found
            recorded = original(self.source, found.number)
            served = Crossed(boundary.kind, name, position.address, recorded, found.rung, same=found.same)
            self._moved(request, position, found)
            self.report.add(served=served)
            self._tell("call.served", served)
            self.ledger.served_at.setdefault(found.number, position.order)
            self._note_asked(request, found)
            self.scheduler.serves(found.number)
            return begun(ServedCrossing(self, boundary, request, position, owner=owner, found=found))
        if isinstance(decision, RunThrough):
            found = decision.found
            ran_through = Crossed(
                boundary.kind,
                name,
                position.address,
                original(self.source, found.number),
                found.rung,
                same=found.same,
            )
            self._moved(request, position, found)
            self.report.add(ran_through=ran_through)
            self._tell("call.run_through", ran_through)
            self.ledger.ran_through(number, found.number, position.order)
            self._note_asked(request, found)
            return begun(
                RunThroughCrossing(
                    self, boundary, request, position, number=number, owner=owner, parent=parent, found=found
                )
            )
        if isinstance(decision, Refuse):
            return self._refused(boundary, request, position, decision, (owner, body, number, parent))
        self.scheduler.depart()
        self._departed("executed", request, position)
        self.report.add(executed=Crossed(boundary.kind, name, position.address, number))
        crossing = ExecutedCrossing(self, boundary, request, position, number=number, owner=owner, parent=parent)
        if candidate is not None:
            crossing.candidate, crossing.metadata = candidate, {"candidate": candidate.label}
        return begun(crossing)

    def _refused(
        self,
        boundary: Boundary,
        request: CanonicalRequest,
        position: Position,
        refusal: Refuse,
        call: tuple[Any, Mapping[str, Any], int, ExecutedCrossing | None],
    ) -> Crossing:
        """Return the crossing of a call without a recording: a function of the user answers it, or it is a miss."""
        owner, body, number, parent = call
        around = parent.number if parent is not None else None
        fake = self._setup.fakes.get(request.name)
        if fake is not None and refusal.found is None:
            self.report.add(faked=Crossed(boundary.kind, request.name, position.address, number))
            return begun(
                FakedCrossing(
                    self, boundary, request, position, owner=owner, fake=fake, body=body, number=number, parent=around
                )
            )
        drift = self._drift(request, position, refusal)
        return begun(
            RefusedCrossing(self, boundary, request, position, owner=owner, drift=drift, number=number, parent=around)
        )

    def _candidate_at(self, boundary: Boundary, request: CanonicalRequest, position: Position) -> TriedCandidate | None:
        """Return the candidate that is asked in the place of the program's own model, if there is one."""
        candidates = self._setup.candidates
        if candidates is None or not (boundary.takes_candidates and candidates.may_be_at(request.kind)):
            return None
        return candidates.at(position.address)

    def _note_secrets(self, position: Position, body: Mapping[str, Any], *, begins_run: bool) -> None:
        """Note what a request holds, where what is served later may reach a call that is executed."""
        if self.held is not None:
            with self.latching(), under_way(self):
                self.held.note(position.address, body, begins_run=begins_run)

    def _tell(self, event: str, crossed: Crossed) -> None:
        if self.events is not None:
            self.events.crossed(event, crossed, self.ledger.inside.get(crossed.number))

    def _note_asked(self, request: CanonicalRequest, found: Candidate) -> None:
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
    ) -> ExecutedCrossing | None:
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
        return ExecutedCrossing(self, boundary, request, position, number=number, owner=owner)

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
            with self.latching():
                candidate = found_for(self, self._recordings, request, address)
            decision = decide(policy, kind, name, candidate, is_idempotent=again)
            if not isinstance(decision, Serve | RunThrough):
                return decision
            if self._recordings.use(decision.found, alone=isinstance(decision, RunThrough)):
                return decision
            # Another thread has found the same recording, and was faster: find again among the others.

    def _follow_writes(
        self, decision: Decision, request: CanonicalRequest, position: Position, holder: Any, *, writes: bool
    ) -> None:
        """Note a write that is served, and refuse what would be executed on an object after one was."""
        if holder is None:
            return
        if isinstance(decision, Execute):
            if served_write_on(holder) is not None:
                owner = request.name.rpartition(".")[0] or request.name  # a method's name follows that of its class
                call = f"{request.kind} {request.name} at {position.address}"
                self.refuse_after_served_write(holder, owner, call)
        elif writes and isinstance(decision, Serve):
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

    def around(self, position: Position | None = None) -> ExecutedCrossing | None:
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

    def _executing_elsewhere(self, position: Position | None) -> ExecutedCrossing | None:
        """Return the boundary that a thread without a context most likely works for: the innermost, if there is one.

        Real code may start threads that know nothing of the session. What they call belongs to that code. It does not
        if a framework knows the place of the call, in the same tree and not below that boundary: then it runs beside,
        as in an event loop that is older than the session.
        """
        if SCOPES.innermost() is not None:
            return None
        origin = SCOPES.origin()
        if origin is not None and origin.membership.session is self:
            begun_in: ExecutedCrossing | None = origin.crossing
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
