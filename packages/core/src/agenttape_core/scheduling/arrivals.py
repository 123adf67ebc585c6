"""The arrivals of a call: in threads, and in the event loop that awaits it."""

from __future__ import annotations

import asyncio
import threading
from asyncio import CancelledError
from collections.abc import Callable, Iterator
from contextlib import AbstractAsyncContextManager, AbstractContextManager, contextmanager, nullcontext
from contextvars import Context
from time import monotonic
from typing import Any

from agenttape_core.scheduling.clock import RESTLESS, Ending
from agenttape_core.scheduling.executing import ANSWERED, EXECUTING, is_outside_program, runs_outside_program
from agenttape_core.scheduling.late import auntil_abandoned, until_abandoned, until_cancelled
from agenttape_core.scheduling.loops import Admitted, Room
from agenttape_core.scheduling.participants import AWAY, BLOCKING, in_loop, in_task, trio_here
from agenttape_core.scheduling.thread_starts import Work, current_work


class Awaited:
    """The arrivals of one awaited call: its chunks, its effects, its answer, each at its place in its event loop.

    Here they're those of a call that runs by itself: nothing of it comes from outside.
    """

    __slots__ = ()
    knows_effects = False
    """True if the recording says when the effects of the call came; otherwise they come with its answer."""

    async def next(self) -> None:
        """Wait for the moment at which the answer came in the recording, the chunk, an effect, or the end."""

    async def cancelled(self) -> None:
        """Wait for the moment at which the call, which has been cancelled or left, ended in the recording."""

    def arriving(self, _unless: Callable[[], bool] | None = None, /) -> AbstractAsyncContextManager[None]:
        """Await the real code of a call inside: what it brings has come at the end, unless it's cancelled.

        Args:
            _unless: Returns true at the end if the call turned out to be part of the program; by default it's none.
        """
        return _NOTHING

    def leaving(self) -> AbstractAsyncContextManager[None]:
        """Let the code of a stream end inside, which its reader has left: that may take a while."""
        return _NOTHING

    def effected(self) -> None:
        """Note that the call has just had an effect. Thread-safe."""

    async def effect_comes(self, come: Callable[[], object]) -> bool:
        """Call this once an effect may reach the program that comes from outside; return false if the call ends before.

        It's called when that is admitted: nothing else happens in between.
        """
        come()
        return True

    async def callback_event(self) -> None:
        """Wait for the moment at which a chunk may reach a callback of the program, before the call returns it."""


_NOTHING = nullcontext()
RIGHT_AWAY = Awaited()
_Context = AbstractContextManager[Awaited]
_AT_ONCE: _Context = nullcontext(RIGHT_AWAY)


