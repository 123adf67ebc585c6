"""Where a call stands in the run: its address, and its place in the order of the file.

A position is a node of the run tree. Its address is the path of labels from the root, such as
`LangGraph/tools@2~1/get_weather`, where `@2` is a superstep, `~1` the second of several parallel branches, and a
trailing `#3` the third equal sibling. Addresses depend on the structure of the run and never on which of two parallel
calls happened to be faster, so they are the same in every run of the same code.
"""

from __future__ import annotations

import asyncio
import weakref
from collections.abc import Hashable
from contextvars import ContextVar
from threading import Lock
from typing import Any

Order = tuple[tuple[int, tuple[int, ...], str, int], ...]
"""Sorts positions: per level the start among its siblings, the branch, the label, the count."""


class Branch:
    """One of several concurrent strands of a run, told apart by creation order. Thread-safe.

    Args:
        rank: The indices of the branch and of those it came from, outermost first.
    """

    __slots__ = ("_lock", "_owner", "_tasks", "rank")

    def __init__(self, rank: tuple[int, ...] = ()) -> None:
        self.rank = rank
        self._tasks = 0
        self._owner: weakref.ref[asyncio.Task[Any]] | None = None
        self._lock = Lock()

    def split(self, count: int) -> list[Branch]:
        """Return a branch for each item of a parallel map. The first stands in for this one, as in `of_task`."""
        return [Branch((*self.rank, index)) for index in range(count)]

    def of_task(self, task: asyncio.Task[Any]) -> Branch:
        """Return the branch of an asyncio task: this one for the first task that asks, a new one for each other."""
        with self._lock:
            owner = self._owner() if self._owner is not None else None
            if owner is task:
                return self
            if owner is None or owner.get_loop().is_closed():
                self._owner = weakref.ref(task)
                return self
            self._tasks += 1
            branch = Branch((*self.rank, self._tasks))
        branch._owner = weakref.ref(task)
        return branch


_branch: ContextVar[Branch | None] = ContextVar("agenttape_branch", default=None)


def current_branch() -> Branch | None:
    """Return the branch that this context runs in, if it was ever forked."""
    return _branch.get()


def enter_branch(branch: Branch | None) -> None:
    """Make the rest of this context run in the branch."""
    _branch.set(branch)


def task_branch() -> Branch | None:
    """Return the branch of this context, forking it if this is another asyncio task than the one it belongs to."""
    branch = _branch.get()
    if branch is None:
        return None
    try:
        task = asyncio.current_task()
    except RuntimeError:
        return branch
    if task is not None and (mine := branch.of_task(task)) is not branch:
        _branch.set(mine)
        return mine
    return branch


class Position:
    """A node of the run tree. Thread-safe.

    Args:
        address: The path from the root; empty for the root.
        order: What to sort by.
        branch: The branch in force where the position began.
    """

    __slots__ = ("_counts", "_groups", "_lock", "_started", "address", "branch", "order")

    def __init__(self, address: str = "", order: Order = (), branch: Branch | None = None) -> None:
        self.address = address
        self.order = order
        self.branch = branch
        self._started = 0
        self._counts: dict[str, int] = {}
        self._groups: dict[Hashable, int] = {}
        self._lock = Lock()

    def child(
        self, label: str, *, at: int | None = None, group: Hashable = None, branch: Branch | None = None
    ) -> Position:
        """Begin a position below this one.

        Args:
            label: What it is: the name of a model, tool, chain or node.
            at: Its place among its siblings, when the framework says so (a superstep).
            group: Siblings of one group run concurrently: they share the place of the first of them to start.
            branch: The branch it runs in, when that tells it from concurrent siblings.
        """
        rank = self._relative(branch)
        label = _escaped(label) + ("~" + ".".join(map(str, rank)) if rank else "")
        with self._lock:
            started = self._started
            self._started += 1
            if at is None and (group is not None or rank):
                at = self._groups.setdefault(group if group is not None else "branches", started)
            count = self._counts[label] = self._counts.get(label, 0) + 1
        name = label if count == 1 else f"{label}#{count}"
        address = f"{self.address}/{name}" if self.address else name
        step = (started if at is None else at, rank, label, count)
        return Position(address, (*self.order, step), branch or self.branch)

    def _relative(self, branch: Branch | None) -> tuple[int, ...]:
        if branch is None or branch is self.branch:
            return ()
        rank, mine = branch.rank, self.branch.rank if self.branch is not None else ()
        rank = rank[len(mine) :] if rank[: len(mine)] == mine else rank
        while rank and rank[-1] == 0:
            rank = rank[:-1]
        return rank


_ESCAPES = str.maketrans({char: f"%{ord(char):02X}" for char in "%/#~\n\r\t"})


def _escaped(label: str) -> str:
    return label.translate(_ESCAPES)
