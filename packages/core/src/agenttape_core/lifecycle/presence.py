"""A session in its context: entered, paused and resumed, left."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager, nullcontext, suppress
from typing import Any
from weakref import ref

from agenttape_core.errors import AfterRecordingWarning, AgentTapeError, shown_path
from agenttape_core.garbage import ASIDE
from agenttape_core.guard import note_after_replay
from agenttape_core.matching import Branch, current_branch, enter_branch, new_branch
from agenttape_core.scheduling import SCOPES, UNREAD, Membership, collections
from agenttape_core.schema import GAP
from agenttape_core.session import Session, Slot, runs
from agenttape_core.session.listeners import LateCalls


class Aftermath:
    """The time after a replay in which the caller's context still belongs to it: calls made then are refused.

    While `membership`, for contexts that outlive the replay, is kept, the replay stays in force.
    """

    def __init__(self, membership: Membership[Any]) -> None:
        self._membership: Membership[Any] | None = membership
        self._before: Membership[Any] | None = None

    def begin(self) -> None:
        """Let the context of the caller belong to the replay again."""
        if self._membership is not None:
            self._before = SCOPES.swap(self._membership)
            note_after_replay(follows=True)

    def end(self) -> None:
        """Let the replay go. The second call has no effect."""
        if self._membership is not None and SCOPES.membership() is self._membership:
            SCOPES.swap(self._before)
            note_after_replay(follows=False)
        self._membership = self._before = None


class Presence:
    """The contexts that a session is current in."""

    def __init__(self, session: Session) -> None:
        self._session = session
        self._is_contained = self._has_aside = False
        self._membership: Membership[Any] | None = None
        self._collections: tuple[int, ...] = ()
        self._branch: Branch | None = None
        self._branch_outside: Branch | None = None

    def enter(self) -> ref[Membership[Any]]:
        """Make the session the current one. Return a weak reference, alive while anything of the session runs on."""
        session = self._session
        self._branch_outside = current_branch()
        # An observer can't see which task a call runs in, so what it recorded is numbered in the order of the starts.
        frozen = session.frozen
        is_observed = frozen.was_observed if frozen is not None else session.source.has_step(GAP)
        self._branch = None if is_observed else new_branch()
        enter_branch(self._branch)
        self._membership, self._collections = SCOPES.enter(session), collections()
        if session.policy.records:
            session.first_input.entered()
        session.scheduler.enter()
        return ref(self._membership)

    def contains_program(self, *, has_aside: bool) -> None:
        """Note that an experiment runs a program in the session, which may leave any of its recordings unused.

        Args:
            has_aside: Whether a block of `ASIDE` has begun, which ends with the session. The last of several that
                overlap looks for streams: while one is open, it refuses the calls of what the others have left.
        """
        self._is_contained, self._has_aside = True, has_aside
        if ASIDE.blocks > 1:
            self._collections = ()  # what others have made may be older

    @contextmanager
    def resumed(self) -> Iterator[None]:
        """Make the session the current one of the context of a block, while it is open.

        A test runner sets a test up in one context and runs it in another.
        """
        before, branch = SCOPES.swap(self._membership), current_branch()
        enter_branch(self._branch)
        try:
            yield
        finally:
            SCOPES.swap(before)
            enter_branch(branch)

    def aftermath(self) -> Aftermath | None:
        """Keep a replay in force beyond its end, for what follows in its context; `None` for any other session."""
        if self._membership is None or not (self._session.is_replay and self._session.policy.offline):
            return None
        self._session.has_aftermath = True
        return Aftermath(self._membership.afterwards())

    def pause(self) -> None:
        """Let the context that entered the session be outside of it again, while the session stays open."""
        if self._membership is not None and SCOPES.innermost() is self._session:
            SCOPES.swap(self._membership.outer)
            enter_branch(self._branch_outside)

    def leave(self) -> None:
        """End the session: streams that aren't read to their end are cut, then all calls are refused."""
        with ASIDE.ended() if self._has_aside else nullcontext(True) as is_last:
            self._leave(thoroughly=is_last)

    def _leave(self, *, thoroughly: bool) -> None:
        session = self._session
        try:
            session.scheduler.settle()
        finally:  # Ctrl-C may end that wait
            session.was_cut = bool(session.unfinished)
            session.scheduler.close()
            for close in list(session.unfinished):
                with suppress(AgentTapeError):  # latched where it was raised
                    close()
            for call in list(session.in_threads):
                if call.is_real and call.is_abandoned:  # its thread goes on, and nobody waits for it
                    call.cancelled()
            if session.running:
                _end_what_is_left(session)
            end(session)
            membership, self._membership = self._membership, None
            if session.is_replay:
                session.listeners.append(LateCalls(session))
            if membership is not None:
                self._note_unread(membership, thoroughly=thoroughly)
                if SCOPES.leave(membership):
                    enter_branch(self._branch_outside)

    def _note_unread(self, membership: Membership[Any], *, thoroughly: bool) -> None:
        session = self._session
        if session.takes_strays:  # one beside others cannot tell which of them has made a stream
            thoroughly = thoroughly and session.is_replay and (self._is_contained or runs.has_unused(session))
            UNREAD.note(membership, self._collections, thoroughly=thoroughly)


PRESENCE: Slot[Presence] = Slot(Presence)  # the presence of a session


def end(session: Session) -> None:
    """End a session, which then refuses all calls: only this one, which no context entered."""
    session.ledger.close()
    session.closed = True


def _end_what_is_left(session: Session) -> None:
    """Record calls that event loops still await as not ended, and name those too that threads are in."""
    for call in reversed(session.running[:]):
        if not call.is_left:
            continue
        what, remedy = "misses it", "join its thread inside the block to record it"
        if call.is_awaited:
            call.cancelled()
            what, remedy = "leaves it unanswered", "await it inside the block to record its answer, or cancel it"
        session.warn_at_end(
            AfterRecordingWarning(
                f"{shown_path(session.path)}: {call} had not ended when the recording did, so a replay {what}\n"
                f"  {remedy}"
            )
        )
