"""Waits with a timeout, which let the frozen clock pass when they time out, as a sleep of as long does.

`while time.time() < deadline: queue.get(timeout=1)` waits for the clock as much as a loop that sleeps. Nearly all such
waits of threads come down to the `acquire` of a lock: `Event.wait`, `Condition.wait`, `Queue.get`, `Semaphore.acquire`,
`Future.result`, `concurrent.futures.wait`. Those of tasks come down to a timer of the event loop: `asyncio.wait_for`,
`asyncio.timeout`, `asyncio.wait`, and what anyio has of the kind.

A wait during which a call of the session is under way takes no frozen time, as the call takes none: how often a program
looks whether a model has answered depends on how fast it answers. For the same reason only waits of the program's own
code count: installed packages wait to look for news from their threads and tasks.
"""

from __future__ import annotations

import _queue
import _thread
import asyncio
import asyncio.base_events
import asyncio.futures
import functools
import math
import select
import subprocess
import sys
import threading
import types
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from types import MappingProxyType
from typing import Any, cast

from agenttape_core.freeze.callers import ASKING, MACHINERY, calling_module, is_of_a_library
from agenttape_core.freeze.frozen import BegunWait, Frozen
from agenttape_core.freeze.frozen_function import FrozenFunction, current
from agenttape_core.guard.immutable import Exchange
from agenttape_core.named_tuples import NamedTuple

_SLACK = 1.05
_WAKE_FROM_SLEEP = getattr(asyncio.futures, "_set_result_unless_cancelled", None)
_LOOPS = frozenset({__name__, "asyncio.base_events"})


class Wait(NamedTuple):
    """A wait that began."""

    frozen: Frozen  # what is kept fixed for the session that waits
    begun: BegunWait  # its beginning
    seconds: float  # the time after which it times out, rounded up

    def timed_out(self, *, is_own: bool = True) -> None:
        """Let the clock pass, unless a call is under way, or was meanwhile. `is_own` is false for a timer."""
        if self.begun.calls == self.frozen.calls and not self.frozen.is_under_way():
            self.frozen.end_wait(self.begun, self.seconds, is_own=is_own)


def wait_of(seconds: object) -> Wait | None:
    """Begin a wait of the caller's session; `None` if it has no timeout, or takes no frozen time."""
    if not isinstance(seconds, int | float) or not 0 < seconds < math.inf:
        return None
    frozen = current()
    if frozen is None or "clock" not in frozen.kinds or frozen.is_under_way() or is_of_a_library():
        return None
    return Wait(frozen, frozen.begin_wait(), rounded_up(seconds))


def rounded_up(seconds: float) -> float:
    """Round a wait up to two digits.

    Some code computes the rest of a timeout, which is only as exact as the machine is fast: `Queue.get`, `call_at`. The
    frozen clock must pass by the same in every run. What is a little less than 1 has the digits of 1.
    """
    digits = 1 - math.floor(math.log10(seconds * _SLACK))
    return math.ceil(round(seconds * 10.0**digits, 3)) / 10.0**digits


# -- threads -------------------------------------------------------------------------------------------------------


class _Ordered:
    """The ways in which threads that take turns wait for locks and simple queues; none while no one takes turns."""

    acquires: Mapping[type, Callable[..., bool]] = MappingProxyType({})
    get: Callable[..., Any] | None = None
    sleep: Callable[..., None] | None = None


_ordered = _Ordered()


def really_sleep(real: Callable[[float], None], seconds: float = 0, /, **_: object) -> None:
    """Let the caller's thread sleep, so that others know that it does if threads take turns.

    gevent's version of the real function, which may replace it, has a default and other arguments.
    """
    if _ordered.sleep is None or ASKING.now:
        real(seconds)
    else:
        _ordered.sleep(real, seconds)


def _acquiring(owner: type) -> tuple[type, str, Callable[..., bool]]:
    real = vars(owner)["acquire"]

    def acquire(self: Any, blocking: bool = True, timeout: float = -1) -> bool:
        ordered = _ordered.acquires.get(owner)
        if timeout == -1:
            if ordered is not None:
                return ordered(self, -1 if blocking else 0)
            return cast("bool", real(self, blocking))
        wait = wait_of(timeout)
        is_acquired: bool
        if ordered is not None and blocking and timeout >= 0:
            is_acquired = ordered(self, timeout)
        else:
            is_acquired = real(self, blocking, timeout)
        if not is_acquired and wait is not None:
            wait.timed_out()
        return is_acquired

    return owner, "acquire", acquire


def _getting() -> tuple[type, str, Callable[..., Any]]:
    owner = _queue.SimpleQueue
    real = vars(owner)["get"]

    def get(self: Any, block: bool = True, timeout: float | None = None) -> Any:
        ordered = _ordered.get if block and (timeout is None or timeout >= 0) else None
        if timeout is None:
            return real(self, block) if ordered is None else ordered(real, self, None)
        wait = wait_of(timeout)
        try:
            return real(self, block, timeout) if ordered is None else ordered(real, self, timeout)
        except _queue.Empty:
            if wait is not None:
                wait.timed_out()
            raise

    return owner, "get", get


