"""The strands of a run: what is sequential in itself, a task or a piece of work in a thread.

Each has a name that is the same in every run: what it runs, below the strand that began it, numbered among those that
run the same. `run/main/poll#2` is the second task of `poll` that `main` has begun. Unlike the branches of an address
(`matching`), they begin whether or not the strand makes calls, and nothing but the readings of the clock goes by them.
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

ROOT = "run"


class Strand:
    """One strand. Holds its home weakly: contexts keep it longer than the session is open.

    Args:
        home: The strands of its session.
        name: Its name, which is unique in the session.
        thread: The thread that it runs in; `None` for work that has not begun.
        outer: The strand of an enclosing session that the context was in.
    """

    __slots__ = ("_begun", "_callbacks", "_latest", "home", "is_over", "name", "outer", "thread")

    def __init__(self, home: Strands, name: str, thread: int | None, outer: Strand | None = None) -> None:
        self.home = weakref.ref(home)
        self.name = name
        self.thread = thread
        self.outer = outer
        self._begun: Counter[str] = Counter()
        self._callbacks: Strand | None = None
        self._latest: Strand | None = None
        self.is_over: Callable[[], bool] = lambda: False
        """Returns True once it has ended, as far as that is known."""

    def began(self, home: Strands, label: str, thread: int | None) -> Strand:
        """Return a strand that this one has begun."""
        with home.lock:
            self._begun[label] += 1
            count = self._begun[label]
        strand = Strand(home, f"{self.name}/{label}" + (f"#{count}" if count > 1 else ""), thread, self.outer)
        if self._latest is not None and not self._latest.is_over():
            home.are_parallel = True
        self._latest = strand
        return strand

    def callbacks(self, home: Strands) -> Strand:
        """Return the strand of what an event loop calls for this one, between its steps."""
        if self._callbacks is None:
            self._callbacks = Strand(home, f"{self.name}/()", self.thread, self.outer)
        return self._callbacks


_strand: ContextVar[Strand | None] = ContextVar("agenttape_strand", default=None)
_begun: ContextVar[str] = ContextVar("agenttape_begun_scope", default="")


class BegunWork:
    """The scope and the strand of a thread without a context, or of a piece of work in one, from which it draws.

    Both are counted where it is begun, as threads begin to run in any order. Enter it in the thread.

    Args:
        scope: Its scope, which is the same in every run.
        strand: Its strand; `None` where nothing is read from a standing clock.
    """

    __slots__ = ("_before", "_over", "_scope", "_strand")

    def __init__(self, scope: str, strand: Strand | None) -> None:
        self._scope, self._strand = scope, strand
        self._over = threading.Event()
        if strand is not None:
            strand.is_over = self._over.is_set

    def __enter__(self) -> None:
        self._before = _strand.get(), _begun.get()
        self.begin()

    def __exit__(self, *_: object) -> None:
        strand, scope = self._before
        _strand.set(strand)
        _begun.set(scope)
        self.end()

    def begin(self) -> None:
        """Let the rest of the caller's context draw from here."""
        _strand.set(self._strand)
        _begun.set(self._scope)

    def end(self) -> None:
        """Note that the work has ended; what follows in its context draws from here all the same."""
        self._over.set()


def begun_scope() -> str:
    """Return the scope of the thread or the work that the caller runs in, if that had no context; else an empty one."""
    return _begun.get()


class Strands:
    """The strands of one session. Thread-safe."""

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.switches = 0
        """The number of times that another strand than the one before has waited or read the clock."""
        self.are_parallel = False
        """True if a strand has begun another one before the one before that had ended."""
        self._last = ""
        self._of_task: weakref.WeakKeyDictionary[asyncio.Task[Any], Strand] = weakref.WeakKeyDictionary()
        self._root = Strand(self, ROOT, threading.get_ident())

    def begin(self) -> None:
        """Let the root be the strand of the caller."""
        outer = _living(_strand.get())
        if outer is not None:
            outer.outer = _living(outer.outer)
        self._root = Strand(self, ROOT, threading.get_ident(), outer)
        task = _task()
        if task is not None:
            self._of_task[task] = self._root
        _strand.set(self._root)

    def end(self) -> None:
        """Let the context of the caller be outside of all strands of this session again."""
        strand = _strand.get()
        if strand is not None and strand.home() is self:
            _strand.set(strand.outer)

    def here(self) -> Strand:
        """Return the strand of the caller, which begins here at the latest."""
        task = _task()
        known = self._of_task.get(task) if task is not None else None
        if known is not None:
            return known
        above, thread = self._above(), threading.get_ident()
        if task is not None:
            strand = above.began(self, _name_of(task), thread)
            strand.is_over = functools.partial(_has_ended, weakref.ref(task))
            self._of_task[task] = strand
            _strand.set(strand)
            return strand
        if above.thread is None:
            above.thread = thread
        if above.thread == thread:
            return above.callbacks(self) if _is_in_loop() else above
        strand = above.began(self, "thread", thread)
        _strand.set(strand)
        return strand

    def touch(self) -> Strand:
        """Return the strand of the caller, which waits or reads the clock."""
        strand = self.here()
        if self._last != strand.name:
            with self.lock:
                self._last, self.switches = strand.name, self.switches + 1
        return strand

    def prepare(self, context: Context, work: Any) -> threading.Event:
        """Begin the strand of work that will run in a context: threads themselves begin it in any order.

        Args:
            context: The context.
            work: The function.

        Returns:
            To be set when the work has ended.
        """
        strand, over = self.fork(label_of(work)), threading.Event()
        strand.is_over = over.is_set
        with suppress(RuntimeError):  # a context that is in use already, for several pieces of work
            context.run(_strand.set, strand)
        return over

    def fork(self, label: str) -> Strand:
        """Return a strand for what the caller begins, in a thread of its own."""
        return self.here().began(self, label, None)

    def _above(self) -> Strand:
        strand = _strand.get()
        while strand is not None and strand.home() is not self:
            strand = strand.outer
        return strand if strand is not None else self._root


def _has_ended(task: weakref.ref[asyncio.Task[Any]]) -> bool:
    found = task()
    return found is None or found.done()


def _living(strand: Strand | None) -> Strand | None:
    while strand is not None and strand.home() is None:
        strand = strand.outer
    return strand


def _task() -> asyncio.Task[Any] | None:
    try:
        return asyncio.current_task()
    except RuntimeError:  # no loop runs in this thread
        return None


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
