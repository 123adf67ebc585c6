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

import threading
import zlib
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from time import process_time
from typing import Any

from agenttape_core.scheduling.handing_over import HandedOver
from agenttape_core.scheduling.holder import is_waiting
from agenttape_core.scheduling.interleaving import ROOT, Notes, Script, effect_of, handed_by, outwards, strand_of
from agenttape_core.scheduling.limits import LONGEST
from agenttape_core.scheduling.locks import take_no_turns, take_turns
from agenttape_core.scheduling.loose import ALONE, SIGNAL, SIGNALLED, STRANGER, Loose
from agenttape_core.scheduling.older_threads import OlderThreads
from agenttape_core.scheduling.strands import AWAY, BLOCKING, HERE, NEW, OVER, RUNNING, WAITING, Strand, in_loop
from agenttape_core.scheduling.turns import wake
from agenttape_core.scheduling.withdrawing import WithdrawnTurns
from agenttape_core.schema import thread_number

_HELD = 1.0
"""Seconds after which the turn is taken from what must not be broken, such as the handling of a callback."""
_SETTLED = 0.1
"""Seconds for which a replay waits for a strand that comes only if another one wakes it, and all others wait."""
_GRACE = 0.5
"""Seconds for which a replay waits for a strand that does not go on."""
_ENDLESS = 3.0
"""Seconds of processor time after which code that goes on, while all others wait for it, counts as spinning."""


