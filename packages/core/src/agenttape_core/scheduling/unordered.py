"""Report the parts of a run in no order: unseen waits, signals, threads older than the session or begun by no seam.

The turn is taken from a thread that blocks where it can't be seen. What it does until its next wait happens beside the
others, in an order that isn't known. It may not matter; but if a replay comes out differently, this is why. So a
recording keeps the labels of such threads, and a replay reports where it comes to them.

*Signals*: Python calls a handler between any two steps of the main thread. To see that, the handlers that the program
sets are called by ours while sessions are open; code that looks up a handler gets the program's.

*Older threads* take no turns, and may change what the session looks at without a call. A replay names those that didn't
stay where they were. It leaves out threads of libraries, such as those of pools, which wait for work, and whatever
happens inside one call of a library, such as a server's; threads that make calls, which are told apart elsewhere; and
those that an earlier session began.
"""

from __future__ import annotations

import _signal  # type: ignore[import-not-found] # it has no stubs
import signal
import threading
import zlib
from collections import Counter
from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager
from threading import Thread
from types import BuiltinFunctionType, FrameType, SimpleNamespace
from typing import Any

from agenttape_core.guard.caller import is_library, is_own
from agenttape_core.scheduling.participants import is_of_program
from agenttape_core.scheduling.python_parts import UNKNOWN
from agenttape_core.scheduling.scopes import SCOPES
from agenttape_core.scheduling.stalls import frames, spent_by

ROOT = "0"
"""The label of the thread in which a session began."""
STRANGER = "-"
"""The label of all threads that aren't participants."""
STRANGE = "calls in threads that the session did not begin"
SIGNAL = f"{ROOT}.{zlib.crc32(b'signal')}"
"""The label of signals that came to handlers of the program."""
SIGNALLED = "a signal came to a handler of the program, at a moment that is in no recorded order"
OLDER = f"{ROOT}.{zlib.crc32(b'older thread')}"
"""The label of threads of the program that are older than the session, and have continued beside it."""
WENT_ON = "{}, older than the session, went on beside it, in no recorded order"
EFFECT = f"{ROOT}.{zlib.crc32(b'effect')}"
"""The label of effects of awaited calls that came while the program had steps to make."""
EFFECTED = "a call had an effect while the program went on; here, it comes once the program rests"
TRIO = f"{ROOT}.{zlib.crc32(b'trio')}"
"""The label of calls that overlapped in tasks of trio."""
RUN_BY_TRIO = "trio ran calls side by side: the order of its tasks is trio's own, and isn't recorded"
_SAID = {
    STRANGER: STRANGE,
    TRIO: RUN_BY_TRIO,
    SIGNAL: SIGNALLED,
    OLDER: WENT_ON.format("threads of the program"),
    EFFECT: EFFECTED,
}
ALONE = (STRANGER, SIGNAL, OLDER, EFFECT, TRIO)
"""The labels that say something without any order of gates."""
BETWEEN_ANSWERS = "what is done between the answers of calls that are awaited at once may come in another order"
"""The line about calls of a run that was only observed: no more than the order of their answers is known."""
_UNSEEN = "{} waited where it can't be seen, or computed for long, and went on without its turn{}"


PARTICIPANT = "_agenttape_participant"
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
    frame = frames().get(thread.ident or 0)
    stack: list[FrameType] = []
    while frame is not None:
        stack.append(frame)
        frame = frame.f_back
    return stack[::-1]


class OlderThreads:
    """The threads of the program that are there when a session begins, but for the caller's.

    What they hold on to lives for as long as this does, which knows their frames.
    """

    def __init__(self) -> None:
        self._threads = list(map(_Thread, _threads_of_program()))

    def look(self, known: Collection[int], unordered: Unordered, tell: Callable[[str], object] | None) -> None:
        """Note that some have continued, if they have.

        Args:
            known: The threads that have made calls.
            unordered: The labels of the session, where it's noted.
            tell: Called with each in words; `None` while the run is recorded.
        """
        silent = [each for each in self._threads if each.thread.ident not in known]
        gone_on = [each.thread.name for each in silent if each.has_gone_on()]
        if gone_on:
            unordered.note(OLDER)
        if tell is not None:
            for name in gone_on:
                tell(WENT_ON.format(name))


def _threads_of_program() -> Iterator[Thread]:
    threads: dict[int, Any] = threading._active  # type: ignore[attr-defined] # noqa: SLF001 - `enumerate` takes a lock
    if len(threads) < 2:  # noqa: PLR2004 - the caller's
        return
    for ident, thread in list(threads.items()):
        is_here = ident == threading.get_ident() or thread is threading.main_thread()
        if not (is_here or _is_over(thread) or hasattr(thread, PARTICIPANT)) and is_of_program(code_of(thread)):
            yield thread


def _is_over(thread: Thread) -> bool:
    """Return whether a thread has nothing left to do: a timer that has been cancelled, or has come."""
    return isinstance(thread, threading.Timer) and thread.finished.is_set()


def code_of(thread: Any) -> Any:
    """Return the function that a thread runs: that which it was given, or that of its class."""
    given = thread.function if isinstance(thread, threading.Timer) else getattr(thread, "_target", None)
    return given if given is not None else type(thread).run


_NUMBERS = sorted(map(int, signal.valid_signals()))
_module: Any = signal


class Watched:
    """A handler of the program, or a callback that an event loop calls for a signal.

    Args:
        handler: The handler.
    """

    __slots__ = ("handler",)

    def __init__(self, handler: Callable[..., Any]) -> None:
        self.handler = handler

    def __call__(self, *args: Any) -> Any:
        """Note that a signal came, and handle it. No lock is taken: the main thread may hold any."""
        for session in SCOPES.open():
            session.scheduler.threads.unordered.signal_came()
        return self.handler(*args)

    def __repr__(self) -> str:
        return repr(self.handler)


