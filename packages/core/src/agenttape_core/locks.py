"""Locks that are free in a forked child.

A fork copies locks in their current state, but only the thread that forks. So a child would wait forever for a lock
that another thread of its parent held at that moment: for the journal while it's written, or for a count of calls.

Python frees its own locks in a child for that reason (`threading`, `logging`), and these are ours. What such a lock
protects may be half done in the child: all of it belongs to the run of the parent, and a child that records into it is
refused.
"""

from __future__ import annotations

import os
import threading
import weakref
from collections.abc import Callable
from typing import Any, Generic, Self, TypeVar, overload

LockT = TypeVar("LockT")
T = TypeVar("T")

_made: weakref.WeakSet[Any] = weakref.WeakSet()


def freed_by_fork(lock: LockT) -> LockT:
    """Return a lock that will be free in a forked child, unless the thread that forks holds it and it's an `RLock`."""
    _made.add(lock)
    return lock


def Lock() -> threading.Lock:  # noqa: N802 - it's used as the one of `threading` is
    """Make a `threading.Lock` that is free in a forked child."""
    lock = threading.Lock()
    _made.add(lock)
    return lock


def RLock() -> threading.RLock:  # noqa: N802 - it's used as the one of `threading` is
    """Make a `threading.RLock` that is free in a forked child, unless the thread that forks holds it."""
    lock = threading.RLock()
    _made.add(lock)
    return lock


class cached_property(Generic[T]):  # noqa: N801 - it's used as the one of `functools` is
    """A property that is computed once for each object, without a lock: two threads may compute it, and get one value.

    That of `functools` holds a lock of its whole class on Python 3.11 while it computes. A thread that needs the same
    property of another object would wait for it, and a forked child forever.

    Args:
        compute: Computes it.
    """

    def __init__(self, compute: Callable[[Any], T]) -> None:
        self._compute = compute
        self._name = compute.__name__
        self.__doc__ = compute.__doc__

    @overload
    def __get__(self, instance: None, owner: type) -> Self: ...
    @overload
    def __get__(self, instance: object, owner: type) -> T: ...
    def __get__(self, instance: object | None, owner: type) -> Any:
        """Return the value, and store it in the object."""
        return self if instance is None else vars(instance).setdefault(self._name, self._compute(instance))


def _free_all() -> None:
    for lock in list(_made):
        # The thread that forks goes on in the child, and releases what it holds.
        if not (hasattr(lock, "_is_owned") and lock._is_owned()):  # noqa: SLF001 - `threading` asks in this way
            lock._at_fork_reinit()  # noqa: SLF001 - as `threading` and `logging` do


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_free_all)
