"""The threads of a session as participants: they begin, wait for each other, call for real, and end.

`thread_starts` and `blocking` patch the places of Python at which they do, and call the methods of this class.
"""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from time import monotonic
from typing import Any

from agenttape_core.scheduling.blocking import Wait, register, take_no_turns, take_turns, unregister
from agenttape_core.scheduling.executing import EXECUTING
from agenttape_core.scheduling.participants import (
    AWAY,
    BLOCKING,
    HERE,
    NEW,
    OVER,
    RUNNING,
    SLEEPING,
    WAITING,
    Key,
    Participant,
    in_loop,
)
from agenttape_core.scheduling.scopes import SCOPES
from agenttape_core.scheduling.stalls import is_waiting, spent_by
from agenttape_core.scheduling.turn import BESIDE, Turn, _acquire, wake
from agenttape_core.scheduling.unordered import ROOT, Unordered

_SETTLES = 0.5
"""Seconds without an arrival for which the end of a session waits for threads that the program doesn't wait for."""
_COMPUTES = 2.0
"""The same for one that computes all the time. What it draws after that is real, so the report names it."""
_SETTLING = 1000
"""The most arrivals for which it waits: some threads never rest."""
_ATTEMPT = 0.05
"""Seconds between two looks after a lock that C code may release without telling."""


def enclosing(session: Any) -> str:
    """Return the address of the innermost call whose code runs here, as part of the program; empty for none."""
    session_call = EXECUTING.get()
    if session_call is None and SCOPES.membership() is None and (origin := SCOPES.origin()) is not None:
        session_call = origin.session_call
    if session_call is None or session_call.session is not session:
        return ""
    return str(session_call.position.address)


