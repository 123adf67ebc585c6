"""The choice of the replayed call that is answered next, where several wait: an order imposed on a replay.

The answers of a replay are known, so only their order can differ. At a *choice point* a program has nothing else to do,
and each of the calls that wait may be answered next. What a program does with an order other than the recorded one is
its own: a race. The choice points come from the run itself, so an order can only name what can happen.

A run is controlled where a service may be slow or fast, as CHESS controls threads (Musuvathi and others, OSDI 2008),
and an order is as far from the recorded one as the number of waiting calls that are overtaken: the delays of Emmi,
Qadeer and Rakamaric (POPL 2011).
"""

from __future__ import annotations

import re
from collections import deque
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from difflib import get_close_matches
from typing import Any

from agenttape_core.errors import ConfigurationError
from agenttape_core.lazy_patterns import Lazy
from agenttape_core.locks import Lock
from agenttape_core.named_tuples import NamedTuple
from agenttape_core.schema import IndexRow

_FORM = Lazy(r"[1-9]\d{0,8}", re.ASCII)
_SEPARATORS = Lazy(r"[\s,]+")
_EXPECTED = "expected numbers of recorded calls as `agenttape show` prints them, such as '5,3', or their addresses"


class ChoicePoint(NamedTuple):
    """A moment at which one of several calls was answered next.

    Args:
        waiting: The numbers of the calls that waited, those first that the recording answers first.
        chosen: The call that was answered.
    """

    waiting: tuple[int, ...]
    chosen: int

    @property
    def overtaken(self) -> int:
        """The number of waiting calls that the chosen one has overtaken."""
        return self.waiting.index(self.chosen)


def _first(waiting: Sequence[int]) -> int:
    return waiting[0]


class Choices:
    """The choices of one run. Thread-safe.

    Args:
        order: The numbers of calls in the order in which they are to be answered. A call that is named waits until all
            before it have been chosen; one that is not named is answered when it waits and no named one is next.
        ranks: The groups of calls that overlapped in the recording, and the place of each in the order of its group.
        pick: Returns the call that is answered next of those that no order names; by default the recorded one.
        holds_threads: Whether calls of threads wait to be chosen, too.
    """

    def __init__(
        self,
        order: Iterable[int] = (),
        ranks: Mapping[int, tuple[int, int]] | None = None,
        pick: Callable[[Sequence[int]], int] = _first,
        *,
        holds_threads: bool = True,
    ) -> None:
        self.order = tuple(order)
        self.points: list[ChoicePoint] = []
        """All choices so far."""
        self._left = deque(self.order)
        self._ranks = ranks or {}
        self._pick = pick
        self._current: int | None = None
        self._lock = Lock()
        self.holds_threads = holds_threads
        """True if calls of threads wait to be chosen, too."""
        self.are_threads = False
        """True once a call of a thread was chosen."""
        self.unreachable: list[int] = []
        """The calls that others were to wait for, and that were not made before these were answered."""
        self.in_threads: set[int] = set()
        """The calls that were replayed in threads beside others: they are answered right away, in no chosen order."""
        self.is_held = True
        """False once a thread has not waited where it could be held."""

    def __getstate__(self) -> dict[str, Any]:
        """Return what became of it: a copy in another process chooses no more."""
        return {**vars(self), "_lock": None, "_pick": _first}

    def choose(self, waiting: Sequence[int]) -> int | None:
        """Return the call that is answered next, or `None` if each has to wait for another one.

        A call that was chosen, such as a stream, continues until it waits no more.

        Args:
            waiting: The numbers of the calls that wait, in the order in which they began to.
        """
        with self._lock:
            if self._current in waiting:
                return self._current
            free = waiting
            if self._left:
                if self._left[0] in waiting:
                    return self._chosen(self._left.popleft(), waiting)
                free = [number for number in waiting if number not in self._left]
            return self._chosen(self._pick(self._sorted(free)), waiting) if free else None

    def choose_anyway(self, waiting: Sequence[int], tell: Callable[[str], object]) -> int:
        """Return the call that is answered next, where the one before it in the order cannot come before it.

        Args:
            waiting: As in `choose`.
            tell: Called with that, in words.
        """
        with self._lock:
            missing, found = self._left[0], next(number for number in self._left if number in waiting)
            self._left.remove(found)
            if missing not in self.unreachable:
                self.unreachable.append(missing)
                tell(f"call {missing} cannot be answered before call {found}: it is not made while that one waits")
            return self._chosen(found, waiting)

    def _chosen(self, number: int, waiting: Sequence[int]) -> int:
        self._current = number
        self.points.append(ChoicePoint(tuple(self._sorted(waiting)), number))
        return number

    def _sorted(self, waiting: Sequence[int]) -> list[int]:
        """Return calls as the recording answers them, or as they began to wait where it does not tell."""
        ranks = [self._ranks.get(number) for number in waiting]
        if len({rank[0] if rank is not None else -1 for rank in ranks}) > 1:  # they did not overlap
            return list(waiting)
        return sorted(waiting, key=lambda number: self._ranks.get(number, (0, 0))[1])

    @property
    def never_came(self) -> tuple[int, ...]:
        """The calls of the order that the program didn't make."""
        return tuple(self._left)


