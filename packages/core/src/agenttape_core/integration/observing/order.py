"""The order in which the calls of an observed run ended, where they overlapped.

An observer is not in the event loop, so it knows only the ends of calls, and not what the program did in between. A
replay answers them in that order.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from threading import Lock
from typing import NamedTuple


class Ended(NamedTuple):
    """A call that has ended.

    Args:
        began: When it began, in seconds of a clock that runs.
        ended: When it ended.
        address: Where its recording stands.
        around: Where the call stands that was executing around it; empty if there was none.
    """

    began: float
    ended: float
    address: str
    around: str


class OrderOfEnds:
    """The calls of the outermost runs that are open. Thread-safe."""

    def __init__(self) -> None:
        self._ended: dict[str, list[Ended]] = {}
        self._lock = Lock()

    def ended(self, outermost: str, call: Ended) -> None:
        """Note a call.

        Args:
            outermost: The address of the outermost run that it belongs to.
            call: The call.
        """
        with self._lock:
            self._ended.setdefault(outermost, []).append(call)

    def take(self, outermost: str) -> list[list[str]]:
        """Forget the calls of an outermost run that has ended; return the addresses of those whose order matters.

        Each group holds calls that overlapped, in the order of their ends. Where they ended as they began, a replay
        answers them in that order without being told.

        Args:
            outermost: The address of the run.
        """
        with self._lock:
            calls = self._ended.pop(outermost, [])
        levels: dict[str, dict[str, Ended]] = {}
        for call in calls:
            levels.setdefault(call.around, {})[call.address] = call
        return [
            order for level in levels.values() for group in _overlapping(level.values()) if (order := _order(group))
        ]


def _order(group: list[Ended]) -> list[str]:
    """Return the addresses in the order of the ends; none if that is the order of the beginnings."""
    ends = sorted(group, key=lambda call: call.ended)
    return [call.address for call in ends] if ends != group else []


def _overlapping(calls: Iterable[Ended]) -> Iterator[list[Ended]]:
    """Yield calls in groups, in the order of their beginnings, so that none overlaps one of another group."""
    group: list[Ended] = []
    until = float("-inf")
    for call in sorted(calls):
        if group and call.began >= until:
            yield group
            group = []
        group.append(call)
        until = max(until, call.ended)
    if group:
        yield group
