"""The turn of a session: one participant runs at a time, and what arrives is admitted when none of them can continue.

A *participant* is a thread, a piece of work of a pool, or the thread in which an event loop runs. It has the turn until
it blocks, rests in its selector, calls for real, or ends. What then may continue has been *offered*: an answer, a
timer, a thread that wants to begin, something that a thread has put into a loop. A strategy picks which of them is
admitted.
"""

from __future__ import annotations

import _thread
from collections import Counter, deque
from collections.abc import Callable
from concurrent.futures import Executor
from time import monotonic
from typing import TYPE_CHECKING, Any

from agenttape_core.locks import freed_by_fork
from agenttape_core.named_tuples import NamedTuple
from agenttape_core.scheduling.participants import (
    AWAY,
    BLOCKING,
    NEW,
    OVER,
    RUNNING,
    SLEEPING,
    WAITING,
    Key,
    OwnLock,
    Participant,
    let_pass,
)
from agenttape_core.scheduling.stalls import LONGEST, Lateness, Stall, is_of_library

if TYPE_CHECKING:
    from agenttape_core.scheduling.strategies import AsTheyCome, ByTime

_LOOK = 0.01
"""Seconds after which a waiting thread looks at the others, while something is ready: it bounds the cost of a stall."""
_SELDOM = 0.05
"""The same while nothing is ready: the one that has the turn may put something here, and then block unseen."""
_WATCHERS = 8
"""The waiting threads that look in each such time, of a program that has more."""
_SETTLED = 0.05
"""Seconds without an arrival before an order is given up. In a shorter time, a thread that was just woken is missed."""
_LOOKS = 3
"""Looks in a row that must find nothing on its way: one look may fall between two steps of another thread."""
_SOON = 1.0
"""Seconds: a sleep that ends sooner is about to come to something. A longer one would hold up each lost order."""
BESIDE = "="
"""The end of the origin of what another session lets continue: that has no place in the order, and comes right away."""
_acquire: Callable[..., bool] = _thread.LockType.acquire  # the real one, without turns


def wake(participant: Participant) -> None:
    """Wake a participant that waits for the turn, or will find that it need not wait."""
    let_pass(participant.wake)


class Entry(NamedTuple):
    """Something that may continue.

    Args:
        owner: The participant that has the turn then.
        resume: Lets it continue, and returns false if that has been cancelled meanwhile.
        of_loop: Whether an event loop calls it: only one that rests can.
    """

    owner: Participant
    resume: Callable[[], bool]
    of_loop: bool

    @property
    def is_free(self) -> bool:
        """True if its owner can continue with it now."""
        return not self.of_loop or self.owner.rests


_PUNCTUAL = Lateness()


