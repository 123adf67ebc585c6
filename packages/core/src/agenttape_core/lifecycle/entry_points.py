"""Find the installed integrations, and connect them while a session is open."""

from __future__ import annotations

import sys
from contextlib import ExitStack
from functools import cache
from importlib.metadata import EntryPoint, entry_points
from threading import RLock

from agenttape_core.freeze.imports import ImportFinder

GROUP = "agenttape.integrations"


class Integrations:
    """The installed integrations, connected while at least one session is open. Reference-counted, thread-safe."""

    def __init__(self) -> None:
        self._lock = RLock()
        self._open = 0
        self._stack = ExitStack()
        self._waiting: dict[str, list[EntryPoint]] = {}

    def connect(self) -> None:
        """Connect the integrations of every framework that is imported, and watch for the imports of the others."""
        with self._lock:
            if self._open == 0:
                self._connect_all()
            self._open += 1

    def _connect_all(self) -> None:
        self._waiting.clear()  # of an attempt that failed
        with ExitStack() as stack:
            for point in _installed():
                if point.name in sys.modules:
                    stack.enter_context(point.load()())
                else:
                    self._waiting.setdefault(point.name, []).append(point)
            if self._waiting:
                finder = ImportFinder(self._is_waiting_for, self._imported)
                sys.meta_path.insert(0, finder)
                stack.callback(sys.meta_path.remove, finder)
            self._stack = stack.pop_all()

    def disconnect(self) -> None:
        """Undo `connect`; the last one disconnects for good."""
        with self._lock:
            self._open -= 1
            if self._open == 0:
                self._waiting.clear()
                self._stack.close()

    def _is_waiting_for(self, module: str) -> bool:
        return module in self._waiting

    def _imported(self, module: str) -> None:
        with self._lock:
            for point in self._waiting.pop(module, []) if self._open else []:
                self._stack.enter_context(point.load()())


@cache
def _installed() -> tuple[EntryPoint, ...]:
    return tuple(entry_points(group=GROUP))


integrations = Integrations()
"""The integrations of this process."""
