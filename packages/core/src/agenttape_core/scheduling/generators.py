"""The async generators that a program leaves without closing them: their ends are arrivals (decision 14).

One that nobody holds any more is closed by its loop: where its last reference goes, or when the collector of garbage
comes to it. A recording notes when that was. In a replay, the collector is called where that is what comes next.
"""

from __future__ import annotations

import gc
from typing import Any

from agenttape_core.scheduling.abandoned import Abandoned, Closing
from agenttape_core.scheduling.turn import Key

MARK = "&"
"""The beginning of the number of a generator in the origin of its end."""


class Generators:
    """The generators of the program in one loop; `abandoned` knows them by this.

    Args:
        room: The loop, as the session sees it.
    """

    def __init__(self, room: Any) -> None:
        self._room = room
        self._begun = 0
        self._left: dict[int, Abandoned] = {}
        self._ending: list[Abandoned] = []
        self._sought: set[Key] = set()

    @property
    def loop(self) -> Any:
        """The loop."""
        return self._room.loop

    def begins_generator(self) -> int:
        """Note that one begins, and return its number."""
        self._begun += 1
        return self._begun

    def keeps(self, one: Abandoned) -> bool:
        """Keep one that nobody holds any more, until its end is admitted; false where nothing has an order."""
        turn = self._room.turn
        if turn.is_over or not turn.is_on:
            return False
        self._left[one.number] = one
        self._room.offer(f"{self._room.name}{MARK}{one.number}", Closing(one).handle())
        return True

    def may_close(self, one: Abandoned) -> bool:
        """Return whether one is closed now, and not after the one that reads it."""
        return one.number in self._left and not one.is_read_by((*self._left.values(), *self._ending))

    def takes(self, one: Abandoned) -> None:
        """Take one that is closed now."""
        self._ending.append(self._left.pop(one.number))

    def has_closed(self, closed: Abandoned, frame: int) -> None:
        """Note that one has been closed: those that it read have lost their last reference by that."""
        self._ending = [one for one in self._ending if one.generator is not closed.generator]
        for one in [one for one in self._left.values() if one.reader == frame]:
            if not self.keeps(one._replace(reader=0)):
                one.close(self.loop)

    def take_all(self) -> list[Any]:
        """Take all that are kept: the loop closes them at its end."""
        left, self._left = self._left, {}
        return [one.generator for one in left.values()]

    def seek(self, key: Key) -> bool:
        """Let the collector find the generator whose end comes next, once the program has left it."""
        if not key.base.startswith(f"{self._room.name}{MARK}"):
            return False
        if self._room.turn.is_settled() and self._room.turn.ready.get(key) is None and self._times(key):
            gc.collect()
        return True

    def _times(self, key: Key) -> bool:
        """Return whether it's the first time that a generator is looked for."""
        if key in self._sought:
            return False
        self._sought.add(key)
        return True
