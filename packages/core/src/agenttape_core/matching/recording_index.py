"""The recordings of a cassette, looked up by what is asked and where. O(1) in their number."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable
from dataclasses import dataclass
from threading import Lock
from typing import Literal, Protocol, get_args

from agenttape_core.matching.fingerprint import Question
from agenttape_core.schema import Interaction, Plain

Exhausted = Literal["fail", "last", "cycle"]
"""What to do when a sequence of equal requests is longer than recorded: fail, repeat the last, start over."""

Way = Literal["exact", "request", "address", "ordered"]
"""A way to find a recording: the same request at the same address, the same request elsewhere, another request at the
same address, or the next one of the same kind and name whatever it asks; the last three in recorded order."""

WAYS: tuple[Way, ...] = get_args(Way)

Rung = Literal["exact", "request", "address", "ordered", "matcher", "repeated"]
"""How a recording was found: one of the ways, by the user's matcher, or again after exhaustion."""


@dataclass(frozen=True, slots=True)
class Asked:
    """A call as a matcher sees it.

    Args:
        kind: The kind of boundary.
        name: The name of the boundary.
        address: Where it is asked.
        request: What is asked: redacted plain data, as a cassette holds it.
    """

    kind: str
    name: str
    address: str
    request: dict[str, Plain]


Matcher = Callable[[Asked, Interaction], bool]
"""Says whether a recording of the same kind answers a call."""

MatchOn = tuple[Way | Matcher, ...]
"""The ways to find a recording, tried in turn."""

STRICT: MatchOn = ("exact", "request")


class Row(Protocol):
    """What must be known of a recording to find it."""

    @property
    def number(self) -> int: ...  # noqa: D102
    @property
    def kind(self) -> str: ...  # noqa: D102
    @property
    def name(self) -> str: ...  # noqa: D102
    @property
    def address(self) -> str: ...  # noqa: D102
    @property
    def fingerprint(self) -> str: ...  # noqa: D102
    @property
    def parent(self) -> int | None: ...  # noqa: D102


@dataclass(frozen=True, slots=True)
class Found:
    """A recording that answers a call, and how it was found."""

    number: int
    rung: Rung
    same: bool = True
    """Whether it is the answer to the same request."""


class _Index:
    """The numbers of recordings by a key, those of one key in recorded order."""

    __slots__ = ("_next", "_repeats", "numbers")

    def __init__(self) -> None:
        self.numbers: dict[Hashable, list[int]] = {}
        self._next: dict[Hashable, int] = {}
        self._repeats: dict[Hashable, int] = {}

    def add(self, key: Hashable, number: int) -> None:
        self.numbers.setdefault(key, []).append(number)

    def first_free(self, key: Hashable, taken: set[int]) -> int | None:
        numbers = self.numbers.get(key, ())
        for at in range(self._next.get(key, 0), len(numbers)):
            if numbers[at] not in taken:
                self._next[key] = at + 1
                return numbers[at]
        self._next[key] = len(numbers)
        return None

    def start_over(self) -> None:
        """Look from the start again for what is free."""
        self._next.clear()

    def repeat(self, key: Hashable, exhausted: Exhausted) -> int | None:
        numbers = self.numbers.get(key)
        if not numbers:
            return None
        if exhausted == "last":
            return numbers[-1]
        times = self._repeats.get(key, 0)
        self._repeats[key] = times + 1
        return numbers[times % len(numbers)]


