"""The processes that `multiprocessing` spawns within a replay: each replays the same cassette, under the guard.

A forked child has the session and its guard in its memory. One that is spawned, or forked from a fork server, begins
with only the *preparation data* of its parent, which it unpickles before it imports the program. So an object is put
among that data whose unpickling opens the session there.
"""

from __future__ import annotations

import functools
import importlib
import os
import pickle
import signal
import sys
import threading
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from typing import Any

from agenttape_core.errors import AgentTapeHalt
from agenttape_core.guard import SUBPROCESS
from agenttape_core.lifecycle.failures_of_children import FAILURES, FailuresOfChildren
from agenttape_core.lifecycle.patched_on_import import PatchedOnImport
from agenttape_core.lifecycle.start_session import Opened
from agenttape_core.session import Session, Slot, current_session
from agenttape_core.session.context import executing_of
from agenttape_core.settings import TRACING

_CHILD = "agenttape_core.lifecycle.open_cassette"
"""The module that opens the session of a child, by name: it builds on everything that surrounds a session."""


class Inheritance:
    """The part of a session that a child gets which is started in it.

    `options` are those of `SessionRequest`, as far as they can be pickled, and where failures are kept.
    """

    def __init__(self, options: Mapping[str, Any]) -> None:
        self.options = options

    def __reduce__(self) -> tuple[Callable[..., Any], tuple[Any, ...]]:
        # As bytes, so that what cannot be made again there is a failure of the set-up, too.
        return _begin, (pickle.dumps(self.options), self.options["failures"])


def _begin(options: bytes, failures: tuple[str, int]) -> None:
    """Open the session of this process, or end it: no code of the program may run here without one."""
    try:
        importlib.import_module(_CHILD).begin(pickle.loads(options))  # noqa: S301 - as all that a child gets
    except BaseException as error:  # noqa: BLE001 - whatever it is, the program must not run
        FailuresOfChildren(*failures).refuse(error)


def inherited(opened: Opened) -> AbstractContextManager[None]:
    """Hand a replay down to the processes that `multiprocessing` spawns from it during the block.

    Not if processes may be started freely: they are the user's business then, or have separate sessions.
    """
    if SUBPROCESS in opened.prepared.hosts_of_program:
        return nullcontext()
    opened.session.extend(_OPENED, opened)
    return _preparing


def _not_opened(_: Any) -> Opened | None:
    return None


_OPENED: Slot[Opened | None] = Slot(_not_opened)


def _handing_down(real: Callable[[str], dict[str, Any]]) -> Callable[[str], dict[str, Any]]:
    def get_preparation_data(name: str) -> dict[str, Any]:
        data = real(name)
        session = current_session()
        opened = session.extension(_OPENED) if isinstance(session, Session) and session.is_replay else None
        if opened is None or _starts_at_will(opened):
            return data
        _look_for_failure(opened.session)
        # First, as the child unpickles in this order; and all before it imports the program.
        return {"agenttape": Inheritance(_options(opened, name)), **data}

    return get_preparation_data


def _look_for_failure(session: Session) -> None:
    """Start no more processes where one could not begin.

    A `multiprocessing.Pool` starts others in its own thread, again and again, and code that waits for its tasks waits
    forever. That thread has to continue, because the pool can't be closed without it. So the main thread is interrupted
    instead, once, as by Ctrl-C; the session then fails with the reason. Where SIGINT is ignored, as `nohup` and shells
    start their background jobs, no interrupt could reach it, and the process ends with 2.
    """
    failures = session.extension(FAILURES)
    failure = failures.not_begun()
    if failure is None:
        return
    session.latch.keep(failure)
    if threading.current_thread() is threading.main_thread():
        raise failure
    if not failures.has_interrupted and hasattr(signal, "pthread_kill"):
        failures.has_interrupted = True
        if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
            sys.stderr.write(f"agenttape: {failure}\n")
            sys.stderr.flush()
            os._exit(2)
        signal.pthread_kill(threading.main_thread().ident or 0, signal.SIGINT)


def _starts_at_will(opened: Opened) -> bool:
    """Return whether the caller runs for a live call that may start processes, which are the user's business then."""
    return SUBPROCESS in opened.prepared.settings.allow_hosts and executing_of(opened.session)


_preparing = PatchedOnImport("multiprocessing.spawn", "get_preparation_data", _handing_down)


