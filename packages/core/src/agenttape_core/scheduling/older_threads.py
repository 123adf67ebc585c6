"""Threads of the program that are older than a session, and go on beside it.

They take no turns, and may do something to what the session looks at without a call. A replay cannot know what that is,
so it names the threads that did not stay where they were. Threads of libraries are left out, such as those of pools,
which wait for whoever gives them work, and so is what goes on inside of one call of a library, such as a server's. So
are threads that make calls, which are told apart elsewhere, and those that were begun in an earlier session.
"""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable, Collection, Iterator
from threading import Thread
from types import FrameType
from typing import Any

from agenttape_core.guard.caller import is_library, is_own
from agenttape_core.scheduling.holder import spent_by
from agenttape_core.scheduling.loose import OLDER, WENT_ON, Loose
from agenttape_core.scheduling.strands import is_of_program

STRAND = "_agenttape_strand"
"""The attribute of threads that were begun in a session."""


class _Thread:
    """A thread, and the place in its code at which it is.

    Args:
        thread: The thread.
    """

    def __init__(self, thread: Thread) -> None:
        self.thread = thread
        self._spent = spent_by(thread.native_id)
        self._stack = _stack(thread)
        program = [place for place, frame in enumerate(self._stack) if _is_of_program(frame)]
        self._depth = program[-1] + 2 if program else len(self._stack)
        """The frames of its stack up to the call of a library that it is in; more than there are if it is in none."""

    def has_gone_on(self) -> bool:
        """Return whether it is no longer there."""
        if not self.thread.is_alive():
            return True
        if len(self._stack) >= self._depth:
            held, now = self._stack[: self._depth], _stack(self.thread)[: self._depth]
            return len(now) != len(held) or any(one is not other for one, other in zip(held, now, strict=True))
        spent = spent_by(self.thread.native_id)
        return spent is None or spent != self._spent


def _is_of_program(frame: FrameType) -> bool:
    return not is_library(frame.f_code.co_filename) and not is_own(frame)


def _stack(thread: Thread) -> list[FrameType]:
    """Return the frames of a thread, the outermost first."""
    frame = sys._current_frames().get(thread.ident or 0)  # noqa: SLF001 - the way to look at other threads
    frames: list[FrameType] = []
    while frame is not None:
        frames.append(frame)
        frame = frame.f_back
    return frames[::-1]


class OlderThreads:
    """The threads of the program that are there when a session begins, but for the caller's.

    What they hold on to lives for as long as this does, which knows their frames.
    """

    def __init__(self) -> None:
        self._threads = list(map(_Thread, _threads_of_program()))

    def look(self, known: Collection[int], loose: Loose, tell: Callable[[str], object] | None) -> None:
        """Note that some have gone on, if they have.

        Args:
            known: The threads that have made calls.
            loose: The place where it is noted.
            tell: Called with each in words; `None` while the run is recorded.
        """
        silent = (each for each in self._threads if each.thread.ident not in known)
        gone_on = [each.thread.name for each in silent if each.has_gone_on()]
        if gone_on:
            loose.note(OLDER)
        if tell is not None:
            for name in gone_on:
                tell(WENT_ON.format(name))


def _threads_of_program() -> Iterator[Thread]:
    threads: dict[int, Any] = threading._active  # type: ignore[attr-defined] # noqa: SLF001 - `enumerate` takes a lock
    if len(threads) < 2:  # noqa: PLR2004 - the caller's
        return
    for ident, thread in list(threads.items()):
        is_here = ident == threading.get_ident() or thread is threading.main_thread()
        if not (is_here or _is_over(thread) or hasattr(thread, STRAND)) and is_of_program(code_of(thread)):
            yield thread


def _is_over(thread: Thread) -> bool:
    """Return whether a thread has nothing left to do: a timer that has been cancelled, or has come."""
    return isinstance(thread, threading.Timer) and thread.finished.is_set()


def code_of(thread: Any) -> Any:
    """Return the function that a thread runs: that which it was given, or that of its class."""
    given = thread.function if isinstance(thread, threading.Timer) else getattr(thread, "_target", None)
    return given if given is not None else type(thread).run
