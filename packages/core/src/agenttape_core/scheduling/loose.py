"""The parts of a run in no order: of strands that wait unseen or compute for long, and of threads that are no strands.

The turn is taken from a strand that does not go on. What it does until it comes to its next gate happens beside the
others, in an order that nobody knows. It may not matter; but if a replay comes out otherwise, this is why. So a
recording keeps the labels, and a replay says where it comes to them.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable

ROOT = "0"
"""The label of the thread in which a session began."""
STRANGER = "-"
"""The label of all threads that are no strands."""
STRANGE = "calls in threads that the session did not begin"
SIGNAL = f"{ROOT}.{zlib.crc32(b'signal')}"
"""The label of signals that came to handlers of the program."""
SIGNALLED = "a signal came to a handler of the program, at a moment that is in no recorded order"
OLDER = f"{ROOT}.{zlib.crc32(b'older thread')}"
"""The label of threads of the program that are older than the session, and have gone on beside it."""
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
_UNSEEN = "{} waited where nobody sees it, or computed for long, and went on without its turn{}"


class Loose:
    """The labels of what is in no order in one session.

    Args:
        recorded: Those of the recording, as text.
        is_replay: Whether the order of the recording is imposed.
        tell: Called with what is in no order in a replay, in words.
    """

    def __init__(self, recorded: str, *, is_replay: bool, tell: Callable[[str], object]) -> None:
        self.recorded = recorded
        """Those of the recording, as text."""
        self._then = frozenset(recorded.split()) if is_replay else frozenset()
        self._tell = tell if is_replay else None
        self._now: dict[str, None] = {}

    def begins(self, label: str) -> None:
        """Say that what begins now was in no order then, if that is so."""
        if label in self._then and self._tell is not None:
            self._tell(_SAID.get(label) or _UNSEEN.format(label, " when it was recorded"))

    def note(self, label: str) -> None:
        """Note that something is in no order in this run."""
        self._now[label] = None
        if self._tell is not None and label != STRANGER:
            self._tell(_SAID.get(label) or _UNSEEN.format(label, ""))

    def text(self) -> str:
        """Return those of this run as text."""
        return " ".join(self._now)
