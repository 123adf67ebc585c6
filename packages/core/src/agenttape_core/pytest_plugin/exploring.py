"""`--cassette-lab=orders`: a test that has passed is run again with its recorded calls answered in other orders."""

from __future__ import annotations

import shlex
from collections.abc import Iterable
from pathlib import Path

import pytest

from agenttape_core.errors import ConfigurationError, UnusedInteractionsError, shown_path
from agenttape_core.experiments.strategies.orders import Program, explored
from agenttape_core.experiments.verify.ending import Ending, described, is_failure
from agenttape_core.lifecycle.ordering import cassette_and_order, on_cassette
from agenttape_core.lifecycle.running_test import this_test
from agenttape_core.pytest_plugin.again import Excinfo, run_again, show_progress
from agenttape_core.pytest_plugin.failures import ours_in
from agenttape_core.pytest_plugin.running import Running
from agenttape_core.session import Session

_EXPLORED = "agenttape.explored"
"""The name of the property of a test report that says what came of its exploration, in a line."""


def refuse_unknown(config: pytest.Config) -> None:
    """Refuse a number of orders that is none, and an order that is none.

    Raises:
        pytest.UsageError: If there is one.
    """
    orders, order = config.option.explore, config.option.cassette_order
    if orders is not None and orders < 1:
        raise pytest.UsageError(f"--cassette-lab=orders:runs={orders}: expected the number of orders, at least 1")
    if orders is not None and (order is not None or config.option.faults is not None):
        raise pytest.UsageError("--cassette-lab=orders excludes --cassette-order and --cassette-lab=faults")
    if order is not None and not all(word.isdigit() for word in cassette_and_order(order)[1].split(",")):
        raise pytest.UsageError(f"--cassette-order={order}: expected numbers of calls, such as 5,3 or desk:5,3")


def try_orders(item: pytest.Item, nextitem: pytest.Item | None, key: pytest.StashKey[Running]) -> None:
    """Run a test that has passed again in other orders, and fail it if one of them changes what comes of it.

    Args:
        item: The test. Its own fixtures have been torn down.
        nextitem: The next test.
        key: The place of the test's cassette among its stashed objects.
    """
    test, running = this_test(), item.stash.get(key, None)
    if test is None or test.sessions is None:
        return
    replayed = {str(one.path): one for one in test.sessions if one.is_replay and one.report.served}
    failing = []
    try:
        for session in replayed.values():
            found = _explored(item, nextitem, key, session, test.sessions, is_only=len(replayed) == 1)
            item.user_properties.append((_EXPLORED, found.partition("\n")[0]))
            if "\n" in found:
                failing.append(found)
    finally:
        if running is not None:
            item.stash[key] = running
    if failing:
        pytest.fail("\n".join(failing), pytrace=False)


def _explored(
    item: pytest.Item,
    nextitem: pytest.Item | None,
    key: pytest.StashKey[Running],
    session: Session,
    sessions: list[Session],
    *,
    is_only: bool,
) -> str:
    """Return what came of the exploration of one cassette of a test; of more than a line if an order changes it."""
    path, runs = session.path, iter(range(1, 1_000_000_000))

    def run() -> Ending:
        sessions.clear()
        if key in item.stash:
            del item.stash[key]  # if the setup fails, there is no other
        with on_cassette(str(path)):
            raised = run_again(item, nextitem)
        show_progress(item.config, next(runs))
        return _ending(raised)

    prefix = "" if is_only else f"{Path(str(path)).name.partition('.')[0]}:"
    words = ["pytest", item.nodeid, f"--cassette-order={prefix}"]
    program = Program(
        name=item.nodeid,
        cassette=str(shown_path(path)),
        rows=session.source.entries,
        run=run,
        again=lambda order: f"{shlex.join(words)}{order}",
    )
    try:
        return str(explored(program, item.config.option.explore, item.config.option.explore_seed))
    except ConfigurationError as error:
        return f"{item.nodeid} is not explored: {str(error).partition(chr(10))[0]}"


def _ending(raised: Excinfo | None) -> Ending:
    error = raised.value if raised is not None else None
    if error is None or isinstance(ours_in(error), UnusedInteractionsError):
        return Ending("returned", False, None)  # what another order no longer asks for is no failure
    return Ending(f"raised {described(error)}", is_failure(error), None)


def explored_in(properties: Iterable[tuple[str, object]]) -> list[str]:
    """Return the lines about explorations that the properties of a report hold."""
    return [str(value) for name, value in properties if name == _EXPLORED]
