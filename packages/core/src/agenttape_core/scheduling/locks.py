"""The locks and simple queues of Python, at which strands wait for each other.

Nearly all waits of threads come down to the lock of a thread module: `with lock:`, `Event`, `Condition`, `Queue`,
`Semaphore`, `Barrier`, `Future.result`, `concurrent.futures.wait`. Their methods are exchanged inside the real classes,
as those of `datetime` are (decision 11), so every reference to a lock is covered.

A lock that code took which has no turn, such as the real code of a model's client, is waited for as ever. So is one
that a thread of another session took, as that of all thread pools: when it's released is in no order of this session.
"""

from __future__ import annotations

import _queue
import functools
from collections.abc import Callable
from contextlib import ExitStack
from typing import Any

from agenttape_core.freeze.timed_waits import LOCKS, drop_waits, ordering_waits, use_waits
from agenttape_core.guard.immutable import Exchange
from agenttape_core.locks import Lock
from agenttape_core.scheduling.executing import runs_outside_program
from agenttape_core.scheduling.finalizers import leaves_out
from agenttape_core.scheduling.strands import HERE
from agenttape_core.scheduling.waits import WAITING, Wait, has_waited, released, sleep_in_turn, taking_part

_NO_TURN = 0
_takers: dict[int, int] = {}
"""The locks that are taken, with the session whose threads took each: none, if code without a turn did."""


_left_out: set[tuple[int, int]] = set()
"""The items of queues that nothing of the program waits for."""


def _is_outside() -> bool:
    strand = HERE.strand
    if strand is None or strand.is_out or HERE.is_internal:
        return True
    # A step of a loop that is nothing of the program, while a thread has the turn.
    return strand.strands.turn.running is not strand and runs_outside_program()


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

    def acquire(self, lock: Any, timeout: float = -1) -> bool:  # noqa: PLR0911 - a fast way for each case
        """Acquire a lock, in turn; false if it is not to be had before a time has passed, in seconds."""
        if _is_outside():
            if timeout:
                _takers[id(lock)] = _NO_TURN  # also before: whoever has the turn may look for it as soon as it's taken
            if not self._acquire(lock, bool(timeout), timeout or -1):
                return False
            _takers[id(lock)] = _NO_TURN
            return True
        here = id(HERE.strand.strands) if HERE.strand is not None else _NO_TURN
        attempt = functools.partial(self._take, lock, here)
        if attempt():
            return True
        if not timeout:
            return False
        strand = taking_part() if _takers.get(id(lock), here) == here else None
        if strand is None:
            is_acquired = self._acquire(lock, True, timeout)
            has_waited()
            return is_acquired
        wait = Wait(attempt, functools.partial(self._is_free, lock), id(lock), timeout if timeout >= 0 else None)
        is_found: bool | None = strand.strands.waits.wait(strand, wait)
        if is_found is None:
            left = wait.left
            return self._acquire(lock, True, -1 if left is None else left)
        return is_found

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

    def methods(self) -> list[_Method]:
        """Return the methods that are exchanged, but for `acquire`."""
        acquire, real_acquire, real_release = self.acquire, self._acquire, self._release
        is_owned = vars(self.owner).get("_is_owned")

        def enter(lock: Any) -> bool:
            strand = HERE.strand
            if strand is None or strand.is_out or HERE.is_internal or strand.strands.turn.running is not strand:
                return acquire(lock)
            if not real_acquire(lock, False):
                return acquire(lock)
            _takers[id(lock)] = id(strand.strands)
            return True

        def release(lock: Any, *_: object) -> None:  # of a block, too: so each costs one call
            _takers.pop(id(lock), None)
            real_release(lock)
            if WAITING and not (is_owned is not None and is_owned(lock)):
                released(id(lock))

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
            _takers.pop(id(lock), None)
            state = real_save(lock)
            released(id(lock))
            return state

        return [*methods, (self.owner, "_release_save", save), (self.owner, "_acquire_restore", restore)]


def _get(real: Callable[..., Any], queue: Any, timeout: float | None) -> Any:
    """Get an item of a simple queue, in turn."""
    strand = taking_part()
    if strand is None:
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
    if attempt() or (is_found := strand.strands.waits.wait(strand, wait)):
        item = found[0]
        if (id(queue), id(item)) in _left_out:
            _left_out.discard((id(queue), id(item)))
        else:
            strand.strands.waits.found(strand)
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
"""Those that others take hold of when they are made, such as conditions: exchanged before there are several strands."""
_BLOCKS = Exchange([method for method in _ALL if method[1].startswith("__")])
_guard = Lock()
_users: list[object] = []
_seams = ExitStack()


def see_locks() -> None:
    """Let the locks and simple queues that are made from here on be such that strands can take turns at them."""
    use_waits("turns")
    _METHODS.swap_in()


def see_no_locks() -> None:
    """Let them be as they were."""
    _METHODS.swap_out()
    drop_waits("turns")


def take_turns(user: object) -> None:
    """Let strands take turns at locks and simple queues, as somebody needs it."""
    with _guard:
        if not _users:
            acquires: dict[type, Callable[..., bool]] = {owner: locks.acquire for owner, locks in _LOCKS.items()}
            _seams.enter_context(ordering_waits(acquires, _get, sleep_in_turn))
            _BLOCKS.swap_in()
            _seams.callback(_takers.clear)
            _seams.callback(_left_out.clear)
            _seams.callback(_BLOCKS.swap_out)
        _users.append(user)


def take_no_turns(user: object) -> None:
    """Note that somebody needs it no more."""
    with _guard:
        _users.remove(user)
        if not _users:
            _seams.close()
