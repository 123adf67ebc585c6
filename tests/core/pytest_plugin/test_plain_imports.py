"""Our own modules are imported past pytest's search for assertions to rewrite."""

from __future__ import annotations

import sys
from importlib.machinery import SourceFileLoader
from types import SimpleNamespace
from typing import Any

import pytest

import agenttape_core.matching
import agenttape_core.pytest_plugin
from agenttape_core.pytest_plugin.plain_imports import importing_plainly


def test_our_modules_are_found_as_python_finds_them(pytestconfig: pytest.Config) -> None:
    """In the block, Python finds our modules before pytest looks at them; other hooks stay where they were."""
    hook: Any = pytestconfig.pluginmanager.rewrite_hook
    before = list(sys.meta_path)
    with importing_plainly(pytestconfig):
        finder: Any = sys.meta_path[sys.meta_path.index(hook) - 1]
        others = [each for each in sys.meta_path if each is not finder]
        found = finder.find_spec("agenttape_core.matching.selector", agenttape_core.matching.__path__)
    assert (type(found.loader), others, sys.meta_path) == (SourceFileLoader, before, before)


@pytest.mark.parametrize(
    "name", ["agenttape_core.pytest_plugin.fixture", "agenttape_core.testing.identical", "tests.kit"]
)
def test_assertions_for_users_are_still_rewritten(pytestconfig: pytest.Config, name: str) -> None:
    """What shows users what it compares, and all that is not ours, is left to pytest."""
    hook: Any = pytestconfig.pluginmanager.rewrite_hook
    with importing_plainly(pytestconfig):
        finder: Any = sys.meta_path[sys.meta_path.index(hook) - 1]
        assert finder.find_spec(name, agenttape_core.pytest_plugin.__path__) is None


def test_without_the_hook_nothing_changes() -> None:
    """Where assertions are plain, imports stay as they are."""
    before = list(sys.meta_path)
    with importing_plainly(SimpleNamespace(pluginmanager=SimpleNamespace(rewrite_hook=None))):  # type: ignore[arg-type]
        assert sys.meta_path == before
