"""The garbage collector, which runs code of the program at unpredictable moments: `__del__`, `finally` of generators.

Which garbage it finds, and when, depends on all that the process has made so far, such as modules. Values drawn there
aren't part of the run: if they were, the program's next id would be different in each replay.
"""

from __future__ import annotations

import gc
from _thread import get_ident
from typing import Any

_users: set[str] = set()  # those that want to notice it
COLLECTING: set[int] = set()  # the threads in which the collector runs now


def _note(phase: str, _: Any) -> None:
    if phase == "start":
        COLLECTING.add(get_ident())
    else:
        COLLECTING.discard(get_ident())


def is_collecting() -> bool:
    """Return True if the caller runs because the garbage collector deletes an object."""
    return get_ident() in COLLECTING


def swap_in(user: str = "freeze") -> None:
    """Notice the collector from now on, for one user."""
    _users.add(user)
    if _note not in gc.callbacks:
        gc.callbacks.append(_note)


def swap_out(user: str = "freeze") -> None:
    """Notice it no more for one user, which may not have come as far as to notice it: Ctrl-C may have come before."""
    _users.discard(user)
    if _users:
        return
    if _note in gc.callbacks:
        gc.callbacks.remove(_note)
    COLLECTING.clear()
