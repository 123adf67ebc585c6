"""The orders to try, one after another, and the findings."""

from __future__ import annotations

import heapq
import itertools
import random
from collections.abc import Callable, Generator, Hashable, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any, Literal

from agenttape_core.errors import counted
from agenttape_core.experiments.program import Call
from agenttape_core.experiments.result import Result, Summary
from agenttape_core.named_tuples import NamedTuple
from agenttape_core.scheduling import ChoicePoint
from agenttape_core.tools import reporting

Order = tuple[int, ...]
Pick = Callable[[Sequence[int]], int]
_CHANGES = 2  # the moments of a random run at which a priority is lowered: races of three branches need no more


class Tried(NamedTuple):
    """One run of a search."""

    order: Order  # the calls in the order that imposes the run once more
    overtaken: int  # the number of waiting calls that others have overtaken in it


class Search:
    """A search of orders."""

    def __init__(self, most: int, seed: int, branches: Mapping[int, Hashable]) -> None:
        self._most = most
        self._random = random.Random(seed)  # noqa: S311 - no secret
        self._branches = branches
        self.is_exhaustive = False  # true once all orders have been tried
        self._ahead: list[tuple[int, int, int, Order]] = [(0, 0, 0, ())]
        self._ties = itertools.count(1)
        self._tried: set[Order] = set()
        self._number = self._steps = 0
        self._prefix: Order | None = None

    def next(self) -> tuple[Order, Pick | None] | None:
        """Return the next order to replay, and a choice among the calls that it doesn't name; `None` at the end."""
        if self._number == self._most or not self._ahead:
            self.is_exhaustive = not self._ahead
            return None
        is_near = self._number < (self._most + 1) // 2 or self._number + len(self._ahead) <= self._most
        self._number += 1
        self._prefix = heapq.heappop(self._ahead)[-1] if is_near else None
        return (
            ((), _Priorities(self._random.random(), self._steps, self._branches))
            if self._prefix is None
            else (self._prefix, None)
        )

    def note(self, points: Sequence[ChoicePoint]) -> Tried | None:
        """Note the choices of the run in that order; return it, unless it was tried before."""
        prefix, order = self._prefix, tuple(point.chosen for point in points)
        if prefix is not None:
            self._branch_off(prefix, points)
        self._steps = max(self._steps, len(points))
        if order in self._tried:
            return None
        self._tried.add(order)
        return Tried(prefix if prefix is not None else order, overtaken(points))

    def _push(self, cost: int, prefix: Order) -> None:
        heapq.heappush(self._ahead, (cost, len(prefix), next(self._ties), prefix))

    def _branch_off(self, prefix: Order, points: Sequence[ChoicePoint]) -> None:
        """Note the other choices at the points of a run beyond those that its order has decided."""
        cost, chosen = 0, tuple(point.chosen for point in points)
        for place, point in enumerate(points):
            if place >= len(prefix):
                for index, other in enumerate(point.waiting):
                    if other != point.chosen:
                        self._push(cost + index, (*chosen[:place], other))
            cost += point.overtaken


class _Priorities:
    """A choice by random priorities of branches, some of which are lowered; it can be sent to another process."""

    def __init__(self, seed: float, steps: int, branches: Mapping[int, Hashable]) -> None:
        self._random = random.Random(seed)  # noqa: S311 - no secret
        self._changes = {self._random.randrange(max(steps, 1)) for _ in range(_CHANGES)}
        self._branches, self._taken = branches, 0
        self._priorities: dict[Hashable, float] = {}

    def __call__(self, waiting: Sequence[int]) -> int:
        for number in waiting:
            self._priorities.setdefault(self._branches.get(number, number), self._random.random())
        if self._taken in self._changes:
            first = max(waiting, key=self._priority)
            self._priorities[self._branches.get(first, first)] = -self._random.random()
        self._taken += 1
        return max(waiting, key=self._priority)

    def _priority(self, number: int) -> float:
        return self._priorities[self._branches.get(number, number)]


def overtaken(points: Sequence[ChoicePoint]) -> int:
    """Return the number of waiting calls that others have overtaken."""
    return sum(point.overtaken for point in points)


def smaller(order: Order, points: Sequence[ChoicePoint], most: int) -> Generator[Order, bool, Order]:
    """Yield shorter orders, get whether a replay in each has the same failure, and return the shortest that has."""
    left = itertools.count(most, -1)
    diverged = [place for place, point in enumerate(points) if point.overtaken]
    for place in diverged:  # the first divergences may be enough
        prefix = tuple(point.chosen for point in points[: place + 1])
        if len(prefix) < len(order) and next(left) > 0 and (yield prefix):
            order = prefix
            break
    only = tuple(points[place].chosen for place in diverged if place < len(order))
    if only != order and next(left) > 0 and (yield only):
        order = only
    place = 0
    while place < len(order) and len(order) > 1 and next(left) > 0:
        shorter = order[:place] + order[place + 1 :]
        if (yield shorter):
            order = shorter
        else:
            place += 1
    return order


What = Literal["miss", "exception", "result"]
"""A finding: a call without a recording, another exception, or another result."""

_WORDS: dict[What, str] = {
    "miss": "a request changes",
    "exception": "it raises another exception",
    "result": "the result changes",
}


