"""An observer that may be told of something while it records something else."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from pathlib import Path
from threading import local
from typing import Any

from agenttape_core import Rule
from agenttape_core.integration import Observer, Unseen


class ReentrantObserver(Observer[Any]):
    """An observer that is told of things by whatever thread, task or finaliser, also from amid its own code.

    Args:
        name: As of `Observer`; so are the others.
        path: The cassette.
        unseen: What it is not told of.
        redact: Rules beyond the built-in ones, or `False`.
        tags: Words for the header.
    """

    def __init__(
        self, name: str, path: str | Path, unseen: Unseen, *, redact: bool | Sequence[Rule], tags: Sequence[str]
    ) -> None:
        super().__init__(name, path, unseen, redact=redact, tags=tags)
        self._inside = local()
        self._later: deque[Callable[[], None]] = deque()

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
                self.before_writing()
                happened()
            while self._later:
                with self.noting():
                    self._later.popleft()()
        finally:
            self._inside.now = False
