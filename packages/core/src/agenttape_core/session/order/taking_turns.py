"""Strands: the threads of a session, and the pieces of work in its thread pools, which run in turns.

Threads run in parallel, and what they do to each other depends on which is first. In a session, one strand has the
*turn* at a time. It keeps it until it comes to a *gate* (a call, a chunk, a callback, a part of a stream), blocks, or
ends; then another one gets it. So everything between two gates happens at once, and the order in which gates are passed
says all that happened. It is recorded, and a replay gives the turn in the same order.

A strand waits for the turn for a moment at most: one whose holder blocks where nobody can see it (a lock, a socket), or
computes for long, takes it away. An order that cannot be imposed, because the program has changed or too small a pool
waits for itself, is given up for what is concerned, and the report says so. Nothing hangs.
"""

from __future__ import annotations

import _thread
import sys
import threading
import zlib
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from time import monotonic, process_time
from typing import Any

from agenttape_core.session.order.interleaving import ROOT, Notes, Script, creator_of, outwards, strand_of
from agenttape_core.session.order.strands import AWAY, BLOCKING, HERE, NEW, OVER, RUNNING, WAITING, Strand, in_loop

_POLL = 0.005
"""Seconds between two looks after the turn."""
_LATE = 0.003
"""Seconds by which a look comes late where another thread had the interpreter, or the machine was busy."""
_BLOCKED = 0.01
"""Seconds after which the turn is taken from a holder whose code does not go on."""
_LONG = 0.1
"""The same where it does."""
_HELD = 1.0
"""The same for what must not be broken, such as the handling of a callback."""
_SETTLED = 0.1
"""Seconds for which a replay waits for a strand that comes only if another one wakes it, and all others wait."""
_GRACE = 0.5
"""Seconds for which a replay waits for a strand that does not go on."""
_ENDLESS = 3.0
"""Seconds of processor time after which code that goes on, while all others wait for it, counts as spinning."""
_QUANTUM = 0.0005
"""Seconds for which a strand may pass gate after gate while others wait, when recording."""
_TRIES = 8
"""Number of gates that are passed out of order before a replay imposes no order any more."""

_acquire: Callable[..., bool] = vars(_thread.LockType)["acquire"]  # not one that moves the frozen clock


