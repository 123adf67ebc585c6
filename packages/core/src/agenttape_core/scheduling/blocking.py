"""Let threads take turns where they wait for each other: for a lock, an item of a queue, a time, a thread's end.

A thread that has the turn and would have to wait lets others have the turn. It's offered when what it waits for is
released, and tries again once it has the turn: so the order of arrivals decides who gets a lock.

Nearly all waits of threads come down to the lock of a thread module: `with lock:`, `Event`, `Condition`, `Queue`,
`Semaphore`, `Barrier`, `Future.result`, `concurrent.futures.wait`. Their methods are exchanged inside the real classes,
as those of `datetime` are (decision 11), so every reference to a lock is covered.

A lock that code took which has no turn, such as the real code of a model's client, is waited for as usual. So is one
that a thread of another session took, as that of all thread pools: when it's released is in no order of this session.
"""

from __future__ import annotations

import _queue
import functools
import math
import os
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from concurrent.futures import thread as pools
from contextlib import ExitStack
from threading import Thread
from time import monotonic
from typing import Any

from agenttape_core.freeze.timed_waits import LOCKS, drop_waits, ordering_waits, use_waits
from agenttape_core.guard.immutable import Exchange
from agenttape_core.guard.patching import Wrappers
from agenttape_core.locks import Lock
from agenttape_core.scheduling.executing import leaves_out, runs_outside_program
from agenttape_core.scheduling.participants import AWAY, BLOCKING, HERE, Participant, blocking, current_participant
from agenttape_core.scheduling.python_parts import WORK_ITEM, is_unknown
from agenttape_core.scheduling.thread_starts import being_submitted
from agenttape_core.scheduling.unordered import unwatch_signals, watch_signals


class Wait:
    """Something that a participant waits for.

    Args:
        attempt: Tries to get it, and returns whether it was to be had.
        is_ready: Returns whether it is to be had, without getting it: what C code releases is not told.
        key: The identity of the object that it is released by; 0 for none.
        seconds: The time after which the participant gives up; `None` for never.
    """

    def __init__(
        self,
        attempt: Callable[[], bool],
        is_ready: Callable[[], bool] = bool,
        key: int = 0,
        seconds: float | None = None,
    ) -> None:
        self.attempt = attempt
        self.is_ready = is_ready
        self.key = key
        self.is_released = False
        """True once it was told that this was released."""
        self.count = 0
        """The number of arrivals in the session before it."""
        self.times_ready = 0
        """The number of looks in a row that found it to be had."""
        self.until = math.inf if seconds is None else monotonic() + seconds
        """The time at which the participant gives up, on the clock of spans in seconds."""
        self.is_over = False
        """True once it has been given up."""
        self.is_timed = seconds is not None
        """True if it gives up at some time."""

    @property
    def left(self) -> float | None:
        """The time that is left, in seconds; `None` if it never gives up."""
        return max(0.0, self.until - monotonic()) if self.is_timed else None

    def expire(self) -> None:
        """Let its time have passed."""
        self.is_over = True


WAITING: dict[int, dict[Participant, None]] = {}
"""The participants that wait for something to be released, by the identity of that, in the order in which they came."""


def register(participant: Participant, wait: Wait) -> None:
    """Notify a participant when its wait is over."""
    if wait.key:
        WAITING.setdefault(wait.key, {})[participant] = None


def unregister(participant: Participant, wait: Wait) -> None:
    """Let it not be told any more."""
    participants = WAITING.get(wait.key)
    if participants is not None:
        participants.pop(participant, None)
        if not participants:
            WAITING.pop(wait.key, None)


def released(key: int, *, is_left_out: bool = False) -> None:
    """Tell the first participant that waits for something that it was released.

    Args:
        key: The identity of that.
        is_left_out: Whether it's work that nothing of the program waits for.
    """
    participants = WAITING.get(key)
    if not participants:
        return
    try:
        participant = next(iter(participants))
        del participants[participant]
    except (StopIteration, RuntimeError, KeyError):  # another thread was faster, or will be: it looks by itself
        return
    wait = participant.wait
    if wait is not None and wait.key == key:
        wait.is_released = True
        participant.threads.waits.released(participant, is_left_out=is_left_out)


