"""Event loops as participants: a loop gives the turn up where its selector would block.

It's then idle, as far as a session is concerned: none of its callbacks that are ready is a step of the session's
program. No callback is counted. What reaches the program of a loop from outside is offered, and called once admitted:
answers, timers of the program, and what other threads put there.
"""

from __future__ import annotations

import asyncio
import threading
from asyncio import Handle
from collections import deque
from collections.abc import Callable, Sequence
from contextlib import suppress
from contextvars import Context, copy_context
from functools import partial
from typing import Any
from weakref import WeakKeyDictionary

from agenttape_core.errors import ConfigurationError
from agenttape_core.locks import Lock
from agenttape_core.scheduling.clock import LoopClock, VirtualTime
from agenttape_core.scheduling.executing import is_outside_program
from agenttape_core.scheduling.generators import Closing, Generators
from agenttape_core.scheduling.handles import PROGRAM, owner_of, timers_of_ours
from agenttape_core.scheduling.participants import HERE, SLEEPING, Key, Participant
from agenttape_core.scheduling.python_parts import is_unknown
from agenttape_core.scheduling.threads import Threads, enclosing
from agenttape_core.scheduling.turn import Turn

_ROUNDS = 2000
"""Rounds without a rest after which a loop counts as one that never rests: then arrivals are admitted all the same."""


_PATIENCE = 100
"""Rounds for which the code of a call waits for a program that never rests: one that polls may wait for that call."""


class Admitted:
    """A callback that was admitted: a step of the program of a session, whatever its context.

    Args:
        room: The loop, as the session sees it.
        callback: The callback.
    """

    __slots__ = ("_callback", "room")

    def __init__(self, room: Room, callback: Callable[..., Any]) -> None:
        self.room = room
        self._callback = callback

    def __call__(self, *args: Any) -> Any:
        """Call it."""
        return self._callback(*args)

    def __repr__(self) -> str:
        return repr(self._callback)


class _Patient(asyncio.Future[None]):
    """A future that can't be cancelled: anyio cancels a task in each round until it has ended."""

    def cancel(self, msg: Any = None) -> bool:  # noqa: ARG002 - as of its base
        """Return False: whoever awaits it is cancelled when it's done."""
        return False


