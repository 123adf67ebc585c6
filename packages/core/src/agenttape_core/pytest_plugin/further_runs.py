"""The runs of a test that follow once it has passed: with faults, in other orders, with candidates, and to prove it.

This module is imported when the first test runs; those that make the further runs are imported when one is due.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from importlib import import_module
from typing import TYPE_CHECKING, Any

import pytest

from agenttape_core.pytest_plugin.replayed import KEEPS_SESSIONS, LOOKED_AT

if TYPE_CHECKING:
    from agenttape_core.pytest_plugin.running import Running

_PASSED: pytest.StashKey[bool] = pytest.StashKey()
"""True until a test has been run again with a variation."""
_OF_FAILURES = frozenset({"shrink", "bisect"})


def wants_changes(item: pytest.Item) -> bool:
    """Return whether a test is run again with something varied."""
    return _wants_faults(item) or _wants_orders(item) or bool(item.config.option.cassette_experiments)


def note_end(item: pytest.Item, report: pytest.TestReport) -> None:
    """Note whether a test has passed without a fault, or that it is left out because it has not."""
    has_faults = _wants_faults(item)
    if wanted := _wanted_of(item, has_failed=bool(report.failed)):
        item.stash[LOOKED_AT] = wanted
        item.stash.setdefault(_PASSED, True)
    if report.passed and (has_faults or _wants_orders(item)):
        item.stash.setdefault(_PASSED, True)
    elif report.failed and has_faults:
        from agenttape_core.pytest_plugin.experimenting import exclude

        exclude(item)


def more_of(
    item: pytest.Item, nextitem: pytest.Item | None, key: pytest.StashKey[Running]
) -> Callable[[], object] | None:
    """Return the function that runs a passed test again; `None` if no option requires it.

    Args:
        item: The test.
        nextitem: The test that comes next.
        key: The key of the stash under which a test has its cassette while it is in use.
    """
    running = item.stash.get(key, None)
    further: list[tuple[str, str]] = []
    if item.stash.get(_PASSED, False):
        item.stash[_PASSED] = False  # its further runs have a teardown, too
        looked_at = item.stash.get(LOOKED_AT, {})
        if _OF_FAILURES.isdisjoint(looked_at) and (_wants_faults(item) or _wants_orders(item)):
            further.append(("experimenting", "try_orders" if _wants_orders(item) else "try_faults"))
        if looked_at:
            further.append(("experimenting", "try_others"))
    elif running is not None and running.is_to_try:
        further.append(("trying", "try_candidates"))
    elif running is not None and running.is_to_verify:
        further.append(("verifying", "verify"))
    elif running is not None and running.is_to_prove:
        return functools.partial(running.prove, nextitem, key)
    return functools.partial(_further, further, item, nextitem, key) if further else None


def _further(further: Sequence[tuple[str, str]], *given: Any) -> None:
    """Make the further runs of a test; what makes them is imported when they are due."""
    with ExitStack() as around:  # each has its turn, and the first failure counts
        for module, name in reversed(further):
            around.callback(getattr(import_module(f"agenttape_core.pytest_plugin.{module}"), name), *given)


def _wanted_of(item: pytest.Item, *, has_failed: bool) -> dict[str, dict[str, Any]]:
    """Return the experiments that look at a test, with their options: some are about tests that fail."""
    wanted: dict[str, dict[str, Any]] = item.config.option.cassette_experiments
    if not wanted or not _only_replays(item):
        return {}
    return {name: given for name, given in wanted.items() if (name in _OF_FAILURES) == has_failed}


def _wants_faults(item: pytest.Item) -> bool:
    """Return whether calls of a test are to fail: if an option requires it, and none requires a recording."""
    option = item.config.option
    wanted = option.faults is not None or item.get_closest_marker("faults") is not None
    return wanted and _only_replays(item)


def _wants_orders(item: pytest.Item) -> bool:
    """Return whether calls of a test are to be answered in other orders, and no option requires a recording."""
    return item.config.option.explore is not None and _only_replays(item)


def _only_replays(item: pytest.Item) -> bool:
    if item.config.stash.get(KEEPS_SESSIONS, False):
        return False  # somebody else runs the tests again
    option = item.config.option
    return option.rerecord is None and option.cassette_mode in {None, "none", "replay", "once"}
