"""Patch the methods by which event loops get what's offered, while sessions are open: asyncio's, and uvloop's.

*Timeouts that are over before they begin* are timers all the same: `asyncio.timeout` sets no timer where its moment has
passed when its block is entered, but cancels the block in the next round of the loop. A program that a busy machine
holds up for as long as the timeout takes would take another path then, and no order shows it. So do scopes of anyio.

A timer comes when the
program has nothing else to do, and in a replay when it came in the recording.

*Loops whose callbacks can't be looked at*, as uvloop's: the program's callbacks are counted as it gives them. Such a
loop has no selector that could be asked when it blocks. It's idle when the last callback of the program that was ready
has run. Its clock can't be put forward; so a timer that comes next in a replay is offered before it's due.
"""

from __future__ import annotations

import asyncio
import gc
import math
import sys
import threading
from asyncio import Handle, timeouts
from asyncio.selector_events import BaseSelectorEventLoop
from collections.abc import Awaitable, Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from contextvars import Context, copy_context
from functools import wraps
from importlib.metadata import version
from time import monotonic
from types import FrameType, SimpleNamespace
from typing import Any
from weakref import WeakKeyDictionary

from agenttape_core.errors import AgentTapeHalt
from agenttape_core.freeze import gc_state
from agenttape_core.freeze.backoff import OrderedSleeps, register_ordered_sleeps
from agenttape_core.guard.imports import ImportFinder
from agenttape_core.locks import Lock
from agenttape_core.scheduling import generators, task_sets
from agenttape_core.scheduling.clock import LoopClock, pass_to_end
from agenttape_core.scheduling.executing import (
    EXECUTING,
    is_in_finalizer,
    is_left_out,
    is_outside_program,
    runs_outside_program,
)
from agenttape_core.scheduling.handles import PROGRAM, are_timers_ours, in_session, join_session, owner_of
from agenttape_core.scheduling.lazy_streams import UNREAD
from agenttape_core.scheduling.loops import UNSEEN, Admitted, Room, Rooms, is_cancelled, is_seen
from agenttape_core.scheduling.participants import HERE, Key, starting
from agenttape_core.scheduling.python_parts import is_unknown
from agenttape_core.scheduling.scopes import SCOPES
from agenttape_core.scheduling.task_sets import number
from agenttape_core.scheduling.thread_starts import awaited_by_loop, current_work
from agenttape_core.scheduling.unordered import watched

_Timeout: Any = timeouts.Timeout
_real_init = _Timeout.__init__
_real_reschedule = _Timeout.reschedule
_IS_TO_COME = "_agenttape_is_to_come"


def _init(self: Any, when: float | None) -> None:
    _real_init(self, when)
    loop = asyncio._get_running_loop()  # noqa: SLF001 - the public one raises, which is slow
    if when is not None and loop is not None and _is_to_come(when, loop):
        vars(self)[_IS_TO_COME] = True


_MAKERS = {"asyncio.timeouts", "contextlib", "anyio._core._tasks", "anyio._backends._asyncio"}
"""The modules between the program and the making of a timeout."""


def _is_to_come(when: float, loop: Any) -> bool:
    """Return whether the moment of a timeout that is being made has still to come, for a machine that is not busy.

    Most functions give the moment only. The machine may be held up for longer between it and the look at the clock.
    """
    frame: FrameType | None = sys._getframe(2)  # noqa: SLF001 - the caller's
    while frame is not None and frame.f_globals.get("__name__") in _MAKERS:
        if frame.f_code.co_name in {"timeout", "move_on_after", "fail_after"}:
            return bool(frame.f_locals["delay"] > 0)
        frame = frame.f_back
    return bool(when > loop.time())


def _reschedule(self: Any, when: float | None) -> None:
    is_to_come = vars(self).pop(_IS_TO_COME, False)
    loop = asyncio._get_running_loop()  # noqa: SLF001 - as above
    if not is_to_come or when is not self._when or loop is None or when is None:
        _real_reschedule(self, when)
        return
    _real_reschedule(self, None)
    self._when = when
    self._timeout_handler = _timer(loop, when, self._on_timeout)