class Recordings:
    """Hands out each recording once, to the caller it belongs to. Thread-safe.

    Args:
        rows: The recordings in the order of the file.
        match_on: How a recording is found for a call, tried in turn.
        read: Reads the whole interaction of a number, for matchers.
    """

    def __init__(
        self, rows: Iterable[Row], match_on: MatchOn = STRICT, read: Callable[[int], Interaction] | None = None
    ) -> None:
        self._match_on = match_on
        self._read = read
        self._rows = {row.number: row for row in rows}
        self._by_fingerprint = _Index()
        self._exact = _Index()
        self._indexed: set[str] = set()
        """The fingerprints that the exact index covers: it grows with what is asked, so that opening stays quick."""
        self._others: dict[Way, _Index] = {way: _Index() for way in ("address", "ordered") if way in match_on}
        self._parents: dict[int, int] = {}
        self._taken: set[int] = set()
        self._given_back: set[int] = set()
        self._lock = Lock()
        for row in self._rows.values():
            self._by_fingerprint.add(row.fingerprint, row.number)
            if row.parent is not None:
                self._parents[row.number] = row.parent
            for way, index in self._others.items():
                index.add(_key(way, row.kind, row.name, row.address), row.number)

    def __len__(self) -> int:
        return len(self._rows)

    def take(self, question: Question, address: str, exhausted: Exhausted = "fail") -> Found | None:
        """Return the recording for a call and mark it as used, or nothing if there is none left.

        Args:
            question: What is asked.
            address: Where it is asked.
            exhausted: What to do when all recordings that fit are used.
        """
        for way in self._match_on:
            found = self._matched(way, question, address) if callable(way) else self._taken_by(way, question, address)
            if found is not None:
                return found
        return self._repeated(question, address, exhausted) if exhausted != "fail" else None

    def _taken_by(self, way: Way, question: Question, address: str) -> Found | None:
        with self._lock:
            index, key = self._place(way, question, address)
            number = index.first_free(key, self._taken)
            if number is None:
                return None
            self._taken.add(number)
        return self._found(number, way, question)

    def _found(self, number: int, rung: Rung, question: Question) -> Found:
        return Found(number, rung, self._rows[number].fingerprint == question.fingerprint)

    def _place(self, way: Way, question: Question, address: str) -> tuple[_Index, Hashable]:
        if way == "request":
            return self._by_fingerprint, question.fingerprint
        if way != "exact":
            return self._others[way], _key(way, question.kind, question.name, address)
        fingerprint = question.fingerprint
        if fingerprint not in self._indexed:  # the first time that this request is asked
            self._indexed.add(fingerprint)
            for number in self._by_fingerprint.numbers.get(fingerprint, ()):
                self._exact.add((fingerprint, self._rows[number].address), number)
        return self._exact, (fingerprint, address)

    def _matched(self, matcher: Matcher, question: Question, address: str) -> Found | None:
        """Return the first free recording that the user's own code accepts; it runs without the lock."""
        assert self._read is not None
        asked = Asked(question.kind, question.name, address, question.body)
        for number, row in self._rows.items():
            if row.kind != question.kind or number in self._taken or not matcher(asked, self._read(number)):
                continue
            with self._lock:
                if number not in self._taken:
                    self._taken.add(number)
                    return self._found(number, "matcher", question)
        return None

    def _repeated(self, question: Question, address: str, exhausted: Exhausted) -> Found | None:
        with self._lock:
            for way in self._match_on:
                if not callable(way):
                    index, key = self._place(way, question, address)
                    number = index.repeat(key, exhausted)
                    if number is not None:
                        return self._found(number, "repeated", question)
        return None

    def give_back(self, numbers: Iterable[int]) -> None:
        """Let recordings be handed out again: the run goes back to before it asked for them. They count as used."""
        with self._lock:
            again = self._taken & set(numbers)
            self._given_back |= again
            self._taken -= again
            for index in (self._by_fingerprint, self._exact, *self._others.values()):
                index.start_over()

    def recorded(self, fingerprint: str) -> int:
        """Return how many recordings there are of the fingerprint, used or not."""
        return len(self._by_fingerprint.numbers.get(fingerprint, ()))

    def numbers(self, fingerprint: str) -> list[int]:
        """Return the recordings of the fingerprint, used or not, in recorded order."""
        return list(self._by_fingerprint.numbers.get(fingerprint, ()))

    def left(self, fingerprint: str) -> int:
        """Return how many of them were not handed out yet."""
        return sum(number not in self._taken for number in self._by_fingerprint.numbers.get(fingerprint, ()))

    def unused(self, numbers: Iterable[int]) -> list[int]:
        """Return those that were not handed out and are not below one that was.

        What a served tool once called is neither executed nor unused: it lies inside what was served.
        """
        return [number for number in numbers if not (self._is_used(number) or self._inside_used(number))]

    def _is_used(self, number: int) -> bool:
        return number in self._taken or number in self._given_back

    def _inside_used(self, number: int) -> bool:
        above: set[int] = set()
        parent = self._parents.get(number)
        while parent is not None and parent not in above:  # a file edited by hand may go in circles
            if self._is_used(parent):
                return True
            above.add(parent)
            parent = self._parents.get(parent)
        return False


def _key(way: Way, kind: str, name: str, address: str) -> Hashable:
    return (kind, address) if way == "address" else (kind, name)
