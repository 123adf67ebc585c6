"""The draws of a program in processes that `multiprocessing` starts within a replay, for the replay's report.

A spawned process has its own session in a replay, and none while it is recorded. A forked one continues with the ids
and numbers of its parent, as in the recording; but speed decides which worker of a pool takes which work.
"""

from __future__ import annotations

import os
import sys
import weakref

from agenttape_core.freeze import is_drawn_by_program
from agenttape_core.lifecycle.failures_of_children import FAILURES
from agenttape_core.session import Session

_POOLS = frozenset({"concurrent.futures.process", "multiprocessing.pool"})
_DRAWN = {"clock": "times", "numpy": "random numbers of numpy", "random": "random numbers", "uuid": "ids"}
_SAID = "{drawn} that a process of `multiprocessing` draws are not those of the recording"

_sessions: weakref.WeakSet[Session] = weakref.WeakSet()
"""The replays of this process."""


def watch_draws(session: Session, *, is_new: bool) -> None:
    """Let a replay report the program's draws in other processes.

    Args:
        session: The replay.
        is_new: Whether this process was spawned within one; if not, it may be forked.
    """
    if is_new:
        _tell(session, is_of_pool=True)
    else:
        _sessions.add(session)


def _tell(session: Session, *, is_of_pool: bool) -> None:
    weak, said = weakref.ref(session), set[str]()

    def tell(kind: str) -> None:
        session = weak()
        if session is None or kind in said or not is_drawn_by_program() or not (is_of_pool or _is_worker()):
            return
        said.add(kind)
        session.extension(FAILURES).say(_SAID.format(drawn=_DRAWN[kind]))

    if session.frozen is not None:
        session.frozen.tell_draw = tell


def _is_worker() -> bool:
    """Return whether this process is a worker of a pool."""
    multiprocessing = sys.modules.get("multiprocessing")
    target = getattr(multiprocessing.current_process(), "_target", None) if multiprocessing is not None else None
    return getattr(target, "__module__", "") in _POOLS


def _in_child() -> None:
    for session in list(_sessions):
        if not session.closed:
            _tell(session, is_of_pool=False)


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_in_child)
