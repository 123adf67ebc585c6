"""How an observer is told of things: its own errors never reach the observed run, and are never lost."""

from __future__ import annotations

import logging
from abc import abstractmethod
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from threading import local

_log = logging.getLogger("agenttape")


class Noting:
    """Somebody who is told of what happens, in whatever thread or task, and must not disturb it."""

    def __init__(self) -> None:
        self._inside = local()
        self._later: deque[Callable[[], None]] = deque()
        self.errors: list[Exception] = []

    @property
    @abstractmethod
    def path(self) -> Path | str:
        """The cassette."""

    @abstractmethod
    def before_more(self) -> None:
        """Do what has been waiting for the next time that anything is told."""

    def told(self, happened: Callable[[], None]) -> None:
        """Do what the framework has told us of. It would swallow what goes wrong; here that is noted.

        The end of a stream that nobody holds any more is told from wherever its memory is freed, also from amid our own
        code: then it waits until that is done.
        """
        if getattr(self._inside, "now", False):
            self._later.append(happened)
            return
        self._inside.now = True
        try:
            with self.noting():
                self.before_more()
                happened()
            while self._later:
                with self.noting():
                    self._later.popleft()()
        finally:
            self._inside.now = False

    @contextmanager
    def noting(self, *, again: bool = False) -> Iterator[None]:
        """Keep our errors out of the observed run, and not lose them.

        Args:
            again: Whether what fails here has failed before, and is known.
        """
        try:
            yield
        except Exception as error:  # noqa: BLE001 - whatever it is, it is ours and not the run's
            if not again:
                self.could_not_record(error)

    def could_not_record(self, error: Exception) -> None:
        """Note what could not be recorded."""
        self.errors.append(error)
        _log.error("TapeEventHandler(%s) could not record a call: %s", self.path, error)
