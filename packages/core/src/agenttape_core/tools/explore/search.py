"""The orders to try, one after another: those near to the recorded one first, then far ones by chance.

While there are few orders, all are tried: each choice point of a run opens others, as in stateless model checking
(Godefroid, POPL 1997). Of many, half the budget goes to the orders with the fewest waiting calls overtaken, which is
where most races show (Musuvathi and Qadeer, PLDI 2007), and half to random priorities of branches with a few moments at
which one is lowered, which find a race of any depth with a known probability (PCT: Burckhardt and others, ASPLOS 2010).
"""

from __future__ import annotations

import heapq
import itertools
import random
from collections.abc import Callable, Hashable, Iterator, Sequence
from typing import NamedTuple

from agenttape_core.scheduling import ChoicePoint

Order = tuple[int, ...]
Pick = Callable[[Sequence[int]], int]
Run = Callable[[Order, Pick | None], Sequence[ChoicePoint]]
"""Replays with an order, and with a choice among the calls that it does not name; returns the choices of the run."""

_CHANGES = 2
"""The moments of a random run at which a priority is lowered: races of three branches need no more."""


class Tried(NamedTuple):
    """One run of a search.

    Args:
        order: The calls in the order that imposes the run once more.
        overtaken: The number of waiting calls that others have overtaken in it.
    """

    order: Order
    overtaken: int


class Search:
    """A search of orders.

    Args:
        run: Replays.
        most: The number of runs.
        seed: Of the random runs.
        branch_of: Returns the branch that a call belongs to; priorities are those of branches.
    """

    def __init__(self, run: Run, most: int, seed: int, branch_of: Callable[[int], Hashable]) -> None:
        self._run = run
        self._most = most
        self._random = random.Random(seed)  # noqa: S311 - no secret
        self._branch_of = branch_of
        self.is_exhaustive = False
        """True once all orders have been tried."""
        self._ahead: list[tuple[int, int, int, Order]] = []
        self._ties = itertools.count()
        self._tried: set[Order] = set()

    def runs(self) -> Iterator[Tried]:
        """Replay in one order after another, and yield each that was not tried before when it has ended."""
        self._push(0, ())
        steps = 0
        for number in range(self._most):
            if not self._ahead:
                self.is_exhaustive = True
                return
            is_near = number < (self._most + 1) // 2 or number + len(self._ahead) <= self._most
            if is_near:
                _, _, _, prefix = heapq.heappop(self._ahead)
                points = self._run(prefix, None)
                self._branch_off(prefix, points)
            else:
                prefix, points = (), self._run((), self._priorities(steps))
            steps = max(steps, len(points))
            order = tuple(point.chosen for point in points)
            if order not in self._tried:
                self._tried.add(order)
                yield Tried(prefix if is_near else order, overtaken(points))
        self.is_exhaustive = not self._ahead

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

    def _priorities(self, steps: int) -> Pick:
        rng = random.Random(self._random.random())  # noqa: S311 - no secret
        changes = {rng.randrange(max(steps, 1)) for _ in range(_CHANGES)}
        priorities: dict[Hashable, float] = {}
        taken = itertools.count()

        def pick(waiting: Sequence[int]) -> int:
            for number in waiting:
                priorities.setdefault(self._branch_of(number), rng.random())
            if next(taken) in changes:
                first = max(waiting, key=lambda number: priorities[self._branch_of(number)])
                priorities[self._branch_of(first)] = -rng.random()
            return max(waiting, key=lambda number: priorities[self._branch_of(number)])

        return pick


def overtaken(points: Sequence[ChoicePoint]) -> int:
    """Return the number of waiting calls that others have overtaken."""
    return sum(point.overtaken for point in points)


def smaller(order: Order, points: Sequence[ChoicePoint], fails: Callable[[Order], bool], most: int) -> Order:
    """Return a shorter order with which a replay still fails alike.

    Args:
        order: The order.
        points: The choices of its run.
        fails: Replays, and returns whether that fails alike.
        most: The number of replays at most.
    """
    left = itertools.count(most, -1)
    departed = [place for place, point in enumerate(points) if point.overtaken]
    for place in departed:  # the first departures may be enough
        prefix = tuple(point.chosen for point in points[: place + 1])
        if len(prefix) < len(order) and next(left) > 0 and fails(prefix):
            order = prefix
            break
    only = tuple(points[place].chosen for place in departed if place < len(order))
    if only != order and next(left) > 0 and fails(only):
        order = only
    place = 0
    while place < len(order) and len(order) > 1 and next(left) > 0:
        shorter = order[:place] + order[place + 1 :]
        if fails(shorter):
            order = shorter
        else:
            place += 1
    return order