class Threads:
    """The threads of one session. Thread-safe.

    Args:
        turn: The turn of the session.
        session: Returns the session.
        unordered: The parts that are in no order.
    """

    def __init__(self, turn: Turn, session: Callable[[], Any], unordered: Unordered) -> None:
        self.turn = turn
        self.unordered = unordered
        self.calling = unordered.calling
        """The threads that have made calls."""
        self._session = session
        self.is_on = False
        """True from the beginning of the session to its end."""
        self.has_ended = False
        self._root: Participant | None = None
        self._began: Counter[str] = Counter()
        self._number = 0
        self._takes_turns = False
        self.rooms: Any = None
        """The event loops of the session."""
        self.waits = Waits(self)
        """Their waits."""

    # -- the session -------------------------------------------------------------------------------------------

    def enter(self) -> None:
        """Let the caller's thread be the first participant: it has the turn."""
        self.unordered.enter()
        root = Participant(self, ROOT)
        root.outer, HERE.participant, self._root = HERE.participant, root, root
        self.is_on = not self.has_ended
        self._is_here(root)
        root.state = RUNNING
        self.turn.live[ROOT] = self.turn.running = root

    def settle(self) -> None:
        """Let others come as far as they can before the session ends: afterwards, their time and ids would be real."""
        one, turn = self.mine(), self.turn
        if one is None or len(turn.live) == 1:
            return
        came, since = turn.count, monotonic()
        most, began = came + _SETTLING, since
        self.leave_turn(one, BLOCKING)
        spent: dict[str, float] = {}
        while (coming := self._coming(one)) and monotonic() - since < _SETTLES and turn.count < most:
            _acquire(one.wake, True, _ATTEMPT / 10)
            before, spent = spent, {other.label: spent_by(other.native) or 0.0 for other in coming}
            computing = [label for label in spent if spent[label] > before.get(label, 0.0)]
            if turn.count != came or (computing and monotonic() - began < _COMPUTES):
                came, since = turn.count, monotonic()
            elif computing:
                for label in computing:
                    self.unordered.stalled(label)
                break
        with turn.lock:
            turn.running, one.state = one, RUNNING

    def _coming(self, one: Participant) -> list[Participant]:
        """Return those that may still come to something before the session ends, which one waits for."""
        turn = self.turn
        with turn.lock:
            turn.admit()
            others = [other for other in turn.live.values() if other is not one and not other.is_out]
            # A thread that has been looked at blocks where it can't be seen, or has computed for long.
            return [
                other
                for other in others
                if turn.running is other or (other.stalls is None and turn.is_coming(other) and not other.rests)
            ]

    def leave(self) -> None:
        """Let everybody continue: the session has ended."""
        turn = self.turn
        with turn.lock:
            self.has_ended = turn.is_over = True
            self.is_on = turn.is_on = False
            for one in list(turn.live.values()):
                wake(one)
            waiting, turn.ready = list(turn.ready.values()), {}
            for entry in waiting:
                entry.resume()
        self.unordered.leave(is_shared=self._takes_turns)
        if self._takes_turns:
            self._takes_turns = False
            take_no_turns(self)
        if self._root is not None and HERE.participant is self._root:
            HERE.participant = self._root.outer

    def begins_to_share(self) -> None:
        """Take turns from now on: there is a second participant, or an event loop."""
        if not self.turn.is_on and not self.turn.is_over:
            self.turn.is_on = True
        if not self._takes_turns and not self.turn.is_over:
            self._takes_turns = True
            take_turns(self)

    # -- beginning and ending ----------------------------------------------------------------------------------

    def fork(self, above: Participant, pool: Any, *, is_own: bool) -> Participant:
        """Return a participant for what one begins now."""
        with self.turn.lock:
            if not self.turn.is_on and in_loop():
                self.rooms.room()
            self.begins_to_share()
            inside = enclosing(self._session())
            place = f"{inside}|{above.label}" if inside else above.label
            self._began[place] += 1
            self._number += 1
            one = Participant(self, f"{place}.{self._began[place]}", self._number, pool, is_own=is_own)
            self.turn.live[one.label] = one
            self.unordered.begins(one.label)
            return one

    def for_loop(self, label: str, thread: int) -> Participant:
        """Return a participant for the thread of a loop that is older than the session; 0 if it isn't known yet."""
        with self.turn.lock:
            one = Participant(self, label)
            one.thread, one.state, one.rests = thread, WAITING, True
            self.turn.live[label] = one
            return one

    def begin(self, one: Participant) -> None:
        """Begin a participant in the caller's thread, once it is admitted."""
        self._is_here(one)
        self.take_turn(one)
        if one.state == NEW:  # all is sequential
            one.state = AWAY

    @staticmethod
    def _is_here(one: Participant) -> None:
        one.thread, one.native = threading.get_ident(), threading.get_native_id()

    def end(self, one: Participant) -> None:
        """End a participant."""
        with self.turn.lock:
            one.state = OVER
            self.turn.live.pop(one.label, None)
            self.turn.take_back(one.offered)
            self.turn.release(one)

    def cancel(self, one: Participant) -> None:
        """End work that was cancelled before it began."""
        self.end(one)
        wake(one)

    # -- waiting -----------------------------------------------------------------------------------------------

    def mine(self, *, even_alone: bool = False) -> Participant | None:
        """Return the participant of the caller in this session; `None` if it's none, or if all is sequential."""
        if not (self.turn.is_on or even_alone):
            return None
        participant = HERE.participant
        while participant is not None and participant.threads is not self:
            participant = participant.outer
        return participant

    def wait_for_turn(self) -> None:
        """Wait for the turn, unless the caller has it."""
        one = self.mine()
        if one is not None and self.turn.running is not one:
            self.take_turn(one)

    def yields(self, base: str = "") -> None:
        """Let others have the turn, and wait until it comes back: something arrives.

        Args:
            base: Its origin; by default the thread.
        """
        one = self.mine()
        if one is not None and not one.is_out:
            self.leave_turn(one, AWAY)
            self.take_turn(one, base)

    def arrives(self, base: str) -> None:
        """Let something arrive in the caller's thread, which does not have the turn."""
        one = self.mine()
        if one is not None and one.offered is None and not self.turn.lock._is_owned():  # noqa: SLF001
            with self.turn.lock:
                self.offer(one, base=base)
            self.block(one)

    def base(self, one: Participant) -> str:
        """Return the origin by which a participant continues."""
        inside = enclosing(self._session()) or one.answers
        label = f"{one.label.rpartition('.')[0]}.*" if one.is_exchangeable else one.label
        return f"{inside}|{label}" if inside and not label.startswith(inside) else label

    def poster(self, one: Participant) -> str:
        """Return the origin of what a participant puts into a loop.

        What an effect of a call puts there has a place in the order: a replay has it done again, and nothing else of
        the call.
        """
        inside = enclosing(self._session())
        if inside and one.effects and f"{inside}/".startswith(f"{one.effects}/"):
            return f"{one.effects}!|{one.label}"
        if one.answers and not inside:
            return f"{one.answers}!|{one.label}"
        return self.base(one)

    def take_turn(self, one: Participant, base: str = "") -> None:
        """Let the caller's participant wait for the turn, and have it."""
        turn = self.turn
        if not turn.is_on or turn.lock._is_owned():  # noqa: SLF001 - a signal handler, or a finalizer
            return
        with turn.lock:
            if turn.running is one:
                turn.running = None
            if one.offered is None and one.state != OVER:
                self.offer(one, base=base or self.base(one))
        self.block(one)

    def offer(self, one: Participant, suffix: str = "", base: str = "") -> None:
        """Offer that a participant continues, with the lock of the turn held.

        Args:
            one: The participant.
            suffix: The end of its origin, if that is the participant's.
            base: Its origin; by default that of its wait.
        """
        one.state = WAITING
        _acquire(one.wake, False)  # what is left of an earlier wait

        def resume() -> bool:
            one.offered = None
            if suffix == BESIDE and self.turn.count > one.wait.count:
                self.unordered.stalled(one.label)  # something came meanwhile
            wake(one)
            return True

        # It may be admitted before this returns.
        one.offered = Key("", 0)
        key = self.turn.offer(base or one.base + suffix, one, resume, of_loop=False)
        if one.offered is not None:
            one.offered = key

    def block(self, one: Participant) -> None:
        """Wait until the caller is admitted."""
        turn = self.turn
        while turn.running is not one and not turn.is_over and one.state != OVER:
            seconds = turn.pause()
            try:
                _acquire(one.wake, True, -1 if seconds is None else seconds)
            except BaseException:  # of a signal handler
                with turn.lock:
                    turn.take_back(one.offered)
                    one.offered, one.state = None, AWAY if turn.running is not one else RUNNING
                raise
            if turn.running is not one:
                turn.look()

    def leave_turn(self, one: Participant, state: int) -> None:
        """Let others have the turn."""
        if self.turn.is_on:
            with self.turn.lock:
                if one.state != OVER:
                    one.state = state
                self.turn.release(one)

    # -- calls -------------------------------------------------------------------------------------------------

    @contextmanager
    def inside(self, *, leaves: bool = False, is_real: bool = False) -> Iterator[None]:
        """Run the code of a call inside; the caller takes the turn again afterwards.

        Args:
            leaves: Whether it is nothing of the program, so that others may have the turn.
            is_real: Whether the call is executed for real.
        """
        participant = self.mine(even_alone=True)
        if in_loop():  # one that holds it up keeps the turn
            if participant is not None:
                participant.held_by += 1
                participant.is_held = not self.unordered.has_unknown_loop  # we can't see when that one blocks
            try:
                yield
            finally:
                if participant is not None:
                    participant.held_by -= 1
                    participant.is_held = participant.held_by > 0 and participant.is_held
            return
        if participant is None:
            with self.unordered.strange(self._is_anybody_active):
                yield
            return
        was_out, participant.is_out = participant.is_out, participant.is_out or leaves
        was_real, participant.is_real = participant.is_real, participant.is_real or is_real
        if leaves and not was_out:
            self.leave_turn(participant, AWAY)
        beside: AbstractContextManager[None] = nullcontext()
        if participant.is_unordered:
            beside = self.unordered.strange(lambda: self._is_anybody_beside(participant), participant.label)
        try:
            with beside:
                yield
        finally:
            participant.is_out, participant.is_real = was_out, was_real

    def _is_anybody_beside(self, participant: Participant) -> bool:
        """Return whether the program continues beside such a thread."""
        others = [
            other for other in list(self.turn.live.values()) if other is not participant and not other.is_unordered
        ]
        return any(other.state not in (BLOCKING, OVER) and not other.rests for other in others)

    def _is_anybody_active(self) -> bool:
        root = self._root
        if len(self.turn.live) > 1:
            return self.turn.running is not None
        return root is not None and not root.rests and not is_waiting(root)

    def reaches_outside(self) -> None:
        """Let others have the turn: the call has a side effect, so a replay answers it.

        In an event loop, the thread continues with steps of the program, and keeps the turn.
        """
        one = self.mine() if not in_loop() else None
        if one is not None and not one.is_out:
            one.is_out = True
            self.leave_turn(one, AWAY)

    @contextmanager
    def resting(self) -> Iterator[None]:
        """Let others have the turn while a loop's thread waits for them."""
        one = self.mine()
        if one is None:
            yield
            return
        self.leave_turn(one, BLOCKING)
        before, HERE.is_internal = HERE.is_internal, True
        try:
            yield
        finally:
            HERE.is_internal = before
            self.take_turn(one)

    @contextmanager
    def sleeping(self, begins: Callable[[Callable[[], None]], object]) -> Iterator[None]:
        """Let the caller's thread wait inside until a time has passed in a loop.

        Args:
            begins: Sets the timer, before the thread counts as waiting: else time might pass to a later one. It gets a
                function to call once it has passed: from then on, the thread is about to come to something.
        """
        one = self.mine()

        def becomes(state: int) -> None:
            if one is not None:
                self.leave_turn(one, state)

        begins(lambda: becomes(AWAY))
        becomes(BLOCKING)
        before, HERE.is_internal = HERE.is_internal, True
        try:
            yield
        finally:
            HERE.is_internal = before
            becomes(AWAY)


