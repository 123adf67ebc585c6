"""The recordings of a cassette, looked up by request and address. O(1) in their number.

Looking up (`find`) and using up (`use`) are two steps, so that a recording which is found and then refused is still
there for the next call. No lock is held between the two, because a user's matcher runs in the first: it may wait for
another thread that makes a call of the same session. So `use` fails where another call was faster.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable
from typing import Literal, get_args

from agenttape_core.locks import Lock
from agenttape_core.matching.fingerprint import CanonicalRequest
from agenttape_core.named_tuples import NamedTuple
from agenttape_core.schema import IndexRow, Interaction, Plain

OnRepeat = Literal["fail", "last", "cycle"]
"""The end of a sequence of equal requests that is longer than recorded: fail, repeat the last, start over."""

Way = Literal["exact", "request", "address", "ordered"]
"""A way to find a recording: the same request at the same address, the same request elsewhere, another request at the
same address, or the next one of the same kind and name whatever its request; the last three in recorded order."""

WAYS: tuple[Way, ...] = get_args(Way)

MatchRule = Literal["exact", "request", "address", "ordered", "matcher", "repeated"]
"""The way a recording was found: one of the ways above, the user's matcher, or again after exhaustion."""


_EXACT: MatchRule = "exact"
_REQUEST: MatchRule = "request"


class Asked(NamedTuple):
    """A call as a matcher sees it.

    Args:
        kind: The kind of boundary.
        name: The name of the boundary.
        address: Where the call is made.
        request: The request: redacted plain data, as a cassette holds it.
    """

    kind: str
    name: str
    address: str
    request: dict[str, Plain]


Matcher = Callable[[Asked, Interaction], bool]
"""Says whether a recording of the same kind answers a call."""

MatchOn = tuple[Way | Matcher, ...]  # the ways to find a recording, tried in turn

STRICT: MatchOn = ("exact", "request")


class Candidate(NamedTuple):
    """A recording that would answer a call, and how it was found."""

    number: int  # the number of the recording
    match_rule: MatchRule  # how it was found
    same: bool = True  # whether it is the answer to the same request
    lossy: str = ""  # the reason why it isn't exact; empty if it is
    contained: bool = False  # whether its code had no side effects outside the process, and made recorded calls
    sequence: Hashable = None  # for one that is repeated: the sequence of equal requests that has run out
    repeats: int = 0  # how often that sequence has been continued before


class _Index:
    """The numbers of recordings by a key, in recorded order for each key."""

    __slots__ = ("_next", "numbers")

    def __init__(self) -> None:
        self.numbers: dict[Hashable, list[int]] = {}
        self._next: dict[Hashable, int] = {}
        """For each key, the place before which all recordings are used: a sequence is walked through only once."""

    def add(self, key: Hashable, number: int) -> None:
        self.numbers.setdefault(key, []).append(number)

    def first_free(self, key: Hashable, used: set[int]) -> int | None:
        numbers, first = self.numbers.get(key, ()), self._next.get(key, 0)
        if first < len(numbers) and numbers[first] not in used:  # as for most calls, which are at one place each
            return numbers[first]
        for place in range(first, len(numbers)):
            if numbers[place] not in used:
                self._next[key] = place
                return numbers[place]
        self._next[key] = len(numbers)
        return None

    def start_over(self) -> None:
        """Search from the start again for free ones."""
        self._next.clear()