def _of_processes(name: str) -> types.FunctionType | None:
    """Return a method of `Popen`; `None` if that is another class, as where gevent has patched the standard library."""
    found: types.FunctionType | None = getattr(subprocess.Popen, name, None)
    return found if subprocess.Popen.__module__ == subprocess.__name__ else None


_JOIN = cast("types.FunctionType", threading.Thread.join)
_WAIT, _COMMUNICATE = map(_of_processes, ("_wait", "communicate"))  # `wait` is built on the former
_LATER = cast("types.FunctionType", asyncio.base_events.BaseEventLoop.call_later)
_AT = cast("types.FunctionType", asyncio.base_events.BaseEventLoop.call_at)
_TIMEOUT = cast("types.FunctionType", asyncio.timeout)
_ASKED = "_agenttape_asked"
"""The attribute of an `asyncio.Timeout` for the moment at which it is due, and for the requested seconds."""


def _copied(function: types.FunctionType | None) -> Any:
    if function is None:
        return None
    copied = types.FunctionType(function.__code__, function.__globals__, function.__name__, function.__defaults__)
    copied.__kwdefaults__ = function.__kwdefaults__
    return copied


_real_join, _real_wait, _real_communicate, _real_later, _real_at, _real_timeout = map(
    _copied, (_JOIN, _WAIT, _COMMUNICATE, _LATER, _AT, _TIMEOUT)
)


def join(thread: threading.Thread, timeout: float | None) -> None:
    """Join a thread; if it is still alive after the timeout, the frozen clock has passed by as much."""
    wait = wait_of(timeout)
    _real_join(thread, timeout)
    if wait is not None and thread.is_alive():
        wait.timed_out()


def wait_for_process(process: Any, seconds: float | None) -> int:
    """Wait for a process; its polls are sleeps of the standard library, which don't count (see `clock`)."""
    wait = wait_of(seconds)
    try:
        return cast("int", _real_wait(process, seconds))
    except subprocess.TimeoutExpired:
        if wait is not None:
            wait.timed_out()
        raise


def communicate(process: Any, text: Any, seconds: float | None) -> Any:
    """Exchange data with a process, as `wait_for_process` waits for one."""
    wait = wait_of(seconds)
    try:
        return _real_communicate(process, text, seconds)
    except subprocess.TimeoutExpired:
        if wait is not None:
            wait.timed_out()
        raise


def _select(_frozen: Frozen, real: Callable[..., Any]) -> Callable[..., Any]:
    def selecting(*args: Any) -> Any:
        wait = wait_of(args[3] if len(args) > 3 else None)  # noqa: PLR2004 - the timeout is the fourth
        found = real(*args)
        if wait is not None and not any(found):
            wait.timed_out()
        return found

    return selecting


STAND_INS = (FrozenFunction(select.select, None, _select),)
"""The functions that a session's modules have in another form."""


# -- tasks ---------------------------------------------------------------------------------------------------------


class Timer:
    """A callback of the event loop that lets the clock pass before it is called."""

    def __init__(self, wait: Wait, callback: Callable[..., Any]) -> None:
        self._wait = wait
        self.callback = callback  # called when the time has passed

    def __call__(self, *args: Any) -> Any:
        """Let the clock pass, and call it."""
        self._wait.timed_out(is_own=False)
        return self.callback(*args)

    def __repr__(self) -> str:
        return repr(self.callback)


def _timed(callback: Any, seconds: float) -> Any:
    # A sleep counts by itself, and what we wait for ourselves does not.
    if isinstance(callback, Timer) or callback is _WAKE_FROM_SLEEP:
        return callback
    if calling_module(_LOOPS) in MACHINERY:
        return callback
    wait = wait_of(seconds)
    return callback if wait is None else Timer(wait, callback)


def call_later(loop: Any, delay: float, callback: Any, args: Any, context: Any) -> Any:
    """Set a timer after which, if no one cancels it, the frozen clock has passed by as much."""
    return _real_later(loop, delay, _timed(callback, delay), *args, context=context)


def call_at(loop: Any, when: float, callback: Any, args: Any, context: Any) -> Any:
    """Set a timer as `call_later` does, for a moment of the loop's clock."""
    due, asked = getattr(getattr(callback, "__self__", None), _ASKED, (None, 0.0))
    return _real_at(loop, when, _timed(callback, asked if when == due else when - loop.time()), *args, context=context)


def timeout(delay: float | None) -> asyncio.Timeout:
    """Make a timeout that keeps its duration: asyncio's gives the event loop only the moment at which it is due."""
    made: asyncio.Timeout = _real_timeout(delay)
    setattr(made, _ASKED, (made.when(), delay))
    return made


# These run with the globals of the functions whose code they are: see `ids`.


