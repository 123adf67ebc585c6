"""The place of a call in its run: its address, and its order in the file.

A position is a node of the run tree. Its address is the path of labels from the root, for example
`LangGraph/tools@2~1/get_weather`, where `@2` is a superstep, `~1` the second of several parallel branches, and a
trailing `#3` the third equal sibling. Addresses depend on the structure of the run and never on which of two parallel
calls happened to be faster, so they are the same in every run of the same code.
"""

from __future__ import annotations

import asyncio
import functools
import weakref
from collections.abc import Callable, Hashable, Iterator
from contextvars import ContextVar
from typing import Any

from agenttape_core.locks import Lock
from agenttape_core.named_tuples import NamedTuple


class SiblingPosition(NamedTuple):
    """The place of a position among its siblings. Places sort as the calls of a run are read."""

    start: int  # its start among its siblings
    branch: tuple[int, ...] = ()  # where its branch came from, as seen from its parent, and its start within that
    within: int = 0  # its start within its group or branch
    label: str = ""  # its name
    ordinal: int = 0  # its number among siblings of that name


Order = tuple[SiblingPosition, ...]  # sorts positions: a place for each level, the outermost first


_CLAIMING = Lock()
"""One lock for all branches, as it's held for a moment, and takes longer to make than all else of a branch."""


class Branch:
    """One of several concurrent branches of a run, numbered in the order in which they were forked. Thread-safe.

    Args:
        rank: The indices of the branch and of those it came from, outermost first.
        task: The asyncio task that runs in it, if one does; every other task gets a fork.
        lent: Whether it is a further branch of the same rank, for a task that is awaited right away.
        after: For each index of the rank, the number of calls that had begun in the branch that it came from.
    """

    __slots__ = ("_loop", "_task", "after", "lent", "rank")

    def __init__(
        self,
        rank: tuple[int, ...] = (),
        task: asyncio.Task[Any] | None = None,
        *,
        lent: bool = False,
        after: tuple[int, ...] = (),
    ) -> None:
        self.rank = rank
        self.after = after
        self.lent = lent
        self._task: weakref.ref[asyncio.Task[Any]] | None = weakref.ref(task) if task is not None else None
        self._loop: asyncio.AbstractEventLoop | None = None

    @property
    def name(self) -> str:
        """Its name among its siblings. The first fork has the name of the branch that it came from."""
        return rank_name(self.rank)

    def lend(self) -> Branch:
        """Return this branch for the next task to claim: one that this branch's task awaits right away."""
        return Branch(self.rank, lent=True, after=self.after)

    def runs(self, task: asyncio.Task[Any]) -> bool:
        """True if the task runs in this branch."""
        return self._task is not None and self._task() is task

    def claim(self, task: asyncio.Task[Any]) -> bool:
        """Let the task run in this branch, if no task does yet: it began outside any event loop, or was lent."""
        with _CLAIMING:
            owner = self._task() if self._task is not None else None
            loop = self._loop if owner is None else owner.get_loop()
            if self._task is not None and (loop is None or not loop.is_closed()):
                return False
            # Not the task, which would keep alive all that it holds: which one is the next depends on the loop alone.
            self._task, self._loop = weakref.ref(task), task.get_loop()
            return True


def rank_name(rank: tuple[int, ...]) -> str:
    """Return a rank as text, without the zeros at its end: a branch that is alone has no name."""
    while rank and rank[-1] == 0:
        rank = rank[:-1]
    return ".".join(map(str, rank))


_branch: ContextVar[Branch | None] = ContextVar("agenttape_branch", default=None)


# The methods themselves, as each session and each piece of work calls them several times.
current_branch: Callable[[], Branch | None] = _branch.get
"""Return the branch that this context runs in, if it belongs to a session."""

enter_branch: Callable[[Branch | None], object] = _branch.set
"""Make the rest of this context run in the branch."""


def new_branch() -> Branch:
    """Return a branch that the asyncio task of the caller, if there is one, runs in."""
    return Branch(task=_running_task())


def task_branch(position: Position) -> Branch | None:
    """Return the branch of this context, forking it if this is another asyncio task than the one it belongs to.

    Args:
        position: The position that the caller runs below; forks are counted by it.
    """
    branch = _branch.get()
    if branch is None or asyncio._get_running_loop() is None:  # noqa: SLF001 - see `_running_task`
        return branch
    task = _running_task()
    if task is None or branch.runs(task):
        return branch
    if branch.claim(task):
        if not branch.lent:
            position.fork(branch)  # the first fork is named like the branch itself, which this task is now
        return branch
    mine = position.fork(branch, task)
    _branch.set(mine)
    return mine


def _running_task() -> asyncio.Task[Any] | None:
    loop = asyncio._get_running_loop()  # noqa: SLF001 - documented; does not raise where none runs
    return asyncio.current_task(loop) if loop is not None else None


class _Below:
    """The counts of positions that have begun below it. Most positions are calls, with no positions below them."""

    __slots__ = ("counts", "forks", "groups", "led", "started", "steps")

    def __init__(self) -> None:
        self.started = 0
        self.steps: dict[tuple[int, ...], int] = {}
        self.forks: dict[tuple[int, ...], int] = {}
        self.counts: dict[str, int] = {}
        self.groups: dict[Hashable, int] = {}
        self.led = ""


