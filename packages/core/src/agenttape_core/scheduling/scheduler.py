"""The scheduler of one session, and what its calls see of it.

It holds two parts that know nothing of each other's insides: `loops`, the order of what event loops wait for, and
`threads`, the order in which threads do what others can see.
"""

from __future__ import annotations

import threading
from asyncio import CancelledError
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass
from typing import Any, NamedTuple
from weakref import ref

from agenttape_core.scheduling.awaited import RIGHT_AWAY, Awaited
from agenttape_core.scheduling.cancellation import Ending, until_cancelled
from agenttape_core.scheduling.choices import Choices
from agenttape_core.scheduling.choosing_threads import ChoosingStrands
from agenttape_core.scheduling.giving_up import Work, auntil_given_up, current_work, until_given_up
from agenttape_core.scheduling.loops import following_loops
from agenttape_core.scheduling.observed_threads import ObservedStrands
from agenttape_core.scheduling.schedule import Schedule
from agenttape_core.scheduling.strand_seams import TURNS
from agenttape_core.scheduling.taking_turns import Strands
from agenttape_core.schema import Admissions, IndexRow, Scheduled, Timing


@dataclass(frozen=True, slots=True, kw_only=True)
class Order:
    """The order of a run, as its cassette keeps it.

    Args:
        loops: The order of what event loops waited for.
        threads: The order in which threads came to what others could see.
        unordered: The labels of what threads did in no order.
        admissions: The order of all of that at once, as the other scheduler keeps it: see `admission`.
    """

    loops: Sequence[Scheduled] = ()
    threads: str = ""
    unordered: str = ""
    admissions: Admissions | None = None


class Times(NamedTuple):
    """The recorded times of a run that was only observed: its threads are answered by them.

    Args:
        rows: The recordings.
        timings: Returns their times, by their numbers.
    """

    rows: Sequence[IndexRow]
    timings: Callable[[], Mapping[int, Timing]]


