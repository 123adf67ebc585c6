"""The callbacks of one event loop, as a session sees them: whose they are, and what they deliver."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from agenttape_core.scheduling.abandoned import Abandoned, Closing, are_open, number_of
from agenttape_core.scheduling.awaited_line import AwaitedLine
from agenttape_core.scheduling.handles import (
    PROGRAM,
    TIMED,
    Posted,
    has_steps,
    is_of_program,
    owner_of,
)
from agenttape_core.scheduling.held_back import Key, is_let_through, was_let_through
from agenttape_core.scheduling.loose import BETWEEN_ANSWERS
from agenttape_core.scheduling.scheduling import Scheduling
from agenttape_core.schema import Sender, thread_number

_MOST_ROUNDS = 10_000
"""Times that a timer is put off as the program makes steps, before it counts as one that makes them without end."""


class FollowedLine(AwaitedLine):
    """A line that follows the callbacks of its loop. It knows what they deliver, and holds what comes too early.

    Args:
        loop: As for `AwaitedLine`.
        schedule: As for `AwaitedLine`.
        session: As for `AwaitedLine`.
        number: As for `AwaitedLine`.
    """

    def __init__(self, loop: Any, schedule: Scheduling, session: Any, number: int) -> None:
        super().__init__(loop, schedule, session, number)
        self._generators: set[int] = set()
        """The numbers of the async generators that the program has begun."""
        self._abandoned: dict[int, Abandoned] = {}
        """Those that nobody holds any more, and that are not closed yet, by their numbers."""
        self._ending: list[Abandoned] = []
        """Those that are being closed."""

    def makes_timer(self, handle: Any, owner: Any) -> None:
        """Note a timer of the program, or of the code of a call."""
        if not self._timers.made:
            TIMED.setdefault(self.loop, []).append(self)
        self._timers.add(handle, is_own=owner is None)
        self._is_made(("timer", self._timers.made), owner)

    def _is_made(self, made: Key, owner: Any) -> None:
        if owner is not None:
            self._inside[made] = is_real = not owner.is_run_now
            if is_real and self._log is not None:
                self._log.makes(made, owner)

    def makes_work(self, work: Any, owner: Any) -> int:
        """Note that a thread begins to work for the program in this loop, and return the number of the work.

        Args:
            work: The work.
            owner: The call whose code begins it; `None` for the program.
        """
        sort = work.sort
        made = self._threads.makes(sort, work)
        self._is_made(made, owner)
        was_open = self._is_open
        self._open()
        if is_of_program(self.session()):  # a tool that a replay runs through makes jobs of its own
            work.key = number = self._threads.counts(sort)
            if not was_open:
                self._began_with = f"{self._number}.{number}"
                self._script = self.schedule.script_of_job(self._began_with)
        return made[1]

    def is_posted_to_beside(self) -> None:
        """Note that a thread of a thread has put something into the loop, and goes on beside others. Thread-safe.

        It comes when it did, but what the thread does afterwards to what it has put there does not.
        """
        if not self.schedule.is_kept and len(self._threads.beside()) > 1:
            self.schedule.note("threads of several tools put something into the event loop, in an order of their own")

    def is_not_come_to(self) -> None:
        """Note that a thread has waited in vain for the loop to come to what it has put there. Thread-safe."""
        if not self.schedule.is_kept:
            self.schedule.note("a thread went on before the event loop had come to what it had put there")

    def is_posted_to_by_stranger(self) -> None:
        """Note that a thread in no recorded order has put something into the loop. Thread-safe."""
        if not self.schedule.is_kept:
            self.schedule.note("a thread in no recorded order put something into the event loop, beside other things")

    def has_ready_file(self) -> None:
        """Note that a file or a socket is ready for which the program watches: no order is kept of that."""
        if not self.schedule.is_kept:
            self.schedule.note(
                "the event loop told the program that a file or a socket was ready, in no recorded order"
            )

    @contextmanager
    def is_parked(self, number: int) -> Iterator[None]:
        """While inside, a thread that works for the loop waits until that is given up, as by a timer. Thread-safe."""
        self._threads.park(("job", number))
        try:
            yield
        finally:
            self._threads.go_on(("job", number))

    def work_is_over(self, work: Key) -> None:
        """Note that a thread has worked for the loop."""
        if self._threads.ends(work):
            self._close_one()

    def begins_generator(self) -> int:
        """Note that an async generator of the program begins, and return its number."""
        number = number_of(len(self._generators) + 1)
        self._generators.add(number)
        return number

    def has_generator(self, number: int) -> bool:
        """Return True if an async generator of the program has a number."""
        return number in self._generators

    def keeps(self, one: Abandoned, *, is_certain: bool) -> bool:
        """Keep a generator that nobody holds any more until its turn; false if it has none. Thread-safe.

        While calls are recorded, its turn is next. In a replay, it is where the recorded order has it.

        Args:
            one: The generator.
            is_certain: As for `Closing`.
        """
        if self._is_closed or not self._is_open or not self._follows:
            return False
        if self._log is None and (self._script is None or not self._script.expects_closing(one.number)):
            return False
        self._abandoned[one.number] = one
        if self._log is not None:
            self.post(Closing(one, is_certain=is_certain))
        return True

    def has_closed(self, closed: Abandoned, frame: int) -> None:
        """Note that a generator has been closed: those that it read have lost their last reference by that.

        Args:
            closed: It.
            frame: The identity of the frame that it had.
        """
        self._ending = [one for one in self._ending if one.generator is not closed.generator]
        for one in self.takes_abandoned():
            if one.reader != frame:
                self._abandoned[one.number] = one
            elif not self.keeps(one._replace(reader=0), is_certain=True):
                one.close(self.loop)

    def may_close(self, one: Abandoned) -> bool:
        """Return True if a generator is to be closed now, and not after the one that reads it."""
        return one.number in self._abandoned and not one.is_read_by((*self._abandoned.values(), *self._ending))

    def takes_abandoned(self) -> list[Abandoned]:
        """Take the generators that are kept, in the order in which they began."""
        kept, self._abandoned = self._abandoned, {}
        return sorted(kept.values(), key=lambda one: one.place)

    def takes(self, one: Abandoned) -> None:
        """Take a generator that is closed now."""
        self._ending.append(self._abandoned.pop(one.number))

    def leaves_open(self) -> None:
        """Note that the loop or the session ends, and that generators of the program are open if they are."""
        is_followed = self._is_open and self._follows
        is_elsewhere = self.loop.is_running() and not self.is_here()  # what is open there changes while it is looked at
        if self._log is None or not is_followed or is_elsewhere:
            return
        if self._abandoned or self._ending or are_open(self.loop, self):
            self._log.leaves_open()

    def close(self) -> None:
        """End the line, and let all go on that wait."""
        self.leaves_open()
        super().close()

    def defers(self, timer: Any) -> bool:
        """Return True if a timer is due too early: nothing is awaited from outside, and the program goes on.

        It is due when the program has nothing else to do, as in every other run: else a busy machine would decide.
        """
        number = self._timers.number_of(timer)
        if number is None or self._inside.get(("timer", number)) or not has_steps(self.loop, self.session()):
            return False
        self._deferred[number] += 1
        if self._deferred[number] <= _MOST_ROUNDS:
            return True
        if not self.schedule.is_kept:
            self.schedule.note("a timer was due while the program went on without a pause")
        return False

    def holds(self, handle: Any) -> bool:
        """Return True if a callback has to wait for its turn: a timer of the program, or a post of a thread."""
        self.serial += 1
        delivery = self._delivery_of(handle)
        if delivery is None:
            if self._stalled and owner_of(handle, self.session()) is not None:
                self._stash.append(handle)
                return True
            return False
        is_closing = type(handle._callback) is Closing  # noqa: SLF001 - no public name tells it
        is_late = not is_closing and self._comes_later(handle, delivery)  # one that closes comes only in its turn
        if is_late and not self._inside.get(delivery) and not is_let_through(handle):
            self._held.add(delivery, handle)
            return True
        self._delivered += delivery not in self._inside
        sender, number = delivery
        if self._log is not None:
            age = self._made(sender) - number if sender != "post" else number
            beside = self._threads.beside(delivery)
            callback = handle._callback  # noqa: SLF001 - no public name tells it
            is_told = not (type(callback) is Closing and callback.is_certain)
            self._log.delivered(delivery, age, is_idle=self._has_no_steps(), beside=beside, is_told=is_told)
        elif self._is_beside_others(delivery):
            self.schedule.note_unseen(BETWEEN_ANSWERS)  # which of them comes first is a matter of speed
        self._steps = 0
        self._takes_turn(handle, delivery)
        return False

    def _is_beside_others(self, delivery: Key) -> bool:
        """Return True if a thread has worked for the program while others do so, too."""
        if delivery[0] != "job" or delivery in self._inside:
            return False
        return any(other not in self._inside for other in self._threads.beside(delivery))

    def _takes_turn(self, handle: Any, delivery: Key) -> None:
        """Take the turn for a timer, or a post of a thread, that is the program's own; see `visiting`."""
        if delivery in self._inside:
            return
        callback = handle._callback  # noqa: SLF001 - no public name tells it
        if delivery[0] == "timer":
            self._delivers(f"timer {self._number}", self._timers.own_number_of(handle))
        elif type(callback) is Closing:
            self._delivers(f"{self._number} generator {delivery[1]}")
        elif callback.is_result:
            sender = callback.strand if callback.work.sort == "job" else None  # one that answers goes on
            self._delivers(f"{self._number} {callback.work.key}", sender=sender)
        else:
            self.is_posted(callback)

    def is_posted(self, post: Posted) -> None:
        """Take the turn for what another thread has put into the loop, if that is part of the program itself."""
        if ":" in post.label:  # it works for a call, which a replay may serve
            return
        self._posts[post.label] += 1
        sender = post.strand if post.handed is not None else None
        self._delivers(f"{self._number} {post.label}", self._posts[post.label], sender=sender)

    def _comes_later(self, handle: Any, delivery: Key) -> bool:  # noqa: ARG002 - a line whose order is chosen looks
        """Return True if a timer or a post of a thread waits for its turn, though it has come."""
        script = self._script
        if script is None:
            is_timer = delivery[0] == "timer"
            if self._takes_time():
                return is_timer and bool(self._waiting)
            return (is_timer and bool(self._waiting or self._threads.is_quick)) or not self._has_no_steps()
        if delivery[0] in {"answer", "post"} and not script.knows(delivery[0]):
            self.schedule.note("a thread put something into the event loop that the recorded order does not have")
            return False
        return not script.knows_only_ends

    def _made(self, sender: Sender) -> int:
        return self._timers.made if sender == "timer" else self._threads.made(sender)

    def _delivery_of(self, handle: Any) -> Key | None:
        """Return the sort and the number of the timer or the thread whose delivery a callback is."""
        timer = self._timers.number_of(handle)
        if timer is not None:
            return "timer", timer
        callback = handle._callback  # noqa: SLF001 - no public name tells it
        if type(callback) is Closing and callback.one.line is self:
            return ("post", callback.one.number) if self.may_close(callback.one) else None
        if type(callback) is not Posted or callback.is_of_call:
            return None
        if callback.work is not None and callback.work.line is self:
            return callback.work.sort, callback.work.number
        callback.looks(handle._args)  # noqa: SLF001 - as above
        session, strand = self.session(), None if callback.is_inside else callback.strand
        if strand is not None and session is not None and strand.strands is session.scheduler.threads:
            return "post", thread_number(strand.labels[0])
        return None

    def owner_of(self, handle: Any) -> Any:
        """Return the owner of a callback that the loop is about to call: see `handles.owner_of`."""
        self._is_running = True
        if was_let_through(handle) or self._timers.number_of(handle) is not None:
            return None
        return owner_of(handle, self.session())

    def has_run(self, handle: Any, owner: Any) -> None:
        """Note that the loop has called a callback of an owner."""
        self._timers.forget(handle)
        callback = handle._callback  # noqa: SLF001
        if type(callback) is Posted and callback.is_result and callback.work.line is self:
            self.work_is_over((callback.work.sort, callback.work.number))
        if (
            owner is None or not self._is_open
        ):  # it has ended what was awaited: the steps of what comes next begin later
            return
        if owner is PROGRAM:
            self._steps += 1
        elif not owner.is_of_program:
            return
        elif owner.is_run_now:
            self._steps += 1
        if self._log is not None:
            self._log.step(owner)

    @abstractmethod
    def _takes_time(self) -> bool:
        """Return True if calls take their time: in a session that records, or has a pace."""
