"""Those that watch something of this process, and what is installed while there are any."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from typing import Generic, TypeVar

from agenttape_core.guard.patching import Wrappers
from agenttape_core.locks import RLock

WatcherT = TypeVar("WatcherT")


class Watchers(Generic[WatcherT]):
    """The watchers of one thing. Thread-safe.

    Args:
        install: Adds what is needed to watch; called once, when the first one comes. It is in place while there are
            any.
    """

    def __init__(self, install: Callable[[Wrappers], object]) -> None:
        self.all: tuple[WatcherT, ...] = ()
        self._lock = RLock()
        self._wrappers = Wrappers(install)

    @contextmanager
    def including(self, watcher: WatcherT) -> Iterator[None]:
        """Have one more during the block. Blocks may nest and overlap in any threads."""
        self.add(watcher)
        try:
            yield
        finally:
            self.remove(watcher)

    def within(self, wrappers: Wrappers, watcher: WatcherT) -> None:
        """Have one more while wrappers are in place."""
        wrappers.exchange(partial(self.add, watcher), partial(self.remove, watcher))

    def add(self, watcher: WatcherT) -> None:
        """Have one more."""
        with self._lock:
            if not self.all:
                self._wrappers.__enter__()
            self.all = (*self.all, watcher)

    def remove(self, watcher: WatcherT) -> None:
        """Have one less."""
        with self._lock:
            watchers = list(self.all)
            for at, other in enumerate(watchers):
                if other is watcher:
                    del watchers[at]
                    break
            self.all = tuple(watchers)
            if not watchers:
                self._wrappers.__exit__()