def _timer(loop: Any, when: float, callback: Callable[[], object]) -> Any:
    """Set the timer of a timeout. One that is over as its block begins comes before anything in the block."""
    room = room_here(loop) if when <= loop.time() else None
    return loop.call_at(when, callback) if room is None else room.sets_timer(_next, when, callback, (), None)


def _next(loop: Any, when: float, due: Callable[[], None], context: Context) -> Any:
    if not is_seen(loop):  # its timers take a moment, and its handles have none
        handle = _real(loop).call_soon(loop, due, context=context)
        return SimpleNamespace(when=lambda: when, cancel=handle.cancel, cancelled=handle.cancelled)
    timer = asyncio.TimerHandle(when, due, (), loop, context)
    loop._ready.append(timer)  # noqa: SLF001 - no public name takes it
    return timer


_TIMEOUTS: tuple[tuple[type, str, Any, Any], ...] = (
    (_Timeout, "__init__", _real_init, _init),
    (_Timeout, "reschedule", _real_reschedule, _reschedule),
)
"""The methods, with what takes their place while sessions are open."""


_TO_COME: WeakKeyDictionary[Any, float] = WeakKeyDictionary()
"""The deadlines of anyio's scopes that had still to come when they were set, as far as the scopes aren't entered."""


def _with_deadline(real: Callable[..., None]) -> Callable[..., None]:
    """Wrap a method by which a scope of anyio gets its deadline."""

    def sets(self: Any, *args: Any, **kwargs: Any) -> None:
        real(self, *args, **kwargs)
        loop = asyncio._get_running_loop()  # noqa: SLF001 - as above
        if loop is not None and self._deadline < math.inf and _is_to_come(self._deadline, loop):
            _TO_COME[self] = self._deadline

    return sets


def _timing_out(real: Callable[..., None]) -> Callable[..., None]:
    """Wrap the method of a scope of anyio that sets its timer, and that the timer calls."""

    def _timeout(self: Any) -> None:
        loop = asyncio.get_running_loop()
        is_to_come = _TO_COME.pop(self, None) == self._deadline
        if self._timeout_handle is not None:  # it's due, in a replay maybe before its moment
            self._deadline = min(self._deadline, loop.time())
        elif is_to_come and room_here(loop) is not None:
            self._timeout_handle = _timer(loop, self._deadline, self._timeout)
            return
        real(self)

    return _timeout


def _follow_anyio() -> None:
    """Follow the scopes of anyio, as `_follow_uvloop` does its loops."""
    scope = getattr(sys.modules.get(_ANYIO), "CancelScope", None)
    timer: Any = getattr(scope, "_timeout", None)  # no public name sets it
    if scope is None or hasattr(timer, "__wrapped__"):
        return
    if not {"_deadline", "_timeout_handle"} <= set(getattr(getattr(timer, "__code__", None), "co_names", ())):
        is_unknown("timer in its scopes", "timeouts that a busy machine holds up", of=f"anyio {version('anyio')}")
        return
    deadline = scope.deadline
    scope.__init__ = wraps(scope.__init__)(_with_deadline(scope.__init__))
    scope.deadline = property(deadline.fget, _with_deadline(deadline.fset), doc=deadline.__doc__)
    scope._timeout = wraps(timer)(_timing_out(timer))  # noqa: SLF001 - as above


def _spare_portals() -> None:
    """Let a portal of anyio outlive a miss: its caller gets that, and others, such as later tests, need the portal."""
    portal = getattr(sys.modules.get(_PORTALS), "BlockingPortal", None)
    real = getattr(portal, "_call_func", None)  # no public name runs what is called
    if portal is None or real is None or hasattr(real, "__wrapped__"):
        return

    @wraps(real)
    async def call_func(*args: Any) -> None:
        try:
            await real(*args)
        except BaseException as error:
            _, others = BaseExceptionGroup("", [error]).split(AgentTapeHalt)
            if not (isinstance(others, Exception | None) and args[-1].done()):
                raise

    portal._call_func = call_func  # noqa: SLF001 - as above


