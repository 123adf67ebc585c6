"""An event loop beside threads takes the turn with each thing that is delivered to it, and keeps it until it rests.

The tasks of a loop have an order of their own: see `schedule`. What they do to an object that a thread has, too, is in
the order of the turns: a thread passes no gate while the loop goes on with what was delivered, and nothing is delivered
between two gates of a thread. A replay gives the loop the turn when it had it in the recording, for what the recording
says that it had it for. So older recordings, in which loops have no turns, are replayed as they were.
"""

from __future__ import annotations

import zlib
from asyncio import _get_running_loop as running_loop  # the public one raises, which is slow
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, cast

from agenttape_core.scheduling.delivery_log import Logged, happens_again, have_ended
from agenttape_core.scheduling.executing import EXECUTING
from agenttape_core.scheduling.handles import has_steps, is_of_program, runs_handles
from agenttape_core.scheduling.interleaving import Notes, Script, delivery_of, passed_by
from agenttape_core.scheduling.loose import Loose
from agenttape_core.scheduling.scopes import SCOPES
from agenttape_core.scheduling.strands import AWAY, BLOCKING, HERE, Strand
from agenttape_core.scheduling.turns import Turns

_EFFECT = zlib.crc32(b"event loop")
"""The part of a label that stands for what an event loop lets the threads of its session see."""
_GOES_ON = "goes on"
"""The key of what a loop does after it has waited for the end of threads."""
_MANY = 64
"""Calls that are kept before those are forgotten of which is known whether a replay makes them."""

VISITS: dict[Any, dict[Strand, Any]] = {}
"""By loops that go on with what was delivered: the strands of their threads, which have the turn, with sessions."""


