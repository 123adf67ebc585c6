"""`ImportFinder`: notices when a module is imported, and reports that once the module has run.

Sessions watch for modules whose clocks and ids are to be frozen, or by which work is handed to other processes, and for
frameworks whose integration is to connect.
A finder is a `meta_path` hook (https://docs.python.org/3/reference/import.html#import-hooks).
"""

from __future__ import annotations

import sys
from contextlib import nullcontext
from typing import TYPE_CHECKING, Any, cast

if TYPE_CHECKING:
    import types
    from collections.abc import Callable, Sequence
    from contextlib import AbstractContextManager
    from importlib.abc import Loader
    from importlib.machinery import ModuleSpec


def _alone(_name: str) -> AbstractContextManager[None]:
    return nullcontext()


class ImportFinder:
    """Finds modules like the other finders, with a loader that reports. Stands in `sys.meta_path` while it is needed.

    `is_wanted` returns True for the name of a module to be noticed; `loaded` is called with that name when the module
    has run, and `around` returns the context that it runs in, by default none.
    """

    def __init__(
        self,
        is_wanted: Callable[[str], bool],
        loaded: Callable[[str], None],
        around: Callable[[str], AbstractContextManager[None]] = _alone,
    ) -> None:
        self._is_wanted = is_wanted
        self._loaded = loaded
        self._around = around

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: types.ModuleType | None = None
    ) -> ModuleSpec | None:
        """Return the spec that the finders after it have for a wanted module, with a loader that reports."""
        if not self._is_wanted(fullname):
            return None
        finders = list(sys.meta_path)
        # Those before it have been asked, and one of its kind asks only those after itself: no two ask each other.
        for finder in finders[finders.index(self) + 1 if self in finders else 0 :]:
            # Some entries of meta_path are old and have no find_spec.
            find = getattr(finder, "find_spec", None)
            spec: ModuleSpec | None = find(fullname, path, target) if find else None
            if spec is not None:
                loader = _ReportingLoader(spec.loader or _namespace_loader(spec), self._around, self._loaded)
                spec.loader = cast("Loader", loader)
                return spec
        return None


def _namespace_loader(spec: ModuleSpec) -> Loader:
    """Return the loader of a package without a file, such as `llama_index`, which the import system adds only later."""
    from importlib.machinery import NamespaceLoader, PathFinder

    return NamespaceLoader(spec.name, list(spec.submodule_search_locations or ()), PathFinder.find_spec)


class _ReportingLoader:
    """Loads like another loader, leaves that one's name on the module, and reports.

    It has no base class: importing `importlib.abc` costs 10 ms.
    """

    def __init__(
        self, real: Any, around: Callable[[str], AbstractContextManager[None]], loaded: Callable[[str], None]
    ) -> None:
        self._real = real
        self._around = around
        self._loaded = loaded

    def __getattr__(self, name: str) -> Any:
        return getattr(self._real, name)

    def create_module(self, spec: ModuleSpec) -> types.ModuleType | None:
        module: types.ModuleType | None = self._real.create_module(spec)
        return module

    def exec_module(self, module: types.ModuleType) -> None:
        # From here on the module only knows its own loader, which resources and reloads look for.
        if module.__spec__ is not None:
            module.__spec__.loader = self._real
        module.__loader__ = self._real
        with self._around(module.__name__):
            self._real.exec_module(module)
        self._loaded(module.__name__)