_ANYIO, _PORTALS = "anyio._backends._asyncio", "anyio.from_thread"


class _Step:
    """A callback of the program that is ready.

    Args:
        room: The loop, as its session sees it.
        callback: The callback.
    """

    __slots__ = ("_callback", "_room", "handle")

    def __init__(self, room: UnseenRoom, callback: Callable[..., Any]) -> None:
        self._room = room
        self._callback = callback
        self.handle: Any = None
        """The handle that the loop has returned for it."""

    def __call__(self, *args: Any) -> Any:
        """Call it, and let others have the turn if nothing else is ready."""
        self._room.steps.pop(self, None)
        self._room.note_thread()
        try:
            return self._callback(*args)
        finally:
            self._room.looks()


class UnseenRoom(Room):
    """Such a loop, as one session sees it; see `Room`."""

    def __init__(self, *args: Any) -> None:
        super().__init__(*args)
        self.steps: dict[_Step, None] = {}
        """The callbacks of the program that are ready."""
        self._looks_later = False

    def has_steps(self, *, of_calls: bool = True) -> bool:  # noqa: ARG002
        """Return whether any of them has still to be called; those of calls can't be told apart."""
        for step in list(self.steps):
            if step.handle is None or not step.handle.cancelled():
                return True
            del self.steps[step]
        return False

    def note_thread(self) -> None:
        """Note that the loop runs in this thread; the one that gave it its first step may have been taken for it."""
        thread, threads, here = threading.get_ident(), self.owner.threads, HERE.participant
        if here is not None and here.threads is threads:
            self.owner = here
            return
        if self.owner.thread not in {0, thread}:
            self.owner = threads.for_loop(f"O{self.name}", thread)
        self.owner.thread = thread
        if not self.turn.is_over and (here is None or here.threads.has_ended):
            HERE.participant = self.owner

    def is_step(self, callback: Any, context: Context) -> bool:
        """Return whether a callback is a step of the session's program."""
        owner = owner_of(SimpleNamespace(_callback=callback, _context=context, _loop=self.loop), self.session())
        if owner is None or owner is PROGRAM or not is_outside_program(owner):
            return owner is not None
        return self.turn.running is self.owner and is_cancelled(callback)

    def gives(self, real: Callable[..., Any], callback: Callable[..., Any], args: Any, context: Context | None) -> Any:
        """Give a step to the loop, by its real method."""
        step = _Step(self, callback)
        self.steps[step] = None
        step.handle = real(self.loop, step, *args, context=context)
        return step.handle

    def put(self, handle: Handle) -> None:
        """See `Room`."""
        step = _Step(self, handle._run)  # noqa: SLF001 - it has the context in which the callback is called
        self.steps[step] = None
        step.handle = _real(self.loop).call_soon_threadsafe(self.loop, step, context=Context())

    def rests(self) -> None:
        """Let others have the turn, and look after it as long as something is expected."""
        super().rests()
        if self.owner.rests and not self._looks_later and (pause := self.turn.pause()) is not None:
            self._looks_later = True
            _real(self.loop).call_later(self.loop, pause, self._look, context=Context())

    def _look(self) -> None:
        self._looks_later = False
        if not self.turn.is_over and self.owner.rests:
            self.turn.look()
            if self.owner.rests:
                self.rests()

    def passes_to(self, key: Key) -> bool:
        """Offer a timer before it's due, if that's the next arrival."""
        timer = self.timers.get(key)
        if timer is None or not self.owner.rests:
            return timer is not None
        if not timer.cancelled():
            due = self.dues[key]
            timer.cancel()
            due(is_early=True)
        return True


def _real(loop: Any) -> Any:
    """Return the class of a loop that is written in C: that in Python, on it, has our methods."""
    return type(loop).__mro__[1]