def taking_part() -> Participant | None:
    """Return the participant of the caller, if its wait is part of an order."""
    participant = HERE.participant
    if participant is None or participant.is_out or HERE.is_internal or not participant.threads.is_on:
        return None
    if participant.is_unordered:
        participant.threads.leave_turn(participant, BLOCKING)
        return None
    return participant


def has_waited() -> None:
    """Note that the caller's thread, which may have waited without its turn, is about to come to something."""
    participant = HERE.participant
    if participant is not None and participant.is_unordered and participant.state == BLOCKING:
        participant.state = AWAY


def sleep_in_turn(real: Callable[[float], Any], seconds: float) -> None:
    """Let others have the turn while the caller's thread sleeps.

    Args:
        real: Sleeps.
        seconds: The time.
    """
    participant = taking_part()
    if participant is None or not isinstance(seconds, int | float) or not 0 <= seconds < _LONGEST:
        real(seconds)
        return
    participant.threads.waits.sleep(participant, real, seconds)


_LONGEST = 1e6
"""Seconds; no lock can be waited for much longer."""


_NO_TURN = 0
"""In the place of a session: code took the lock that takes no turns, so it's waited for as usual."""
_takers: dict[int, int] = {}
"""The locks that are taken, with the session whose threads took each: none, if code without a turn did."""
_unnoted: dict[object, int] = {}
"""The locks that threads take or release without turns now: any of them may be taken though `_takers` lacks it."""
_OF_ALL_POOLS: Any = getattr(pools, "_global_shutdown_lock", None)
"""A session takes it only once its threads take turns: if no taker is noted, other code has it."""


_left_out: set[tuple[int, int]] = set()
"""The items of queues that nothing of the program waits for."""


def _is_outside() -> bool:
    participant = HERE.participant
    if participant is None or participant.is_out or HERE.is_internal:
        return True
    # A step of a loop that is nothing of the program, while a thread has the turn.
    return participant.threads.turn.running is not participant and runs_outside_program()


_Method = tuple[type, str, Callable[..., Any]]


