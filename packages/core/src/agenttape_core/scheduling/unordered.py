"""The parts of a run in no order: signals, threads older than the session or begun by no seam, and unseen waits."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from agenttape_core.scheduling.awaited import RIGHT_AWAY, Awaited
from agenttape_core.scheduling.loose import ALONE, EFFECT, SIGNAL, SIGNALLED, STRANGER, TRIO, Loose
from agenttape_core.scheduling.older_threads import OlderThreads
from agenttape_core.scheduling.python_parts import UNKNOWN


class Unordered:
    """The labels of what is in no order in one session.

    Args:
        recorded: Those of the recording, as text.
        is_replay: Whether its order is kept.
        is_noted: Whether those of this run are recorded.
        tell: Called with what is in no order in a replay, in words.
    """

    def __init__(self, recorded: str, *, is_replay: bool, is_noted: bool, tell: Callable[[str], object]) -> None:
        self._loose = Loose(recorded, is_replay=is_replay, tell=tell)
        self._alone = ALONE if recorded else ()
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
        for label in self._alone:
            self._loose.begins(label)
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
            older.look({*self._strangers, *self.calling}, self._loose, None if self._is_noted else self._tell)

    def begins(self, label: str) -> None:
        """Say that a participant that begins was in no order in the recording, if it was."""
        self._loose.begins(_of_thread(label))

    def stalled(self, label: str) -> None:
        """Note that a participant lost the turn, as it waited where nobody sees it."""
        self._loose.note(_of_thread(label))

    def signal_came(self) -> None:
        """Note that a signal came to a handler of the program. No lock is taken: it may come anywhere."""
        self._loose.note(SIGNAL)
        if not self._is_noted:
            self._tell(SIGNALLED)

    def has_ready_file(self) -> None:
        """Note that a loop told the program that a file or a socket was ready."""
        if not self._is_noted:
            self._tell("the event loop told the program that a file or a socket was ready, in no recorded order")

    def effect_came(self) -> None:
        """Note that an awaited call had an effect while the program had steps to make."""
        self._loose.note(EFFECT)

    @contextmanager
    def run_by_trio(self) -> Iterator[Awaited]:
        """Make a call inside in a task of trio, and note it if another one is under way."""
        self._under_trio += 1
        try:
            if self._under_trio > 1:
                self._loose.note(TRIO)
            yield RIGHT_AWAY
        finally:
            self._under_trio -= 1

    @contextmanager
    def strange(self, is_anything_beside: Callable[[], bool], label: str = STRANGER) -> Iterator[None]:
        """Make a call inside in a thread without a fixed order, and note it if something else goes on meanwhile.

        Args:
            is_anything_beside: Returns whether other threads go on.
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
                self._loose.note(_of_thread(label))

    def text(self) -> str:
        """Return the labels of this run, or those of the recording where this run is not recorded."""
        return self._loose.text() if self._is_noted else self._loose.recorded


def _of_thread(label: str) -> str:
    """Return the label of a participant without the call in which it began."""
    return label.rpartition("|")[2]