class Arrivals:
    """The arrivals of a call: its chunks, its effects, its end.

    Make it when the call has begun, in its thread.

    Args:
        call: The call, which isn't kept: it keeps this.
    """

    __slots__ = ("_address", "_is_answered", "_scheduler", "_work", "awaited", "tells")

    def __init__(self, call: Any) -> None:
        self._scheduler = call.session.scheduler
        self._work: Work | None = None
        self._address = call.position.address
        self._is_answered = False
        self.awaited: Awaited = RIGHT_AWAY
        """Its arrivals in its event loop, while it's awaited."""
        self.tells: Awaited = RIGHT_AWAY
        """The same for a stream: its code may tell the program of a chunk before it yields that."""

    # -- in threads --------------------------------------------------------------------------------------------

    def coming(self, number: int | None) -> AbstractContextManager[None]:
        """Answer a call inside, or the next chunk of it, once it may come; others can see what follows.

        Args:
            number: The number of its recording; `None` if it has none.
        """
        if ANSWERED.get() is not None:  # whoever passes the answer on waits for it
            return nullcontext()
        if self._scheduler.turn.is_on and not in_loop():
            return self._arriving(self._scheduler.base_of(number))
        self._scheduler.answers_at_once()
        self._scheduler.threads.calling.add(threading.get_ident())
        return nullcontext()

    @contextmanager
    def _arriving(self, base: str) -> Iterator[None]:
        threads = self._scheduler.threads
        one = threads.mine()
        self._is_answered = True
        outer = ""
        if one is not None:
            outer, one.answers = one.answers, ""
            threads.leave_turn(one, AWAY)
        try:
            yield
        finally:
            if one is not None:
                one.answers = outer
            threads.yields(base)

    def executing(self, *, leaves: bool, is_real: bool) -> AbstractContextManager[None]:
        """Run the code of a call inside.

        Args:
            leaves: Whether it is nothing of the program, so that others may continue.
            is_real: Whether the call is executed for real, and not stepped into.
        """
        self._work = current_work()
        if self._work is not None and self._work.is_inside:  # of a call that is executed around it
            return nullcontext()
        leaves = leaves or (is_real and is_outside_program(EXECUTING.get()))
        context: AbstractContextManager[None] = self._scheduler.threads.inside(leaves=leaves, is_real=is_real)
        return context

    def next(self) -> None:
        """Wait until the caller's thread may continue with what has come, which others can see."""
        if not in_loop() and ANSWERED.get() is None:
            self._scheduler.threads.yields()

    def effect(self) -> None:
        """Wait until an effect of the call has its place among what other threads can see."""
        turn, threads = self._scheduler.turn, self._scheduler.threads
        one = threads.mine()
        if one is None or self.awaited is not RIGHT_AWAY:
            return
        if turn.running is one and not self._is_answered:
            turn.passes(f"{self._address}!")
            one.effects = self._address
        else:
            one.answers = self._address
            threads.leave_turn(one, AWAY)  # each effect of an answered call has a place of its own
            threads.arrives(f"{self._address}!")
            if one.is_out:
                threads.leave_turn(one, AWAY)

    def reaches_outside(self) -> None:
        """Let others continue: the call has a side effect, so a replay answers it, and runs no code."""
        self._scheduler.threads.reaches_outside()

    # -- in event loops ----------------------------------------------------------------------------------------

    def awaiting(
        self,
        address: str,
        *,
        answers: int | None = None,
        during: Callable[[], AbstractContextManager[None]] = nullcontext,
    ) -> _Context:
        """Give a replayed call its place among all that its event loop waits for, while inside.

        Args:
            address: Where its recording is.
            answers: The number of its chunks and its answer, if it has effects.
            during: Returns a context that holds while the call waits.
        """
        room = self._room()
        if room is None:
            return _AT_ONCE
        if address in self._scheduler.recorded.at_once:
            self._scheduler.answers_at_once()
            return _AT_ONCE
        knows_effects = answers is not None and answers < self._scheduler.times(address)
        return nullcontext(ReplayedPlace(room, address, during, self._scheduler, knows_effects=knows_effects))

    def awaiting_code(self, call: Any, address: str) -> _Context:
        """Give a call that is executed its place among all that its event loop waits for, while inside.

        Args:
            call: The call, which isn't kept: it keeps this.
            address: Where its recording will be.
        """
        room = self._room() if self._scheduler.notes_loops else None
        if room is None:
            is_of_trio = self._scheduler.notes_loops and trio_here() is not None and not runs_outside_program()
            return self._by_trio() if is_of_trio else _AT_ONCE
        return nullcontext(ExecutedPlace(room, address, call, self._scheduler))

    @contextmanager
    def _by_trio(self) -> Iterator[Awaited]:
        with self._scheduler.threads.unordered.run_by_trio():
            yield RIGHT_AWAY

    def stepping_into(self, call: Any, address: str) -> _Context:
        """Run the code of a recorded call inside: what the recording says of its end has no counterpart.

        Args:
            call: As for `awaiting_code`.
            address: Where its recording is.
        """
        room = self._room()
        if room is None or self._scheduler.is_chosen:  # its code continues: there is nothing to choose
            return _AT_ONCE
        return nullcontext(SteppedIntoPlace(room, address, call))

    def _room(self) -> Room | None:
        if not self._scheduler.threads.is_on or runs_outside_program() or not in_task():
            return None
        room: Room | None = self._scheduler.loops.room()
        return room

    # -- too late ----------------------------------------------------------------------------------------------

    @property
    def is_in_pool(self) -> bool:
        """True if its code runs in a thread pool, so that whoever waits for it may stop to wait."""
        return self._work is not None

    @property
    def is_abandoned(self) -> bool:
        """True if the program no longer waits for the thread that its code runs in."""
        return self._work is not None and self._work.is_abandoned

    async def until_cancelled(self, ending: Ending) -> None:
        """Wait until the call is cancelled as the recorded one was. Return if that doesn't happen.

        Args:
            ending: The end of the recorded call.
        """
        room = self._scheduler.loops.room() if in_task() else None
        if room is None:
            await until_cancelled(ending, passes_time=self._scheduler.passes_time)
            return
        resort = _Resort(room, ending)
        with room.turn.lock:
            room.turn.last_resorts.append(resort)
        try:
            await resort.over
        finally:
            with room.turn.lock:
                if resort in room.turn.last_resorts:
                    room.turn.last_resorts.remove(resort)

    def until_abandoned(self, ending: Ending) -> bool:
        """Wait until the program no longer waits for the caller's thread; false if that doesn't happen.

        Args:
            ending: The end of the recorded call.
        """
        with self._without_turn():
            return until_abandoned(ending, passes_time=self._scheduler.passes_time)

    async def auntil_abandoned(self, ending: Ending) -> bool:
        """Like `until_abandoned`, in an event loop that runs in the thread."""
        return await auntil_abandoned(ending, passes_time=self._scheduler.passes_time)

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
            CancelledError: If the program leaves it, or the session ends: it no longer waits for the thread.
        """
        with self._without_turn():
            over = threading.Event()
            end = over.set  # one object, or it could not be taken back
            session.watch(end)
            try:
                is_left = until_abandoned(ending, passes_time=self._scheduler.passes_time, over=over)
            finally:
                session.unwatch(end)
            if is_left or session.closed:
                raise CancelledError

    @contextmanager
    def _without_turn(self) -> Iterator[None]:
        threads = self._scheduler.threads
        one = threads.mine()
        if one is None:
            yield
            return
        threads.leave_turn(one, BLOCKING)  # until others continue: it's nothing that is about to come
        was_out, one.is_out = one.is_out, True
        try:
            yield
        finally:
            one.is_out = was_out


class _Resort:
    """The wait of a call that was cancelled in the recording, until it is again.

    Args:
        room: The loop.
        ending: The end of the recorded call.
    """

    def __init__(self, room: Room, ending: Ending) -> None:
        self._room = room
        self._ending = ending
        self._began = room.loop.time()
        self._since = monotonic()
        self.over: asyncio.Future[None] = room.loop.create_future()

    def passes_time(self) -> bool:
        """Let the clock pass to the next timer, if the call waits for so long; return false if there is none."""
        key = self._room.next_timer()
        if key is None or self._room.timers[key].when() > self._began + self._ending.longest:
            return False
        return self._room.passes_to(key)

    def is_overdue(self) -> bool:
        """Return whether it waits for longer than the recorded call took, and more."""
        return monotonic() - self._since > self._ending.took + RESTLESS

    def end(self) -> None:
        """End the wait."""
        self._room.loop.call_soon_threadsafe(self._over)

    def _over(self) -> None:
        if not self.over.done():
            self.over.set_result(None)


class _Coming:
    """An effect that waits until it may reach the program.

    Args:
        room: The loop.
        base: The origin.
        come: Passes it on, when it's admitted.
    """

    def __init__(self, room: Room, base: str, come: Callable[[], object]) -> None:
        self._turn = room.turn
        self._come = come
        self._handle = asyncio.Handle(Admitted(room, self._comes), (), room.loop, Context())
        self._over: asyncio.Future[bool] = room.loop.create_future()
        self._key = room.offer(base, self._handle)

    def _comes(self) -> None:
        try:
            self._come()
        except Exception as error:  # noqa: BLE001 - whoever waits for it raises it
            if not self._over.done():
                self._over.set_exception(error)
        else:
            self._ends(has_come=True)

    async def has_come(self) -> bool:
        """Wait for that; return false if it's withdrawn before."""
        try:
            self._turn.is_needed = True  # it might have come at any other place
            return await self._over
        finally:
            self.withdraw()  # if the caller has been cancelled

    def withdraw(self) -> None:
        """Let it not come, unless it's admitted."""
        if self._turn.take_back(self._key):
            self._handle.cancel()
            self._ends(has_come=False)

    def _ends(self, *, has_come: bool) -> None:
        if not self._over.done():
            self._over.set_result(has_come)