class Turn:
    """The turn of one session. Thread-safe.

    Args:
        strategy: Chooses the next arrival to admit.
        is_noted: Whether the order is noted, to be recorded.
        stalled: Called with the label of a participant that has lost the turn.
    """

    def __init__(self, strategy: AsTheyCome, *, is_noted: bool, stalled: Callable[[str], object]) -> None:
        self.strategy = strategy
        self.stalled = stalled
        # Reentrant: signal handlers and finalizers may come to it while their thread is inside.
        self.lock: Any = freed_by_fork(OwnLock())
        self.is_on = False
        """True once there is a second participant, or an event loop that awaits something."""
        self.is_over = False
        self.running: Participant | None = None
        self.ready: dict[Key, Entry] = {}
        self.live: dict[str, Participant] = {}
        self.outside = 0
        """The number of awaited calls that are executed for real now, or whose code passes an answer on."""
        self.clocks: list[Any] = []
        """The rooms of event loops, which have timers."""
        self.last_resorts: list[Any] = []
        """The waits of cancelled calls, which end where nothing else can continue."""
        self.is_due: Callable[[], bool] = bool
        """Returns true if the time has passed for which a thread waits; see `Threads`."""
        self.expire: Callable[[], Key | None] = _nothing
        """Offers that such a thread continues, and returns by which arrival; `None` if there is none."""
        self.log: list[Key] | None = [] if is_noted else None
        self.count = 0
        """The number of arrivals so far."""
        self.is_needed = False
        """True if something was admitted while something else might have been: then the order says something."""
        self._beside: deque[Key] = deque()
        self._counts: Counter[str] = Counter()
        self._changed = self._looked = 0.0
        self._quiet = self._pauses = 0
        self._late: Lateness = _PUNCTUAL

    # -- arrivals ----------------------------------------------------------------------------------------------

    def key(self, base: str) -> Key:
        """Return the key of the next arrival of an origin."""
        self._counts[base] += 1
        return Key(base, self._counts[base])

    def came(self, base: str) -> int:
        """Return how many arrivals of an origin there have been."""
        return self._counts[base]

    def offer(self, base: str, owner: Participant, resume: Callable[[], bool], *, of_loop: bool) -> Key:
        """Let something continue once it is admitted."""
        with self.lock:
            key = self.key(base)
            self._offer(key, Entry(owner, resume, of_loop))
        return key

    def offer_as(self, key: Key, owner: Participant, resume: Callable[[], bool]) -> None:
        """Let a callback of a loop continue whose key it has had since before."""
        with self.lock:
            self._offer(key, Entry(owner, resume, of_loop=True))

    def _offer(self, key: Key, entry: Entry) -> None:
        if self.is_over:
            entry.resume()
            return
        self.ready[key] = entry
        if key.base.endswith(BESIDE):
            self._beside.append(key)
        else:
            self.strategy.is_offered(key)
        self._touch()
        self._admit()

    def take_back(self, key: Key | None) -> bool:
        """Withdraw an offer; return false if it has been admitted."""
        with self.lock:
            return key is not None and self.ready.pop(key, None) is not None

    def undo(self, key: Key) -> None:
        """Withdraw an offer as if it had never been made. It's the last one of its origin."""
        del self.ready[key]
        self._counts[key.base] -= 1

    def passes(self, base: str) -> None:
        """Note an arrival of the participant that has the turn: it comes in its step, without a wait."""
        with self.lock:
            self._took(self.key(base), self.running)

    def passes_at_once(self, base: str, observed: ByTime) -> bool:
        """Note an arrival as `passes` does, if it came as soon as the program asked for it; return whether it did."""
        with self.lock:
            came = observed.came_at_once(Key(base, self._counts[base] + 1))
            if came:
                self.passes(base)
        return came

    def release(self, owner: Participant) -> bool:
        """Let others have the turn; return whether it came back immediately."""
        with self.lock:
            if self.running is owner:
                self.running = None
                self._touch()
            self._admit()
            return self.running is owner

    def admit(self) -> None:
        """Admit the next arrival, if no participant has the turn."""
        with self.lock:
            self._admit()

    def _admit(self) -> None:
        while self.running is None and not self.is_over:
            key = self._beside.popleft() if self._beside else self.strategy.pick(self)
            if key is None:
                return
            entry = self.ready.pop(key, None)
            if entry is None:  # it was beside the order, and has been taken back
                continue
            owner = entry.owner
            rested, owner.rests = owner.rests, False
            self.running, owner.state, owner.stalls, owner.is_disregarded = owner, RUNNING, None, False
            if not entry.resume():
                self.running, owner.rests, owner.state = None, rested, WAITING
                continue
            self._took(key, owner)

    def goes_on(self, owner: Participant, observed: ByTime) -> None:
        """Let a loop that has the turn make another round, and admit what comes amid its steps."""
        with self.lock:
            observed.goes_on()
            while (key := observed.pick_amid(self)) is not None:
                entry = self.ready[key]
                if entry.owner is not owner:
                    return
                del self.ready[key]
                if entry.resume():
                    self._took(key, owner)

    def _took(self, key: Key, owner: Participant | None) -> None:
        self._touch()
        if key.base.endswith(BESIDE):
            return
        self.strategy.took(key)
        self.count += 1
        if self.log is not None:
            self.log.append(key)
            self.is_needed = self.is_needed or self._is_anything_else_pending(owner)

    def _is_anything_else_pending(self, owner: Participant | None) -> bool:
        if self.ready or self.outside:
            return True
        return any(
            other is not owner and not other.rests and other.state not in (BLOCKING, OVER)
            for other in self.live.values()
        )

    def has_others(self) -> bool:
        """Return whether threads besides the one that has the turn may continue."""
        with self.lock:
            others = (one for one in self.live.values() if one is not self.running and not one.rests)
            return any(one.state in (NEW, WAITING) for one in others)

    def _touch(self) -> None:
        self._changed, self._quiet = monotonic(), 0

    # -- looking after it --------------------------------------------------------------------------------------

    def barge(self, owner: Participant) -> None:
        """Let a loop have the turn whose program continues by something that was not offered, as a socket."""
        with self.lock:
            if self.running is None:
                self.running, owner.rests, owner.state, owner.stalls = owner, False, RUNNING, None

    def pause(self) -> float | None:
        """Return the seconds after which a waiting thread should look; `None` while nothing is expected.

        Where many threads wait, each looks more seldom, and one after another, so that they leave the processor to the
        one that has the turn.
        """
        if self.ready or self.last_resorts or self.is_due():
            seconds = _LOOK
        elif self.strategy.is_led or self.running is not None:  # that may put something here, and block unseen
            seconds = _SELDOM
        else:
            return None
        self._pauses += 1
        return seconds * (1 + self._pauses % (1 + len(self.live) // _WATCHERS))

    def look(self) -> None:
        """Look whether the one that has the turn is blocked, or the next arrival can't come. Called while waiting."""
        if monotonic() - self._looked < _LOOK / 2:  # of a hundred threads that wait, one has just looked
            return
        with self.lock:
            now = monotonic()
            if self.is_over or now - self._looked < _LOOK / 2:
                return
            self._looked = now
            running = self.running
            if running is not None:
                may_take_its_time = running.is_held and self.log is not None  # it may make a call for real
                is_waited_for = self.ready or self.last_resorts or self.is_due()
                if is_waited_for and not may_take_its_time and self._is_stalled(running, now):
                    running.state = AWAY
                    self.running = None
                    is_program = not is_of_library(running)
                    running.is_disregarded = not (is_program or self.strategy.has_threads)
                    if is_program:
                        self.stalled(running.label)
                    self._admit()
                return
            self._admit()
            if self.running is not None or not (self.ready or self.last_resorts or self.is_due()):
                return
            if self._has_been_quiet(now) and self.strategy.unstick(self):
                self._admit()

    def _has_been_quiet(self, now: float) -> bool:
        """Return whether nothing has been on its way for some looks, on a machine that isn't busy."""
        if not self._is_quiet(now):
            self._quiet = 0
            return False
        if not self._quiet:
            self._late = Lateness()
        self._quiet += 1
        if self._quiet < _LOOKS:
            return False
        self._quiet = 0
        return not self._late.more() or now - self._changed >= LONGEST

    def _is_stalled(self, running: Participant, now: float) -> bool:
        if running.stalls is None:
            running.stalls = Stall(running, now)
            return False
        return bool(running.stalls.is_over(now))

    def _is_quiet(self, now: float) -> bool:
        """Return whether nothing is on its way, as far as can be seen."""
        if self.outside and now - self._changed < LONGEST:
            return False
        return now - self._changed >= _SETTLED and (self.is_settled() or now - self._changed >= LONGEST)

    def is_settled(self, *, sleeps: bool = False) -> bool:
        """Return whether no participant is about to come to something.

        Args:
            sleeps: Whether one that waits for a time to pass counts as settled, however short that is.
        """
        for one in self.live.values():
            if one.is_disregarded:
                continue
            is_coming = self.is_coming(one)
            if (
                one.state in (BLOCKING, SLEEPING)
                and one.wait is not None
                and one.wait.is_released
                and one.offered is None
            ):
                is_coming = True
            if not sleeps and one.state == SLEEPING and one.wait is not None and 0.0 < (one.wait.left or 0.0) < _SOON:
                is_coming = True
            if one.state == BLOCKING and one.wait is None and self._has_ended(one.joins):
                is_coming = True
            if is_coming:
                return False
        return True

    def is_coming(self, one: Participant) -> bool:
        """Return whether a participant runs somewhere, or is about to begin."""
        if one.state == NEW:
            return not self._cannot_begin(one)
        return one.state in (AWAY, RUNNING) and not one.rests

    def is_beginning(self) -> bool:
        """Return whether a thread, or a thread of a pool, is about to offer that it begins."""
        return any(one.state == NEW and not one.is_disregarded and self.is_coming(one) for one in self.live.values())

    def end_overdue(self) -> None:
        """End the waits for a cancellation that last too long, though the program makes steps, which may bring it."""
        for resort in self.last_resorts[:]:
            if resort.is_overdue():
                self.last_resorts.remove(resort)
                resort.end()

    def disregard(self) -> None:
        """Wait no more for participants that come to nothing."""
        for one in self.live.values():
            one.is_disregarded = one.state in (AWAY, RUNNING, NEW) and not one.rests

    def _cannot_begin(self, one: Participant) -> bool:
        """Return whether work waits for a thread of its pool, and all of these are busy."""
        pool = one.pool() if one.pool is not None else None
        size = getattr(pool, "_max_workers", None)
        of_pool = [other for other in self.live.values() if other.pool == one.pool and other.has_begun]
        return size is not None and len(of_pool) >= size

    def _has_ended(self, joined: Any) -> bool:
        """Return whether the thread has ended that a participant waits for, or all the work of the pool."""
        if isinstance(joined, Executor):
            return all(one.pool is None or one.pool() is not joined for one in self.live.values())
        own = getattr(joined, "_agenttape_participant", None)
        return own is not None and own.state == OVER


def _nothing() -> None:
    return None