class _Locks:
    """A class of locks.

    Args:
        owner: The class.
    """

    def __init__(self, owner: type) -> None:
        self.owner = owner
        self._acquire: Callable[..., bool] = vars(owner)["acquire"]
        self._release: Callable[..., None] = vars(owner)["release"]

    def acquire(self, lock: Any, timeout: float = -1) -> bool:
        """Acquire a lock, in turn; false if it is not to be had before a time has passed, in seconds."""
        if _is_outside():
            return self._take_as_usual(lock, timeout, _NO_TURN)
        here = id(HERE.participant.threads) if HERE.participant is not None else _NO_TURN
        attempt = functools.partial(self._take, lock, here)
        if attempt():
            return True
        if not timeout:
            return False
        unknown = _NO_TURN if lock is _OF_ALL_POOLS or id(lock) in list(_unnoted.values()) else here
        participant = taking_part() if _takers.get(id(lock), unknown) == here else None
        if participant is None:
            is_acquired = self._take_as_usual(lock, timeout, here)
            has_waited()
            return is_acquired
        wait = Wait(attempt, functools.partial(self._is_free, lock), id(lock), timeout if timeout >= 0 else None)
        is_found: bool | None = participant.threads.waits.wait(participant, wait)
        if is_found is None:
            left = wait.left
            return self._take_as_usual(lock, -1 if left is None else left, here)
        return is_found

    def _take_as_usual(self, lock: Any, timeout: float, taker: int) -> bool:
        """Wait for a lock without turns; false if it isn't to be had before a time has passed, in seconds."""
        _unnoted[token := object()] = key = id(lock)
        try:
            if not self._acquire(lock, True, timeout):
                return False
            _takers[key] = taker
            return True
        finally:
            del _unnoted[token]

    def _take(self, lock: Any, taker: int) -> bool:
        """Take a lock, in turn; false if it isn't free."""
        if not self._acquire(lock, False):
            return False
        _takers[id(lock)] = taker
        return True

    def _is_free(self, lock: Any) -> bool:
        if not self._acquire(lock, False):
            return False
        self._release(lock)
        return True

    def _releasing(self) -> Callable[..., None]:
        """Return the method that releases a lock."""
        real_release, is_owned = self._release, vars(self.owner).get("_is_owned")

        def release(lock: Any, *_: object) -> None:  # of a block, too: so each costs one call
            taker, token = _takers.get(key := id(lock)), None
            if taker == _NO_TURN:
                _unnoted[token := object()] = key
            _takers.pop(key, None)
            try:
                real_release(lock)
                is_kept = is_owned is not None and is_owned(lock)  # by a block around this one
                if is_kept and taker is not None:
                    _takers[key] = taker
            finally:
                if token is not None:
                    del _unnoted[token]
            if WAITING and not is_kept:
                released(key)

        return release

    def methods(self) -> list[_Method]:
        """Return the methods that are exchanged, but for `acquire`."""
        acquire, real_acquire, release = self.acquire, self._acquire, self._releasing()

        def enter(lock: Any) -> bool:
            participant = HERE.participant
            if (
                participant is None
                or participant.is_out
                or HERE.is_internal
                or participant.threads.turn.running is not participant
            ):
                return acquire(lock)
            if not real_acquire(lock, False):
                return acquire(lock)
            _takers[id(lock)] = id(participant.threads)
            return True

        def restore(lock: Any, state: tuple[int, int]) -> None:
            for _ in range(state[0]):
                acquire(lock)

        methods: list[_Method] = [
            (self.owner, "__enter__", enter),
            (self.owner, "__exit__", release),
            (self.owner, "release", release),
        ]
        if "_release_save" not in vars(self.owner):
            return methods
        real_save = vars(self.owner)["_release_save"]

        def save(lock: Any) -> Any:
            if (taker := _takers.get(id(lock))) == _NO_TURN:
                _unnoted[token := object()] = id(lock)
            _takers.pop(id(lock), None)
            try:
                state = real_save(lock)
            finally:
                if taker == _NO_TURN:
                    del _unnoted[token]
            released(id(lock))
            return state

        return [*methods, (self.owner, "_release_save", save), (self.owner, "_acquire_restore", restore)]


def _get(real: Callable[..., Any], queue: Any, timeout: float | None) -> Any:
    """Get an item of a simple queue, in turn."""
    participant = taking_part()
    if participant is None:
        try:
            return real(queue, True, timeout)
        finally:
            has_waited()
    found: list[Any] = []

    def attempt() -> bool:
        try:
            found.append(real(queue, False))
        except _queue.Empty:
            return False
        return True

    wait = Wait(attempt, lambda: not queue.empty(), id(queue), timeout)
    if attempt() or (is_found := participant.threads.waits.wait(participant, wait)):
        item = found[0]
        if (id(queue), id(item)) in _left_out:
            _left_out.discard((id(queue), id(item)))
        else:
            participant.threads.waits.found(participant)
        return item
    if is_found is None:
        return real(queue, True, wait.left)
    raise _queue.Empty


def _putting(name: str) -> tuple[type, str, Callable[..., None]]:
    real = vars(_queue.SimpleQueue)[name]

    def put(self: Any, *args: Any, **kwargs: Any) -> None:
        is_left_out = bool(args) and leaves_out(args[0])
        if is_left_out and _users:
            _left_out.add((id(self), id(args[0])))
        real(self, *args, **kwargs)
        if WAITING:
            released(id(self), is_left_out=is_left_out)

    return _queue.SimpleQueue, name, put


