"""Find the installed integrations, and connect them while a session is open."""

from __future__ import annotations

import importlib.abc
import importlib.machinery
import sys
from collections.abc import Sequence
from contextlib import ExitStack
from functools import cache
from importlib.metadata import EntryPoint, entry_points
from threading import RLock
from types import ModuleType
from typing import Any

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
        self._waiting.clear()  # what an attempt that failed has left
        with ExitStack() as stack:
            for point in _installed():
                if point.name in sys.modules:
                    stack.enter_context(point.load()())
                else:
                    self._waiting.setdefault(point.name, []).append(point)
            if self._waiting:
                finder = _ImportWatch(self)
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

    def is_waiting_for(self, module: str) -> bool:
        """Whether an integration waits for this module to be imported."""
        return module in self._waiting

    def imported(self, module: str) -> None:
        """Connect what waited for a module that has just been imported."""
        with self._lock:
            for point in self._waiting.pop(module, []) if self._open else []:
                self._stack.enter_context(point.load()())


class _ImportWatch(importlib.abc.MetaPathFinder):
    """Notices the first import of a framework, and connects its integration once the module is executed."""

    def __init__(self, owner: Integrations) -> None:
        self._owner = owner

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> importlib.machinery.ModuleSpec | None:
        if not self._owner.is_waiting_for(fullname):
            return None
        for finder in sys.meta_path:
            spec = None if finder is self else finder.find_spec(fullname, path, target)
            if spec is not None:
                spec.loader = _Announcing(spec.loader or _namespace(spec), self._owner, fullname)  # type: ignore[assignment]
                return spec
        return None


def _namespace(spec: importlib.machinery.ModuleSpec) -> importlib.machinery.NamespaceLoader:
    """Return the loader of a package without a file, such as `llama_index`, which the import system adds only later."""
    found = importlib.machinery.PathFinder.find_spec
    return importlib.machinery.NamespaceLoader(spec.name, list(spec.submodule_search_locations or ()), found)


class _Announcing:
    """A loader that says when it is done; everything else is the loader's own business."""

    def __init__(self, loader: Any, owner: Integrations, module: str) -> None:
        self._loader = loader
        self._owner = owner
        self._module = module

    def __getattr__(self, name: str) -> Any:
        return getattr(self._loader, name)

    def create_module(self, spec: importlib.machinery.ModuleSpec) -> ModuleType | None:
        return self._loader.create_module(spec)  # type: ignore[no-any-return]

    def exec_module(self, module: ModuleType) -> None:
        spec = module.__spec__
        if spec is not None:
            spec.loader = self._loader
        module.__loader__ = self._loader
        self._loader.exec_module(module)
        self._owner.imported(self._module)


@cache
def _installed() -> tuple[EntryPoint, ...]:
    return tuple(entry_points(group=GROUP))


integrations = Integrations()
"""The integrations of this process."""