def watched(handler: Any) -> Any:
    """Return what handles a signal instead of a handler; the handler itself if it isn't code of the program."""
    if not callable(handler) or isinstance(handler, Watched | BuiltinFunctionType) or not is_of_program(handler):
        return handler
    return Watched(handler)


def _unwatched(handler: Any) -> Any:
    return handler.handler if type(handler) is Watched else handler


def _set(number: int, handler: Any) -> Any:
    return _unwatched(_signal.signal(number, watched(handler)))


def _get(number: int) -> Any:
    return _unwatched(_signal.getsignal(number))


_OURS = SimpleNamespace(**{**vars(_signal), "signal": _set, "getsignal": _get})
"""Called by the functions of `signal`, by whatever reference the program has them."""


def watch_signals() -> None:
    """Watch the handlers of the program."""
    _module._signal = _OURS  # noqa: SLF001 - the functions of the module look there
    _exchange(watched)


def unwatch_signals() -> None:
    """Watch them no more."""
    _module._signal = _signal  # noqa: SLF001 - as above
    _exchange(_unwatched)


def _exchange(by: Callable[[Any], Any]) -> None:
    """Exchange the handlers that are there; only the main thread may."""
    if threading.current_thread() is not threading.main_thread():
        return
    for number in _NUMBERS:
        handler = _signal.getsignal(number)
        if callable(handler) and (other := by(handler)) is not handler:
            _signal.signal(number, other)


class Unordered:
    """The labels of everything without an order in one session.

    Args:
        recorded: Those of the recording, as text.
        is_replay: Whether its order is kept.
        is_noted: Whether those of this run are recorded.
        tell: Called with each thing without an order in a replay, in words.
    """

    def __init__(self, recorded: str, *, is_replay: bool, is_noted: bool, tell: Callable[[str], object]) -> None:
        self._recorded = recorded
        self._recorded_labels = frozenset(recorded.split()) if is_replay else frozenset[str]()
        self._is_replay = is_replay
        self._labels: dict[str, None] = {}
        self._is_noted = is_noted
        self._tell = tell
        self._older: OlderThreads | None = None
        self._strangers: Counter[int] = Counter()
        """The calls under way in threads that take no part, or their work in no fixed order, by thread."""
        self.has_unknown_loop = False
        """True once the program has run in an event loop that can't be followed."""
        self._under_trio = 0
        """The number of calls under way in tasks of trio."""
        self.calling: set[int] = set()
        """The threads that have made calls."""

    def enter(self) -> None:
        """Begin: the session does."""
        for label in ALONE if self._recorded_labels else ():
            self._report_recorded(label)
        self._older = OlderThreads()

    def leave(self, *, is_shared: bool) -> None:
        """End.

        Args:
            is_shared: Whether threads or loops have taken turns: then parts of Python that aren't known matter.
        """
        is_concerned = not self._is_noted and (is_shared or self.has_unknown_loop)
        for line in UNKNOWN if is_concerned else ():
            self._tell(line)
        older, self._older = self._older, None
        if older is not None:
            older.look({*self._strangers, *self.calling}, self, None if self._is_noted else self._tell)

    def begins(self, label: str) -> None:
        """Say that a participant that begins was in no order in the recording, if it was."""
        self._report_recorded(_of_thread(label))

    def stalled(self, label: str) -> None:
        """Note that a participant lost the turn, as it waited where it can't be seen."""
        self.note(_of_thread(label))

    def signal_came(self) -> None:
        """Note that a signal came to a handler of the program. No lock is taken: it may come anywhere."""
        self.note(SIGNAL)
        if not self._is_noted:
            self._tell(SIGNALLED)

    def has_ready_file(self) -> None:
        """Note that a loop told the program that a file or a socket was ready."""
        if not self._is_noted:
            self._tell("the event loop told the program that a file or a socket was ready, in no recorded order")

    def effect_came(self) -> None:
        """Note that an awaited call had an effect while the program had steps to make."""
        self.note(EFFECT)

    @contextmanager
    def run_by_trio(self) -> Iterator[None]:
        """Make a call inside in a task of trio, and note it if another one is under way."""
        self._under_trio += 1
        try:
            if self._under_trio > 1:
                self.note(TRIO)
            yield
        finally:
            self._under_trio -= 1

    @contextmanager
    def strange(self, is_anything_beside: Callable[[], bool], label: str = STRANGER) -> Iterator[None]:
        """Make a call inside in a thread without a fixed order, and note it if something else continues meanwhile.

        Args:
            is_anything_beside: Returns whether other threads continue.
            label: The label of the thread; by default of one that takes no part.
        """
        me = threading.get_ident()
        is_beside = any(other != me and self._strangers[other] for other in list(self._strangers))
        self._strangers[me] += 1
        try:
            yield
        finally:
            self._strangers[me] -= 1
            if self._is_noted and (is_beside or is_anything_beside()):
                self.note(_of_thread(label))

    def text(self) -> str:
        """Return the labels of this run, or those of the recording where this run is not recorded."""
        return " ".join(self._labels) if self._is_noted else self._recorded

    def note(self, label: str) -> None:
        """Note that something is in no order in this run."""
        self._labels[label] = None
        if self._is_replay and label != STRANGER:
            self._tell(_SAID.get(label) or _UNSEEN.format(label, ""))

    def _report_recorded(self, label: str) -> None:
        """Report recorded things without an order as they begin again."""
        if label in self._recorded_labels:
            self._tell(_SAID.get(label) or _UNSEEN.format(label, " when it was recorded"))


def _of_thread(label: str) -> str:
    """Return the label of a participant without the call in which it began."""
    return label.rpartition("|")[2]
