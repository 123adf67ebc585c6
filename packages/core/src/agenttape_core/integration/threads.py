"""Concurrent work of a framework: its order between calls, its branches, and locks.

`in_order` and `visible` order what threads do to each other between calls, and `steps_in_order` what happens around an
event loop. `comes_yet` waits for a task as long as it may still be done, and `FuturesInOrder` is a set of futures with
an order. `register_lazy_stream` names a stream that works while it is read. `is_sleep_ordered` returns whether a wait
in an event loop is part of a recorded order, and `is_notified_directly` whether handlers need no order here.

A branch distinguishes concurrent work in addresses: `current_branch`, `enter_branch`, `task_branch`. `Lock` and `RLock`
are like those in `threading`, but free in a forked child.
"""

from agenttape_core.freeze import is_sleep_ordered
from agenttape_core.locks import Lock, RLock
from agenttape_core.matching import current_branch, enter_branch, task_branch
from agenttape_core.scheduling import (
    FuturesInOrder,
    comes_yet,
    in_order,
    is_notified_directly,
    register_lazy_stream,
    steps_in_order,
    visible,
)

__all__ = [
    "FuturesInOrder",
    "Lock",
    "RLock",
    "comes_yet",
    "current_branch",
    "enter_branch",
    "in_order",
    "is_notified_directly",
    "is_sleep_ordered",
    "register_lazy_stream",
    "steps_in_order",
    "task_branch",
    "visible",
]
