"""`PatchedOnImport`: a function of a module that is wrapped while anybody needs it, and as soon as it is imported."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from functools import reduce
from threading import RLock
from types import ModuleType
from typing import Any

from agenttape_core.freeze.imports import ImportFinder
from agenttape_core.guard.patching import patch


class PatchedOnImport:
    """A function of a module, to be wrapped. Reference-counted, thread-safe.

    Args:
        module: The name of the module, which is never imported for this.
        name: The name of the function, or of a class and its method: `Class.method`.
        wrap: Makes the wrapper of the function.
    """

    def __init__(self, module: str, name: str, wrap: Callable[[Callable[..., Any]], Callable[..., Any]]) -> None:
        self._module = module
        self._name = name
        self._wrap = wrap
        self._uses = 0
        self._lock = RLock()
        self._patched: ModuleType | None = None
        self._finder = ImportFinder(module.__eq__, self._imported)
        self._undo = ExitStack()

    @contextmanager
    def __call__(self) -> Iterator[None]:
        """Keep the function wrapped while inside."""
        with self._lock:
            self._uses += 1
            if self._module in sys.modules:
                self._patch()
            elif self._finder not in sys.meta_path:
                sys.meta_path.insert(0, self._finder)
        try:
            yield
        finally:
            with self._lock:
                self._uses -= 1
                if not self._uses:
                    self._restore()

    def _imported(self, _: str) -> None:
        with self._lock:
            if self._uses:
                self._patch()

    def _patch(self) -> None:
        module = sys.modules[self._module]  # another one than before where a test tool forgets what a run has imported
        if module is not self._patched:
            *outer, name = self._name.split(".")
            patch(self._undo, reduce(getattr, outer, module), name, self._wrap)
            self._patched = module

    def _restore(self) -> None:
        self._undo.close()
        self._patched = None
        if self._finder in (sys.meta_path or ()):  # there is none while Python ends
            sys.meta_path.remove(self._finder)
