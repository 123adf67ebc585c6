"""The code doesn't grow, and a call costs no more: no figure exceeds its ceiling in `ceilings.toml`."""

from __future__ import annotations

import re
import sys

import pytest

from . import sizes
from .ceilings import COUNTED_WITH, FILE, Tables, allowed, counted, exceeded, lowered, measured

_ADVICE = f"make it smaller; only if it must grow, raise the ceiling in {FILE.name}, and say why on that line"


def judge(found: Tables) -> None:
    """Fail with all that exceeds its ceiling."""
    high = list(exceeded(found, allowed()))
    assert not high, "\n".join(["", *high, _ADVICE])


def test_sizes() -> None:
    """No package has more lines, modules, names, options or larger classes than its ceiling allows."""
    judge(measured())


@pytest.mark.process
@pytest.mark.skipif(sys.version_info[:2] != COUNTED_WITH, reason="calls are counted with one version of Python")
def test_counts() -> None:
    """No path takes more calls of our functions, or enters or loads more modules, than its ceiling allows."""
    judge(counted())


def test_scheduling_has_one_port() -> None:
    """Code outside of scheduling imports its port, and no module behind it."""
    packages = sizes.ROOT / "packages"
    behind = re.compile(r"agenttape_core\.scheduling\.\w|agenttape_core import scheduling")
    outside = [path for path in packages.glob("*/src/**/*.py") if "scheduling" not in path.parts]
    assert [str(path) for path in outside if behind.search(path.read_text("utf-8"))] == []


def test_what_exceeds() -> None:
    """A figure above its ceiling is reported, as is one without a ceiling, and a ceiling of nothing."""
    found = {"lines": {"core": 12, "new": 1}, "modules": {"core": 3}}
    ceilings = {"lines": {"core": 10, "old": 5}, "modules": {"core": 3}, "calls": {"open": 1}}
    assert list(exceeded(found, ceilings)) == [
        'lines of "core": 12, 2 above the ceiling of 10',
        'lines of "new": 1, without a ceiling; add "new" = 1',
        'lines of "old": not measured; remove its ceiling',
    ]


def test_ceilings_only_fall() -> None:
    """Lowering changes only figures above what is measured, in their own table, and keeps each line's reason."""
    text = '# why\n[lines]\n"core" = 10 # a reason\n"langgraph" = 5\n[modules]\n"core" = 2\n'
    found = {"lines": {"core": 7, "langgraph": 6}, "modules": {"core": 2}}
    assert lowered(text, found) == text.replace("10 # a reason", "7 # a reason")