class ReplayedPlace(Awaited):
    """The place of a call that is answered; see `Awaited` for its methods.

    Args:
        room: The loop.
        base: The origin of its arrivals.
        during: Returns a context that holds while it waits.
        scheduler: The scheduler of its session.
        knows_effects: Whether the recording says when its effects came.
    """

    __slots__ = ("_base", "_during", "_room", "_scheduler", "knows_effects")

    def __init__(
        self,
        room: Room,
        base: str,
        during: Callable[[], AbstractContextManager[None]],
        scheduler: Any,
        *,
        knows_effects: bool,
    ) -> None:
        self._room = room
        self._base = base
        self._during = during
        self._scheduler = scheduler
        self.knows_effects = knows_effects

    async def next(self) -> None:
        """See `Awaited`."""
        if self._scheduler.came_in_step(self._base):
            self._room.turn.passes(f"{self._base}^")
            return
        observed = self._room.turn.strategy.observed
        if observed is None or not self._room.turn.passes_at_once(self._base, observed):
            with self._during():
                try:
                    await self._room.answered(self._base)
                except CancelledError:
                    await self._room.ended(self._base)
                    raise
        if observed is not None:
            observed.reached(self._base)

    async def cancelled(self) -> None:
        """See `Awaited`."""
        await self._room.ended(self._base)

    def arriving(self, _unless: Callable[[], bool] | None = None, /) -> Any:
        """See `Awaited`: of code that passes the answer on."""
        return self

    async def __aenter__(self) -> None:
        """Begin."""
        with self._room.turn.lock:
            self._room.turn.outside += 1

    async def __aexit__(self, kind: object, error: BaseException | None, _: object) -> None:
        with self._room.turn.lock:
            self._room.turn.outside -= 1
        if error is None or isinstance(error, Exception):
            await self.next()
        elif isinstance(error, CancelledError):
            await self.cancelled()

    async def effect_comes(self, come: Callable[[], object]) -> bool:
        """See `Awaited`: of an open connection that was recorded earlier."""
        return await _Coming(self._room, self._base, come).has_come()


