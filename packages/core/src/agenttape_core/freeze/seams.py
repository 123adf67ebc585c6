"""Further id makers and clocks, which integrations name for their frameworks."""

from __future__ import annotations

import sys
import types
from typing import TYPE_CHECKING, Any, cast

from agenttape_core.freeze.frozen_function import Replacement, StandIn
from agenttape_core.freeze.modules import Table, content_of

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from contextlib import AbstractContextManager
    from importlib.abc import Loader
    from importlib.machinery import ModuleSpec


class Seams:
    """The registered seams, and the stand-ins that are in place. Not thread-safe; `install` holds the lock."""

    def __init__(self) -> None:
        self._registered: dict[str, dict[str, tuple[str, Replacement]]] = {}
        self._filled: list[tuple[dict[str, Any], str, StandIn]] = []

    def register(self, module: str, attribute: str, kind: str, replacement: Replacement) -> None:
        """Keep a seam; the last registration of the same attribute counts."""
        self._registered.setdefault(module, {})[attribute] = (kind, replacement)

    def modules(self) -> list[str]:
        """The names of the modules that have seams."""
        return list(self._registered)

    def has(self, name: str) -> bool:
        """Whether a module has seams."""
        return name in self._registered

    def fill(self, name: str) -> None:
        """Put stand-ins at the seams of a module, when it is loaded and has them."""
        module = sys.modules.get(name)
        if not issubclass(type(module), types.ModuleType):
            return
        assert module is not None
        content = content_of(module)
        for attribute, (kind, replacement) in self._registered.get(name, {}).items():
            real = content.get(attribute)
            if isinstance(real, StandIn):
                real = real.__wrapped__
            if callable(real):
                stand_in = StandIn(real, kind, replacement)
                content[attribute] = stand_in
                self._filled.append((content, attribute, stand_in))

    def clear(self) -> Table:
        """Put the real things back.

        Returns:
            The stand-ins that were in place, to find where else they got to.
        """
        spread: dict[int, tuple[Any, Any]] = {}
        # Backwards: a seam that was registered twice was filled twice.
        for content, attribute, stand_in in reversed(self._filled):
            spread[id(stand_in)] = (stand_in.__wrapped__, stand_in)
            if content.get(attribute) is stand_in:
                content[attribute] = stand_in.__wrapped__
        self._filled.clear()
        return spread


class SeamFinder:
    """Notices when a module with something to freeze is imported while sessions are open.

    Args:
        is_wanted: Whether a module is to be noticed, by its name.
        around: Gives what the module runs in.
        loaded: Called with the name when such a module has run.
    """

    def __init__(
        self,
        is_wanted: Callable[[str], bool],
        around: Callable[[str], AbstractContextManager[None]],
        loaded: Callable[[str], None],
    ) -> None:
        self._is_wanted = is_wanted
        self._around = around
        self._loaded = loaded

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: types.ModuleType | None = None
    ) -> ModuleSpec | None:
        """Find what the other finders find, with a loader that reports."""
        if not self._is_wanted(fullname):
            return None
        for finder in sys.meta_path:
            find = None if finder is self else getattr(finder, "find_spec", None)
            spec: ModuleSpec | None = find(fullname, path, target) if find else None
            if spec is not None:
                if spec.loader is not None:
                    spec.loader = cast("Loader", _ReportingLoader(spec.loader, self._around, self._loaded))
                return spec
        return None


class _ReportingLoader:
    """Loads like another loader, leaves that one's name on the module, and reports.

    Derives from nothing: importing `importlib.abc` costs 10 ms.
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