def _until(one: Participant) -> tuple[float, int]:
    """Return when a participant's wait is due: the first one expires first, or one that polls would always be first."""
    return one.wait.until, one.number


class Waits:
    """The waits of the threads of a session: for each other, and for times, so that this is one of its clocks.

    Args:
        threads: The threads.
    """

    def __init__(self, threads: Threads) -> None:
        self._threads = threads
        self._turn = threads.turn
        self._turn.is_due, self._turn.expire = lambda: bool(self._due()), self._expire_due

    def wait(self, one: Participant, wait: Wait) -> bool | None:
        """Let others have the turn until a participant's wait is over.

        Returns:
            Whether it got it before its time had passed; `None` if it has to wait by itself.
        """
        turn = self._turn
        if not turn.is_on or turn.lock._is_owned() or one.state == OVER:  # noqa: SLF001 - as above
            return None
        if turn.running is not one and not one.is_left_out:
            self._threads.take_turn(one)
        while True:
            with turn.lock:
                wait.is_released, wait.count, one.wait, one.base = False, turn.count, wait, self._threads.base(one)
                register(one, wait)  # before it is tried once more, so that no release is missed
                if wait.attempt():
                    one.wait = None
                    unregister(one, wait)
                    return True
                _acquire(one.wake, False)
                one.is_left_out = False
                one.state = SLEEPING if wait.is_timed else BLOCKING
                if wait.is_timed:
                    turn.strategy.is_set(Key(f"{one.base}~", 0), wait.left or 0.0)
                turn.release(one)
            try:
                self._await_release(one, wait)
                with turn.lock:  # others that look after it have it for a moment
                    is_found = not turn.is_over and wait.attempt()
            finally:
                one.wait = None
                unregister(one, wait)
            if is_found:
                return True
            if turn.is_over:
                return None
            if wait.is_over:
                return False

    def sleep(self, one: Participant, real: Callable[[float], Any], seconds: float) -> None:
        """Let others have the turn while a participant sleeps.

        In a replay, its time passes where it passed in the recording; elsewhere it really sleeps.
        """
        turn, wait = self._turn, Wait(bool, seconds=seconds)
        if turn.strategy.is_led or not turn.is_on or turn.lock._is_owned():  # noqa: SLF001 - as above
            if self.wait(one, wait) is None:
                real(wait.left or 0.0)
            return
        if turn.running is not one and not one.is_left_out:
            self._threads.take_turn(one)
        with turn.lock:
            one.is_left_out, one.base, one.wait = False, self._threads.base(one), wait
        self._threads.leave_turn(one, SLEEPING)
        before, HERE.is_internal = HERE.is_internal, True
        try:
            real(seconds)
        finally:
            HERE.is_internal = before
            with turn.lock:
                one.wait = None
                if one.offered is None and turn.running is not one and not turn.is_over:
                    self._threads.offer(one, "~")
            self._threads.block(one)

    def _await_release(self, one: Participant, wait: Wait) -> None:
        turn = self._turn
        while one.offered is None and turn.running is not one and not (turn.is_over or one.is_left_out):
            left = wait.left
            if left == 0.0 and not turn.strategy.is_led:
                wait.expire()
                with turn.lock:
                    if one.offered is None:
                        self._threads.offer(one, "~")
                break
            seconds = [part for part in (left or None, turn.pause(), _ATTEMPT if wait.key else None) if part]
            if not _acquire(one.wake, True, min(seconds, default=-1)) and one.offered is None:
                self._looks_ready(one, wait)
            turn.look()
        if not one.is_left_out:
            self._threads.block(one)

    def _looks_ready(self, one: Participant, wait: Wait) -> None:
        """Continue by what C code has released without telling."""
        with self._turn.lock:
            is_for_others = any(
                other.wait is not None
                and other.wait.key == wait.key
                and other.wait.is_released  # and has not had the turn
                for other in self._turn.live.values()
            )
            is_ready = wait.key and not is_for_others and wait.is_ready()
            wait.times_ready = wait.times_ready + 1 if is_ready else 0
            if wait.times_ready > 1 and one.offered is None and self._turn.running is not one:
                self._threads.offer(one)

    def released(self, one: Participant, *, is_left_out: bool = False) -> None:
        """Let a participant continue, as its wait is over."""
        with self._turn.lock:
            if one.wait is None:
                return
            if one.wait.is_over and one.offered is not None and one.offered.base:
                # Its time has passed, but it gets it all the same: a replay, where time waits, has only this.
                self._turn.undo(one.offered)
                one.wait.is_over, one.offered, one.state = False, None, SLEEPING
            if one.offered is not None or one.state not in (BLOCKING, SLEEPING):
                return
            if is_left_out:  # it works for a call, or for an object that is deleted, until it waits again
                one.is_left_out, one.state = True, AWAY
                wake(one)
            elif HERE.participant is not None and HERE.participant.threads is not self._threads:
                self._threads.offer(one, BESIDE)  # by another session
            else:
                self._threads.offer(one)

    def found(self, one: Participant) -> None:
        """Let a participant without the turn continue with an item of a queue that was there when it came.

        How fast it was with work that is left out decides whether it comes too late to be told, so it continues as if
        it were. One that has the turn keeps it: all that is there was put before.
        """
        if one.is_left_out:
            one.is_left_out = False
            self._threads.take_turn(one)

    def expire(self, key: Key) -> bool:
        """Let the time of a wait pass, if that's the next arrival."""
        for one in self._sleeping():
            if key.base == f"{one.base}~":
                one.wait.expire()
                self._threads.offer(one, "~")
                return True
        return False

    passes_to = expire

    def passes_to_first(self) -> bool:
        """Let the time of a wait pass, the shortest first; return false if there is none."""
        first = min(self._sleeping(), key=_until, default=None)
        return first is not None and self.expire(Key(f"{first.base}~", 0))

    def seeks(self, _: Key) -> bool:
        """Return False: no generators belong to threads."""
        return False

    seeks_again = seeks

    def live_timers(self) -> list[Key]:
        """Return the waits whose time has still to pass."""
        return [Key(f"{one.base}~", 0) for one in self._sleeping()]

    def _sleeping(self) -> list[Participant]:
        """Return those that wait for a time to pass."""
        live = list(self._turn.live.values())
        return [one for one in live if one.state == SLEEPING and one.offered is None and one.wait is not None]

    def _due(self) -> list[Participant]:
        return [one for one in self._sleeping() if one.wait.left == 0.0]

    def _expire_due(self) -> Key | None:
        first = min(self._due(), key=_until, default=None)
        if first is None:
            return None
        first.wait.expire()
        self._threads.offer(first, "~")
        return first.offered