def ranks_of(
    groups: Iterable[Sequence[str]], numbers: Mapping[str, int], ends: Mapping[int, float]
) -> dict[int, tuple[int, int]]:
    """Return the group of each call whose order is known, and the place at which it was answered.

    Args:
        groups: The addresses of calls that overlapped, as they were answered. Those calls that are in none, as they
            were made in threads, are a group.
        numbers: The numbers of the calls by their addresses.
        ends: The recorded ends of calls, of any clock.
    """
    in_time = sorted(ends, key=lambda number: (ends[number], number))
    ranks = {number: (-1, place) for place, number in enumerate(in_time)}
    for group, addresses in enumerate(groups):
        answered = {address: place for place, address in enumerate(addresses)}
        ranks |= {numbers[address]: (group, place) for address, place in answered.items() if address in numbers}
    return ranks


def parsed_order(order: str | Iterable[int | str], rows: Collection[IndexRow]) -> tuple[int, ...]:
    """Return the numbers of the calls that an order names.

    Args:
        order: Numbers of calls in a text, such as `5,3`; or numbers and addresses, each by itself.
        rows: The recordings of the cassette.

    Raises:
        ConfigurationError: If it names no call of the cassette.
    """
    if isinstance(order, str):
        items: list[int | str] = [word for word in _SEPARATORS.split(order) if word]
    elif isinstance(order, Iterable):
        items = list(order)
    else:
        raise ConfigurationError(f"order={order!r}: {_EXPECTED}")
    numbers, places = {row.number for row in rows}, {row.address: row.number for row in reversed(list(rows))}
    return tuple(_number_of(item, order, numbers, places) for item in items)


def _number_of(item: object, order: object, numbers: Collection[int], places: Mapping[str, int]) -> int:
    if isinstance(item, str) and item in places:
        return places[item]
    if isinstance(item, bool) or not isinstance(item, int | str):
        raise ConfigurationError(f"order={order!r}: {_EXPECTED}; found {item!r}")
    if isinstance(item, str) and not _FORM.fullmatch(item):
        near = get_close_matches(item, places, n=1, cutoff=0.0)
        meant = f"; the nearest is {near[0]}" if near else ""
        raise ConfigurationError(f"order={order!r}: no recorded call has the address {item!r}{meant}")
    if int(item) not in numbers:
        held = f"its calls are {min(numbers)} to {max(numbers)}" if numbers else "it holds no calls"
        raise ConfigurationError(f"order={order!r}: the cassette has no call {item}; {held}")
    return int(item)
