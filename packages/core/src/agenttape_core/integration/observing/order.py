"""The order in which the calls of an observed run ended, where a replay would have another one.

An observer is not in the event loop, so it only sees the ends of calls and the chunks of streams, and not the program's
steps in between. A replay answers them in that order. It does see which calls answered without yielding to the loop,
such as those of a cache. Calls of threads are answered by their recorded times: see `observed_threads`.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Iterator
from contextvars import Context
from typing import Any, NamedTuple
from weakref import WeakKeyDictionary, ref

from agenttape_core.locks import Lock
from agenttape_core.scheduling import Looking
from agenttape_core.schema import Scheduled, of_at_once

_NOWHERE = Context()
_MOST = 10_000
"""Calls that are kept until no run is open: in a server, one may always be."""


class Moment:
    """The time in which an event loop runs only one task.

    Args:
        round_: Stands for the round of the loop.
        task: The task that runs.
    """

    __slots__ = ("__weakref__", "round", "task")

    def __init__(self, round_: object, task: Any) -> None:
        self.round = round_
        self.task = ref(task) if task is not None else None


class _Rounds(Looking):
    """The rounds of event loops: one ends when all has been called that was ready when it began."""

    def __init__(self) -> None:
        self._now: WeakKeyDictionary[Any, object] = WeakKeyDictionary()

    def now(self, loop: Any) -> object:
        """Return an object that identifies the round of the loop in this thread."""
        found = self._now.get(loop)
        if found is None:
            found = self._now[loop] = object()
            loop.call_soon(self.end, loop, context=_NOWHERE)
        return found

    def end(self, loop: Any) -> None:
        """End the round of a loop."""
        self._now.pop(loop, None)


_ROUNDS = _Rounds()


def moment_here() -> Moment | None:
    """Return the moment of the event loop that runs in this thread; `None` if none does."""
    try:
        loop = asyncio.get_running_loop()
    except RuntimeError:
        return None
    return Moment(_ROUNDS.now(loop), asyncio.current_task(loop))


class Ended(NamedTuple):
    """A call that has ended.

    Args:
        began: When it began, in seconds of a clock that runs.
        ended: When it ended.
        address: Where its recording stands.
        around: Where the call stands that was executing around it; empty if there was none.
        began_in: The moment of its event loop at which it began, if it was made in one.
        ended_in: The moment at which it ended.
        chunks: When each of its chunks came.
    """

    began: float
    ended: float
    address: str
    around: str = ""
    began_in: Moment | None = None
    ended_in: Moment | None = None
    chunks: tuple[float, ...] = ()

    @property
    def is_at_once(self) -> bool:
        """True if its event loop ran no other task meanwhile."""
        here, there = self.began_in, self.ended_in
        return here is not None and there is not None and here.round is there.round and here.task is there.task

    @property
    def deliveries(self) -> tuple[float, ...]:
        """The moments of its chunks and of its end. Threads need no order of chunks: recorded times tell it."""
        return (*self.chunks, self.ended) if self.began_in is not None else (self.ended,)


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
        ones.

        Returns:
            Groups of calls in the order of their ends: all calls of event loops, or else those that overlapped. A
            stream of an event loop also has an entry for each of its chunks. If calls ended in the order in which they
            began, a replay answers them in that order by default. And the calls of several tasks that answered
            immediately.
        """
        with self._lock:
            calls, self._ended = self._ended, []
        around = {call.around for call in calls}
        innermost = {call.address: call for call in calls if call.address not in around}.values()
        at_once = [call for call in innermost if call.is_at_once]
        later = [call for call in innermost if not call.is_at_once]
        tasks = {id(call.began_in.task) for call in innermost if call.began_in is not None}  # one reference for each
        groups = (
            [of_at_once([(call.address, len(call.chunks)) for call in at_once])] if at_once and len(tasks) > 1 else []
        )
        ends = [order for group in _overlapping(later) if (order := _order(group))]
        if ends and all(call.began_in is not None for call in later):
            # A replay answers when its loop is idle: what ended before something else began may overlap with it there.
            ends = [_in_order(later)]
        return ends, groups


def _order(group: list[Ended]) -> list[str]:
    """Return the addresses in the order of the ends; none if that is the order of the beginnings, and of no streams."""
    is_told = sorted(group, key=lambda call: call.ended) != group
    has_chunks = len(group) > 1 and any(len(call.deliveries) > 1 for call in group)
    return _in_order(group) if is_told or has_chunks else []


def _in_order(calls: Iterable[Ended]) -> list[str]:
    """Return the addresses of calls in the order of their outcomes."""
    came = [(moment, call.address) for call in calls for moment in call.deliveries]
    return [address for _, address in sorted(came, key=lambda one: one[0])]


def _overlapping(calls: Iterable[Ended]) -> Iterator[list[Ended]]:
    """Yield calls in groups, in the order of their beginnings, so that none overlaps one of another group."""
    group: list[Ended] = []
    until = float("-inf")
    for call in sorted(calls, key=lambda call: call.began):
        if group and call.began >= until:
            yield group
            group = []
        group.append(call)
        until = max(until, call.ended)
    if group:
        yield group
