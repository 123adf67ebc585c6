"""Connections of modules, as soon as the program imports them and while they are needed."""

from __future__ import annotations

import sys
from collections.abc import Callable
from contextlib import AbstractContextManager, ExitStack
from functools import reduce
from types import ModuleType
from typing import Any, Self

from agenttape_core.guard.imports import ImportFinder
from agenttape_core.guard.patching import Wrappers
from agenttape_core.locks import RLock


class ConnectedOnImport:
    """A module, to be connected. Reference-counted, thread-safe.

    Args:
        module: The name of the module, which is never imported for this.
        connect: Connects the module, until the context that it returns is left.
    """

    def __init__(self, module: str, connect: Callable[[ModuleType], AbstractContextManager[object]]) -> None:
        self._module = module
        self._connect = connect
        self._uses = 0
        self._lock = RLock()
        self._connected: ModuleType | None = None
        self._finder = ImportFinder(module.__eq__, self._imported)
        self._undo = ExitStack()

    def __call__(self) -> Self:
        """Return this, which keeps the module connected while inside; it may be entered again in the midst of it."""
        return self

    def __enter__(self) -> None:
        with self._lock:
            self._uses += 1
            if self._module in sys.modules:
                self._enter()
            elif self._finder not in sys.meta_path:
                sys.meta_path.insert(0, self._finder)

    def __exit__(self, *_: object) -> None:
        with self._lock:
            self._uses -= 1
            if self._uses:
                return
            if self._connected is not None:
                self._undo.close()
                self._connected = None
            if self._finder in (sys.meta_path or ()):  # there is none while Python ends
                sys.meta_path.remove(self._finder)

    def _imported(self, _: str) -> None:
        with self._lock:
            if self._uses:
                self._enter()

    def _enter(self) -> None:
        module = sys.modules[self._module]  # another one than before where a test tool forgets what a run has imported
        if module is not self._connected:
            self._undo.enter_context(self._connect(module))
            self._connected = module


class PatchedOnImport(ConnectedOnImport):
    """A function of a module, to be wrapped.

    Args:
        module: The name of the module, which is never imported for this.
        name: The name of the function, or of a class and its method: `Class.method`.
        wrap: Makes the wrapper of the function.
    """

    def __init__(self, module: str, name: str, wrap: Callable[[Callable[..., Any]], Callable[..., Any]]) -> None:
        *outer, last = name.split(".")

        def connect(found: ModuleType) -> Wrappers:
            wrappers = Wrappers()
            wrappers.patch(reduce(getattr, outer, found), last, wrap)
            return wrappers

        super().__init__(module, connect)