class Scheduler:
    """Decides when what comes from outside reaches the program of one session. Thread-safe.

    Args:
        order: The order that was recorded.
        imposes: Whether threads follow it.
        notes_loops: Whether the order of what loops wait for is recorded.
        notes_threads: Whether the order of threads is noted.
        choices: A chosen order to impose instead; `None` to keep the recorded one.
        times: The times by which threads are answered, if the run was only observed.
        is_paced: Whether calls take the time that they took in the recording.
        is_virtual: Whether time passes in loops only where they have nothing to do.
    """

    def __init__(
        self,
        order: Order | None = None,
        *,
        imposes: bool = False,
        notes_loops: bool = False,
        notes_threads: bool = False,
        choices: Choices | None = None,
        times: Times | None = None,
        is_paced: bool = False,
        is_virtual: bool = False,
    ) -> None:
        self.recorded = order or Order()
        """The order that was recorded."""
        self.is_paced = is_paced
        self.arrivals: Callable[[Any], Arrivals] = Arrivals
        """Makes the arrivals of a call."""
        self._choices = choices
        self._session: Callable[[], Any] = lambda: None
        self.loops = Schedule(self.recorded.loops, is_kept=notes_loops, choices=choices, is_virtual=is_virtual)
        self.threads = self._threads(imposes=imposes, notes=notes_threads, times=times)

    def _threads(self, *, imposes: bool, notes: bool, times: Times | None) -> Strands:
        if self._choices is not None and self._choices.holds_threads:
            return ChoosingStrands(self._choices, self._note)
        if times is not None:
            return ObservedStrands(times.rows, times.timings, self._note, self._note_unseen)
        order = self.recorded
        return Strands(order.threads, unordered=order.unordered, imposes=imposes, notes=notes, tell=self._note)

    def _note(self, line: str) -> None:
        """Note that an order could not be kept."""
        if (session := self._session()) is not None:
            session.report.add_disorder(line)  # another report, if the run so far was forgotten

    def _note_unseen(self, line: str) -> None:
        if (session := self._session()) is not None:
            session.report.add_unseen(line)

    # -- the session -------------------------------------------------------------------------------------------

    def belongs_to(self, session: Any) -> None:
        """Belong to a session, which is not kept alive."""
        self._session = self.loops.session = ref(session)

    @contextmanager
    def following(self) -> Iterator[None]:
        """Follow the event loops and the threads of this process, while inside."""
        with following_loops():
            self.loops.enter()
            with TURNS:
                yield

    def enter(self) -> None:
        """Let the caller's thread be that of the session."""
        self.threads.enter()

    def settle(self) -> None:
        """Bring the threads that go on to the point at which the session ends."""
        self.threads.settle()

    def close(self) -> None:
        """Let all that waits in event loops go on: the session ends."""
        self.loops.close()

    def leave(self) -> None:
        """Let all threads go on: the session has ended."""
        self.threads.leave()

    def depart(self) -> None:
        """Impose no order of threads from here on: the run isn't the recorded one any more."""
        self.threads.depart()

    def forget(self) -> None:
        """Forget what loops did so far: it's with the sink."""
        self.loops.forget()

    def order(self) -> Order:
        """Return the order of this run, or the recorded one where this run had none."""
        return Order(loops=self.loops.groups(), threads=self.threads.text(), unordered=self.threads.loose())

    # -- its calls ---------------------------------------------------------------------------------------------

    def block(self, address: str) -> None:
        """Note that a replay answers a call as a whole, though its code was that of the program.

        Args:
            address: Where its recording will be.
        """

    @property
    def is_chosen(self) -> bool:
        """True if an order is imposed that was chosen, and not recorded."""
        return self._choices is not None

    def begins_call(self) -> None:
        """Wait until a call of the caller's thread may begin."""
        if self.threads.is_on:
            self.threads.begin_call()

    def comes_at_once(self) -> bool:
        """Return True if what comes reaches the caller's thread right away, as no order of threads is imposed."""
        if not self.threads.is_free:
            return False
        self.threads.makes_calls.add(threading.get_ident())
        return True

    def serves(self, number: int) -> None:
        """Note that a recording answers a call of the caller, where somebody chooses the order of calls.

        Args:
            number: The number of the recording.
        """
        if self._choices is None:
            return
        work = current_work()
        if work is not None:
            work.is_served(number)
        is_of_loop = work is not None and work.line is not None
        is_held = self.threads.are_chosen and (work is None or work.strand is not None)
        is_beside = self.threads.are_several_here or (work is not None and work.strand is None)
        if is_beside and not is_of_loop and not is_held:
            self._choices.in_threads.add(number)

    @property
    def passes_time(self) -> bool:
        """True if time passes in event loops for those who wait for it, and for nobody else."""
        return not (self.is_paced or self.loops.is_virtual)


_AT_ONCE = nullcontext()