class Strands(WithdrawnTurns):
    """The strands of one session. Thread-safe.

    Args:
        recorded: The order in which gates were passed when the run was recorded; empty if it does not matter.
        unordered: The labels of what was in no order then; see `loose`.
        imposes: Whether this run is to follow it.
        notes: Whether the order of this run may be written.
        tell: Called with what could not be imposed, in words.
    """

    def __init__(
        self,
        recorded: str = "",
        *,
        unordered: str = "",
        imposes: bool = False,
        notes: bool = False,
        tell: Callable[[str], object] = len,
    ) -> None:
        script = Script(recorded) if imposes and recorded else None
        loose = Loose(unordered, is_replay=imposes and bool(recorded or unordered), tell=tell)
        super().__init__(script, loose, Notes() if notes else None, tell)
        self._tell = tell
        self._older: OlderThreads | None = None
        self.recorded = recorded
        """The order in which gates were passed when the run was recorded; empty if it does not matter."""
        self.has_ended = False
        self._root: Strand | None = None
        self._hands_over = True
        """True until a thread has waited for an event loop in vain."""
        self._silent: set[str] = set()
        self._number = 0
        self._began: Counter[str] = Counter()
        """The strands that were begun in event loops, by the sequential part of the run that began them."""
        self._strangers: Counter[int] = Counter()
        """The calls under way in threads that are no strands, by thread."""
        self.makes_calls: set[int] = set()
        """The threads that have made calls while the strands were free."""

    # -- its life ----------------------------------------------------------------------------------------------

    def enter(self) -> None:
        """Let the caller's thread be the strand of the session."""
        for label in ALONE:
            self._loose.begins(label)
        self._older = OlderThreads()
        root = Strand(self, ROOT)
        root.outer, HERE.strand, self._root = HERE.strand, root, root
        root.thread, root.native, root.state = threading.get_ident(), threading.get_native_id(), RUNNING
        self._live[ROOT] = self._holder = root

    def leave(self) -> None:
        """End the session: nobody waits any more."""
        with self._lock:
            self.is_on, self.has_ended = False, True
            waiting = list(self._waiting)
            self._waiting.clear()
            for strand in [*waiting, *self._live.values()]:
                wake(strand)
            if self._forked:
                self._forked = False
                take_no_turns(self)
        if self._older is not None:
            self._older.look(
                {*self._strangers, *self.makes_calls}, self._loose, self._tell if self._notes is None else None
            )
            self._older = None
        root = self._root
        if root is not None and HERE.strand is root:
            HERE.strand = root.outer

    def text(self) -> str:
        """Return the order of this run, or the recorded one if this had none."""
        with self._lock:
            if self._notes is None or not self._met:
                return self.recorded
            return self._notes.text(self._left_out())

    def loose(self) -> str:
        """Return the labels of what was in no order in this run, or was not in the recording if this had none."""
        with self._lock:
            if self._notes is None or not (self._met or self._loose.stands_alone):
                return self._loose.recorded
            return self._loose.text(self._notes.labels(), self._left_out())

    def _left_out(self) -> set[str]:
        """Return the labels of what has no place in the order."""
        return self._said_nothing() | self._served_in_replays()

    def _said_nothing(self) -> set[str]:
        """Return the labels of strands that did nothing that others can see."""
        quiet = {strand.labels[0] for strand in self._live.values() if strand.is_thread and not strand.passed}
        around = {above for label in self._loud for above in outwards(label)}
        return (quiet | self._silent) - around - {ROOT}

    # -- beginning and ending ----------------------------------------------------------------------------------

    def fork(self, above: Strand, pool: Any, scope: str, *, is_own: bool) -> Strand:
        """Return a strand for what a strand begins now; see `begun_here`."""
        with self._lock:
            if not self._forked:
                self._forked = True
                take_turns(self)
                self._goes_on(above)
                self._loose.begins(ROOT)
            self._number += 1
            strand = Strand(self, self._label_below(above, scope), self._number, pool, is_own=is_own)
            self._loose.begins(strand.label)
            self._live[strand.labels[0]] = strand
            if self._holder is above and in_loop() and not above.is_visiting:
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

    def is_loose(self, strand: Strand) -> None:
        """Note that a strand has done what others can see in no fixed order."""
        with self._lock:
            self._loose.note(strand.labels[0])
            self._loud.add(strand.labels[0])
            self._met = True  # without an order, a replay has other labels, and does not come to this one

    def signal_came(self) -> None:
        """Note that a signal came to a handler of the program, in which nobody may wait for a lock."""
        self._loose.note(SIGNAL)
        if self._notes is None:
            self._tell(SIGNALLED)

    def rests_loosely(self, strand: Strand) -> None:
        """Let others have the turn that a loop has had, and will go on without, as it waits where nobody tells it."""
        self.is_loose(strand)
        self.rests(strand)

    def may_post(self, number: int) -> bool:
        """Return whether a strand may put something into an event loop: it has not ended, and waits for no other one.

        Args:
            number: The number by which a schedule knows it: see `thread_number`.
        """
        return any(_goes_on(strand) for label, strand in list(self._live.items()) if thread_number(label) == number)

    def may_hand_over(self) -> bool:
        """Return whether a strand is about to put something into an event loop, as it did in the recording."""
        script = self._imposed.script if self._imposed is not None else None
        if script is None:
            return False
        return any(_goes_on(strand) and script.has(handed_by(label)) for label, strand in list(self._live.items()))

    def hands_over(self, strand: Strand) -> bool:
        """Return whether a strand waits until a loop has come to what it puts there: see `handing_over`."""
        if HERE.is_internal or strand.is_out or not self._forked:
            return False
        self._may_run_program(strand)
        if self._imposed is not None:
            return self._takes_turns(strand) and self._imposed.script.has(handed_by(strand.label))
        return self._hands_over and (self._notes is not None or not self.recorded)

    def hand_over(self, strand: Strand, handed: HandedOver) -> None:
        """Let others have the turn until a loop has come to what a strand has put there; then it passes a gate."""
        had_turn = self._holder is strand
        self.leave_turn(strand, AWAY)
        if not self._hands_over:
            handed.let_go()
        elif not handed.wait(is_led=self._is_led() or self._notes is not None):
            self._hands_over = False
            self.is_loose(strand)
        self._pass_as(handed_by(strand.label), strand)
        if not had_turn:  # a loop runs in the thread, or the turn was taken from it
            self.leave_turn(strand, AWAY)

    # -- calls -------------------------------------------------------------------------------------------------

    def begin_call(self) -> None:
        """Pass the gate of a call that begins."""
        self.gate()
        strand = self._mine()
        if strand is not None:
            strand.began_calls += 1
            if strand.is_loose:
                with self._lock:
                    self._loose.note(strand.label)

    @contextmanager
    def _strange(self) -> Iterator[None]:
        """Make a call inside in a thread that is no strand, and note it if something else goes on meanwhile."""
        me, is_strange = threading.get_ident(), self._notes is not None and self.is_on and not in_loop()
        # Not by `items`: making pairs may let the collector run code, and another thread come in between.
        is_beside = any(other != me and self._strangers[other] for other in list(self._strangers))
        self._strangers[me] += 1
        try:
            yield
        finally:
            self._strangers[me] -= 1
            if is_strange and (is_beside or self._is_anybody_active()):
                with self._lock:
                    self._loose.note(STRANGER)

    def _is_anybody_active(self) -> bool:
        """Return whether a strand goes on, and does not wait for another thread."""
        if self._forked:
            return any(strand.state not in (NEW, BLOCKING) for strand in list(self._live.values()))
        return self._root is not None and not is_waiting(self._root)

    @property
    def is_free(self) -> bool:
        """True if no strand waits for another one, neither before a call nor before its answer."""
        return not self.is_on

    @property
    def are_chosen(self) -> bool:
        """True while the calls of threads are answered in a chosen order: see `choosing_threads`."""
        return False

    def answer(self, number: int) -> None:
        """Let a served call, or a chunk of it, wait until it is chosen, where somebody chooses.

        Args:
            number: The number of its recording.
        """

    def call_here(self) -> str | None:
        """Return the label for what happens inside of the call that the caller's strand has begun last."""
        strand = self._mine()
        return f"{strand.label}:{strand.began_calls}" if strand is not None else None

    @contextmanager
    def inside(self, call: str | None, *, leaves: bool = False, is_real: bool = False) -> Iterator[None]:
        """Do inside what happens inside of a call: a replay that serves it need not do it.

        Args:
            call: The label for it.
            leaves: Whether it is nothing of the program, so that others may have the turn.
            is_real: Whether the call is executed for real.
        """
        strand = self._mine()
        if strand is None:
            with self._strange():
                yield
            return
        if call is None or strand_of(call) != strand.labels[0]:  # a stream that another thread has begun
            call = f"{strand.label}:{strand.began_calls + 1}"
        strand.labels.append(call)
        self._loose.begins(call)
        was_out, strand.is_out = strand.is_out, leaves
        was_real, strand.is_real = strand.is_real, is_real
        if leaves:
            self.leave_turn(strand, AWAY)
        try:
            yield
        finally:
            strand.is_out, strand.is_real = was_out, was_real
            strand.labels.pop()

    def effect(self, call: str | None) -> None:
        """Pass the gate of an effect of a call, such as a part that a tool puts on a stream.

        A replay that serves the call passes no other gate of its inside, so this one has a label of its own.

        Args:
            call: The label for what happens inside of the call.
        """
        strand = self._mine() if self._forked and call is not None else None
        if strand is None or call not in strand.labels:
            return
        label = effect_of(call)
        if self._imposed is not None and not self._imposed.script.has(label):
            return  # the recording is older than these gates, or the program was another one
        self._pass_as(label, strand)
        if strand.is_out:
            self.leave_turn(strand, AWAY)

    def _pass_as(self, label: str, strand: Strand) -> None:
        before, strand.labels[-1] = strand.label, label
        try:
            self._pass(strand, is_call=False)
        finally:
            strand.labels[-1] = before

    def acts(self, call: str | None) -> None:
        """Let others have the turn: the call of this label acts outside, so a replay serves it, and runs no code."""
        strand = self._mine()
        if strand is not None and strand.label == call and not strand.is_out:
            strand.is_out = True
            self.leave_turn(strand, AWAY)

    def depart(self) -> None:
        """Impose no order from now on: something is executed that was not recorded."""
        if self._imposed is None:
            return
        with self._lock:
            self._imposed = None
            self._loose.depart()
            self.is_on = self._notes is not None
            waiting = list(self._waiting) if not self.is_on else []
            for strand in waiting:
                del self._waiting[strand]
                wake(strand)
            self._grant()

    # -- for how long the turn is waited for -------------------------------------------------------------------

    def _is_given_up(self, holder: Strand, now: float, *, is_late: bool) -> bool:
        """True if the turn is to be taken from its holder."""
        if holder.is_held:
            return now - self._since > _HELD
        return self._holding is not None and self._holding.is_over(now, is_late=is_late)

    def _wait_no_longer(self, now: float) -> None:
        """Let somebody go on, if the one whose turn it is does not come for too long."""
        imposed = self._imposed
        if imposed is None:
            return
        others = tuple(
            strand
            for strand in self._live.values()
            if strand.state != WAITING and not imposed.cannot_begin(strand) and imposed.script.knows(strand.label)
        )
        limit = _SETTLED if all(strand.state == BLOCKING for strand in others) else _GRACE
        is_endless = process_time() - self._spent_since > _ENDLESS or now - self._granted > LONGEST
        if self._progress.is_made(strand for strand in others if strand.thread) and not is_endless:
            self._since = now
        if now - self._since <= limit:
            return
        strand = imposed.out_of_order("a thread waits for what comes later")
        self._imposed = None  # and so would others, each for as long
        if strand is not None:
            self._hold(strand)


def _goes_on(strand: Strand) -> bool:
    """Return whether a strand goes on, or is about to: what it waits for is released, and it has not woken yet."""
    return strand.state != BLOCKING or (strand.wait is not None and strand.wait.is_told)