class RecordingIndex:
    """Finds the recording that answers a call, and gives each to one call only. Thread-safe.

    `rows` are in the order of the file; `read` reads a whole interaction for matchers, as a user's own function sees
    more than the index; `fidelity_note` reads why a recording is not exact; `acted` returns whether a call had, or may
    have had, side effects outside the process.
    """

    def __init__(
        self,
        rows: Iterable[IndexRow],
        match_on: MatchOn = STRICT,
        read: Callable[[int], Interaction] | None = None,
        fidelity_note: Callable[[int], str] | None = None,
        acted: Callable[[int], bool] | None = None,
    ) -> None:
        self._lock = Lock()
        self._match_on = match_on
        self._read = read
        self._fidelity_note = fidelity_note
        self._acted = acted
        self._rows = {row.number: row for row in rows}
        self._by_fingerprint = _Index()
        self._exact = _Index()
        self._indexed: set[str] = set()
        """The fingerprints that the exact index covers: it grows with the requests, so that opening stays quick."""
        self._others: dict[Way, _Index] = {}
        self._parents: dict[int, int] = {}
        self._used: set[int] = set()
        self._stepped_into: set[int] = set()
        """The ones used up alone: the calls recorded inside them are made separately."""
        self._given_back: set[int] = set()
        self._repeats: dict[Hashable, int] = {}
        self._with_calls = {row.parent for row in self._rows.values()}
        by_fingerprint = self._by_fingerprint.numbers
        self.is_recorded: Callable[[str], bool] = by_fingerprint.__contains__
        """Returns whether there is a recording with this fingerprint."""
        for row in self._rows.values():
            by_fingerprint.setdefault(row.fingerprint, []).append(row.number)  # for each record: without a call
            if row.parent is not None:
                self._parents[row.number] = row.parent
        if match_on != STRICT:
            self.match_by(match_on)

    def also_match(self, matchers: Iterable[Matcher]) -> None:
        """Find recordings by more functions, after all that was chosen."""
        self._match_on = (*self._match_on, *matchers)

    def __len__(self) -> int:
        return len(self._rows)

    def match_by(self, match_on: MatchOn) -> None:
        """Find recordings in these ways from now on."""
        for way in ("address", "ordered"):
            if way in match_on and way not in self._others:
                index = _Index()
                for row in self._rows.values():
                    index.add(_key(way, row.kind, row.name, row.address), row.number)
                self._others = {**self._others, way: index}
        self._match_on = match_on

    # -- a call ------------------------------------------------------------------------------------------------

    def find(
        self, request: CanonicalRequest, address: str, on_repeat: OnRepeat = "fail", ways: MatchOn | None = None
    ) -> Candidate | None:
        """Return the recording that would answer a call, or `None` if there is none left. It stays unused.

        `on_repeat` is the rule for when all recordings that fit are used; `ways` are some of the ways to find
        recordings, by default all of them.
        """
        for way in self._match_on if ways is None else ways:
            number = self._accepted(way, request, address) if callable(way) else self._free(way, request, address)
            if number is not None:
                return self._candidate(number, "matcher" if callable(way) else way, request)
        return self._repeated(request, address, on_repeat) if on_repeat != "fail" else None

    def again(self, request: CanonicalRequest, is_answer: Callable[[int], bool]) -> Candidate | None:
        """Return the last recording of the same request that is an answer, used or not; `None` if there is none.

        For kinds whose answers are a function of the request alone. `is_answer` returns whether a recording is an
        answer, and no error.
        """
        with self._lock:
            numbers = list(self._by_fingerprint.numbers.get(request.fingerprint, ()))
            sequence = ("again", request.fingerprint)
            repeats = self._repeats.get(sequence, 0)
        number = next(filter(is_answer, reversed(numbers)), None)
        return self._candidate(number, "repeated", request, sequence, repeats) if number is not None else None

    def use(self, candidate: Candidate, *, alone: bool = False) -> bool:
        """Mark a recording that was found as used, and return True; False if another call has got it meanwhile.

        With `alone`, the calls recorded inside it are left to be made.
        """
        with self._lock:
            if alone:
                self._stepped_into.add(candidate.number)
            if candidate.match_rule != "repeated":
                is_free = candidate.number not in self._used
                self._used.add(candidate.number)
                return is_free
            is_next = self._repeats.get(candidate.sequence, 0) == candidate.repeats
            if is_next:
                self._repeats[candidate.sequence] = candidate.repeats + 1
            return is_next

    def take(self, request: CanonicalRequest, address: str) -> Candidate | None:
        """Use up the recording that plainly answers a call, and return it; `None` if there is more to decide on.

        It has the same request, it's exact, and it has no code to step into. In one step, as no user's code runs: most
        calls of a replay need no more.
        """
        fingerprint, match_rule = request.fingerprint, _EXACT
        with self._lock:
            if self._match_on != STRICT:
                return None
            if fingerprint not in self._indexed:
                self._cover(fingerprint)
            number = self._exact.first_free((fingerprint, address), self._used)
            if number is None:
                match_rule, number = _REQUEST, self._by_fingerprint.first_free(fingerprint, self._used)
            if number is None or number in self._with_calls:
                return None
            if self._fidelity_note is not None and self._fidelity_note(number):
                return None
            self._used.add(number)
        return Candidate(number, match_rule)

    def give_back(self, numbers: Iterable[int]) -> None:
        """Let recordings be found again: the run goes back to before it used them. They count as used."""
        with self._lock:
            again = self._used & set(numbers)
            self._given_back |= again
            self._used -= again
            for index in (self._by_fingerprint, self._exact, *self._others.values()):
                index.start_over()

    def _candidate(
        self, number: int, match_rule: MatchRule, request: CanonicalRequest, sequence: Hashable = None, repeats: int = 0
    ) -> Candidate:
        lossy = self._fidelity_note(number) if self._fidelity_note is not None else ""
        is_same = self._rows[number].fingerprint == request.fingerprint
        return Candidate(number, match_rule, is_same, lossy, self._is_contained(number), sequence, repeats)

    def _is_contained(self, number: int) -> bool:
        return number in self._with_calls and self._acted is not None and not self._acted(number)

    def _free(self, way: Way, request: CanonicalRequest, address: str) -> int | None:
        with self._lock:
            index, key = self._place(way, request, address)
            return index.first_free(key, self._used)

    def _place(self, way: Way, request: CanonicalRequest, address: str) -> tuple[_Index, Hashable]:
        if way == "request":
            return self._by_fingerprint, request.fingerprint
        if way != "exact":
            return self._others[way], _key(way, request.kind, request.name, address)
        fingerprint = request.fingerprint
        if fingerprint not in self._indexed:
            self._cover(fingerprint)
        return self._exact, (fingerprint, address)

    def _cover(self, fingerprint: str) -> None:
        """Index the recordings of a request by their addresses, the first time that it's made."""
        self._indexed.add(fingerprint)
        for number in self._by_fingerprint.numbers.get(fingerprint, ()):
            self._exact.add((fingerprint, self._rows[number].address), number)

    def _accepted(self, matcher: Matcher, request: CanonicalRequest, address: str) -> int | None:
        """Return the first free recording that the user's own code accepts. It runs without the lock."""
        assert self._read is not None
        asked = Asked(request.kind, request.name, address, request.body)
        for number, row in self._rows.items():
            if row.kind != request.kind or number in self._used or not matcher(asked, self._read(number)):
                continue
            if number not in self._used:  # a call that was made meanwhile, also by the matcher, may have got it
                return number
        return None

    def _repeated(self, request: CanonicalRequest, address: str, on_repeat: OnRepeat) -> Candidate | None:
        for way in self._match_on:
            if callable(way):
                continue
            with self._lock:
                index, key = self._place(way, request, address)
                numbers, repeats = index.numbers.get(key), self._repeats.get((way, key), 0)
            if numbers:
                number = numbers[-1] if on_repeat == "last" else numbers[repeats % len(numbers)]
                return self._candidate(number, "repeated", request, (way, key), repeats)
        return None

    # -- what is left ------------------------------------------------------------------------------------------

    def numbers(self, fingerprint: str) -> list[int]:
        """Return the recordings of the fingerprint, used or not, in recorded order."""
        return list(self._by_fingerprint.numbers.get(fingerprint, ()))

    def left(self, fingerprint: str) -> int:
        """Return how many of them are not used yet."""
        return sum(number not in self._used for number in self._by_fingerprint.numbers.get(fingerprint, ()))

    def unused(self, numbers: Iterable[int]) -> list[int]:
        """Return those that were not used and are not below one that was.

        Calls inside a replayed tool are neither made nor unused: its answer includes them. Calls inside a tool
        that was stepped into have to be made.
        """
        left = [number for number in numbers if number not in self._used and number not in self._given_back]
        return [number for number in left if not self._is_inside_used(number)] if self._parents else left

    def _was_used(self, number: int) -> bool:
        return number in self._used or number in self._given_back

    def _is_inside_used(self, number: int) -> bool:
        above: set[int] = set()
        parent = self._parents.get(number)
        while parent is not None and parent not in above:  # a file edited by hand may go in circles
            if self._was_used(parent) and parent not in self._stepped_into:
                return True
            above.add(parent)
            parent = self._parents.get(parent)
        return False


def _key(way: Way, kind: str, name: str, address: str) -> Hashable:
    return (kind, address) if way == "address" else (kind, name)