class Strands:
    """The strands of one session. Thread-safe.

    Args:
        recorded: The order in which gates were passed when the run was recorded; empty if it does not matter.
        imposes: Whether this run is to follow it.
        notes: Whether the order of this run may be written.
        tell: Called with what could not be imposed, in words.
    """

    def __init__(
        self, recorded: str = "", *, imposes: bool = False, notes: bool = False, tell: Callable[[str], object] = len
    ) -> None:
        self.recorded = recorded
        """The order in which gates were passed when the run was recorded; empty if it does not matter."""
        self._script = Script(recorded) if imposes and recorded else None
        self._notes = Notes() if notes else None
        self._tell = tell
        self._lock = _thread.RLock()  # signal handlers and finalizers may come to a gate while their thread is inside
        self._live: dict[str, Strand] = {}
        self._waiting: dict[Strand, None] = {}
        self._holder: Strand | None = None
        self._since = 0.0
        self._looks: dict[int, tuple[int, int]] = {}
        self._granted = self._asleep_since = self._spent_since = self._looked = 0.0
        self._root: Strand | None = None
        self._over: set[str] = set()
        self._silent: set[str] = set()
        self._loud: set[str] = set()
        self._forked = False
        self._number = 0
        self._began: Counter[str] = Counter()
        """The strands that were begun in event loops, by the sequential part of the run that began them."""
        self._met = False
        """True if two strands were under way at the same time."""
        self._in_vain = 0
        self.is_on = self._script is not None or notes
        """True if strands take turns."""
        self.has_ended = False

    # -- its life ----------------------------------------------------------------------------------------------

    def enter(self) -> None:
        """Let the caller's thread be the strand of the session."""
        root = Strand(self, ROOT)
        root.outer, HERE.strand, self._root = HERE.strand, root, root
        root.thread, root.native, root.state = threading.get_ident(), threading.get_native_id(), RUNNING
        self._live[ROOT] = self._holder = root

    def leave(self) -> None:
        """End the session: nobody waits any more."""
        with self._lock:
            self.is_on, self.has_ended = False, True
            waiting, self._waiting = list(self._waiting), {}
            for strand in waiting:
                _wake(strand)
        root = self._root
        if root is not None and HERE.strand is root:
            HERE.strand = root.outer

    def text(self) -> str:
        """Return the order of this run, or the recorded one if this had none."""
        with self._lock:
            if self._notes is None or not self._met:
                return self.recorded
            quiet = {strand.labels[0] for strand in self._live.values() if strand.is_thread and not strand.passed}
            around = {above for label in self._loud for above in outwards(label)}
            return self._notes.text((quiet | self._silent) - around - {ROOT})

    # -- beginning and ending ----------------------------------------------------------------------------------

    def fork(self, above: Strand, pool: Any, scope: str) -> Strand:
        """Return a strand for what a strand begins now; see `begun_here`."""
        with self._lock:
            if not self._forked:
                self._forked = True
                self._since = self._asleep_since = monotonic()
            self._number += 1
            strand = Strand(self, self._label_below(above, scope), self._number, pool)
            self._live[strand.labels[0]] = strand
            if self._holder is above and in_loop():
                above.state = AWAY
                self._holder = None
            return strand

    def _label_below(self, above: Strand, scope: str) -> str:
        if not scope:
            above.began_strands += 1
            return f"{above.label}.{above.began_strands}"
        place = f"{above.label}.{zlib.crc32(scope.encode()) or 1}"
        self._began[place] += 1
        return f"{place}.{self._began[place]}"

    def begin(self, strand: Strand) -> None:
        """Begin a strand in the caller's thread."""
        strand.thread, strand.native, strand.state = threading.get_ident(), threading.get_native_id(), AWAY
        self.gate(is_call=False)

    def end(self, strand: Strand) -> None:
        """End a strand."""
        with self._lock:
            strand.state = OVER
            label = strand.labels[0]
            self._live.pop(label, None)
            self._over.add(label)
            if strand.is_thread and not strand.passed:
                self._silent.add(label)
            if self._holder is strand:
                self._holder = None
            self._grant()

    # -- calls -------------------------------------------------------------------------------------------------

    def begin_call(self) -> None:
        """Pass the gate of a call that begins."""
        self.gate()
        strand = self._mine()
        if strand is not None:
            strand.began_calls += 1

    def call_here(self) -> str | None:
        """Return the label for what happens inside of the call that the caller's strand has begun last."""
        strand = self._mine()
        return f"{strand.label}:{strand.began_calls}" if strand is not None else None

    @contextmanager
    def inside(self, call: str | None, *, leaves: bool = False) -> Iterator[None]:
        """Do inside what happens inside of a call: a replay that serves it need not do it.

        Args:
            call: The label for it.
            leaves: Whether it is nothing of the program, so that others may have the turn.
        """
        strand = self._mine()
        if strand is None or call is None or strand_of(call) != strand.labels[0]:
            yield
            return
        strand.labels.append(call)
        was_out, strand.is_out = strand.is_out, leaves
        if leaves:
            self.leave_turn(strand, AWAY)
        try:
            yield
        finally:
            strand.is_out = was_out
            strand.labels.pop()

    def depart(self) -> None:
        """Impose no order from now on: something is executed that was not recorded."""
        if self._script is None:
            return
        with self._lock:
            self._script = None
            self.is_on = self._notes is not None
            waiting = list(self._waiting) if not self.is_on else []
            for strand in waiting:
                del self._waiting[strand]
                _wake(strand)
            self._grant()

    # -- gates -------------------------------------------------------------------------------------------------

    def _mine(self) -> Strand | None:
        """Return the strand of the caller in this session, unless an event loop runs in its thread."""
        if not self.is_on:
            return None
        strand = HERE.strand
        while strand is not None and strand.strands is not self:
            strand = strand.outer
        return strand if strand is not None and not in_loop() else None

    def gate(self, *, is_call: bool = True) -> None:
        """Pass a gate of the caller's strand: wait for the turn.

        Args:
            is_call: Whether others can see what follows, besides that the strand goes on.
        """
        if not self._forked:
            return
        strand = self._mine()
        if strand is None or self._lock._is_owned():  # type: ignore[attr-defined] # noqa: SLF001 - nothing public tells
            return
        with self._lock:
            if is_call:
                self._is_seen(strand)
            script = self._script
            if not self.is_on or (script is not None and not script.knows(strand.label)):
                return
            if self._holder is strand:
                if self._may_go_on(strand):
                    self._since = self._asleep_since = monotonic()
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
            with self._lock:
                self._waiting.pop(strand, None)
                strand.state = AWAY if self._holder is not strand else RUNNING
            raise

    def _wait(self, strand: Strand) -> None:
        """Wait for the turn. Those who wait look after it by turns."""
        while True:
            seconds = _POLL * (len(self._waiting) or 1)
            since = monotonic()
            if _acquire(strand.wake, True, seconds) or not self._still_waits(strand):
                return
            self._look(is_late=monotonic() - since - seconds > _LATE)

    def _still_waits(self, strand: Strand) -> bool:
        """Return whether a strand has to wait for the turn, also after a signal handler passed gates meanwhile."""
        with self._lock:
            if not self.is_on or self._holder is strand:
                return False
            if strand not in self._waiting and not _acquire(strand.wake, False):
                strand.state = WAITING
                self._waiting[strand] = None
            return strand in self._waiting

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
        script = self._script
        if script is None:
            return not self._waiting or monotonic() - self._granted < _QUANTUM
        self._drop_dead()
        head = script.head
        return head == strand.label if head is not None else not self._waiting

    def _passes(self, strand: Strand) -> None:
        if self._script is not None and self._script.has(strand.label):
            self._script.take(strand.label)
        if self._notes is not None:
            self._notes.passed(strand.label)

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
            if other is not strand and (len(other.labels) > 1 or other.state not in (NEW, BLOCKING)):
                self._met = self._met or other.passed
                other.met = True

    def _grant(self) -> None:
        """Give the turn to the next strand that waits for it, if nobody has it."""
        if self._holder is not None or not self._waiting:
            return
        strand = self._next()
        if strand is None:
            return
        del self._waiting[strand]
        self._hold(strand)
        self._passes(strand)
        _wake(strand)

    def _hold(self, strand: Strand) -> None:
        self._holder, strand.state = strand, RUNNING
        self._granted = self._since = self._asleep_since = monotonic()
        self._spent_since = process_time()
        self._looks.clear()

    def _next(self) -> Strand | None:
        script = self._script
        if script is None:
            return next(iter(self._waiting))
        while True:
            self._drop_dead()
            head = script.head
            if head is None:
                return next(iter(self._waiting))
            for strand in self._waiting:
                if strand.label == head:
                    return strand
            for strand in self._waiting:
                if not script.has(strand.label):
                    self._depart(strand.label, f"a gate of {strand.labels[0]} that was not recorded")
                    return strand
            if not self._is_stuck():
                return None
            return self._out_of_order("all threads wait for one that does not come")

    # -- what cannot be as it was ------------------------------------------------------------------------------

    def _depart(self, label: str, why: str) -> None:
        if ":" in label:  # inside a call, a replay need not do what the recording did
            return
        self._tell(why)
        self._in_vain += 1
        if self._in_vain >= _TRIES:  # it is another program
            self._script = None

    def _drop_dead(self) -> None:
        """Leave out the gates that nobody comes to any more."""
        script = self._script
        while script is not None and (head := script.head) is not None and self._is_dead(head):
            self._depart(head, f"a recorded gate of {strand_of(head)} that it does not come to")
            script.drop()

    def _is_dead(self, label: str) -> bool:
        own = strand_of(label)
        strand = self._live.get(own)
        if strand is not None:
            return label != own and strand.state == WAITING and label not in strand.labels
        if own in self._over:
            return True
        creator = creator_of(own)
        return bool(creator) and self._is_dead_creator(creator)

    def _is_dead_creator(self, label: str) -> bool:
        own = strand_of(label)
        strand = self._live.get(own)
        if strand is None:
            return own in self._over or (bool(creator_of(own)) and self._is_dead_creator(creator_of(own)))
        return label != own and strand.state == WAITING and label not in strand.labels

    def _is_stuck(self) -> bool:
        """True if nobody can come any more but those who wait."""
        return all(strand.state == WAITING or self._cannot_begin(strand) for strand in self._live.values())

    def _cannot_begin(self, strand: Strand) -> bool:
        """True for work in a pool whose threads all wait for the turn."""
        if strand.state != NEW or strand.pool is None:
            return False
        size = getattr(strand.pool(), "_max_workers", None)
        busy = sum(other.pool == strand.pool and other.state == WAITING for other in self._live.values())
        return size is not None and busy >= size

    def _out_of_order(self, why: str) -> Strand | None:
        """Return the strand that is to go on although it is not its turn."""
        script = self._script
        assert script is not None  # only a replay that imposes an order asks
        self._tell(why)
        first = script.first_of({strand.label for strand in self._waiting})
        return next((strand for strand in self._waiting if strand.label == first), None)

    def _look(self, *, is_late: bool) -> None:
        """Look after the turn, while waiting for it.

        Args:
            is_late: Whether the look comes late: perhaps the holder waits for the interpreter, as this thread did.
        """
        with self._lock:
            now = monotonic()
            if now - self._looked < _POLL / 2:
                return
            self._looked = now
            if is_late:
                self._asleep_since = now
            if self._holder is not None:
                if self._is_given_up(self._holder, now):
                    self._holder.state = AWAY
                    self._holder = None
                    self._grant()
            elif self._waiting:
                self._grant()
                if self._holder is None:
                    self._wait_no_longer(now)

    def _is_given_up(self, holder: Strand, now: float) -> bool:
        """True if the turn is to be taken from its holder."""
        if holder.is_held:
            return now - self._since > _HELD
        if self._go_on((holder,)):
            self._asleep_since = now
        return now - self._asleep_since > _BLOCKED or now - self._since > _LONG

    def _go_on(self, strands: tuple[Strand, ...]) -> bool:
        """True if the code of any of the strands has gone on since the last look, or waits for a processor."""
        frames = sys._current_frames()  # noqa: SLF001 - the way to look at other threads
        now = {
            strand.thread: (id(frame), frame.f_lasti)
            for strand in strands
            if (frame := frames.get(strand.thread)) is not None
        }
        before, self._looks = self._looks, now
        return now != before or any(map(_is_runnable, strands))

    def _wait_no_longer(self, now: float) -> None:
        """Let somebody go on, if the one whose turn it is does not come for too long."""
        others = tuple(
            strand for strand in self._live.values() if strand.state != WAITING and not self._cannot_begin(strand)
        )
        limit = _SETTLED if all(strand.state == BLOCKING for strand in others) else _GRACE
        is_endless = process_time() - self._spent_since > _ENDLESS
        if self._go_on(tuple(strand for strand in others if strand.thread)) and not is_endless:
            self._since = now
        if now - self._since <= limit:
            return
        strand = self._out_of_order("a thread waits for what comes later")
        self._script = None  # and so would others, each for as long
        if strand is not None:
            del self._waiting[strand]
            self._hold(strand)
            self._passes(strand)
            _wake(strand)


def _wake(strand: Strand) -> None:
    """Wake a strand that waits for the turn, or will find that it need not wait."""
    if strand.wake.locked():
        strand.wake.release()


def _is_runnable(strand: Strand) -> bool:
    """True if the system says that a thread would go on if it had a processor; false where it does not say."""
    try:
        with open(f"/proc/self/task/{strand.native}/stat", "rb") as stat:  # noqa: PTH123 - in a hurry
            return stat.read(256).rpartition(b")")[2][1:2] == b"R"
    except OSError:
        return False