class _Leaving:
    """The end of the code of a stream that its reader has left.

    Args:
        room: The loop.
        base: The origin of its arrivals.
    """

    def __init__(self, room: Room, base: str) -> None:
        self._room = room
        self._base = base

    async def __aenter__(self) -> None:
        """Begin."""

    async def __aexit__(self, kind: object, error: BaseException | None, _: object) -> None:
        if error is None:
            await self._room.ended(self._base)


class ExecutedPlace(Awaited):
    """The place of a call that is executed for real; see `Awaited` for its methods.

    The code of a call that a replay may answer or run begins when nothing else can continue: an effect of it then comes
    when a replay can have it come, between two arrivals.

    Args:
        room: The loop.
        base: The origin of its arrivals.
        call: The call.
        scheduler: The scheduler of its session.
    """

    __slots__ = ("_base", "_call", "_coming", "_is_outside", "_is_told", "_room", "_scheduler", "_unless")

    def __init__(self, room: Room, base: str, call: Any, scheduler: Any) -> None:
        self._room = room
        self._base = base
        self._call = call
        self._scheduler = scheduler
        self._is_outside = is_outside_program(call)
        self._is_told = False
        self._coming: _Coming | None = None  # an effect that waits until it may reach the program
        self._unless: Callable[[], bool] | None = None

    def arriving(self, unless: Callable[[], bool] | None = None, /) -> Any:
        """See `Awaited`."""
        self._unless = unless
        return self

    async def __aenter__(self) -> None:
        if not self._is_outside and self._unless is None:
            await self._room.answered(f"{self._base}<")
            self._room.code[id(self._call)] = None
        with self._room.turn.lock:
            self._room.turn.outside += self._is_outside

    async def __aexit__(self, kind: object, error: BaseException | None, _: object) -> None:
        with self._room.turn.lock:
            self._room.turn.outside -= self._is_outside
        self._room.code.pop(id(self._call), None)
        self._room.effects.end(self._base)
        if self._coming is not None:
            self._coming.withdraw()
        if self._unless is not None and self._unless():
            return
        was_told, self._is_told = self._is_told, False
        if was_told and error is None:  # it has come: the program continues with it in the same step
            return
        if error is None or isinstance(error, Exception):
            try:
                await self._room.answered(self._base)
            except CancelledError:
                await self._room.ended(self._base)
                raise
        elif isinstance(error, CancelledError):
            await self._room.ended(self._base)

    def leaving(self) -> Any:
        """See `Awaited`."""
        return _Leaving(self._room, self._base)

    def effected(self) -> None:
        """See `Awaited`."""
        self._room.effects.came(self._base)

    async def effect_comes(self, come: Callable[[], object]) -> bool:
        """See `Awaited`."""
        self._coming = _Coming(self._room, self._base, come)
        return await self._coming.has_come()

    async def callback_event(self) -> None:
        """See `Awaited`. If several handlers see a chunk, it comes for the first."""
        if self._is_outside and not self._is_told:
            self._is_told = True
            await self._room.answered(self._base)


class SteppedIntoPlace(Awaited):
    """The place of a recorded call whose code is run; see `Awaited` for its methods.

    Args:
        room: The loop.
        base: The origin of its arrivals.
        call: The call.
    """

    __slots__ = ("_base", "_call", "_room")

    def __init__(self, room: Room, base: str, call: Any) -> None:
        self._room = room
        self._base = base
        self._call = call

    def arriving(self, _unless: Callable[[], bool] | None = None, /) -> Any:
        """See `Awaited`."""
        return self

    async def __aenter__(self) -> None:
        await self._room.answered(f"{self._base}<")
        self._room.code[id(self._call)] = None

    async def __aexit__(self, kind: object, error: BaseException | None, _: object) -> None:
        self._room.code.pop(id(self._call), None)
        if error is None or isinstance(error, Exception):
            await self._room.answered(self._base)

    def effected(self) -> None:
        """See `Awaited`."""
        self._room.effects.came(self._base)