class Room:
    """One event loop, as one session sees it.

    Args:
        loop: The loop.
        session: The session.
        turn: The turn of the session.
        owner: The participant in whose thread the loop runs.
        number: Its number among the loops of the session.
    """

    def __init__(self, loop: Any, session: Callable[[], Any], turn: Turn, owner: Participant, number: int) -> None:
        self.loop = loop
        self.session = session
        self.turn = turn
        self.owner = owner
        self.name = f"L{number}" if number > 1 else "L"
        self.timers: dict[Key, Any] = {}
        """The timers of the program that are not due yet."""
        self.dues: dict[Key, Callable[..., None]] = {}
        """Functions that offer them."""
        self.code: dict[int, None] = {}
        """The calls whose code runs here and may have effects, by identity: see `Selector`."""
        self.effects = Effects(self)
        """The effects of the calls whose code runs here."""
        self.rounds = 0
        """The number of rounds without a rest."""
        self._is_amid = False
        """True while answers come that came while the program continued."""
        self.generators = Generators(self)
        """The generators of the program."""
        self.virtual: VirtualTime | None = None
        """The time of the loop, where it passes only while the loop is idle."""
        self._asleep: list[Callable[[], object]] = []
        """Wake the threads that wait until a time has passed in the loop: see `virtual_sleep`."""

    def has_steps(self, *, of_calls: bool = True) -> bool:
        """Return whether the loop has steps of the session's program to make.

        The cancellation of a task is one, also of a task that waits in the code of a call which is executed: where the
        call is answered, it reaches the program right away.

        Args:
            of_calls: Whether those of calls count whose code a replay may run.
        """
        has_turn = self.turn.running is self.owner
        session, ready = self.session(), self.loop._ready  # noqa: SLF001 - no public name tells it
        for place in range(len(ready)):
            try:
                handle = ready[place]  # other threads add to it
            except IndexError:
                return True
            owner = self.owner_of(handle, session)
            if owner is PROGRAM or (of_calls and owner is not None and not is_outside_program(owner)):
                return True
            if has_turn and owner is not None and is_cancelled(handle._callback):  # noqa: SLF001
                return True
        return False

    def owner_of(self, handle: Any, session: object) -> Any:
        """Return the owner of a handle: `PROGRAM`, a call whose code it is, or `None` if it's not of the session.

        Args:
            handle: The handle.
            session: The session.
        """
        if handle._cancelled:  # noqa: SLF001 - the public name takes a call
            return None
        callback = handle._callback  # noqa: SLF001 - no public name tells it
        if type(callback) is Admitted:
            return PROGRAM if callback.room is self else None
        return PROGRAM if type(callback) is Closing else owner_of(handle, session)

    def looks(self) -> None:
        """Give up the turn, if there is nothing of the session to do; called before the selector blocks."""
        turn = self.turn
        if turn.is_over or not turn.is_on:
            return
        with turn.lock:  # or a step that another thread admits after the look would be one of a loop that rests
            has_steps = self.has_steps()
            if not has_steps:
                self.rests()
            elif turn.running is not self.owner:
                turn.barge(self.owner)
            elif (observed := turn.strategy.observed) is not None:
                self._is_amid = True
                turn.goes_on(self.owner, observed)
                self._is_amid = False
        if has_steps and turn.running is self.owner:
            self.rounds += 1
            if self.rounds > _ROUNDS and turn.ready:
                turn.stalled(self.owner.label)
                self.rests()
            elif turn.last_resorts:
                turn.end_overdue()

    def rests(self) -> None:
        """Let others have the turn."""
        self.rounds = 0
        with self.turn.lock:
            self.owner.rests = True
            self.turn.release(self.owner)

    # -- virtual time ------------------------------------------------------------------------------------------

    def works(self) -> bool:
        """Return whether other participants continue, which may put something into the loop."""
        turn = self.turn
        with turn.lock:  # or one that continues and one that rests may change places between two of these looks
            return not turn.is_settled() or any(one.state == SLEEPING for one in turn.live.values())

    def is_slept_in(self) -> bool:
        """Return whether threads wait until a time has passed in the loop."""
        return bool(self._asleep)

    def sleeps(self, seconds: float, wake: Callable[[], object]) -> None:
        """Wake a thread when a time has passed in the loop, or the session ends."""
        if self.turn.is_over:
            wake()
            return
        self._asleep.append(wake)
        with timers_of_ours():
            self.loop.call_later(seconds, self._wake, wake)

    def _wake(self, wake: Callable[[], object]) -> None:
        if wake in self._asleep:
            self._asleep.remove(wake)
            wake()

    def close(self) -> None:
        """Let the time pass as ever."""
        if self.virtual is not None:
            virtual, self.virtual = self.virtual, None
            call_in(self.loop, partial(virtual.let_go, self))
        for wake in self._asleep[:]:
            wake()

    # -- what arrives ------------------------------------------------------------------------------------------

    def offer(self, base: str, handle: Handle, done: Callable[[], object] = bool) -> Key:
        """Let a callback be called once it is admitted.

        Args:
            base: Its origin.
            handle: The callback, which may be cancelled meanwhile.
            done: Called when it is admitted.
        """

        def resume() -> bool:
            done()
            if handle._cancelled or self.loop.is_closed():  # noqa: SLF001
                return False
            if self._is_amid:
                handle._run()  # noqa: SLF001 - the program goes on with it in this round
            else:
                self.put(handle)
            return True

        return self.turn.offer(base, self.owner, resume, of_loop=True)

    def put(self, handle: Handle) -> None:
        """Let the loop call something next. Thread-safe."""
        self.loop._ready.append(handle)  # noqa: SLF001
        self.wake()

    def has_ready_file(self) -> None:
        """Note that a file or a socket is ready for which the program watches: no order is kept of that."""
        self.owner.threads.unordered.has_ready_file()

    def receives(self, handle: Handle) -> None:
        """Let the loop call what the caller's thread puts there, once that is admitted.

        If a step of the loop waits for the thread, it's called before what the step puts there later, as ever.
        """
        participant = HERE.participant
        assert participant is not None
        with self.turn.lock:
            if self.turn.running is participant and not self.owner.rests:
                self.put(handle)
                return
        self.offer(f"{participant.threads.poster(participant)}>{self.name}", handle)

    def post(self, function: Callable[[], object]) -> None:
        """Let the loop call something that is nothing of the program. Thread-safe."""
        self.put(Handle(function, (), self.loop, Context()))

    def wake(self) -> None:
        """Let the selector return, if it blocks."""
        if self.loop._thread_id != threading.get_ident():  # noqa: SLF001
            self.loop._write_to_self()  # noqa: SLF001

    def answered(self, base: str, future: asyncio.Future[None] | None = None) -> asyncio.Future[None]:
        """Return a future that is done once an arrival of a call is admitted."""
        future = future if future is not None else self.loop.create_future()

        def come() -> None:
            if not future.done():
                future.set_result(None)

        handle = Handle(Admitted(self, come), (), self.loop, Context())
        key = self.offer(base, handle)
        future.add_done_callback(lambda _: self.forget(key, handle), context=Context())
        return future

    async def ended(self, base: str) -> None:
        """Wait until the end of a call is admitted that was cancelled or left.

        After how many rounds of the loop its code ends depends on what it does, and on what a replay does in its place.
        """
        if not self.turn.is_over:
            with suppress(asyncio.CancelledError):  # what is raised after this is the first one
                await self.answered(f"{base}$", _Patient(loop=self.loop))

    def forget(self, key: Key, handle: Handle) -> None:
        """Withdraw an arrival whose call was cancelled."""
        handle.cancel()
        self.turn.take_back(key)

    def passes_to(self, key: Key) -> bool:
        """Let the clock pass to a timer, if that's the next arrival."""
        timer = self.timers.get(key)
        if timer is None or not self.owner.rests:
            return timer is not None
        if self.loop._thread_id == threading.get_ident():  # noqa: SLF001
            self._pass_to(timer)
        else:
            self.loop._ready.append(Handle(self._pass_to, (timer,), self.loop, Context()))  # noqa: SLF001
            self.wake()
        return True

    def seeks(self, key: Key) -> bool:
        """Let the end of a generator come, if that's the next arrival."""
        return self.generators.seek(key)

    def seeks_again(self, key: Key) -> bool:
        """Look once more for the generator whose end comes next; return false if it isn't one that is to be found."""
        return self.generators.seek_again(key)

    def _pass_to(self, timer: Any) -> None:
        if not timer.cancelled():
            LoopClock.of(self.loop).pass_to(timer.when())

    def live_timers(self) -> list[Key]:
        """Return the timers of the program that are not due."""
        return [key for key, timer in self.timers.items() if not timer.cancelled()] if self.owner.rests else []

    def passes_to_first(self) -> bool:
        """Let the clock pass to the timer that is due first; return false if there is none."""
        key = self.next_timer()
        return key is not None and self.owner.rests and self.passes_to(key)

    def next_timer(self) -> Key | None:
        """Return the timer that is due first."""
        live = {key: timer.when() for key, timer in self.timers.items() if not timer.cancelled()}
        return min(live, key=live.__getitem__, default=None)

    # -- timers ------------------------------------------------------------------------------------------------

    def sets_timer(
        self, real: Callable[..., Any], when: float, callback: Callable[..., Any], args: Any, context: Any
    ) -> Any:
        """Set a timer of the program: when it's due, it's offered."""
        inside = enclosing(self.session())
        base = f"{inside}|{self.name}~" if inside else f"{self.name}~"
        handle = Handle(Admitted(self, callback), args, self.loop, context if context is not None else copy_context())
        with self.turn.lock:
            key = self.turn.key(base)
            came = self.turn.count
            self.turn.strategy.is_set(key, when - self.loop.time())

        timer: Any = None

        def due(*, is_early: bool = False) -> None:
            nonlocal timer
            self.timers.pop(key, None)
            self.dues.pop(key, None)
            if self.turn.is_over:
                timer = None
                handle._run()  # noqa: SLF001
                return

            def resume() -> bool:
                nonlocal timer
                # It has this function: each would keep the other, and the context of the callback.
                ended, timer = timer, None
                if ended is None or (ended.cancelled() and not is_early) or self.loop.is_closed():
                    return False
                # Something came while it was set, or may yet: each might have been first.
                if self.turn.count > came or self.next_timer() is not None:
                    self.turn.is_needed = True
                self.put(handle)
                return True

            self.turn.offer_as(key, self.owner, resume)

        timer = real(self.loop, when, due, context=Context())
        self.timers[key] = timer
        if not is_seen(self.loop):  # a timer of Python's own lets go of what it calls when it's cancelled
            self.dues[key] = due
        if len(self.timers) > 256:  # noqa: PLR2004 - now and then
            self.timers = {key: timer for key, timer in self.timers.items() if not timer.cancelled()}
            self.dues = {key: due for key, due in self.dues.items() if key in self.timers}
        return timer