class Position:
    """A node of the run tree. Thread-safe.

    Args:
        address: The path from the root; empty for the root.
        order: The key to sort by.
        branch: The branch in force where the position began.
        lock: The lock of its tree. One is enough, as each is held for a few counts, and a lock that a fork frees takes
            longer to make than all else of a position.
    """

    __slots__ = ("_below", "_lock", "address", "branch", "order")

    def __init__(self, address: str = "", order: Order = (), branch: Branch | None = None, lock: Any = None) -> None:
        self.address = address
        self.order = order
        self.branch = branch
        self._below: _Below | None = None
        self._lock = Lock() if lock is None else lock

    def child(
        self,
        label: str,
        *,
        at: int | None = None,
        group: Hashable = None,
        within: int | None = None,
        branch: Branch | None = None,
    ) -> Position:
        """Begin a position below this one.

        Args:
            label: The name of a model, tool, chain or node.
            at: Its index among its siblings, if the framework provides it (a superstep).
            group: Siblings of one group run concurrently: they share the place of the first of them to start.
            within: Its index within the group, if the framework provides it.
            branch: The branch it runs in, which distinguishes it from concurrent siblings unless `at` or `group` do.
        """
        rank: tuple[int, ...] = ()
        if at is None and group is None and branch is not None and branch.rank:
            rank = self.rank_of(branch)
        label = _escaped(label)
        if rank and (name := rank_name(rank)):
            label = f"{label}~{name}"
        with self._lock:
            below = self._below
            if below is None:
                below = self._below = _Below()
            started = below.started
            below.started = started + 1
            after = branch.after[len(branch.rank) - len(rank) :] if rank and branch is not None else ()
            step = 0
            if rank or (at is None and group is None):
                step = below.steps[rank] = below.steps.get(rank, 0) + 1
            if at is None and (group is not None or rank):
                at = below.groups.setdefault(group if group is not None else ("branches", after[0]), started)
            if within is None:
                within = step if rank else 0
            count = below.counts[label] = below.counts.get(label, 0) + 1
        name = label if count == 1 else f"{label}#{count}"
        address = f"{self.address}/{name}" if self.address else name
        within_branch = _place_in(rank, after, step) if rank else ()
        place = SiblingPosition(started if at is None else at, within_branch, within, label, count)
        return Position(address, (*self.order, place), branch or self.branch, self._lock)

    def lead_to(self, address: str) -> None:
        """Let the next child with a label have an address: a recorded run is begun again, or only one of several.

        Args:
            address: That of a child with this label.
        """
        label, _, count = address.removeprefix(f"{self.address}/").partition("#")
        with self._lock:
            self._below = self._below or _Below()
            self._below.counts[label] = int(count or 1) - 1
            self._below.led = address

    def is_led_to(self, address: str) -> bool:
        """True if this is the last address that a child was led to."""
        return address == (self._below.led if self._below is not None else "")

    def rename(self, address: str) -> None:
        """Give a position that has just begun another address.

        Args:
            address: That of a recorded run, which this one is, or one that no recorded run has.
        """
        self.address = address

    def is_beside(self, other: Position) -> bool:
        """True if this position is in the same tree as another one, below the same first step, but not below it."""
        return self.order[:1] == other.order[:1] and self.order[: len(other.order)] != other.order

    def moment(self) -> Order:
        """Return the position of an event that has none: after all positions that have begun below this one."""
        return (*self.order, SiblingPosition(self._below.started if self._below is not None else 0))

    def fork(self, branch: Branch, task: asyncio.Task[Any] | None = None) -> Branch:
        """Return a new branch that begins below this position.

        Args:
            branch: The branch that it comes from.
            task: The asyncio task that runs in it, if one does.
        """
        with self._lock:
            self._below = self._below or _Below()
            index = self._below.forks.get(branch.rank, 0)
            self._below.forks[branch.rank] = index + 1
            begun = self._below.steps.get(self.rank_of(branch), 0)
        return Branch((*branch.rank, index), task, after=(*branch.after, begun))

    def rank_of(self, branch: Branch | None) -> tuple[int, ...]:
        """Return the rank of a branch, seen from this position."""
        if branch is None or branch is self.branch:
            return ()
        rank, mine = branch.rank, self.branch.rank if self.branch is not None else ()
        return rank[len(mine) :] if rank[: len(mine)] == mine else rank


def _place_in(rank: tuple[int, ...], after: tuple[int, ...], step: int) -> tuple[int, ...]:
    """Return the place of a call in its branch: a branch comes after the calls that had begun where it was forked."""
    places = (place for index, begun in zip(rank, after, strict=True) for place in (2 * begun + 1, index))
    return (*places, 2 * step)


def places_above(address: str) -> Iterator[str]:
    """Yield the places around an address, the nearest first, and last the empty one around all."""
    while address:
        address = address.rpartition("/")[0]
        yield address


_ESCAPES = str.maketrans({char: f"%{ord(char):02X}" for char in "%/#~\n\r\t"})


@functools.lru_cache(1024)
def _escaped(label: str) -> str:
    return label.translate(_ESCAPES)
