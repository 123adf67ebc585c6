"""Questions to the session layer, during which this thread's clock and ids are the real ones.

A lookup or a scope may log, lock or make an id itself; without this, that would ask the lookup again, forever.
"""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable

Answer = TypeVar("Answer")


class _Asking(threading.local):
    now: bool = False


ASKING = _Asking()
"""Its `now` is True if this thread is in the middle of such a question."""


def ask(question: Callable[[], Answer]) -> Answer:
    """Call the question; whatever it calls in turn is not frozen."""
    before = ASKING.now
    ASKING.now = True
    try:
        return question()
    finally:
        ASKING.now = before
