"""Those that watch something of this process, and what is installed while there are any."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Generic, TypeVar

from agenttape_core.locks import RLock

WatcherT = TypeVar("WatcherT")


class Watchers(Generic[WatcherT]):
    """The watchers of one thing. Thread-safe.

    Args:
        install: Puts what is needed to watch into a stack, which is closed when the last watcher has gone; called when
            the first one comes.
    """

    def __init__(self, install: Callable[[contextlib.ExitStack], object]) -> None:
        self.all: tuple[WatcherT, ...] = ()
        self._install = install
        self._lock = RLock()
        self._installed = contextlib.ExitStack()

    @contextmanager
    def including(self, watcher: WatcherT) -> Iterator[None]:
        """Have one more during the block. Blocks may nest and overlap in any threads."""
        with self._lock:
            if not self.all:
                self._install(self._installed)
            self.all = (*self.all, watcher)
        try:
            yield
        finally:
            with self._lock:
                at = next(number for number, other in enumerate(self.all) if other is watcher)
                self.all = self.all[:at] + self.all[at + 1 :]
                if not self.all:
                    self._installed.close()
