"""Connections of modules, as soon as the program imports them and while they are needed."""

from __future__ import annotations

import sys
from collections.abc import Callable
from contextlib import AbstractContextManager, ExitStack
from functools import reduce
from importlib import import_module
from types import ModuleType
from typing import Any

from agenttape_core.guard.imports import ImportFinder
from agenttape_core.guard.patching import Wrappers
from agenttape_core.locks import RLock


class ConnectedOnImport:
    """Modules, connected while inside; it may be entered again in the midst of it. Reference-counted, thread-safe.

    Args:
        *modules: The names of the modules, which are never imported for this.
        connect: Connects a module, until the context that it returns is left.
    """

    def __init__(self, *modules: str, connect: Callable[[ModuleType], AbstractContextManager[object]]) -> None:
        self._modules = modules
        self._connect = connect
        self._uses = 0
        self._lock = RLock()
        self._connected: dict[str, ModuleType] = {}
        self._finder = ImportFinder(frozenset(modules).__contains__, self._imported)
        self._undo = ExitStack()

    def __enter__(self) -> None:
        loaded = sys.modules
        for name in self._modules:
            if getattr(getattr(loaded.get(name), "__spec__", None), "_initializing", False):
                import_module(name)  # another thread does, and needs the lock to report it: wait for that without
        with self._lock:
            self._uses += 1
            for name in self._modules:
                if name in loaded:
                    self._enter(name)
            if len(self._connected) < len(self._modules) and self._finder not in sys.meta_path:
                sys.meta_path.insert(0, self._finder)

    def __exit__(self, *_: object) -> None:
        with self._lock:
            self._uses -= 1
            if self._uses:
                return
            if self._connected:
                self._undo.close()
                self._connected = {}
            if self._finder in (sys.meta_path or ()):  # there is none while Python ends
                sys.meta_path.remove(self._finder)

    def _imported(self, name: str) -> None:
        with self._lock:
            if self._uses:
                self._enter(name)

    def _enter(self, name: str) -> None:
        module = sys.modules[name]  # another one than before where a test tool forgets what a run has imported
        if module is not self._connected.get(name):
            self._undo.enter_context(self._connect(module))
            self._connected[name] = module


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

        super().__init__(module, connect=connect)