class VisitedTurns(Turns):
    """Turns in which event loops take part while they do what threads can see.

    Args:
        script: The order in which gates are to be passed; `None` if there is none.
        loose: What is in no order.
        notes: The gates that are passed; `None` if their order may not be written.
        tell: Called with what could not be imposed, in words.
    """

    def __init__(self, script: Script | None, loose: Loose, notes: Notes | None, tell: Callable[[str], object]) -> None:
        super().__init__(script, loose, notes, tell)
        self._calls: dict[str, Logged] = {}
        """The calls with whose answers a loop has had the turn, and those that have begun strands there, by label.

        They are kept while nobody knows if a replay has them."""
        self._times_waited = 0
        """The number of times that a loop has waited for the end of threads."""
        self._not_again: set[str] = set()
        """The labels of the answers and strands that a replay does not have, as it serves a call around them."""

    @contextmanager
    def visiting(self, strand: Strand) -> Iterator[None]:
        """Do inside what other threads can see, in a thread in which an event loop runs.

        Args:
            strand: The strand of the thread.
        """
        label = f"{strand.labels[0]}.{_EFFECT}"
        if not self._forked or label in strand.labels:
            yield
            return
        before = strand.passed, strand.is_held
        strand.passed, strand.is_held = False, True
        strand.labels.append(label)
        try:
            self._pass(strand, is_call=True)
            yield
        finally:
            strand.labels.remove(label)
            strand.passed, strand.is_held = before
            if not strand.is_visiting:
                self.leave_turn(strand, AWAY)

    def delivers(
        self,
        loop: Any,
        session: Any,
        key: str,
        *,
        number: int = 1,
        call: Logged | None = None,
        sender: Strand | None = None,
        is_seen: bool = True,
    ) -> None:
        """Take the turn for a loop that runs in this thread, until it rests: something is delivered to its program.

        Args:
            loop: The loop, one of Python's own.
            session: The session.
            key: What is delivered, the same in a replay.
            number: Its number among those of the key.
            call: The call whose answer it is; `None` for what else is delivered.
            sender: The strand that has sent it, and has nothing else to do; `None` if there is none.
            is_seen: Whether threads that are under way can see what follows.
        """
        if not (self._forked and self.is_on and runs_handles(loop)) or running_loop() is not loop:
            return
        strand = self._of_this_thread()
        if strand is None:
            return
        label = f"{delivery_of(strand.labels[0], key)}.{number}"
        if self._imposed is not None:
            if not self._imposed.script.has(label):
                return
        elif not self._is_beside(strand, sender, is_joined=key == _GOES_ON):
            return
        if call is not None and self._notes is not None:
            self._note_call(label, call)
        strand.is_resting = False
        self._pass_below(label, strand, is_seen=is_seen)
        if self._holder is strand and not strand.is_visiting:
            strand.is_visiting = True
            VISITS.setdefault(loop, {})[strand] = session

    def _pass_below(self, label: str, strand: Strand, *, is_seen: bool) -> None:
        is_own, strand.is_own = strand.is_own, is_seen
        strand.labels.append(label)
        try:
            self._pass(strand, is_call=is_seen)
        finally:
            strand.labels.remove(label)
            strand.is_own = is_own

    def is_begun_by(self, loop: Any, strand: Strand) -> None:
        """Take the turn for a loop that runs in this thread, until it rests: it begins a strand.

        Args:
            loop: The loop.
            strand: The strand.
        """
        session = SCOPES.innermost()
        if session is None:
            return
        if not is_of_program(session):
            if self._notes is not None:
                self._note_call(strand.label, Logged("", _BegunInside(EXECUTING.get()), is_executed=True))
        elif _is_of_program_itself(strand.label):
            self.delivers(loop, session, f"begins {strand.label}", is_seen=False)

    def delivers_no_more(self, key: str) -> None:
        """Note that nothing of a key is delivered any more, such as an answer of a call that was cancelled."""
        strand = self._of_this_thread() if self._imposed is not None and self._forked else None
        if strand is None:
            return
        label = delivery_of(strand.labels[0], key)
        with self._lock:
            if self._imposed is not None and self._imposed.script.knows(label):
                self._over.add(label)
                self._grant()

    @contextmanager
    def resting(self, loop: Any) -> Iterator[None]:
        """While inside, a loop that runs in this thread waits for others, which have the turn; then it takes it again.

        Args:
            loop: The loop.
        """
        visits = VISITS.pop(loop, {})
        for strand in visits:
            strand.strands.rests(strand)
        try:
            yield
        finally:
            for session in visits.values():
                self._times_waited += 1
                session.scheduler.threads.delivers(loop, session, _GOES_ON, number=self._times_waited)

    def rests(self, strand: Strand) -> None:
        """Let others have the turn: a loop has done what was to be done with what was delivered to it."""
        strand.is_visiting, strand.is_resting = False, True
        self.leave_turn(strand, AWAY)

    def _of_this_thread(self) -> Strand | None:
        """Return the strand of the caller's thread in this session, in which an event loop runs."""
        strand = HERE.strand
        while strand is not None and cast("object", strand.strands) is not self:
            strand = strand.outer
        return strand

    def _is_beside(self, strand: Strand, sender: Strand | None, *, is_joined: bool) -> bool:
        """Return whether it is worth noting that a loop goes on now: other strands are under way, or just were."""
        if self._notes is None:
            return False
        with self._lock:
            last = passed_by(self._notes.last) if not is_joined else ""
            return last not in ("", strand.labels[0], sender.labels[0] if sender is not None else "") or any(
                other not in (strand, sender) and (other.state != BLOCKING or other.joins is None)
                for other in self._live.values()
            )

    def _note_call(self, label: str, call: Logged) -> None:
        with self._lock:
            self._calls[label] = call
            if len(self._calls) % _MANY == 0:
                self._settle_calls()

    def _settle_calls(self, *, are_over: bool = False) -> None:
        """Find out which calls a replay makes, of those that have ended, or of all."""
        for label, call in tuple(self._calls.items()):
            if are_over or have_ended(call):
                del self._calls[label]
                if not happens_again(call):
                    self._not_again.add(label)

    def _served_in_replays(self) -> set[str]:
        """Return the labels of answers and strands that a replay does not have, as it serves a call around them."""
        self._settle_calls(are_over=True)
        return self._not_again


class _BegunInside:
    """A strand that the code of a call begins in an event loop, as a call inside of that, which a replay need not run.

    Args:
        crossing: The call around it.
    """

    __slots__ = ("parent",)

    has_ended = True
    is_run_again = False

    def __init__(self, crossing: Any) -> None:
        self.parent = crossing


def _is_of_program_itself(label: str) -> bool:
    """Return whether a strand was begun outside of all calls: else a replay need not have it."""
    return ":" not in label


def let_rest(loop: Any) -> None:
    """Take the turn from a loop that rests; called after each of its callbacks while it has the turn."""
    visits = VISITS[loop]
    for strand, session in tuple(visits.items()):
        if not (strand.strands.is_on and has_steps(loop, session)):
            del visits[strand]
            strand.strands.rests(strand)
    if not visits:
        del VISITS[loop]