def counting(real: Callable[..., Any]) -> Callable[..., Any]:
    """Wrap the method by which such a loop gets its next callbacks."""

    def call_soon(self: Any, callback: Callable[..., Any], *args: Any, context: Any = None) -> Any:
        held = context if context is not None else copy_context()
        membership = SCOPES.of_program(held)
        session = membership.innermost() if membership is not None else None
        rooms: Any = session.scheduler.loops if session is not None else None
        room = rooms.room(self) if hasattr(rooms, "room") else None
        if not isinstance(room, UnseenRoom) or not room.is_step(callback, held):
            return real(self, callback, *args, context=context)
        return room.gives(real, callback, args, context)

    return call_soon


_Loop: Any = asyncio.BaseEventLoop
_VARIABLE = SCOPES.variable
"""Asked first: a loop takes a dozen callbacks for each call, and the contexts of nearly all hold it."""


def room_here(loop: Any, *, is_needed: bool = True) -> Room | None:
    """Return a loop as the session sees it whose program runs here; `None` outside of the programs of sessions.

    Args:
        loop: The loop.
        is_needed: Whether something arrives there; else it's only followed beside other participants.
    """
    membership = SCOPES.of_program()
    session = membership.innermost() if membership is not None else None
    if session is None or runs_outside_program():
        return None
    rooms: Any = session.scheduler.loops
    if not isinstance(rooms, Rooms) or not (is_needed or rooms.is_virtual or session.scheduler.turn.is_on):
        return None
    return rooms.room(loop)


def _is_timer_led() -> bool:
    """Return whether a sleep here has its place in a recorded order: then it sets its timer."""
    room = room_here(asyncio.get_running_loop())
    return room is not None and room.turn.strategy.is_led


def _passing(seconds: float) -> Awaitable[None] | None:
    """Return what passes the time of a sleep that is skipped in a replay without an order, as its timer comes."""
    loop = asyncio.get_running_loop()
    room = room_here(loop)
    if room is None or room.turn.strategy.is_led or room.turn.log is not None:
        return None
    return pass_to_end(loop, seconds, room.works)


@contextmanager
def _holding_up(seconds: float) -> Iterator[None]:
    """Let the clock of the loop that runs come to the end of a sleep inside, which a replay may skip.

    Code compares that clock with its deadlines: LangGraph asks it how much of a step's timeout is left. With `pace`,
    calls move the clock.
    """
    loop: Any = asyncio._get_running_loop()  # noqa: SLF001 - public in `asyncio.events`, and it raises nothing
    room = room_here(loop) if isinstance(loop, _Loop) else None
    end = loop.time() + seconds if room is not None and room.session().scheduler.passes_time else None
    yield
    if end is not None and loop.time() < end:
        LoopClock.of(loop).pass_to(end)


register_ordered_sleeps(OrderedSleeps(_is_timer_led, _passing, _holding_up))


def _at(real: Callable[..., Any]) -> Callable[..., Any]:
    def call_at(self: Any, when: float, callback: Any, *args: Any, context: Any = None) -> Any:
        room = room_here(self) if not are_timers_ours() else None
        callback = callback if context is None else in_session(callback, context)
        if room is None:
            return real(self, when, callback, *args, context=context)
        return room.sets_timer(real, when, callback, args, context)

    return call_at


_UVLOOP_LEAST = 0.001
"""Seconds: uvloop calls a shorter timer in its next round, and notes no moment for it."""


def _later(real: Callable[..., Any]) -> Callable[..., Any]:
    """Wrap the method to which all timers of uvloop come down, even by `call_at`."""

    def call_later(self: Any, delay: float, callback: Any, *args: Any, context: Any = None) -> Any:
        room = room_here(self) if not are_timers_ours() else None
        callback = callback if context is None else in_session(callback, context)
        if room is None:
            return real(self, delay, callback, *args, context=context)

        def later(loop: Any, when: float, due: Any, context: Any) -> Any:
            return real(loop, max(_UVLOOP_LEAST, when - loop.time()), due, context=context)

        return room.sets_timer(later, self.time() + delay, callback, args, context)

    return call_later