class Effects:
    """The effects of the calls whose code runs in a loop.

    Args:
        room: The loop.
    """

    def __init__(self, room: Room) -> None:
        self._room = room
        self._last: tuple[str, Any] | None = None
        """The call that has had an effect in this step of the loop, and the task that makes the step."""

    def came(self, base: str) -> None:
        """Note that a call has just had an effect. Thread-safe.

        Another one in the same step has no separate place: a replay does both in one step. One that comes while the
        program has steps to make comes after these in a replay, which says so.

        Args:
            base: The address of the call.
        """
        room, turn = self._room, self._room.turn
        is_here = asyncio._get_running_loop() is room.loop  # noqa: SLF001 - as above
        task = asyncio.current_task() if is_here else None
        if task is not None and self._last == (base, task):
            turn.passes(f"{base}^")
            return
        # What runs in a thread that takes no turns may have it while the loop has the turn.
        is_busy = room.has_steps(of_calls=False) if is_here else turn.running is room.owner and not room.owner.rests
        if turn.log is not None and is_busy:
            room.owner.threads.unordered.effect_came()
        turn.passes(base)
        if task is not None:
            self._last = base, task
            room.loop.call_soon(self._ends_step, context=Context())

    def _ends_step(self) -> None:
        """End the step of an effect: the order says something if anything can look at it before the call's answer."""
        turn = self._room.turn
        turn.is_needed = turn.is_needed or self._last is not None or self._room.has_steps(of_calls=False)
        self._last = None

    def end(self, base: str) -> None:
        """Note that the code of a call has ended."""
        if self._last is not None and self._last[0] == base:
            self._last = None


