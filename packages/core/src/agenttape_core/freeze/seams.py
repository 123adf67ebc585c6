"""Further id makers and clocks, which integrations name for their frameworks."""

from __future__ import annotations

import sys
import types
from typing import Any

from agenttape_core.freeze.frozen_function import FrozenFunction, Replacement
from agenttape_core.freeze.modules import Table


class Seams:
    """The registered seams, and the stand-ins that are in place. Not thread-safe; `install` holds the lock."""

    def __init__(self) -> None:
        self._registered: dict[str, dict[str, tuple[str, Replacement]]] = {}
        self._filled: list[tuple[dict[str, Any], str, FrozenFunction]] = []
        self._made: dict[tuple[str, str], FrozenFunction] = {}
        """The wrappers that were made so far; each is reused as long as the wrapped object is the same."""

    def register(self, module: str, attribute: str, kind: str, replacement: Replacement) -> None:
        """Keep a seam; the last registration of the same attribute counts."""
        self._registered.setdefault(module, {})[attribute] = (kind, replacement)
        self._made.pop((module, attribute), None)

    def has(self, name: str) -> bool:
        """Return True if a module has seams."""
        return name in self._registered

    def fill(self, *names: str) -> None:
        """Put wrappers at the seams of modules that are loaded and have them."""
        for name in names or self._registered:
            module = sys.modules.get(name)
            if not issubclass(type(module), types.ModuleType):
                continue
            content: dict[str, Any] = object.__getattribute__(module, "__dict__")  # see `modules.content_of`
            for attribute, (kind, replacement) in self._registered.get(name, {}).items():
                real = content.get(attribute)
                if isinstance(real, FrozenFunction):
                    real = real.__wrapped__
                if callable(real):
                    stand_in = self._made.get((name, attribute))
                    if stand_in is None or stand_in.__wrapped__ is not real:
                        stand_in = self._made[name, attribute] = FrozenFunction(
                            real, kind, replacement, is_of_framework=True
                        )
                    content[attribute] = stand_in
                    self._filled.append((content, attribute, stand_in))

    def clear(self) -> Table:
        """Put the real things back. Returns the stand-ins that were in place, to find where else they got to."""
        spread: dict[int, tuple[Any, Any]] = {}
        # Backwards: a seam that was registered twice was filled twice.
        for content, attribute, stand_in in reversed(self._filled):
            spread[id(stand_in)] = (stand_in.__wrapped__, stand_in)
            if content.get(attribute) is stand_in:
                content[attribute] = stand_in.__wrapped__
        self._filled.clear()
        return spread
