"""Branches: pieces of work that run in parallel, and end in an order that the test chooses."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future
from contextvars import ContextVar, copy_context
from itertools import count
from threading import Event, Lock, Thread
from typing import Any

_branch: ContextVar[Branch | None] = ContextVar("agenttape_testing_branch", default=None)


def current_branch() -> Branch | None:
    """Return the branch that runs in this context, if one does."""
    return _branch.get()


class Branch:
    """One of several pieces of work that run in parallel. Call it in a thread, or await `arun()` in a task.

    Args:
        work: Its work: a function of the branch, or a coroutine function of it.
        turns: Decides when it may continue.
        numbers: The numbers of its calls, which must not depend on which branch is faster.
        patience: Seconds after which waiting is given up.
    """

    def __init__(self, work: Callable[[Branch], Any], turns: Turns, numbers: Iterator[int], patience: float) -> None:
        self.numbers = numbers
        self.begun = Event()
        """Set when the work has reached the world, or has ended."""
        self.may_go: Future[None] = Future()
        self._work = work
        self._turns = turns
        self._patience = patience

    def __call__(self) -> Any:
        """Do the work, in the context of the caller."""
        _branch.set(self)
        try:
            return self._work(self)
        finally:
            self.leave()

    async def arun(self) -> Any:
        """Do the work of a coroutine function."""
        _branch.set(self)
        try:
            return await self._work(self)
        finally:
            self.leave()

    def hold(self) -> None:
        """Wait for one's turn: called where the world is reached."""
        self._enter()
        self.may_go.result(self._patience)

    async def ahold(self) -> None:
        """Wait for one's turn, in a task."""
        self._enter()
        await asyncio.wait_for(asyncio.wrap_future(self.may_go), self._patience)

    def leave(self) -> None:
        """Let the next one continue: the answer has reached its caller."""
        self.begun.set()
        self._turns.left(self)

    def _enter(self) -> None:
        self.begun.set()
        self._turns.entered(self)


class Turns:
    """Lets branches continue in `order`, by their indices, once all of them wait."""

    def __init__(self, order: Sequence[int]) -> None:
        self._order = order
        self._branchs: list[Branch] = []
        self._inside: set[Branch] = set()
        self._left: set[Branch] = set()
        self._lock = Lock()

    def branchs(self, works: Sequence[Callable[[Branch], Any]], patience: float) -> list[Branch]:
        """Return the branchs of several works, as many as the order has."""
        self._branchs = [
            Branch(work, self, count(number, len(works)), patience) for number, work in enumerate(works, 1)
        ]
        return self._branchs

    def entered(self, branch: Branch) -> None:
        """Note that a branch waits."""
        with self._lock:
            self._inside.add(branch)
        self._let_go()

    def left(self, branch: Branch) -> None:
        """Note that a branch has its answer."""
        with self._lock:
            self._left.add(branch)
        self._let_go()

    def _let_go(self) -> None:
        with self._lock:
            if len(self._inside | self._left) < len(self._branchs):
                return
            ahead = next((n for n in self._order if self._branchs[n] not in self._left), None)
            if ahead is None or self._branchs[ahead].may_go.done():
                return
            self._branchs[ahead].may_go.set_result(None)


def run_in_threads(works: Sequence[Branch], patience: float) -> list[Any]:
    """Run each work in a separate thread, with a copy of the context, begun when the one before it has begun."""
    futures: list[Future[Any]] = []
    for work in works:
        future: Future[Any] = Future()
        Thread(target=copy_context().run, args=(_settle, future, work), daemon=True).start()
        work.begun.wait(patience)
        futures.append(future)
    return [future.result(patience) for future in futures]


async def run_in_tasks(works: Sequence[Branch]) -> list[Any]:
    """Run each work in a separate task."""
    return await asyncio.gather(*(work.arun() for work in works))


def _settle(future: Future[Any], work: Callable[[], Any]) -> None:
    try:
        future.set_result(work())
    except BaseException as error:  # noqa: BLE001 - a miss must reach the test, which waits in another thread
        future.set_exception(error)
