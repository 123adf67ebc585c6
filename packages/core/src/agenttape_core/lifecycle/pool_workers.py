"""Halts in the workers of `multiprocessing.pool`, which wait for no more than an `Exception`.

Anything else ends the worker, and whoever waits for the result of its task waits for ever. So a halt leaves the task as
an `Exception`, and is the result again when that is sent back. The workers of `concurrent.futures` need no help.
"""

from __future__ import annotations

import functools
import sys
from collections.abc import Callable
from typing import Any

from agenttape_core.errors import AgentTapeHalt
from agenttape_core.lifecycle.patched_on_import import PatchedOnImport

_POOL = "multiprocessing.pool"
_LOOK_AT_SIGNALS = 0.5
"""Seconds after which a worker that waits lets Python look at signals."""


class _HaltOfTask(Exception):  # noqa: N818 - nobody sees it but the worker
    """A halt, as an exception that a worker survives.

    Args:
        halt: The halt.
    """

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
    """A queue of a pool, whose own attributes don't change.

    Args:
        queue: The queue.
    """

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
