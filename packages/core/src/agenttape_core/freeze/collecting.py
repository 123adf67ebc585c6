"""The garbage collector, which runs code of the program at moments of its own: `__del__`, `finally` of generators.

Which garbage it finds, and when, depends on all that the process has made so far, such as modules. What is drawn there
is nothing of the run: were it, the program's next id would be another one in each replay.
"""

from __future__ import annotations

import gc
from _thread import get_ident
from typing import Any

_uses: list[None] = []
_threads: set[int] = set()
"""Those in which the collector runs now."""


def _note(phase: str, _: Any) -> None:
    if phase == "start":
        _threads.add(get_ident())
    else:
        _threads.discard(get_ident())


def is_collecting() -> bool:
    """Return True if the caller runs because the garbage collector deletes an object."""
    return bool(_threads) and get_ident() in _threads


def swap_in() -> None:
    """Notice the collector from now on, until as many have swapped it out as have swapped it in."""
    _uses.append(None)
    if _note not in gc.callbacks:
        gc.callbacks.append(_note)


def swap_out() -> None:
    """Notice it no more."""
    _uses.pop()
    if _uses:
        return
    if _note in gc.callbacks:
        gc.callbacks.remove(_note)
    _threads.clear()