class Arrivals:
    """The arrivals of one call: its chunks, its effects, its end.

    Make it when the call has begun, in its thread. In a replay of a recording without an order of threads, which is
    that of most programs, nothing waits here, and nothing is noted of it but which threads make calls.

    Args:
        call: The call, which isn't kept: it keeps this.
    """

    __slots__ = ("_label", "_scheduler", "_work", "awaited", "tells")

    def __init__(self, call: Any) -> None:
        self._scheduler: Scheduler = call.session.scheduler
        scheduler = self._scheduler
        self._label = scheduler.threads.call_here() if scheduler.threads.is_on else None
        """The label for what happens inside of it; `None` outside of strands."""
        self._work: Work | None = None
        self.awaited: Awaited = RIGHT_AWAY
        """Its arrivals in its event loop, while it's awaited."""
        self.tells: Awaited = RIGHT_AWAY
        """The same for a stream: its code may tell the program of a chunk before it yields that."""

    # -- in threads --------------------------------------------------------------------------------------------

    def coming(self, number: int | None, *, takes_time: bool) -> AbstractContextManager[None]:
        """Answer a call inside, or the next chunk of it, once it may come; others can see what follows.

        Args:
            number: The number of its recording; `None` if it has none.
            takes_time: Whether it waits for a recorded time inside.
        """
        if self._scheduler.comes_at_once():
            return _AT_ONCE
        return self._coming(number, takes_time=takes_time)

    @contextmanager
    def _coming(self, number: int | None, *, takes_time: bool) -> Iterator[None]:
        threads = self._scheduler.threads
        try:
            if number is not None:
                threads.answer(number)
            with threads.inside(self._label, leaves=takes_time):
                yield
        finally:
            threads.gate()

    def executing(self, *, leaves: bool, is_real: bool) -> AbstractContextManager[None]:
        """Run the code of a call inside.

        Args:
            leaves: Whether it is nothing of the program, so that others may go on.
            is_real: Whether the call is executed for real, and not stepped into.
        """
        self._work = current_work()
        return self._scheduler.threads.inside(self._label, leaves=leaves, is_real=is_real)

    def next(self) -> None:
        """Wait until the caller's thread may go on with what has come, which others can see."""
        self._scheduler.threads.gate()

    def effect(self) -> None:
        """Wait until an effect of the call has its place among what other threads can see."""
        self._scheduler.threads.effect(self._label)

    def acts(self) -> None:
        """Let others go on: the call acts outside, so a replay serves it, and runs no code."""
        self._scheduler.threads.acts(self._label)

    # -- in event loops ----------------------------------------------------------------------------------------

    def awaiting(
        self,
        call: Any,
        address: str,
        *,
        answers: int = 0,
        is_opening: bool = False,
        during: Callable[[], AbstractContextManager[None]] = nullcontext,
    ) -> AbstractContextManager[Awaited]:
        """Give a served call its place among all that its event loop waits for, while inside.

        Args:
            call: The call, which isn't kept: it keeps this.
            address: Where its recording is.
            answers: The number of its chunks, and one, if it has effects.
            is_opening: Whether it's a stream that is awaited before it is read, which has a place of its own.
            during: Returns a context that holds while the call waits.
        """
        return self._scheduler.loops.turn(
            call, address, is_executed=False, answers=answers, is_opening=is_opening, during=during
        )

    def awaiting_code(self, call: Any, address: str) -> AbstractContextManager[Awaited]:
        """Give a call that is executed its place among all that its event loop waits for, while inside.

        Args:
            call: As for `awaiting`.
            address: Where its recording will be.
        """
        return self._scheduler.loops.turn(call, address, is_executed=True)

    def stepping_into(self, address: str) -> AbstractContextManager[Awaited]:
        """Run the code of a recorded call inside: what the recording says of its end has no counterpart.

        Args:
            address: Where its recording is.
        """
        return self._scheduler.loops.running_through(address)

    # -- too late ----------------------------------------------------------------------------------------------

    @property
    def is_in_pool(self) -> bool:
        """True if its code runs in a thread pool, so that whoever waits for it may stop to wait."""
        return self._work is not None

    @property
    def is_abandoned(self) -> bool:
        """True if nobody waits any more for the thread that its code runs in."""
        return self._work is not None and self._work.is_given_up

    async def until_cancelled(self, ending: Ending) -> None:
        """Wait until the call is cancelled as the recorded one was. Return if that doesn't happen.

        Args:
            ending: The end of the recorded call.
        """
        await until_cancelled(ending, passes_time=self._scheduler.passes_time)

    def until_abandoned(self, ending: Ending) -> bool:
        """Wait until nobody waits for the caller's thread any more; false if that doesn't happen.

        Args:
            ending: The end of the recorded call.
        """
        return until_given_up(ending, passes_time=self._scheduler.passes_time)

    async def auntil_abandoned(self, ending: Ending) -> bool:
        """Like `until_abandoned`, in an event loop that runs in the thread."""
        return await auntil_given_up(ending, passes_time=self._scheduler.passes_time)

    @staticmethod
    def works_for_loop() -> bool:
        """Return whether the caller's thread works for an event loop."""
        work = current_work()
        return work is not None and work.loop is not None

    def until_left(self, session: Any, ending: Ending) -> None:
        """Wait in a thread that works for an event loop, until the program leaves the stream that it reads.

        Return if that doesn't happen.

        Args:
            session: The session of the call.
            ending: The end of the recorded call.

        Raises:
            CancelledError: If the program leaves it, or the session ends: nobody waits for the thread any more.
        """
        over = threading.Event()
        end = over.set  # one object, or it could not be taken back
        session.watch(end)
        try:
            is_left = until_given_up(ending, passes_time=self._scheduler.passes_time, over=over)
        finally:
            session.unwatch(end)
        if is_left or session.closed:
            raise CancelledError
