"""Our own modules, imported past pytest's search for assertions to rewrite.

pytest compares the name of each module with the patterns of test files, which takes as long as to import a small one.
The first session imports some four hundred.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from importlib.machinery import ModuleSpec, PathFinder
from types import ModuleType

import pytest

_REWRITTEN = frozenset({"pytest_plugin", "testing"})
"""The parts of packages whose assertions are for users, and show the compared values."""


class _PlainFinder:
    """Finds modules of our packages where Python finds any others, but for those with assertions for users."""

    def find_spec(
        self, name: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        if path is None or not name.startswith("agenttape_") or not _REWRITTEN.isdisjoint(name.split(".")):
            return None
        return PathFinder.find_spec(name, path, target)


@contextmanager
def importing_plainly(config: pytest.Config) -> Iterator[None]:
    """Let our own modules be imported in the block as outside pytest; other import hooks stay in force."""
    hook, finder = getattr(config.pluginmanager, "rewrite_hook", None), _PlainFinder()
    if hook not in sys.meta_path:  # assertions are plain, or another version of pytest
        yield
        return
    sys.meta_path.insert(sys.meta_path.index(hook), finder)
    try:
        yield
    finally:
        if finder in sys.meta_path:
            sys.meta_path.remove(finder)
