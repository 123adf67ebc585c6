"""The recorded order of one call, phase by phase: that of its opening, where a stream is awaited first, and the rest.

The two have one address. Where nothing else was awaited, each stands in a group of its own, or in none.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import NamedTuple

from agenttape_core.scheduling.answered import AnswersInOrder
from agenttape_core.schema import Scheduled


class Phase(NamedTuple):
    """A phase of a call.

    Args:
        group: The group that it belongs to.
        at_once: For each chunk, each effect and the end, whether it came at once.
        length: The number of these.
        answers: The answers of the group; `None` if only the order of ends is known.
    """

    group: Scheduled
    at_once: Iterator[bool]
    length: int
    answers: AnswersInOrder | None


class Phases:
    """The recorded phases of one call, in their order.

    Args:
        first: The first one.
    """

    def __init__(self, first: Phase) -> None:
        self._all = [first]
        self._at = 0
        self._was_opened = False

    @property
    def group(self) -> Scheduled:
        """The group of the first phase."""
        return self._all[0].group

    def add(self, phase: Phase) -> None:
        """Add the next one."""
        self._all.append(phase)

    def begin(self, *, is_opening: bool) -> Phase | None:
        """Return the phase that begins; `None` if its order is that of a replay which is told none.

        Args:
            is_opening: Whether a stream is opened, which is read in a phase of its own.
        """
        first = self._all[0]
        if first.group.knows_only_ends:
            return first
        if is_opening and self._at == 0 and len(self._all) == 1 and first.length > 1:
            return None  # what is recorded are its chunks
        if self._at == len(self._all):
            return None if self._was_opened else self._all[-1]
        self._was_opened |= is_opening
        self._at += 1
        return self._all[self._at - 1]


def phases_of(groups: Iterable[Scheduled]) -> dict[str, Phases]:
    """Return the phases of the calls of groups, by address."""
    found: dict[str, Phases] = {}
    for group in groups:
        answers = None if group.knows_only_ends else AnswersInOrder(group)
        flags: list[list[bool]] = [[] for _ in group.calls]
        for delivery in group.deliveries():
            if delivery.sender == "call":
                flags[delivery.which].append(delivery.at_once)
        for address, own in zip(group.calls, flags, strict=True):
            phase = Phase(group, iter(own), len(own), answers)
            if address in found:
                found[address].add(phase)
            else:
                found[address] = Phases(phase)
    return found