def _post(real: Callable[..., Any]) -> Callable[..., Any]:
    def call_soon_threadsafe(self: Any, callback: Any, *args: Any, context: Any = None) -> Any:
        callback = callback if context is None else in_session(callback, context)
        room = _room_of_post(self) if not is_left_out(callback, args) else None
        if room is None:
            return real(self, callback, *args, context=context)
        handle = Handle(Admitted(room, callback), args, self, context if context is not None else copy_context())
        room.receives(handle)
        return handle

    return call_soon_threadsafe


def _room_of_post(loop: Any) -> Room | None:
    """Return a loop into which the caller's thread puts something; `None` if that isn't offered."""
    participant, work = HERE.participant, current_work()
    if participant is None or asyncio._get_running_loop() is loop or loop.is_closed():  # noqa: SLF001 - the public one raises
        return None
    if getattr(loop, "_thread_id", 0) is None:  # it does not run
        return None
    if participant.is_out or participant.is_left_out or (work is not None and work.is_inside):
        return None
    return participant.threads.rooms.room(loop) if not participant.threads.has_ended else None


def _soon(real: Callable[..., Any]) -> Callable[..., Any]:
    def call_soon(self: Any, callback: Callable[..., Any], *args: Any, context: Any = None) -> Any:
        if context is not None and context.get(_VARIABLE) is None and SCOPES.of_program(context) is None:
            callback = in_session(callback, context)
        return real(self, callback, *args, context=context)

    return call_soon


def _in_executor(real: Callable[..., Any]) -> Callable[..., Any]:
    def run_in_executor(self: Any, executor: Any, func: Any, *args: Any) -> Any:
        room = room_here(self)
        if room is None:
            return real(self, executor, func, *args)
        if executor is None and EXECUTING.get() is None:
            vars(self)[_USES_EXECUTOR] = True
        with awaited_by_loop(room):
            return number(real(self, executor, func, *args))

    return run_in_executor


_USES_EXECUTOR = "_agenttape_uses_executor"
"""The attribute of loops whose program uses the default executor; elsewhere, at most code of calls does."""
_ENDS = 1.0
"""Seconds for which a loop waits with its turn for the threads of its executor; they are idle, but for left calls."""


def _executor_of(loop: Any) -> Any:
    """Return the default executor of a loop; `None` if it has none. uvloop has no name for it."""
    if is_seen(loop):
        return loop._default_executor  # noqa: SLF001 - no public name tells it
    others = [*map(id, vars(loop).values())]  # pools that the program has put there
    pools = (each for each in gc.get_referents(loop) if isinstance(each, ThreadPoolExecutor))
    return next((each for each in pools if id(each) not in others), None)


def _forget_executor(loop: Any) -> None:
    if is_seen(loop):
        loop._default_executor = None  # noqa: SLF001 - its method takes executors alone
    else:
        loop.set_default_executor(None)


def _ending_executor(real: Callable[..., Any]) -> Callable[..., Any]:
    """Keep the end of an executor that only code of calls has used out of the order: a replay has neither."""

    async def shutdown_default_executor(self: Any, *args: Any, **kwargs: Any) -> None:
        pool = _executor_of(self)
        if pool is not None and _USES_EXECUTOR not in vars(self) and room_here(self) is not None:
            with starting():
                pool.shutdown(wait=False)
                until = monotonic() + _ENDS
                for thread in list(pool._threads):  # noqa: SLF001 - its own way to wait has no limit
                    thread.join(max(0.0, until - monotonic()))
            if not any(thread.is_alive() for thread in pool._threads):  # noqa: SLF001 - as above
                _forget_executor(self)  # then nothing is left to wait for
        await real(self, *args, **kwargs)

    return shutdown_default_executor


def _running(real: Callable[..., Any]) -> Callable[..., Any]:
    """Let a loop that begins to run beside others be one that rests: it may have no work yet."""

    def run_forever(self: Any) -> None:
        room, here = room_here(self, is_needed=False), HERE.participant
        if room is not None and here is not None and here.threads is room.owner.threads:
            room.owner = here  # it may have run in another thread before
        real(self)

    return run_forever


