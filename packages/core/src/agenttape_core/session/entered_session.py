"""A session in its context: entered, paused and resumed, left."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Any
from weakref import ref

from agenttape_core.errors import AgentTapeError, OutlivedRecordingWarning, shown_path
from agenttape_core.freeze import Frozen
from agenttape_core.guard import note_after_replay
from agenttape_core.locks import cached_property
from agenttape_core.matching import Branch, current_branch, enter_branch, new_branch
from agenttape_core.scheduling import SCOPES, UNREAD, Collections, Membership, collections
from agenttape_core.schema import GAP
from agenttape_core.session.executed_call import IN_THREADS, RUNNING, ExecutedCall, executing
from agenttape_core.session.run_session import RunSession
from agenttape_core.session.setup import Setup


class Aftermath:
    """The time after a replay in which the caller's context still belongs to it: what is asked there is refused.

    Args:
        membership: Of the replay, for contexts that outlive it. While this is kept, the replay stays in force.
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
        """Let the replay go. Does nothing the second time."""
        if self._membership is not None and SCOPES.membership() is self._membership:
            SCOPES.swap(self._before)
            note_after_replay(follows=False)
        self._membership = self._before = None


class EnteredSession(RunSession):
    """A session and the contexts that it is current in; `Session` adds the calls.

    Args:
        setup: All that it is made of.
    """

    def __init__(self, setup: Setup) -> None:
        super().__init__(setup)
        self._membership: Membership[Any] | None = None
        self._has_left = False
        self._collections: Collections = ()
        self.has_aftermath = False
        """True if something is to be refused in the context of the session when that has ended."""
        self.was_cut = False
        """True if a stream was open when the session ended."""
        self._branch: Branch | None = None
        self._branch_outside: Branch | None = None

    @property
    def http(self) -> bool:
        """True if requests of HTTP clients are taped here that the user did not tape."""
        return self._setup.tapes_http is not None

    @property
    def tries_candidate(self) -> bool:
        """True if another model is tried here, or the program's own once more."""
        return self._setup.candidates is not None

    @property
    def ignored(self) -> tuple[str, ...]:
        """The paths of requests that are not compared."""
        return self._setup.ignored.spelled

    def tapes_http(self, host: str, port: int | None) -> bool:
        """Return whether a request to a host is taped here that a client makes which the user did not tape."""
        return self._setup.tapes_http is not None and self._setup.tapes_http(host, port)

    @cached_property
    def observed(self) -> Membership[Any]:
        """The membership of what an integration observes, in a session that no context enters."""
        return Membership(self, None)

    def enter(self) -> ref[Membership[Any]]:
        """Make this the current session. Return a weak reference, alive while anything of the session runs on."""
        self._branch_outside = current_branch()
        # An observer can't see which task a call runs in, so what it recorded is numbered in the order of the starts.
        is_observed = self.frozen.was_observed if self.frozen is not None else self.source.has_step(GAP)
        self._branch = None if is_observed else new_branch()
        enter_branch(self._branch)
        self._membership, self._collections = SCOPES.enter(self), collections()
        self.first_input.entered()
        self.scheduler.enter()
        return ref(self._membership)

    @contextmanager
    def resumed(self) -> Iterator[None]:
        """Make this the current session of the context of a block, while it is open.

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
        if self._membership is None or not (self.is_replay and self.policy.offline):
            return None
        self.has_aftermath = True
        return Aftermath(self._membership.afterwards())

    def frozen_here(self, begun_in: ExecutedCall | None = None) -> Frozen | None:
        """Return what is kept fixed for the code that runs here: around a boundary, or inside one that is executed.

        Args:
            begun_in: The boundary that was being executed where a thread without a context was begun.
        """
        around = executing() or begun_in
        if around is None:
            return self.frozen
        return around.frozen_inside() if around.session is self else None

    def pause(self) -> None:
        """Let the context that entered this session be outside of it again, while the session stays open."""
        if self._membership is not None and SCOPES.innermost() is self:
            SCOPES.swap(self._membership.outer)
            enter_branch(self._branch_outside)

    def leave(self) -> None:
        """End the session: streams that are not read to their end are cut, then nothing more is served or executed."""
        self.scheduler.settle()
        self.was_cut = bool(self._unfinished)
        self.scheduler.close()
        for close in list(self._unfinished):
            with suppress(AgentTapeError):  # latched where it was raised
                close()
        in_threads = self.extension(IN_THREADS)
        for crossing in list(in_threads):
            if crossing.is_real and crossing.is_abandoned:  # its thread goes on, and nobody waits for it
                crossing.cancelled()
        self._end_what_is_left()
        self.close()
        self.scheduler.leave()
        membership, self._membership, self._has_left = self._membership, None, True
        if membership is not None:
            if self.takes_strays:  # one beside others cannot tell which of them has made a stream
                UNREAD.note(membership, self._collections, thoroughly=self.is_replay and self.has_unused())
            if SCOPES.leave(membership):
                enter_branch(self._branch_outside)

    def _end_what_is_left(self) -> None:
        """Record calls that event loops still await as not ended, and name those too that threads are in."""
        for crossing in reversed(self.extension(RUNNING)[:]):
            if not crossing.is_left:
                continue
            call = f"{crossing.request.kind} {crossing.request.name} at {crossing.position.address}"
            what, remedy = "misses it", "join its thread inside the block to record it"
            if crossing.is_awaited:
                crossing.cancelled()
                what, remedy = "leaves it unanswered", "await it inside the block to record its answer, or cancel it"
            self.warn_at_end(
                OutlivedRecordingWarning(
                    f"{shown_path(self.path)}: {call} had not ended when the recording did, so a replay {what}\n"
                    f"  {remedy}"
                )
            )

    def close(self) -> None:
        """End a session that no context entered: it serves and executes nothing more."""
        self.ledger.close()
        self.closed = True