@dataclass(frozen=True, slots=True)
class Finding:
    """A change of the outcome by an order, and the smallest order that was found for it.

    Args:
        what: The sort of the change.
        told: What has come out, and for a result what comes out in the recorded order. Redacted.
        times: How many of the orders have this change.
        order: The calls to answer first, as `Variation(order=)` takes them.
        overtaken: How many waiting calls are overtaken by others in that order.
        reproduce: The command that replays in that order.
    """

    what: What
    told: str
    times: int
    order: str
    overtaken: int
    reproduce: str


@dataclass(frozen=True, slots=True)
class Exploration(Result):
    """The result of an exploration.

    Args:
        function: The name of the program.
        cassette: The cassette.
        seed: The seed of the orders that were chosen by chance.
        orders: The number of different orders that were tried.
        is_exhaustive: Whether these are all that there are.
        overlapping: The calls that wait side by side with another one.
        findings: The changes of the outcome, those by the smallest orders first.
        unstable: Why the program has no outcome to compare with; empty if it has one.
        order: The only order that was tried; empty for a search.
        unreachable: The calls of that order that cannot be answered when it says: they are made after others that were
            to wait for them, or not at all.
        is_whole: Whether it came to its end, and was not interrupted.
    """

    function: str
    cassette: str
    seed: int
    orders: int
    is_exhaustive: bool
    overlapping: Sequence[Call]
    findings: Sequence[Finding]
    unstable: str = ""
    order: str = ""
    unreachable: Sequence[int] = ()
    is_whole: bool = True

    @property
    def failing(self) -> int:
        """The number of orders that change the outcome."""
        return sum(finding.times for finding in self.findings)

    @property
    def asking(self) -> int:
        """The number of those in which the program makes a call that was not recorded: their outcome is not known."""
        return sum(finding.times for finding in self.findings if finding.what == "miss")

    @property
    def smallest(self) -> Finding | None:
        """The change by the smallest order; `None` if there is none."""
        return self.findings[0] if self.findings else None

    def to_dict(self) -> dict[str, Any]:
        """Return all of it as plain data."""
        return {
            "function": self.function,
            "cassette": self.cassette,
            "same": self.ok,
            "seed": self.seed,
            "orders": self.orders,
            "exhaustive": self.is_exhaustive,
            "failing": self.failing,
            "asking": self.asking,
            "overlapping": [asdict(call) for call in self.overlapping],
            "findings": [asdict(finding) for finding in self.findings],
            "unstable": self.unstable,
            "order": self.order,
            "unreachable": list(self.unreachable),
            "is_whole": self.is_whole,
        }

    experiment = "orders"

    def summary(self) -> Summary:
        """Return how many orders change the outcome, and each change with the smallest order that makes it."""
        found = [
            reporting.Finding(f"{_WORDS[one.what]} in the order {one.order}", "as recorded", one.told.splitlines()[0])
            for one in self.findings
        ]
        if self.unstable or self.unreachable:
            found.append(reporting.Finding("it can't be explored", found=self.unstable or self._of_order()))
        lines = [line for one in self.findings for line in ("", *_indented("\n".join(self._lines(one))))]
        table = _indented(self.unstable) if self.unstable else lines
        return Summary(self.function, self.cassette, self._line(), table, found)

    def _line(self) -> str:
        if self.unstable:
            return f"{self.function} cannot be explored:"
        where = f"{self.function} over {self.cassette}:"
        if self.order:
            return f"{where} {self._of_order()}"
        if not self.overlapping:
            return f"{where} no calls wait side by side, so there is one order only"
        how = "all that there are" if self.is_exhaustive else f"nearest first and by chance, seed {self.seed}"
        how = how if self.is_whole else f"{how}, interrupted"
        tried = f"{counted(self.orders, 'order')} of {counted(len(self.overlapping), 'call')} ({how})"
        if not self.findings:
            return f"{where} the same in {tried}"
        if self.is_exhaustive and self.is_whole:
            tried = f"all {self.orders} possible orders"
        return f"{self.function} depends on timing: {self._changes(tried)}"

    def _changes(self, tried: str) -> str:
        """Return how many orders change the outcome, and how many lead to requests without a recorded answer."""
        changing = self.failing - self.asking
        if not changing:
            return f"{self.asking} of {tried} change a request, so it has no recorded answer"
        also = f"; {self.asking} more change a request, so it has no recorded answer" if self.asking else ""
        return f"{changing} of {tried} give another result{also}"

    def _of_order(self) -> str:
        told = f"in the order {self.order}, " + (_WORDS[self.findings[0].what] if self.findings else "the same")
        if not self.unreachable:
            return told
        calls = ", ".join(f"call {number}" for number in self.unreachable)
        return f"{told}\n  not reachable: {calls}, made after what was to wait for it, or not at all"

    def _lines(self, finding: Finding) -> list[str]:
        known = {call.number: call for call in self.overlapping}
        order = [int(number) for number in finding.order.split(",")]
        first = [f"call {each.number} ({each.kind} {each.name})" for each in map(known.get, order) if each is not None]
        earlier = f"smallest change: {', then '.join(first)} {'answers' if len(first) == 1 else 'answer'} first"
        which = f"{_WORDS[finding.what]} in {counted(finding.times, 'order')}"
        return [
            *([which] if len(self.findings) > 1 else []),
            earlier,
            *_indented(finding.told),
            f"reproduce:  {finding.reproduce}",
        ]


def _indented(text: str) -> list[str]:
    return [f"  {line}".rstrip() for line in text.splitlines()]
