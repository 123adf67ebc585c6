"""The runs of a test that follow once it has passed: with faults, in other orders, with candidates, and to prove it.

This module is imported when the first test runs; those that make the further runs are imported when one is due.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from importlib import import_module
from typing import TYPE_CHECKING, Any

import pytest

from agenttape_core.pytest_plugin.replayed import KEEPS_SESSIONS

if TYPE_CHECKING:
    from agenttape_core.pytest_plugin.running import Running

_PASSED: pytest.StashKey[bool] = pytest.StashKey()
"""Of a test that has passed, and whose calls are to fail or to come in other orders: true until they do."""


def wants_changes(item: pytest.Item) -> bool:
    """Return whether a test is run again with calls that fail, or with calls that are answered in other orders."""
    return _wants_faults(item) or _wants_orders(item)


def note_end(item: pytest.Item, report: pytest.TestReport) -> None:
    """Note whether a test has passed without a fault, or that it is left out because it has not."""
    has_faults = _wants_faults(item)
    if report.passed and (has_faults or _wants_orders(item)):
        item.stash.setdefault(_PASSED, True)
    elif report.failed and has_faults:
        from agenttape_core.pytest_plugin.experimenting import exclude

        exclude(item)


def more_of(
    item: pytest.Item, nextitem: pytest.Item | None, key: pytest.StashKey[Running]
) -> Callable[[], object] | None:
    """Return what runs a test again that has passed; `None` if nothing does. Its own fixtures have ended then.

    Args:
        item: The test.
        nextitem: The test that comes next.
        key: The key of the stash under which a test has its cassette while it is in use.
    """
    running = item.stash.get(key, None)
    if item.stash.get(_PASSED, False):
        item.stash[_PASSED] = False  # its further runs have a teardown, too
        further = ("experimenting", "try_orders" if _wants_orders(item) else "try_faults")
    elif running is not None and running.is_to_try:
        further = ("trying", "try_candidates")
    elif running is not None and running.is_to_verify:
        further = ("verifying", "verify")
    elif running is not None and running.is_to_prove:
        return functools.partial(running.prove, nextitem, key)
    else:
        return None
    return functools.partial(_further, *further, item, nextitem, key)


def _further(module: str, name: str, *given: Any) -> None:
    """Make the further runs of a test; what makes them is imported when they are due."""
    getattr(import_module(f"agenttape_core.pytest_plugin.{module}"), name)(*given)


def _wants_faults(item: pytest.Item) -> bool:
    """Return whether calls of a test are to fail: if it is said so, and no recording is asked for."""
    option = item.config.option
    wanted = option.faults is not None or item.get_closest_marker("faults") is not None
    return wanted and _only_replays(item)


def _wants_orders(item: pytest.Item) -> bool:
    """Return whether calls of a test are to be answered in other orders, and no recording is asked for."""
    return item.config.option.explore is not None and _only_replays(item)


def _only_replays(item: pytest.Item) -> bool:
    if item.config.stash.get(KEEPS_SESSIONS, False):
        return False  # somebody else runs the tests again
    option = item.config.option
    return option.rerecord is None and option.cassette_mode in {None, "none", "replay", "once"}
