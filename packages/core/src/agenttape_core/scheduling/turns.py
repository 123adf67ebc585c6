"""The turn of the strands of a session: who has it, who waits for it, and for how long. See `taking_turns`."""

from __future__ import annotations

import _thread
from abc import ABC, abstractmethod
from collections.abc import Callable
from time import monotonic, process_time
from typing import cast

from agenttape_core.locks import freed_by_fork
from agenttape_core.scheduling.holder import Holding, Progress
from agenttape_core.scheduling.imposing import Imposed
from agenttape_core.scheduling.interleaving import Notes, Script
from agenttape_core.scheduling.loose import Loose
from agenttape_core.scheduling.scopes import SCOPES
from agenttape_core.scheduling.strands import (
    AWAY,
    BLOCKING,
    HERE,
    NEW,
    RUNNING,
    SLEEPING,
    WAITING,
    Strand,
    in_loop,
    let_pass,
)
from agenttape_core.scheduling.waits import Wait, register, unregister

_POLL = 0.005
"""Seconds between two looks after the turn."""
_SOON = 0.0003
"""The same while its holder has had it for a short time only."""
_SELDOM = 0.05
"""Seconds between two looks after what can be released by code that does not tell."""
_GRACE = 0.5
"""Seconds that a replay lets pass after the end of a wait that is to end later than it does."""
_LATE = 0.003
"""Seconds by which a look comes late where another thread had the interpreter, or the machine was busy."""
_QUANTUM = 0.0005
"""Seconds for which a strand may pass gate after gate while others wait, when recording."""

_acquire: Callable[..., bool] = _thread.LockType.acquire  # not one that moves the frozen clock, or takes turns


class OwnLock(_thread.RLock):  # type: ignore[misc] # mypy takes it for a function
    """A lock at which nobody takes turns."""

    __enter__ = vars(_thread.RLock)["__enter__"]
    __exit__ = vars(_thread.RLock)["__exit__"]


