"""The pytest plugin: mark a test, and what its agent asks is recorded once and replayed ever after.

This module is imported at the start of every pytest run in an environment that has AgentTape, so it imports nothing
that only tests with a cassette need.
"""

from __future__ import annotations

from collections.abc import Generator, Iterator
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from agenttape_core.pytest_plugin.fixture import TestCassette
    from agenttape_core.pytest_plugin.running import Running

__all__ = ["TestCassette", "cassette", "cassette_config"]

MARKER = "cassette"
RUNNING: pytest.StashKey[Running] = pytest.StashKey()
"""What a test item keeps while its cassette is in use."""


def __getattr__(name: str) -> Any:
    """Import the class of the fixture for those who annotate with it."""
    if name != "TestCassette":
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from agenttape_core.pytest_plugin.fixture import TestCassette

    return TestCassette


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add the options."""
    group = parser.getgroup("agenttape", "AgentTape cassettes")
    group.addoption(
        "--cassette-mode",
        metavar="MODE",
        help="open the cassettes of all tests in this mode: none (replay), once, new_episodes, all (record)",
    )
    group.addoption(
        "--rerecord",
        nargs="?",
        const="all",
        choices=["all", "failing", "stale"],
        help="record anew: all selected tests; those that failed in the last run; those older than --cassette-max-age",
    )
    group.addoption(
        "--cassette-max-age",
        metavar="AGE",
        help="fail tests whose cassette is older than so many days (90, 90d), hours (12h) or weeks (6w)",
    )
    group.addoption(
        "--fail-on-orphans", action="store_true", help="fail if there are cassettes that belong to no collected test"
    )
    group.addoption(
        "--cassette-artifacts",
        metavar="DIR",
        help="keep what a failing test asked and got: its report, its cassette, and what it recorded",
    )


def pytest_configure(config: pytest.Config) -> None:
    """Register the marker, and what looks at the run as a whole."""
    config.addinivalue_line(
        "markers",
        f"{MARKER}(name=None, **options): replay the test's agent from a cassette; options are those of use_cassette",
    )
    if config.option.rerecord == "stale" and config.option.cassette_max_age is None:
        raise pytest.UsageError("--rerecord=stale needs --cassette-max-age: how old a cassette may be, such as 90d")
    from agenttape_core.pytest_plugin.whole_run import WholeRun

    config.pluginmanager.register(WholeRun(config), "agenttape-whole-run")


@pytest.fixture
def cassette_config() -> dict[str, Any]:
    """Give options of `use_cassette` for all cassettes of a test; override it in a module or a `conftest.py`."""
    return {}


@pytest.fixture(autouse=True)
def _cassette_of_the_test(request: pytest.FixtureRequest) -> Iterator[TestCassette | None]:
    """Open the cassette before the other fixtures of the test's scope are set up: they may call models too."""
    if request.node.get_closest_marker(MARKER) is None:
        yield None
    else:
        yield from _opened(request)


@pytest.fixture
def cassette(request: pytest.FixtureRequest, _cassette_of_the_test: TestCassette | None) -> Iterator[TestCassette]:
    """Give the cassette of the test: what its agent has asked and got so far, and assertions about it.

    Without a marker, it is opened here. A project may have a fixture of this name of its own; then this one is not.
    """
    for opened in [_cassette_of_the_test] if _cassette_of_the_test is not None else _opened(request):
        opened.session.ledger.watch_steps()
        yield opened


def _opened(request: pytest.FixtureRequest) -> Iterator[TestCassette]:
    from agenttape_core.pytest_plugin.running import Running, plainly

    config = request.getfixturevalue("cassette_config")
    running = plainly(lambda: Running(request, config), request.node)
    request.node.stash[RUNNING] = running
    yield running.begin()
    running.give_up()  # unless the test was called, which has closed it


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_runtest_setup(item: pytest.Item) -> Generator[None, Any, Any]:
    """Let the session be in force while fixtures are set up, and no longer: other plugins work between the phases."""
    try:
        return (yield)
    finally:
        if (running := item.stash.get(RUNNING, None)) is not None:
            running.pause()


@pytest.hookimpl(wrapper=True, trylast=True)
def pytest_runtest_call(item: pytest.Item) -> Generator[None, Any, Any]:
    """Run the test inside its session, and let what the session finds fail the test itself."""
    running = item.stash.get(RUNNING, None)
    if running is None:
        return (yield)
    with running.called():
        return (yield)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item, call: pytest.CallInfo[None]) -> Generator[None, Any, Any]:
    """Show our errors as what they say, at the lines of the user's code, and hand on the verdict."""
    report = yield
    running = item.stash.get(RUNNING, None)
    if running is None:
        return report
    if report.failed:
        from agenttape_core.pytest_plugin.failures import shown

        report.longrepr = shown(item, call) or report.longrepr
        running.has_failed = running.has_failed or call.when == "setup"
    if call.when == "call":
        running.reported(report)
        report.user_properties = list(item.user_properties)
    return report