def call_in(loop: Any, function: Callable[[], None]) -> None:
    """Call a function in the thread of a loop: now, if the caller is in it."""
    is_here = asyncio._get_running_loop() is loop or not loop.is_running()  # noqa: SLF001 - the public one raises
    if is_here or loop.is_closed():
        function()
    else:
        with suppress(RuntimeError):  # it has just been closed
            loop.call_soon_threadsafe(function)


def is_cancelled(callback: Any) -> bool:
    """Return whether a callback is the next step of a task that is being cancelled."""
    task = getattr(callback, "__self__", None)
    return isinstance(task, asyncio.Task) and task.cancelling() > 0


def _is_code(owner: Any, room: Room) -> bool:
    """Return whether a step is one of the code of a call that runs in a loop, or of a part of the call."""
    return owner is not None and owner is not PROGRAM and id(owner.whole or owner) in room.code


class Rooms:
    """The event loops of one session. Thread-safe.

    Args:
        turn: The turn of the session.
        participants: Its threads.
        session: Returns the session.
    """

    def __init__(self, turn: Turn, participants: Threads, session: Callable[[], Any]) -> None:
        self._turn = turn
        self._threads = participants
        self._session = session
        self.is_virtual = False
        """True if time passes only in idle loops."""
        self.is_chosen = False
        """True if the order of calls is chosen."""
        self._rooms: WeakKeyDictionary[Any, Room] = WeakKeyDictionary()
        self._made = 0
        self._older = 0

    def room(self, loop: Any = None) -> Room | None:
        """Return the room of a loop, by default of the one that runs here; `None` if it can't be followed."""
        if loop is None:
            loop = asyncio._get_running_loop()  # noqa: SLF001 - the public one raises, which is slow
        if loop is None or not self._threads.is_on:
            return None
        if self.is_virtual and not is_seen(loop):
            of = f"{type(loop).__module__}.{type(loop).__qualname__}"
            problem = (
                f"the order of calls cannot be chosen in {of}"
                if self.is_chosen
                else f"pace='virtual': the time of {of} cannot be held"
            )
            raise ConfigurationError(
                f"{problem}\n  it takes an event loop of Python's own: run the program with asyncio.run, without uvloop"
            )
        if not (is_seen(loop) or type(loop) in UNSEEN):
            self._threads.unordered.has_unknown_loop = True
            is_unknown(f"event loop ({type(loop).__module__}.{type(loop).__qualname__})", "its tasks have no order")
            return None
        found = self._rooms.get(loop)
        if found is None:
            with self._turn.lock:
                found = self._rooms.get(loop) or self._new(loop)
        return found

    def _new(self, loop: Any) -> Room:
        self._threads.begins_to_share()
        thread = getattr(loop, "_thread_id", None)
        if thread is None:  # if it does not run yet, it will here
            is_elsewhere = loop.is_running() and asyncio._get_running_loop() is not loop  # noqa: SLF001 - as above
            thread = 0 if is_elsewhere else threading.get_ident()
        owner = next((one for one in self._turn.live.values() if thread and one.thread == thread), None)
        if owner is None:
            self._older += 1
            owner = self._threads.for_loop(f"O{self._older}", thread)
        self._made += 1
        kind = Room if is_seen(loop) else UNSEEN[type(loop)]
        room = self._rooms[loop] = kind(loop, self._session, self._turn, owner, self._made)
        self._turn.clocks.append(room)
        if is_seen(loop):
            hook(loop).rooms.append(room)
            if self.is_virtual:
                room.virtual = hook(loop).held_by(room)
        if owner.rests and thread == threading.get_ident():
            self._turn.barge(owner)
        return room

    @property
    def is_kept(self) -> bool:
        """True if the order of executed calls is recorded."""
        return self._turn.log is not None

    def close(self) -> None:
        """Let loops block as ever."""
        for loop, room in list(self._rooms.items()):
            room.close()
            selector = getattr(loop, "_selector", None)
            if isinstance(selector, Selector):
                selector.leave(room)


