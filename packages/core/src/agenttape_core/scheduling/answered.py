"""The order in which a replay answers the calls of a recorded group, beside the recorded one.

A schedule is imposed, and what cannot be imposed is noted where that is seen. This looks at what came of it: event
loops with callbacks of their own, and threads that nobody waits for, can make a difference that nothing else sees.
"""

from __future__ import annotations

from collections import deque

from agenttape_core.schema import Scheduled


class AnswersInOrder:
    """The answers of a group that are still to come.

    Args:
        group: The group.
    """

    def __init__(self, group: Scheduled) -> None:
        self._recorded = [group.calls[one.which] for one in group.deliveries() if one.sender == "call"]
        self._places: dict[str, deque[int]] = {}
        for place, address in enumerate(self._recorded):
            self._places.setdefault(address, deque()).append(place)
        self._at = 0
        self._overtaken: dict[str, str] = {}
        """The calls that another one has overtaken, with that one."""

    def came(self, address: str) -> str:
        """Note an answer, a chunk, or an effect.

        Args:
            address: Where the recording of the call stands.

        Returns:
            The address of a call that came after it in the recording, and has come already; empty if there is none.
        """
        places = self._places.get(address)
        if not places:
            return ""  # a replay may answer more than was recorded at once
        place = places.popleft()
        if place < self._at:
            return self._overtaken.get(address, "")
        for overtaken in self._recorded[self._at : place]:
            self._overtaken.setdefault(overtaken, address)
        self._at = place + 1
        return ""
