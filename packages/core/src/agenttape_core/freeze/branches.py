"""The branches of a run: its sequential parts, such as a task or a piece of work in a thread.

Each has a name that is the same in every run: the name of its code, below the branch that began it, numbered among
those with the same code. `run/main/poll#2` is the second task of `poll` that `main` has begun. Unlike the branches of
an address (`matching`), they begin whether or not the branch makes calls, and only the readings of the clock depend on
them.
"""

from __future__ import annotations

import asyncio
import functools
import threading
import weakref
from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from contextvars import Context, ContextVar
from typing import Any

from agenttape_core.locks import Lock

ROOT = "run"


class Branch:
    """One branch. Holds its home weakly: contexts keep it longer than the session is open.

    Args:
        home: The branches of its session.
        name: Its name, which is unique in the session.
        thread: The thread that it runs in; `None` for work that has not begun.
        outer: The branch of an enclosing session that the context was in.
    """

    __slots__ = ("_begun", "_callbacks", "_latest", "home", "is_over", "name", "outer", "thread")

    def __init__(self, home: Branches, name: str, thread: int | None, outer: Branch | None = None) -> None:
        self.home = weakref.ref(home)
        self.name = name
        self.thread = thread
        self.outer = outer
        self._begun: Counter[str] = Counter()
        self._callbacks: Branch | None = None
        self._latest: Branch | None = None
        self.is_over: Callable[[], bool] = lambda: False  # returns True once it has ended, as far as that is known

    def began(self, home: Branches, label: str, thread: int | None) -> Branch:
        """Return a branch that this one has begun."""
        with home.lock:
            self._begun[label] += 1
            count = self._begun[label]
        branch = Branch(home, f"{self.name}/{label}" + (f"#{count}" if count > 1 else ""), thread, self.outer)
        if self._latest is not None and not self._latest.is_over():
            home.are_parallel = True
        self._latest = branch
        return branch

    def callbacks(self, home: Branches) -> Branch:
        """Return the branch of the callbacks that an event loop runs for this one, between its steps."""
        if self._callbacks is None:
            self._callbacks = Branch(home, f"{self.name}/()", self.thread, self.outer)
        return self._callbacks


_branch: ContextVar[Branch | None] = ContextVar("agenttape_branch", default=None)
_begun: ContextVar[str] = ContextVar("agenttape_begun_scope", default="")


class BegunWork:
    """The scope and the branch of a thread without a context, or of a piece of work in one, from which it draws.

    Both are counted where it is begun, as threads begin to run in any order. Enter it in the thread. `scope` is the
    same in every run; `branch` is `None` if no standing clock is read.
    """

    __slots__ = ("_before", "_branch", "_over", "_scope")

    def __init__(self, scope: str, branch: Branch | None) -> None:
        self._scope, self._branch = scope, branch
        self._over = threading.Event()
        if branch is not None:
            branch.is_over = self._over.is_set

    def __enter__(self) -> None:
        self._before = _branch.get(), _begun.get()
        self.begin()

    def __exit__(self, *_: object) -> None:
        branch, scope = self._before
        _branch.set(branch)
        _begun.set(scope)
        self.end()

    def begin(self) -> None:
        """Let the rest of the caller's context draw from here."""
        _branch.set(self._branch)
        _begun.set(self._scope)

    def end(self) -> None:
        """Note that the work has ended; what follows in its context draws from here all the same."""
        self._over.set()


begun_scope: Callable[[], str] = _begun.get
"""Return the scope of the thread or the work that the caller runs in, if that had no context; else an empty one."""


class Branches:
    """The branches of one session. Thread-safe."""

    def __init__(self) -> None:
        self.lock = Lock()
        self.switches = 0  # the number of times that another branch than the one before has waited or read the clock
        self.are_parallel = False
        """True if a branch has begun another one before the one before that had ended."""
        self._last = ""
        self._of_task: weakref.WeakKeyDictionary[asyncio.Task[Any], Branch] = weakref.WeakKeyDictionary()
        self._root = Branch(self, ROOT, threading.get_ident())

    def begin(self) -> None:
        """Let the root be the branch of the caller."""
        outer = _living(_branch.get())
        if outer is not None:
            outer.outer = _living(outer.outer)
        self._root = Branch(self, ROOT, threading.get_ident(), outer)
        task = _task()
        if task is not None:
            self._of_task[task] = self._root
        _branch.set(self._root)

    def end(self) -> None:
        """Let the context of the caller be outside of all branches of this session again."""
        branch = _branch.get()
        if branch is not None and branch.home() is self:
            _branch.set(branch.outer)

    def here(self) -> Branch:
        """Return the branch of the caller, which begins here at the latest."""
        task = _task()
        known = self._of_task.get(task) if task is not None else None
        if known is not None:
            return known
        above, thread = self._above(), threading.get_ident()
        if task is not None:
            branch = above.began(self, _name_of(task), thread)
            branch.is_over = functools.partial(_has_ended, weakref.ref(task))
            self._of_task[task] = branch
            _branch.set(branch)
            return branch
        if above.thread is None:
            above.thread = thread
        if above.thread == thread:
            return above.callbacks(self) if _is_in_loop() else above
        branch = above.began(self, "thread", thread)
        _branch.set(branch)
        return branch

    def touch(self) -> Branch:
        """Return the branch of the caller, which waits or reads the clock."""
        branch = self.here()
        if self._last != branch.name:
            with self.lock:
                self._last, self.switches = branch.name, self.switches + 1
        return branch

    def prepare(self, context: Context, work: Any) -> threading.Event:
        """Begin the branch of work in a context, as threads may begin in any order; return the event of its end."""
        branch, over = self.fork(label_of(work)), threading.Event()
        branch.is_over = over.is_set
        with suppress(RuntimeError):  # a context that is in use already, for several pieces of work
            context.run(_branch.set, branch)
        return over

    def fork(self, label: str) -> Branch:
        """Return a branch for work that the caller starts in its own thread."""
        return self.here().began(self, label, None)

    def _above(self) -> Branch:
        branch = _branch.get()
        while branch is not None and branch.home() is not self:
            branch = branch.outer
        return branch if branch is not None else self._root


def _has_ended(task: weakref.ref[asyncio.Task[Any]]) -> bool:
    found = task()
    return found is None or found.done()


def _living(branch: Branch | None) -> Branch | None:
    while branch is not None and branch.home() is None:
        branch = branch.outer
    return branch


def _task() -> asyncio.Task[Any] | None:
    loop = asyncio._get_running_loop()  # noqa: SLF001 - documented; does not raise where none runs
    return asyncio.current_task(loop) if loop is not None else None


def _is_in_loop() -> bool:
    return asyncio._get_running_loop() is not None  # noqa: SLF001 - documented; asks without raising


def _name_of(task: asyncio.Task[Any]) -> str:
    return label_of(task.get_coro())


def label_of(work: Any) -> str:
    """Return the name of what some work runs, the same in every run."""
    while isinstance(work, functools.partial):
        bound = getattr(work.func, "__self__", None)
        work = work.args[0] if isinstance(bound, Context) and work.args else work.func
    name = getattr(work, "__qualname__", None) or type(work).__qualname__
    return str(name).rpartition("<locals>.")[2].replace("/", ".").replace(" ", "_")