def _running_unseen(real: Callable[..., Any]) -> Callable[..., Any]:
    """Let such a loop rest until it has work, and note its thread, which ends with the turn, as Python's own do."""

    def run_forever(self: Any) -> None:
        before = vars(self).get("_thread_id")
        vars(self)["_thread_id"] = threading.get_ident()
        room = room_here(self, is_needed=False)
        if room is not None:
            room.looks()
        try:
            real(self)
        finally:
            vars(self)["_thread_id"] = before
            if room is not None and room.owner is HERE.participant and room.owner.rests and not room.turn.is_over:
                room.owner.rests = False  # its thread continues, as that of a loop of Python's own does
                room.owner.threads.take_turn(room.owner)

    return run_forever


def _creating(real: Callable[..., Any]) -> Callable[..., Any]:
    def create_task(self: Any, *args: Any, **kwargs: Any) -> Any:
        if is_in_finalizer():  # a client that closes its connections makes no step of the program
            return number(real(self, *args, **{**kwargs, "context": Context()}))
        if SCOPES.of_program() is not None:
            room_here(self, is_needed=type(self) in UNSEEN)
        if UNREAD:
            kwargs["context"] = context = kwargs.get("context") or copy_context()
            SCOPES.hand_on(context)
        given = kwargs.get("context")
        take_back = join_session(given) if given is not None else None
        task = number(real(self, *args, **kwargs))
        if take_back is not None:
            task.add_done_callback(take_back, context=Context())
        return task

    return create_task


def _begins(real: Callable[..., Any]) -> Callable[..., Any]:
    def firstiter(self: Any, generator: Any) -> None:
        is_read_by_ours = generators.is_ours(sys._getframe(1))  # noqa: SLF001 - the reader's
        if not (is_read_by_ours and self._asyncgens_shutdown_called):  # or it would warn of it
            real(self, generator)
        room = room_here(self) if EXECUTING.get() is None else None
        generators.begins(self, generator, room.generators if room is not None else None, is_read_by_ours)

    return firstiter


def _found(real: Callable[..., Any]) -> Callable[..., Any]:
    def finalizer(self: Any, generator: Any) -> None:
        one = generators.found(self, generator)
        if one is not None and not one.number and gc_state.is_collecting():
            return  # whoever reads it has been found, too, and closes it
        if one is None or not one.number or not one.line.keeps(one):
            real(self, generator)

    return finalizer


def _shutting_down(real: Callable[..., Any]) -> Callable[..., Any]:
    """Close what ours read after the rest, one by one: most of ours close it, and two can't close it at a time."""

    async def shutdown_asyncgens(self: Any) -> None:
        selector = getattr(self, "_selector", None)
        left = [one for room in getattr(selector, "rooms", ()) for one in room.generators.take_all()]
        self._asyncgens = generators.InOrder(self, {*self._asyncgens, *left})
        read = [one for one in self._asyncgens if generators.is_read_by_ours(self, one)]
        self._asyncgens.difference_update(read)
        await real(self)
        if read:
            await asyncio.sleep(0)  # tasks that close what reads them begin
        for one in read:
            if not one.ag_running:
                self._asyncgens = generators.InOrder(self, [one])
                await real(self)

    return shutdown_asyncgens


def _watching(real: Callable[..., Any]) -> Callable[..., Any]:
    def add(self: Any, fd: Any, callback: Callable[..., Any], *args: Any) -> Any:
        return real(self, fd, _Watcher(self, callback), *args)

    return add


class _Watcher:
    """A function that a loop calls when a file or a socket is ready: nothing keeps an order of that.

    Args:
        loop: The loop.
        function: The function.
    """

    __slots__ = ("_function", "_loop")

    def __init__(self, loop: Any, function: Callable[..., Any]) -> None:
        self._loop = loop
        self._function = function

    def __call__(self, *args: Any) -> Any:
        room = room_here(self._loop)
        if room is not None:
            room.has_ready_file()
        return self._function(*args)