_LOCKS = {owner: _Locks(owner) for owner in LOCKS}
_ALL = [
    *(method for locks in _LOCKS.values() for method in locks.methods()),
    _putting("put"),
    _putting("put_nowait"),
]
_METHODS = Exchange([method for method in _ALL if not method[1].startswith("__")])
"""Those that conditions and the like keep when they are made: exchanged before there is a second participant."""
_BLOCKS = Exchange([method for method in _ALL if method[1].startswith("__")])
_guard = Lock()
_users: list[object] = []
_seams = ExitStack()


def see_locks() -> None:
    """Let the locks and simple queues that are made from here on be such that participants can take turns at them."""
    use_waits("turns")
    _METHODS.swap_in()


def see_no_locks() -> None:
    """Let them be as they were."""
    _METHODS.swap_out()
    drop_waits("turns")


def take_turns(user: object) -> None:
    """Let participants take turns at locks and simple queues, until each user has called `take_no_turns`."""
    with _guard:
        if not _users:
            acquires: dict[type, Callable[..., bool]] = {owner: locks.acquire for owner, locks in _LOCKS.items()}
            _seams.enter_context(ordering_waits(acquires, _get, sleep_in_turn))
            _METHODS.swap_in()  # in a forked child they are out
            _BLOCKS.swap_in()
            _seams.callback(_takers.clear)
            _seams.callback(_left_out.clear)
            _seams.callback(_BLOCKS.swap_out)
        _users.append(user)


def take_no_turns(user: object) -> None:
    """Note that a user needs it no more."""
    with _guard:
        if user in _users:  # it isn't in a child that was forked since
            _users.remove(user)
        if not _users:
            _seams.close()


def _forget_turns() -> None:
    """Give locks their real methods in a forked child, which isn't part of the order.

    A tracer that starts there while it holds a lock would be called for our `release`, and wait for that lock.
    """
    WAITING.clear()
    _users.clear()
    _seams.close()
    _METHODS.swap_out()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forget_turns)


def _joining(real: Callable[..., None]) -> Callable[..., None]:
    @functools.wraps(real)
    def join(self: Thread, timeout: float | None = None) -> None:
        with blocking(self, timed=timeout is not None):
            real(self, timeout)

    return join


def _shutting_down(real: Callable[..., None]) -> Callable[..., None]:
    """Let the end of a pool be one wait: which of its threads did which work is nothing that anybody can see."""

    @functools.wraps(real)
    def shutdown(self: Any, wait: bool = True, **kwargs: Any) -> None:
        if not wait:
            return real(self, wait, **kwargs)
        with blocking(self):
            return real(self, wait, **kwargs)

    return shutdown


def _ending(real: Callable[..., None]) -> Callable[..., None]:
    """Let the participant of a piece of work end when its future has been told, and those who listen to that."""

    @functools.wraps(real)
    def run(self: Any, *args: Any) -> None:
        outside = current_participant()
        try:
            real(self, *args)
        finally:
            while (participant := current_participant()) is not None and participant is not outside:
                participant.end()

    return run


def _making(real: Callable[..., None]) -> Callable[..., None]:
    """Let a future know its work before a thread of the pool can take that."""

    @functools.wraps(real)
    def make(self: Any, future: Any, *args: Any, **kwargs: Any) -> None:
        if (work := being_submitted()) is not None:
            work.watch(future)
        real(self, future, *args, **kwargs)

    return make


def _wrap(wrappers: Wrappers) -> None:
    wrappers.exchange(see_locks, see_no_locks)
    wrappers.exchange(watch_signals, unwatch_signals)
    wrappers.patch(Thread, "join", _joining)
    wrappers.patch(ThreadPoolExecutor, "shutdown", _shutting_down)
    if WORK_ITEM is None:
        is_unknown("class of the work of pools", "what follows a piece of work isn't in order")
        return
    wrappers.patch(WORK_ITEM, "run", _ending)
    wrappers.patch(WORK_ITEM, "__init__", _making)


TURNS = Wrappers(_wrap)
"""While in use, participants take turns where they wait for each other."""