class Turns(ABC):
    """The turns of strands that have begun. Thread-safe.

    Args:
        script: The order in which gates are to be passed; `None` if there is none.
        loose: What is in no order.
        notes: The gates that are passed; `None` if their order may not be written.
        tell: Called with what could not be imposed, in words.
    """

    def __init__(self, script: Script | None, loose: Loose, notes: Notes | None, tell: Callable[[str], object]) -> None:
        self._loose = loose
        self._notes = notes
        self._lock = freed_by_fork(
            OwnLock()
        )  # signal handlers and finalizers may come to a gate while their thread is inside
        self._live: dict[str, Strand] = {}
        self._waiting: dict[Strand, None] = {}
        self._over: set[str] = set()
        self._imposed: Imposed | None = None
        if script is not None:
            self._imposed = Imposed(script, self._live, self._over, self._waiting, tell)
        self._holder: Strand | None = None
        self._since = 0.0
        self._holding: Holding | None = None
        self._progress = Progress()
        self._granted = self._spent_since = self._looked = 0.0
        self._loud: set[str] = set()
        self._forked = False
        """True once a strand was begun by another one."""
        self._met = False
        """True if two strands were under way at the same time."""
        self.is_on = script is not None or notes is not None
        """True if strands take turns."""

    # -- gates -------------------------------------------------------------------------------------------------

    def _mine(self) -> Strand | None:
        """Return the strand of the caller in this session, unless an event loop runs in its thread."""
        if not self.is_on:
            return None
        strand = HERE.strand
        while strand is not None and cast("object", strand.strands) is not self:
            strand = strand.outer
        return strand if strand is not None and not in_loop() else None

    @property
    def are_several_here(self) -> bool:
        """True in a thread beside which others have been begun, or which was, and in which no event loop runs."""
        return self._forked and not in_loop()

    def gate(self, *, is_call: bool = True) -> None:
        """Pass a gate of the caller's strand: wait for the turn.

        Args:
            is_call: Whether others can see what follows, besides that the strand goes on.
        """
        if not self._forked:
            return
        strand = self._mine()
        if strand is not None:
            self._pass(strand, is_call=is_call)

    def _pass(self, strand: Strand, *, is_call: bool) -> None:
        if self._lock._is_owned():  # type: ignore[attr-defined] # noqa: SLF001 - nothing public tells
            return
        with self._lock:
            strand.is_unseen = not (is_call or strand.is_own)
            if is_call:
                self._is_seen(strand)
            if not self._takes_turns(strand):
                return
            if self._holder is strand:
                if self._may_go_on(strand):
                    self._goes_on(strand)
                    self._passes(strand)
                    return
                self._holder = None
            strand.state = WAITING
            self._waiting[strand] = None
            _acquire(strand.wake, False)  # what is left of a wait that was interrupted
            self._grant()
        try:
            self._wait(strand)
        except BaseException:  # of a signal handler
            self._is_interrupted(strand)
            raise

    def _is_interrupted(self, strand: Strand) -> None:
        with self._lock:
            self._waiting.pop(strand, None)
            strand.state = AWAY if self._holder is not strand else RUNNING

    def _goes_on(self, strand: Strand) -> None:
        self._since = monotonic()
        self._holding = Holding(strand, self._since)

    def _wait(self, strand: Strand) -> None:
        """Wait for the turn. Those who wait look after it by turns."""
        seldom = _POLL
        while True:
            since, comes = monotonic(), strand.wait if strand.state in (BLOCKING, SLEEPING) else None
            if comes is None:
                seconds = (_SOON if since - self._granted < 2 * _POLL else _POLL) * (len(self._waiting) or 1)
            else:
                seconds = min(seldom, comes.left or seldom)
                seldom = min(2 * seldom, _SELDOM)
            is_woken = _acquire(strand.wake, True, seconds)
            if is_woken and comes is not None and self._comes_as_told(strand):
                continue
            if is_woken or not self._still_waits(strand):
                return
            if comes is None:
                self._look(is_late=monotonic() - since - seconds > _LATE)

    def _still_waits(self, strand: Strand) -> bool:
        """Return whether a strand has to wait for the turn, also after a signal handler passed gates meanwhile."""
        with self._lock:
            if not self.is_on or self._holder is strand:
                return False
            if strand.state in (BLOCKING, SLEEPING):
                # In a replay, a time passes when it did in the recording: see `sleeper`.
                if strand.wait.is_due(_GRACE if self._is_led() else 0.0):
                    strand.wait.expire()
                    self._comes(strand)
                elif self._is_untold(strand.wait):
                    self._comes(strand)
                return self._holder is not strand
            if strand not in self._waiting and not _acquire(strand.wake, False):
                strand.state = WAITING
                self._waiting[strand] = None
            return strand in self._waiting

    def _is_led(self) -> bool:
        return self._imposed is not None and self._imposed.script.head is not None

    def _is_untold(self, wait: Wait) -> bool:
        """Return whether code that does not tell has released what is waited for."""
        waits = [other.wait for other in self._live.values() if other.wait is not None]
        is_told = any(other.is_told and other.key == wait.key for other in waits)
        wait.times_ready = wait.times_ready + 1 if not is_told and wait.is_ready() else 0
        return wait.times_ready > 1  # at the first time it may just be told

    takes_loops = False

    def told(self, strand: Strand) -> None:
        """Let a strand go on, as what it waits for is released."""
        let_pass(strand.wake)

    # -- waits -------------------------------------------------------------------------------------------------

    def wait(self, strand: Strand, wait: Wait) -> bool | None:
        """Let others have the turn until a strand gets what it waits for; then it passes a gate.

        Returns:
            Whether it got it before its time had passed; `None` if the strand has no turns: it has to wait by itself.
        """
        if not self._forked or self._lock._is_owned():  # type: ignore[attr-defined] # noqa: SLF001 - nothing public tells
            return None
        self._may_run_program(strand)
        while self._takes_turns(strand):
            with self._lock:
                _acquire(strand.wake, False)  # what is left of a wait that was interrupted
                strand.wait, wait.is_told = wait, False
                register(strand, wait)  # before it is tried once more, so that no release is missed
                if wait.attempt():
                    strand.wait = None
                    unregister(strand, wait)
                    return True
                self.leave_turn(strand, SLEEPING if wait.is_timed else BLOCKING)
            try:
                self._wait(strand)
            except BaseException:  # of a signal handler
                self._is_interrupted(strand)
                raise
            finally:
                strand.wait = None
                unregister(strand, wait)
            if wait.attempt():
                return True
            if wait.is_over:
                return False
        return None

    @staticmethod
    def _may_run_program(strand: Strand) -> None:
        """Let a thread of a library count as the program's while it runs in a context of the session, as in anyio."""
        if strand.is_of_library and strand.is_thread:
            strand.is_own = SCOPES.membership() is not None
            strand.is_unseen = not strand.is_own

    def _takes_turns(self, strand: Strand) -> bool:
        return self.is_on and (self._imposed is None or self._imposed.script.knows(strand.label))

    def _comes_as_told(self, strand: Strand) -> bool:
        """Let a strand come to a gate, if what it waits for was released; return whether it waits for the turn then."""
        with self._lock:
            if self.is_on and strand.wait is not None and strand.wait.is_told:
                self._comes(strand)
                return self._holder is not strand
            return False

    def _comes(self, strand: Strand) -> None:
        if strand.wait is not None and strand.state in (BLOCKING, SLEEPING):
            strand.state = WAITING
            self._waiting[strand] = None
            self._grant()

    def leave_turn(self, strand: Strand, state: int) -> None:
        """Let others have the turn."""
        if not self._forked:
            return
        with self._lock:
            strand.state = state
            if self._holder is strand:
                self._holder = None
            self._grant()

    def _may_go_on(self, strand: Strand) -> bool:
        if self._imposed is None:
            return not self._waiting or monotonic() - self._granted < _QUANTUM
        head = self._imposed.head()
        return head == strand.label if head is not None else not self._waiting

    def _passes(self, strand: Strand) -> None:
        if strand.is_own:
            self._is_seen(strand)
        if self._imposed is not None:
            self._imposed.takes(strand)
        if self._notes is not None:
            self._notes.passed(strand.label, is_late=strand.wait is not None and strand.wait.is_over)

    def _is_seen(self, strand: Strand) -> None:
        """Note a gate that others could see, and whether two strands with such gates were under way at once."""
        if not strand.passed:
            strand.passed = True
            self._loud.add(strand.labels[0])
            self._met = self._met or strand.met
        if self._met or self._notes is None:
            return
        for other in self._live.values():
            # What blocks is woken in an order that the program makes, unless it blocks in a call: a replay serves that.
            # Nor does a loop do anything that rests.
            if (
                other is not strand
                and not other.is_resting
                and (len(other.labels) > 1 or other.state not in (NEW, BLOCKING))
            ):
                self._met = self._met or other.passed
                other.met = True

    def _grant(self) -> None:
        """Give the turn to the next strand that waits for it, if nobody has it, and the session has not ended."""
        if self._holder is not None or not self.is_on:
            return
        if self._imposed is not None and (sleeper := self._imposed.sleeper()) is not None:
            sleeper.wait.expire()
            sleeper.state = WAITING
            self._waiting[sleeper] = None
        if not self._waiting:
            return
        strand = self._imposed.next() if self._imposed is not None else next(iter(self._waiting))
        if self._imposed is not None and self._imposed.is_lost:
            self._imposed = None
        if strand is not None:
            self._hold(strand)

    def _hold(self, strand: Strand) -> None:
        del self._waiting[strand]
        self._holder, strand.state = strand, RUNNING
        self._goes_on(strand)
        self._granted, self._spent_since = self._since, process_time()
        self._passes(strand)
        wake(strand)

    # -- looking after the turn --------------------------------------------------------------------------------

    def _look(self, *, is_late: bool) -> None:
        """Look after the turn, while waiting for it.

        Args:
            is_late: Whether the look comes late: perhaps the holder waits for the interpreter, as this thread did.
        """
        with self._lock:
            now = monotonic()
            if now - self._looked < _SOON / 2:
                return
            self._looked = now
            holder = self._holder
            if holder is not None:
                if self._is_given_up(holder, now, is_late=is_late):
                    holder.state = AWAY
                    self._holder = None
                    self._loose.note(holder.label)
                    self._grant()
            elif self._waiting:
                self._grant()
                if self._holder is None:
                    self._wait_no_longer(now)

    @abstractmethod
    def _is_given_up(self, holder: Strand, now: float, *, is_late: bool) -> bool:
        """Return whether the turn is to be taken from its holder."""

    @abstractmethod
    def _wait_no_longer(self, now: float) -> None:
        """Let somebody go on, if the one whose turn it is does not come for too long."""


def wake(strand: Strand) -> None:
    """Wake a strand that waits for the turn, or will find that it need not wait."""
    let_pass(strand.wake)