def _join_code(self, timeout=None):  # type: ignore[no-untyped-def] # noqa: ANN001, ANN202
    from agenttape_core.freeze.timed_waits import join

    return join(self, timeout)


def _wait_code(self, timeout):  # type: ignore[no-untyped-def] # noqa: ANN001, ANN202
    from agenttape_core.freeze.timed_waits import wait_for_process

    return wait_for_process(self, timeout)


def _communicate_code(self, input=None, timeout=None):  # type: ignore[no-untyped-def] # noqa: A002, ANN001, ANN202
    from agenttape_core.freeze.timed_waits import communicate

    return communicate(self, input, timeout)


def _later_code(self, delay, callback, *args, context=None):  # type: ignore[no-untyped-def] # noqa: ANN001, ANN002, ANN202
    from agenttape_core.freeze.timed_waits import call_later

    return call_later(self, delay, callback, args, context)


def _at_code(self, when, callback, *args, context=None):  # type: ignore[no-untyped-def] # noqa: ANN001, ANN002, ANN202
    from agenttape_core.freeze.timed_waits import call_at

    return call_at(self, when, callback, args, context)


def _timeout_code(delay):  # type: ignore[no-untyped-def] # noqa: ANN001, ANN202
    from agenttape_core.freeze.timed_waits import timeout

    return timeout(delay)


CODES = [
    (function, function.__code__, stand_in.__code__)
    for function, stand_in in (
        (_JOIN, _join_code),
        (_WAIT, _wait_code),
        (_COMMUNICATE, _communicate_code),
        (_LATER, _later_code),
        (_AT, _at_code),
        (_TIMEOUT, _timeout_code),
    )
    if function is not None
]
"""The functions whose timeouts move the frozen clock in a session, each with its own code and its code in a session."""
LOCKS = tuple(
    owner
    for owner in cast("tuple[type, ...]", (_thread.LockType, _thread.RLock))
    if owner.__module__ == _thread.__name__
)
"""The classes of locks for which threads can wait. Those that gevent puts in their place are waited for by its loop."""
_REAL: dict[type, dict[str, Any]] = {
    owner: {name: vars(owner)[name] for name in ("acquire", "release", "__enter__", "__exit__")} for owner in LOCKS
}
_METHODS = Exchange([*map(_acquiring, LOCKS), _getting()])
_users: set[str] = set()


def _with_real_methods(lock: Any) -> Any:
    """Return an object that takes and releases a lock by its real methods, with none of our code."""
    if (real := _REAL.get(type(lock))) is None:
        return lock
    methods = {name: staticmethod(functools.partial(method, lock)) for name, method in real.items()}
    return type("Lock", (), methods)()


class _Threading(types.ModuleType):
    """The module `threading` for a tracer, whose locks have their real methods."""

    @staticmethod
    def Lock() -> Any:  # noqa: N802 - it's used as the one of `threading` is
        """Make a lock."""
        return _with_real_methods(_thread.allocate_lock())

    def __getattr__(self, name: str) -> Any:
        return getattr(threading, name)


_threading = _Threading(threading.__name__)


def _spare_coverage() -> None:
    """Give coverage's tracers the real methods of their locks: they take them at any line, even within a wait.

    A tracer looks the methods up when its thread starts. With `sys.monitoring`, coverage's callback runs when our
    `release` is called, and would wait for the lock that is about to be released.
    https://github.com/coveragepy/coveragepy
    """
    collector = getattr(sys.modules.get("coverage.collector"), "Collector", None)
    for each in getattr(collector, "_collectors", ()):
        each.data_lock = _with_real_methods(each.data_lock)
        for tracer in each.tracers:
            if hasattr(tracer, "lock"):
                tracer.lock = _with_real_methods(tracer.lock)
    sysmon: Any = sys.modules.get("coverage.sysmon")
    if sysmon is not None:
        sysmon.threading = _threading


def use_waits(user: str) -> None:
    """Exchange the methods that wait for locks and simple queues, as someone needs it."""
    if not _users:
        _spare_coverage()
        _METHODS.swap_in()
    _users.add(user)


def drop_waits(user: str) -> None:
    """Note that someone needs it no more."""
    _users.discard(user)
    if not _users:
        _METHODS.swap_out()


@contextmanager
def ordering_waits(
    acquires: Mapping[type, Callable[..., bool]], get: Callable[..., Any], sleep: Callable[..., None]
) -> Iterator[None]:
    """Let others do the waiting for locks, simple queues and times, while inside and `use_waits`. One block at a time.

    `acquires` acquires a lock, by its class, within so many seconds, -1 for any number; `get` gets an item of a queue
    by the real method, within so many seconds, `None` for any number; `sleep` sleeps by the real function.
    """
    _ordered.acquires, _ordered.get, _ordered.sleep = acquires, get, sleep
    try:
        yield
    finally:
        _ordered.acquires, _ordered.get, _ordered.sleep = MappingProxyType({}), None, None
