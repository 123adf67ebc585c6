"""The runs of a test that follow once it has ended: in experiments, with candidates, for real, and to check it.

This module is imported when the first test runs; those that make the further runs are imported when one is due.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from importlib import import_module
from typing import TYPE_CHECKING, Any

import pytest

from agenttape_core.pytest_plugin.replayed import AGAIN, HAS_FAILED, KEEPS_SESSIONS, LOOKED_AT

if TYPE_CHECKING:
    from agenttape_core.pytest_plugin.running import Running

_OF_FAILURES = frozenset({"shrink", "bisect", "change"})
"""The experiments that look at tests that fail; the last one also at those that pass, as its revisions judge."""


def wants_changes(item: pytest.Item) -> bool:
    """Return whether a test is run again with something varied."""
    return bool(_wanted_of(item))


def note_end(item: pytest.Item, report: pytest.TestReport) -> None:
    """Note which experiments look at a test that has ended, and that faults leave it out if it has failed."""
    if item.stash.get(AGAIN, False) or report.skipped:
        return
    wanted, has_failed = _wanted_of(item), bool(report.failed)
    item.stash[HAS_FAILED] = has_failed
    item.stash[LOOKED_AT] = {
        name: given for name, given in wanted.items() if (name in _OF_FAILURES) == has_failed or name == "change"
    }
    if report.failed and "faults" in wanted:
        from agenttape_core.pytest_plugin.experimenting import exclude

        exclude(item)


def more_of(
    item: pytest.Item, nextitem: pytest.Item | None, key: pytest.StashKey[Running]
) -> Callable[[], object] | None:
    """Return the function that runs a test again; `None` if no option requires it, or it's just run again.

    `key` is the key of the stash under which a test has its cassette while it is in use.
    """
    if item.stash.get(AGAIN, False):
        return None
    running = item.stash.get(key, None)
    further = [("experimenting", "look_at")] if item.stash.get(LOOKED_AT, None) else []
    if running is not None and running.is_to_try:
        further.append(("experimenting", "try_candidates"))
    if running is not None and running.is_to_verify:
        further.append(("verifying", "verify"))
    if not further and running is not None and running.is_to_check:
        return functools.partial(running.check_replay, nextitem, key)
    return functools.partial(_further, further, item, nextitem, key) if further else None


def _further(further: Sequence[tuple[str, str]], *given: Any) -> None:
    """Make the further runs of a test; what makes them is imported when they are due."""
    with ExitStack() as around:  # each has its turn, and the first failure counts
        for module, name in reversed(further):
            around.callback(getattr(import_module(f"agenttape_core.pytest_plugin.{module}"), name), *given)


def _wanted_of(item: pytest.Item) -> dict[str, dict[str, Any]]:
    """Return the experiments on a test, with their options, if no option requires a recording."""
    option = item.config.option
    wanted = {name: given for name, given in option.cassette_experiments.items() if name != "mutants"}
    if item.get_closest_marker("faults") is not None:
        wanted.setdefault("faults", {})
    only_replays = option.rerecord is None and option.cassette_mode in {None, "none", "replay", "once"}
    if not only_replays or item.config.stash.get(KEEPS_SESSIONS, False):  # then somebody else runs the tests again
        return {}
    return wanted