def is_seen(loop: Any) -> bool:
    """Return whether the callbacks of a loop can be looked at, as those of Python's own."""
    return hasattr(loop, "_selector") and hasattr(loop, "_ready")


UNSEEN: dict[type, type[Room]] = {}
"""The classes of loops whose callbacks can't, and are counted instead: see `unseen_loops`."""


def hook(loop: Any) -> Selector:
    """Return the selector that replaces a loop's own."""
    with _lock:
        selector = loop._selector  # noqa: SLF001
        if not isinstance(selector, Selector):
            selector = loop._selector = Selector(loop, selector)  # noqa: SLF001
        return selector


_lock = Lock()


class Selector:
    """The selector of a loop, which tells the rooms before it blocks.

    It also lets the code of calls wait while the program has steps to make: an effect of a call then comes while the
    program rests, as in a replay, which answers the call and has none of its code. One step of such code runs in each
    round of the loop, as the program may have something to do after it.

    Args:
        loop: The loop.
        real: Its own selector.
    """

    def __init__(self, loop: Any, real: Any) -> None:
        self._loop = loop
        self._real = real
        self.rooms: list[Room] = []
        self._time: VirtualTime | None = None
        self._deferred: deque[Any] = deque()
        """The steps of the code of calls that wait until the program rests."""
        self._rounds = 0
        """The number of rounds since one of them ran."""

    def held_by(self, room: Room) -> VirtualTime:
        """Let a room hold the time of the loop, and return that."""
        if self._time is None:
            self._time = VirtualTime(self._loop, self._real)
        self._time.hold(room)
        return self._time

    def select(self, timeout: float | None = None) -> Any:
        """Return the ready events."""
        loop, rooms = self._loop, tuple(self.rooms)
        if self._deferred or any([room.code for room in rooms]):  # noqa: C419 - a generator is a call more in each round
            self._defer_code(rooms)
        for room in rooms:
            turn, here = room.turn, HERE.participant
            if not turn.is_over and (here is None or here.threads.has_ended):  # of an earlier session
                room.owner.thread, HERE.participant = threading.get_ident(), room.owner
            # A loop that is the only participant keeps the turn while it continues anyway: nothing waits for it.
            is_alone = turn.running is room.owner and len(turn.live) == 1
            is_needed = turn.ready or turn.outside or turn.last_resorts or turn.strategy.is_led
            if is_alone and not is_needed and loop._ready:  # noqa: SLF001
                room.rounds += 1
            elif not loop._stopping:  # noqa: SLF001 - its thread continues after this round, and keeps the turn
                room.looks()
                # It may never block, as while a scope of anyio cancels in each round.
                if room.owner.rests and turn.ready:
                    turn.look()
        time = self._time
        if loop._ready or loop._stopping or (timeout is not None and timeout <= 0):  # noqa: SLF001
            return time.select(0, ()) if time is not None and time.is_held else self._real.select(0)
        return self._blocking(timeout, rooms)

    def _blocking(self, timeout: float | None, rooms: Sequence[Room]) -> Any:
        """Return the ready events once there are any: the program rests."""
        loop, time = self._loop, self._time
        if loop._scheduled:  # noqa: SLF001 - a clock may have passed to a timer
            left = loop._scheduled[0].when() - loop.time()  # noqa: SLF001
            timeout = max(0.0, left) if timeout is None else min(timeout, max(0.0, left))
        pauses = [pause for room in rooms if not room.turn.is_over and (pause := room.turn.pause()) is not None]
        if time is not None and time.is_held:
            found = time.select(timeout, pauses)
        else:
            found = self._real.select(min([*pauses, *([timeout] if timeout is not None else [])], default=None))
        if pauses and not found:
            for room in rooms:
                room.turn.look()
        return found

    def _defer_code(self, rooms: Sequence[Room]) -> None:
        """Take the steps of the code of calls from those that are ready, and put one back if the program rests."""
        ready, deferred = self._loop._ready, self._deferred  # noqa: SLF001 - no public name tells it
        live = [(room, room.session()) for room in rooms if room.code and not room.turn.is_over]
        if not live or self._loop._stopping:  # noqa: SLF001 - what is ready runs in its last round
            while deferred:
                ready.append(deferred.popleft())
            return
        has_steps = False
        for _ in range(len(ready)):
            handle = ready.popleft()
            owners = [(room, room.owner_of(handle, session)) for room, session in live]
            if any(_is_code(owner, room) for room, owner in owners):
                deferred.append(handle)
                continue
            ready.append(handle)
            has_steps = has_steps or any(owner is PROGRAM for _, owner in owners)
        self._rounds += 1
        if deferred and (not has_steps or self._rounds > _PATIENCE):
            ready.append(deferred.popleft())
            self._rounds = 0

    def leave(self, room: Room) -> None:
        """Forget a room; without any, the loop has its own selector again."""
        with _lock:
            while self._deferred:
                self._loop._ready.append(self._deferred.popleft())  # noqa: SLF001
            if room in self.rooms:
                self.rooms.remove(room)
            if not self.rooms and self._loop._selector is self:  # noqa: SLF001
                self._loop._selector = self._real  # noqa: SLF001

    def __getattr__(self, name: str) -> Any:
        return getattr(self._real, name)
