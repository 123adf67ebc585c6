"""The recordings of a cassette, looked up by what is asked and where. O(1) in their number."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable
from dataclasses import dataclass, field
from threading import Lock
from typing import Literal, Protocol

Exhausted = Literal["fail", "last", "cycle"]
"""What to do when a sequence of equal requests is longer than recorded: fail, repeat the last, start over."""

Rung = Literal["address", "fingerprint", "repeated"]
"""How a recording was found: at the same address, elsewhere in recorded order, or again after exhaustion."""


class Row(Protocol):
    """What must be known of a recording to find it."""

    @property
    def number(self) -> int: ...  # noqa: D102
    @property
    def address(self) -> str: ...  # noqa: D102
    @property
    def fingerprint(self) -> str: ...  # noqa: D102
    @property
    def parent(self) -> int | None: ...  # noqa: D102


@dataclass(slots=True)
class _Outcomes:
    """All recordings of one fingerprint, in recorded order."""

    numbers: list[int] = field(default_factory=list)
    waiting: deque[int] = field(default_factory=deque)
    by_address: dict[str, deque[int]] = field(default_factory=dict)
    repeats: int = 0


@dataclass(frozen=True, slots=True)
class Found:
    """A recording that answers a call, and how it was found."""

    number: int
    rung: Rung


class Recordings:
    """Hands out each recording once, to the caller it belongs to. Thread-safe.

    Args:
        rows: The recordings in the order of the file.
    """

    def __init__(self, rows: Iterable[Row]) -> None:
        self._by_fingerprint: dict[str, _Outcomes] = {}
        self._parents: dict[int, int] = {}
        self._taken: set[int] = set()
        self._total = 0
        self._lock = Lock()
        for row in rows:
            outcomes = self._by_fingerprint.setdefault(row.fingerprint, _Outcomes())
            outcomes.numbers.append(row.number)
            outcomes.waiting.append(row.number)
            outcomes.by_address.setdefault(row.address, deque()).append(row.number)
            if row.parent is not None:
                self._parents[row.number] = row.parent
            self._total += 1

    def __len__(self) -> int:
        return self._total

    def take(self, fingerprint: str, address: str, exhausted: Exhausted = "fail") -> Found | None:
        """Return the recording for a call and mark it as used, or nothing if there is none left.

        Args:
            fingerprint: What is asked.
            address: Where it is asked.
            exhausted: What to do when all recordings of the fingerprint are used.
        """
        with self._lock:
            outcomes = self._by_fingerprint.get(fingerprint)
            if outcomes is None:
                return None
            for rung, queue in (("address", outcomes.by_address.get(address)), ("fingerprint", outcomes.waiting)):
                number = self._first_free(queue)
                if number is not None:
                    self._taken.add(number)
                    return Found(number, rung)  # type: ignore[arg-type]
            return _repeat(outcomes, exhausted)

    def _first_free(self, queue: deque[int] | None) -> int | None:
        while queue:
            number = queue.popleft()
            if number not in self._taken:
                return number
        return None

    def recorded(self, fingerprint: str) -> int:
        """Return how many recordings there are of the fingerprint, used or not."""
        outcomes = self._by_fingerprint.get(fingerprint)
        return len(outcomes.numbers) if outcomes is not None else 0

    def left(self, fingerprint: str) -> int:
        """Return how many of them were not handed out yet."""
        outcomes = self._by_fingerprint.get(fingerprint)
        return sum(number not in self._taken for number in outcomes.waiting) if outcomes is not None else 0

    def unused(self, numbers: Iterable[int]) -> list[int]:
        """Return those that were not handed out and are not below one that was.

        What a served tool once called is neither executed nor unused: it lies inside what was served.
        """
        return [number for number in numbers if number not in self._taken and not self._inside_taken(number)]

    def _inside_taken(self, number: int) -> bool:
        parent = self._parents.get(number)
        while parent is not None:
            if parent in self._taken:
                return True
            parent = self._parents.get(parent)
        return False


def _repeat(outcomes: _Outcomes, exhausted: Exhausted) -> Found | None:
    if exhausted == "fail":
        return None
    if exhausted == "last":
        return Found(outcomes.numbers[-1], "repeated")
    number = outcomes.numbers[outcomes.repeats % len(outcomes.numbers)]
    outcomes.repeats += 1
    return Found(number, "repeated")