def _options(opened: Opened, process: str) -> dict[str, Any]:
    prepared = opened.prepared
    request, path = prepared.request, prepared.path
    failures = opened.session.extension(FAILURES)
    options = {
        **request.options,
        "allow_hosts": sorted(prepared.hosts_of_program) + [TRACING] * prepared.settings.traces,
        "mode": "replay",
        "live": (),
        "on_unused": "ignore",
    }
    return {
        "cassette": path.absolute() if isinstance(path, Path) else str(path),
        "options": {name: value for name, value in options.items() if _travels(value)},
        "redact": request.redact if _travels(request.redact) else True,
        "places": prepared.redactor.places.paths,
        "auto": request.auto,
        "shown_as": prepared.shown,
        "process": process,
        "failures": (failures.folder, failures.parent),
    }


def _travels(value: Any) -> bool:
    """Return whether a value can be given to another process: a function of the user's may be one that cannot."""
    try:
        pickle.dumps(value)
    except (pickle.PicklingError, AttributeError, TypeError):
        return False
    return True


# Halts in the workers of `multiprocessing.pool`, which wait for no more than an `Exception`.
#
# Anything else ends the worker, and whoever waits for the result of its task waits for ever. So a halt leaves the task
# as an `Exception`, and is the result again when that is sent back. The workers of `concurrent.futures` need no help.

_POOL = "multiprocessing.pool"
_LOOK_AT_SIGNALS = 0.5  # seconds after which a worker that waits lets Python look at signals


class _HaltOfTask(Exception):  # noqa: N818 - nobody sees it but the worker
    """A halt, as an exception that a worker survives."""

    def __init__(self, halt: AgentTapeHalt) -> None:
        super().__init__(str(halt))
        self.halt = halt


def _surviving(function: Callable[..., Any]) -> Callable[..., Any]:
    def work(*args: Any, **kwargs: Any) -> Any:
        try:
            return function(*args, **kwargs)
        except AgentTapeHalt as halt:
            raise _HaltOfTask(halt).with_traceback(halt.__traceback__) from None

    return work


class _Queue:
    """A queue of a pool, whose own attributes don't change."""

    def __init__(self, queue: Any) -> None:
        self._queue = queue

    def __getattr__(self, name: str) -> Any:
        return getattr(self._queue, name)


class _Tasks(_Queue):
    """The tasks for a worker."""

    def get(self) -> Any:
        """Return the next task; `None` if there are no more."""
        task = _taken(self._queue)
        if task is None:
            return None
        job, place, function, args, kwargs = task
        # The worker knows this function, which raises what is wrong with the tasks themselves.
        if function is not getattr(sys.modules[_POOL], "_helper_reraises_exception", None):
            function = _surviving(function)
        return job, place, function, args, kwargs


def _taken(queue: Any) -> Any:
    """Return the next item from a queue of processes, as its `get` does, but never wait without a limit.

    Where Python handles SIGTERM, as in the processes of `agenttape record`, a signal that comes right before the system
    begins to wait is looked at when that wait ends. A worker that waits for a lock whose holder was terminated would
    wait for ever then, and so would the pool.
    """
    lock, reader = getattr(queue, "_rlock", None), getattr(queue, "_reader", None)
    if lock is None or reader is None:
        return queue.get()  # of a pool of threads
    while not lock.acquire(timeout=_LOOK_AT_SIGNALS):
        pass
    try:
        while not reader.poll(_LOOK_AT_SIGNALS):
            pass
        data = reader.recv_bytes()
    finally:
        lock.release()
    from multiprocessing.reduction import ForkingPickler  # is loaded, as there is such a queue

    return ForkingPickler.loads(data)


class _Results(_Queue):
    """The results of a worker."""

    def put(self, result: Any) -> None:
        """Send a result back."""
        job, place, (is_value, value) = result
        if not is_value:
            if isinstance(value, _HaltOfTask):
                value = _from_worker(value)
            elif isinstance(getattr(value, "exc", None), _HaltOfTask):  # with its traceback, for another process
                value.exc = _from_worker(value.exc)
        self._queue.put((job, place, (is_value, value)))


def _from_worker(carrier: _HaltOfTask) -> AgentTapeHalt:
    carrier.halt.in_worker = True
    return carrier.halt


def _carrying(real: Callable[..., None]) -> Callable[..., None]:
    @functools.wraps(real)
    def worker(inqueue: Any, outqueue: Any, *args: Any, **kwargs: Any) -> None:
        real(_Tasks(inqueue), _Results(outqueue), *args, **kwargs)

    return worker


carrying_halts = PatchedOnImport(_POOL, "worker", _carrying)
"""While inside, a halt reaches whoever waits for the task of a pool that is made now."""
