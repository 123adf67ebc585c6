"""One use of one cassette."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from agenttape_core.engine import Decision, Policy, Refuse, Serve, decide
from agenttape_core.errors import AgentTapeError, DriftError, UnusedInteractionsError
from agenttape_core.matching import (
    Branch,
    CanonicalRequest,
    Order,
    Position,
    current_branch,
    enter_branch,
    new_branch,
    task_branch,
)
from agenttape_core.schema import KINDS, IndexRow, Interaction, Outcome
from agenttape_core.session.base_session import BaseSession
from agenttape_core.session.boundary import Boundary, RefusedCrossing
from agenttape_core.session.crossing import Crossing, begun
from agenttape_core.session.executed_crossing import RUNNING, ExecutedCrossing, executing
from agenttape_core.session.miss import refusal_reason
from agenttape_core.session.ports import Source
from agenttape_core.session.report import Crossed, Report
from agenttape_core.session.scopes import Scopes, takes_part
from agenttape_core.session.served_crossing import ServedCrossing
from agenttape_core.session.setup import Setup


class Session(BaseSession):
    """One use of one cassette. Thread-safe and task-safe.

    Integrations call `cross` and act on what it returns; users get a session from `use_cassette`.

    Args:
        setup: All that it is made of.
    """

    def __init__(self, setup: Setup) -> None:
        super().__init__(setup)
        self.outer: Session | None = None
        self.written: Path | str | None = None
        """The file that was written when the session ended: the cassette, or one derived from it; else `None`."""
        self.put_aside: Path | str | None = None
        """The copy of the unreadable file that was in its place; `None` if there was none."""
        self._named = setup.policy.live | setup.policy.frozen
        self._met: set[str] = set()
        self._branch: Branch | None = None
        self._branch_outside: Branch | None = None

    @property
    def ambient(self) -> bool:
        """True if integrations tape here what the user did not tape: everywhere, or inside what takes part."""
        return self._setup.ambient or takes_part(self)

    # -- the context -------------------------------------------------------------------------------------------

    def enter(self) -> None:
        """Make this the current session."""
        self.outer = SCOPES.innermost()
        self._branch_outside = current_branch()
        self._branch = new_branch()
        enter_branch(self._branch)
        SCOPES.enter(self)

    @contextmanager
    def resumed(self) -> Iterator[None]:
        """Make this the current session of the context of a block, while it is open.

        A test runner sets a test up in one context and runs it in another.
        """
        before, branch = SCOPES.swap(self), current_branch()
        enter_branch(self._branch)
        try:
            yield
        finally:
            SCOPES.swap(before)
            enter_branch(branch)

    def pause(self) -> None:
        """Let the context that entered this session be outside of it again, while the session stays open."""
        if SCOPES.innermost() is self:
            SCOPES.swap(self.outer)
            enter_branch(self._branch_outside)

    def leave(self) -> None:
        """End the session: streams that are not read to their end are cut, then nothing more is served or executed."""
        for close in list(self._unfinished):
            with suppress(AgentTapeError):  # latched where it was raised
                close()
        self.close()
        if SCOPES.leave(self):
            enter_branch(self._branch_outside)

    def close(self) -> None:
        """End a session that no context entered: it serves and executes nothing more."""
        self.ledger.close()

    # -- a call ------------------------------------------------------------------------------------------------

    def cross(
        self,
        boundary: Boundary,
        name: str,
        body: Mapping[str, Any],
        *,
        position: Position | None = None,
        owner: Any = None,
        ids: tuple[str, ...] = (),
        parent: ExecutedCrossing | None = None,
    ) -> Crossing:
        """Decide what happens on a call.

        Args:
            boundary: The family of the call.
            name: Which one: the class of the model, the name of the tool.
            body: The request: encodable values, `Keyed` where building them is costly.
            position: Where the call is made; by default below the crossing that executes around it, or the root.
            owner: The object whose call it is.
            ids: Run-specific ids of the call that are not part of the request, for example the id of a tool call.
            parent: The crossing that is executing around this one; by default the one of this context.

        Raises:
            CassetteMissError: If the call may be neither served nor executed.
            UnrecordableValueError: If the body cannot be written.
        """
        with self.latching():
            request = self._canonical.request(boundary.kind, name, body, ids)
        parent = parent or executing() or self._executing_elsewhere(position)
        if parent is not None and parent.session is not self:
            parent = None
        if position is None:
            base = parent.position if parent is not None else self.root
            position = base.child(name, branch=task_branch(base))
        if self._named:
            self._met.update((boundary.kind, name))
        decision = self._decide(request, position.address)
        number = self.ledger.next_number()
        if isinstance(decision, Serve):
            found = decision.found
            self.report.add(served=Crossed(boundary.kind, name, position.address, found.number, found.rung))
            self.ledger.served_at.setdefault(found.number, position.order)
            return begun(ServedCrossing(self, boundary, request, position, owner=owner, found=found))
        if isinstance(decision, Refuse):
            drift = self._drift(request, position, decision)
            return begun(RefusedCrossing(self, boundary, request, position, owner=owner, drift=drift))
        self.report.add(executed=Crossed(boundary.kind, name, position.address, number))
        return begun(ExecutedCrossing(self, boundary, request, position, number=number, owner=owner, parent=parent))

    def _decide(self, request: CanonicalRequest, address: str) -> Decision:
        """Find, decide, then use: a recording that is found and refused stays for the next call that asks for it."""
        kind, name = request.kind, request.name
        if not self.policy.may_serve(kind, name):
            return decide(self.policy, kind, name, None)
        while True:
            with self.latching():
                candidate = self._recordings.find(request, address, self.policy.exhausted)
            decision = decide(self.policy, kind, name, candidate)
            if not isinstance(decision, Serve) or self._recordings.use(decision.found):
                return decision
            # Another thread has found the same recording, and was faster: find again among the others.

    def _drift(self, request: CanonicalRequest, position: Position, refusal: Refuse) -> DriftError:
        known = len(self._recordings.numbers(request.fingerprint))
        reason = refusal_reason(refusal, known, frozen=self.policy.is_frozen(request.kind, request.name))
        return self.miss(request, position, reason, lossy=refusal.found is not None)

    def _executing_elsewhere(self, position: Position | None) -> ExecutedCrossing | None:
        """Return the boundary that a thread without a context most likely works for: the innermost, if there is one.

        Real code may start threads that know nothing of the session. What they call belongs to that code. It does not
        if a framework knows the place of the call, in the same tree and not below that boundary: then it runs beside,
        as in an event loop that is older than the session.
        """
        if SCOPES.innermost() is not None:
            return None
        running = self.extension(RUNNING)[:]
        innermost = running[-1] if running else None
        if innermost is None or not all(map(innermost.is_below, running)):
            return None
        return None if position is not None and position.is_beside(innermost.position) else innermost

    # -- what is recorded --------------------------------------------------------------------------------------

    def times_recorded(self, boundary: Boundary, body: Mapping[str, Any]) -> int:
        """Return how often a request was recorded, whether or not its recordings are used already."""
        return len(self._recordings.numbers(self._fingerprint(boundary, body)))

    def times_left(self, boundary: Boundary, body: Mapping[str, Any]) -> int:
        """Return how many recordings of a request are not used yet."""
        return self._recordings.left(self._fingerprint(boundary, body))

    def outcomes_of(self, boundary: Boundary, body: Mapping[str, Any]) -> list[Outcome]:
        """Return what came back each time that a request was recorded, in recorded order.

        Raises:
            CassetteError: If one of them cannot be read.
        """
        return [self.source.outcome(number) for number in self._recordings.numbers(self._fingerprint(boundary, body))]

    def _fingerprint(self, boundary: Boundary, body: Mapping[str, Any]) -> str:
        return self._canonical.request(boundary.kind, "", body).fingerprint

    # -- this run ----------------------------------------------------------------------------------------------

    @property
    def interactions(self) -> list[Interaction]:
        """The interactions of the cassette; while one is being recorded, those that have ended so far."""
        if self.policy.replaces and not self.closed:
            return [interaction for _, interaction in sorted(self.ledger.kept(), key=_place)]
        return [self.source.interaction(row.number) for row in self.source.entries]

    def happened(self) -> list[Interaction]:
        """Return the interactions of this run so far, served and executed ones, in its order."""
        served = self.ledger.served_at.items()
        ran = [*self.ledger.kept(), *((order, self.source.interaction(number)) for number, order in list(served))]
        return [interaction for _, interaction in sorted(ran, key=_place)]

    def executed_live(self) -> set[str]:
        """Return the fingerprints of what was executed because it is live, and has ended."""
        kept = [interaction for _, interaction in self.ledger.kept()]
        return {item.fingerprint for item in kept if self.policy.is_live(item.kind, item.name)}

    def used_numbers(self) -> list[int]:
        """Return the recordings that were served, with all that lies inside them, in the order of the file."""
        unused = set(self._recordings.unused(row.number for row in self.source.entries))
        return [row.number for row in self.source.entries if row.number not in unused]

    def permit(self, policy: Policy) -> None:
        """Go on under another policy: what follows departs from what was recorded."""
        self.policy = policy

    def go_back(self, numbers: Iterable[int]) -> None:
        """Serve recordings again that were served already: the run goes back to before it asked for them."""
        self._recordings.give_back(numbers)

    def forget(self) -> None:
        """Forget what has happened: it is with the sink, and an observer never looks at it again."""
        self.ledger.forget()
        self.report = Report()

    # -- the end -----------------------------------------------------------------------------------------------

    def find_unused(self) -> None:
        """Put the recordings that were not used into the report."""
        if self.policy.replaces:
            return
        rows = {row.number: row for row in self.source.entries}
        served = [number for number, row in rows.items() if not self.policy.is_live(row.kind, row.name)]
        self.report.close([_crossed(rows[number]) for number in self._recordings.unused(served)])

    def completed(self, source: Source, written: Path | str, put_aside: Path | str | None) -> None:
        """Note what has been written, once the session has ended.

        Args:
            source: The recordings that the cassette holds now.
            written: The file that was written.
            put_aside: The copy of the unreadable file that was in its place, if there was one.
        """
        self.source, self.written, self.put_aside = source, written, put_aside

    def unmatched(self) -> list[str]:
        """Return the names given as live or frozen that no boundary has, neither of this run nor of the cassette."""
        recorded = {word for row in self.source.entries for word in (row.kind, row.name)}
        return sorted(self._named - self._met - recorded - KINDS)

    def unused_error(self) -> UnusedInteractionsError | None:
        """Return the error that names the recordings that were not used; `None` if all were."""
        unused = self.report.unused
        if not unused:
            return None
        shown = [str(crossed) for crossed in unused[:10]]
        if len(unused) > len(shown):
            shown.append(f"      … and {len(unused) - len(shown)} more")
        lines = [
            f"{self.path}: {len(unused)} of {len(self._recordings)} recorded interactions were never asked for",
            *shown,
            "the run no longer does what was recorded: fix it, re-record it (mode='all'),",
            "or open the cassette with unused='ignore' if it serves several runs",
        ]
        return UnusedInteractionsError("\n  ".join(lines))


SCOPES: Scopes[Session] = Scopes()
"""The sessions of this process."""


def _place(kept: tuple[Order, Interaction]) -> Order:
    return kept[0]


def _crossed(row: IndexRow) -> Crossed:
    return Crossed(row.kind, row.name, row.address, row.number)