def _signalled(real: Callable[..., Any]) -> Callable[..., Any]:
    def add_signal_handler(self: Any, sig: int, callback: Callable[..., Any], *args: Any) -> Any:
        return real(self, sig, watched(callback), *args)

    return add_signal_handler


_OF_FILES = {"add_reader": _watching, "add_writer": _watching, "add_signal_handler": _signalled}
"""Methods of loops with selectors, in each class that defines them."""
_OWN: dict[str, Callable[[Any], Any]] = {
    "_asyncgen_firstiter_hook": _begins,
    "_asyncgen_finalizer_hook": _found,
    "shutdown_asyncgens": _shutting_down,
    "shutdown_default_executor": _ending_executor,
}
"""Methods that only Python's own loops have."""
_WRAPPED: dict[str, Callable[[Any], Any]] = {
    "call_at": _at,
    "call_soon_threadsafe": _post,
    "call_soon": _soon,
    "run_in_executor": _in_executor,
    "create_task": _creating,
    "run_forever": _running,
}
_SEAMS: tuple[tuple[type, str, Any, Any], ...] = (
    *((_Loop, name, vars(_Loop)[name], wrap(vars(_Loop)[name])) for name, wrap in {**_WRAPPED, **_OWN}.items()),
    *(
        (owner, name, vars(owner)[name], wrap(vars(owner)[name]))
        for owner in (BaseSelectorEventLoop, asyncio.SelectorEventLoop)
        for name, wrap in _OF_FILES.items()
        if name in vars(owner)
    ),
    *_TIMEOUTS,
)


def _follow_uvloop() -> None:
    """Follow the loops of uvloop, once it's imported; until the process ends, as what it does costs hardly anything."""
    module: Any = sys.modules.get("uvloop")
    loop = getattr(module, "Loop", None)
    if loop is None or loop in UNSEEN:
        return
    UNSEEN[loop] = UnseenRoom
    wrapped = {
        **_WRAPPED,
        "run_forever": _running_unseen,
        "call_later": _later,
        "call_soon": counting,
        "shutdown_default_executor": _ending_executor,
    }
    del wrapped["call_at"]  # it calls `call_later`
    for name, wrap in wrapped.items():
        setattr(loop, name, wrap(getattr(loop, name)))


_REAL_FOUND = vars(_Loop)["_asyncgen_finalizer_hook"]
_lock = Lock()
_uses: list[None] = []
_LATER = {"uvloop": _follow_uvloop, _ANYIO: _follow_anyio, _PORTALS: _spare_portals}
"""Follow a module that the program may import within a session."""
_finder = ImportFinder(_LATER.__contains__, lambda name: _LATER[name]())


class _FollowedLoops:
    """Follows the event loops of the process while entered.

    It isn't a generator: those that are still open are closed when Python has cleared this module at its end.
    """

    def __enter__(self) -> None:
        with _lock:
            _uses.append(None)
            if len(_uses) == 1:
                for name in _LATER.keys() & sys.modules.keys():
                    _LATER[name]()
                if not sys.modules.keys() >= _LATER.keys():
                    sys.meta_path.insert(0, _finder)
                gc_state.swap_in("loops")
                task_sets.swap_in()
                for owner, name, real, seam in _SEAMS:
                    if vars(owner)[name] is real:
                        setattr(owner, name, seam)
        generators.follow_running(_REAL_FOUND)

    def __exit__(self, *_: object) -> None:
        with _lock:
            _uses.pop()
            if not _uses:
                if _finder in (sys.meta_path or ()):  # there is none while Python ends
                    sys.meta_path.remove(_finder)
                gc_state.swap_out("loops")
                task_sets.swap_out()
                for owner, name, real, seam in _SEAMS:
                    if vars(owner)[name] is seam and name != "shutdown_asyncgens":  # loops may outlive the session
                        setattr(owner, name, real)


FOLLOWED_LOOPS = _FollowedLoops()
