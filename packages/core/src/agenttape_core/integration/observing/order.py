"""The order in which the calls of an observed run ended, where a replay would have another one.

An observer is not in the event loop, so it only sees the ends of calls and the chunks of streams, and not the program's
steps in between. A replay answers them in that order. It does see which calls answered without yielding to the loop,
such as those of a cache. Calls of threads are answered by their recorded times: see `observed_threads`.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Iterator
from contextvars import Context
from time import perf_counter
from typing import Any
from weakref import WeakKeyDictionary, ref

from agenttape_core.locks import Lock
from agenttape_core.named_tuples import NamedTuple
from agenttape_core.scheduling import Looking
from agenttape_core.schema import Delivery, Scheduled, Sender, of_at_once, written

_NOWHERE = Context()
_MOST_ROUNDS = 1000
"""Rounds without a rest, after which a loop counts as one that has rested: it may be one that never does."""
_MOST = 10_000  # calls that are kept until no run is open: in a server, one may always be


class _Busy(Looking):
    """The rounds that an event loop makes without a rest, since something was observed in it.

    The loop is asked in each round, until nothing is ready: what comes next comes to a program that rests.
    """

    __slots__ = ("loop", "rounds")

    def __init__(self, loop: Any) -> None:
        self.loop = id(loop)
        self.rounds = 0

    def look(self, loop: Any) -> None:
        """Count a round; forget the loop if it rests, or never does."""
        if self.rounds >= _MOST_ROUNDS or not getattr(loop, "_ready", True):
            _BUSY.pop(loop, None)
            return
        self.rounds += 1
        loop.call_soon(self.look, loop, context=_NOWHERE)


_BUSY: WeakKeyDictionary[Any, _Busy] = WeakKeyDictionary()
"""The loops that have not rested since something was observed in them."""


class Moment:
    """The time in which an event loop runs only one task. `busy` has the rounds that the loop makes without a rest."""

    __slots__ = ("__weakref__", "busy", "rounds", "task")

    def __init__(self, busy: _Busy, task: Any) -> None:
        self.busy = busy
        self.rounds = busy.rounds
        self.task = ref(task) if task is not None else None

    def after(self, other: Moment | None) -> int | None:
        """Return the rounds that the loop has made since an earlier moment; `None` if it has rested since then."""
        return self.rounds - other.rounds if other is not None and other.busy is self.busy else None


def moment_here() -> Moment | None:
    """Return the moment of the event loop that runs in this thread; `None` if none does."""
    try:
        loop = asyncio.get_running_loop()
    except RuntimeError:
        return None
    busy = _BUSY.get(loop)
    if busy is None:
        busy = _BUSY[loop] = _Busy(loop)
        loop.call_soon(busy.look, loop, context=_NOWHERE)
    return Moment(busy, asyncio.current_task(loop))


class Came(NamedTuple):
    """Something that came to the program."""

    at: float  # when, in seconds of a clock that runs
    moment: Moment | None  # the moment of its event loop, if it came in one


def came_now() -> Came:
    """Return that something comes now."""
    return Came(perf_counter(), moment_here())


class Ended(NamedTuple):
    """A call that has ended."""

    began: Came  # when it began
    ended: Came  # when it ended
    address: str  # where its recording stands
    around: str = ""  # where the call stands that was executing around it; empty if there was none
    chunks: tuple[Came, ...] = ()  # when each of its chunks came

    @property
    def is_at_once(self) -> bool:
        """True if its event loop ran no other task meanwhile."""
        here, there = self.began.moment, self.ended.moment
        return here is not None and there is not None and there.after(here) == 0 and here.task is there.task

    @property
    def deliveries(self) -> tuple[Came, ...]:
        """Its chunks and its end. Threads need no order of chunks: recorded times tell it."""
        return (*self.chunks, self.ended) if self.began.moment is not None else (self.ended,)


class OrderOfEnds:
    """The calls since no run was open, or of outermost runs that have ended side by side. Thread-safe."""

    def __init__(self) -> None:
        self._ended: list[Ended] = []
        self._lock = Lock()

    def ended(self, call: Ended) -> None:
        """Note a call."""
        with self._lock:
            self._ended.append(call)

    @property
    def is_full(self) -> bool:
        """True if so many calls are known that they are to be taken also while runs are open."""
        return len(self._ended) > _MOST

    def take(self) -> tuple[list[list[str]], list[Scheduled]]:
        """Forget the calls that have ended; return the addresses of those whose order matters.

        Calls that were made inside of others represent these: a replay of the others finds their places by the inner
        ones. Returns groups of calls of threads that overlapped, in the order of their ends; a stream of an event loop
        also has an entry for each of its chunks. If calls ended in the order in which they began, a replay answers them
        in that order by default. Also returns the known facts about calls in one event loop.
        """
        with self._lock:
            calls, self._ended = self._ended, []
        around = {call.around for call in calls}
        innermost = {call.address: call for call in calls if call.address not in around}.values()
        at_once = [call for call in innermost if call.is_at_once]
        later = [call for call in innermost if not call.is_at_once]
        moments = [call.began.moment for call in innermost]
        tasks = {id(moment.task) for moment in moments if moment is not None}  # one reference for each
        groups = (
            [of_at_once([(call.address, len(call.chunks)) for call in at_once])] if at_once and len(tasks) > 1 else []
        )
        overlapping = [group for group in _overlapping(later) if len(group) > 1]
        loops = {call.began.moment.busy.loop if call.began.moment is not None else None for call in later}
        if len(loops) == 1 and None not in loops:
            # A replay answers when its loop is idle: what ended before something else began may overlap with it there.
            scheduled = _scheduled(later) if overlapping else None
            return [], [*groups, *([scheduled] if scheduled is not None else [])]
        return [order for group in overlapping if (order := _order(group))], groups


def _order(group: list[Ended]) -> list[str]:
    """Return the addresses in the order of the ends; none if that is the order of the beginnings, and of no streams."""
    is_told = sorted(group, key=lambda call: call.ended.at) != group
    has_chunks = any(len(call.deliveries) > 1 for call in group)
    came = [(each.at, call.address) for call in group for each in call.deliveries]
    return [address for _, address in sorted(came, key=lambda one: one[0])] if is_told or has_chunks else []


def _scheduled(calls: Iterable[Ended]) -> Scheduled | None:
    """Return the order in which calls of one event loop began and were answered, and how far apart.

    It's `None` if they were answered in the order in which they began, each when the loop was idle.
    """
    calls = sorted(calls, key=lambda call: call.began.at)
    came: list[tuple[Came, Sender, int]] = []
    for place, call in enumerate(calls):
        came += [(call.began, "began", place), *((each, "call", place) for each in call.deliveries)]
    came.sort(key=lambda one: one[0].at)
    deliveries: list[Delivery] = []
    before: Moment | None = None
    for one, sender, place in came:
        moment = one.moment
        deliveries.append(Delivery(sender, place, moment.after(before) if moment is not None else None))
        before = moment
    answers = [each for each in deliveries if each.sender == "call"]
    is_told = any(each.after is not None for each in answers) or [each.which for each in answers] != [
        *range(len(calls))
    ]
    return Scheduled(calls=[call.address for call in calls], order=written(deliveries)) if is_told else None


def _overlapping(calls: Iterable[Ended]) -> Iterator[list[Ended]]:
    """Yield calls in groups, in the order of their beginnings, so that none overlaps one of another group."""
    group: list[Ended] = []
    until = float("-inf")
    for call in sorted(calls, key=lambda call: call.began.at):
        if group and call.began.at >= until:
            yield group
            group = []
        group.append(call)
        until = max(until, call.ended.at)
    if group:
        yield group
