"""Workers of pools of processes."""

from __future__ import annotations

import multiprocessing.pool
from typing import Any

from agenttape_core.lifecycle.children import _Tasks


def test_a_worker_never_waits_without_a_limit() -> None:
    """A worker whose lock is held waits again and again, so that a signal that came before a wait is looked at."""

    class Busy:
        """The lock of a queue that another worker holds for a while.

        Args:
            lock: The real lock.
        """

        def __init__(self, lock: Any) -> None:
            self._lock = lock
            self.waits: list[float] = []

        def acquire(self, timeout: float) -> bool:
            """Fail twice, as if the time had passed."""
            self.waits.append(timeout)
            return len(self.waits) > 2 and bool(self._lock.acquire(timeout=timeout))

        def release(self) -> None:
            """Release the real lock."""
            self._lock.release()

    queue: Any = multiprocessing.get_context("fork").SimpleQueue()
    busy = queue._rlock = Busy(queue._rlock)
    queue.put(None)
    queue.put((1, 0, len, ("abc",), {}))
    tasks = _Tasks(queue)
    assert tasks.get() is None
    job, place, function, args, kwargs = tasks.get()
    assert (job, place, function(*args, **kwargs)) == (1, 0, 3)
    assert len(busy.waits) == 4
    assert max(busy.waits) < 1
    queue.close()
