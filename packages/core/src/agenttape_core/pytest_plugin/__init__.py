"""The pytest plugin: mark a test, and its agent is recorded once and replayed ever after.

This module is imported at the start of every pytest run where AgentTape is installed, so it doesn't import what only
tests with a cassette need.
"""

from __future__ import annotations

import sys
from collections.abc import Generator, Iterator, Mapping
from contextlib import nullcontext
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest

from agenttape_core.lifecycle.running_test import RunningTest, during, this_test
from agenttape_core.pytest_plugin.command_line import add_options, refuse
from agenttape_core.pytest_plugin.replayed import KEEPS_SESSIONS

if TYPE_CHECKING:
    from agenttape_core.engine import Mode
    from agenttape_core.garbage import OneLook
    from agenttape_core.pytest_plugin.fixture import TestCassette
    from agenttape_core.pytest_plugin.running import Running
    from agenttape_core.storage import Location

__all__ = ["TestCassette", "cassette", "cassette_config"]

MARKER = "cassette"
_MODULE = "agenttape_core.pytest_plugin.running"
"""The module that the first test with a cassette imports, and nearly all others with it."""
RUNNING: pytest.StashKey[Running] = pytest.StashKey()  # the cassette of a test item, while it is in use
_LOOK: pytest.StashKey[OneLook] = pytest.StashKey()


def __getattr__(name: str) -> Any:
    """Import the class of the fixture, for annotations."""
    if name != "TestCassette":
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from agenttape_core.pytest_plugin.fixture import TestCassette

    return TestCassette


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add the options."""
    add_options(parser)


@pytest.hookimpl(tryfirst=True)
def pytest_configure(config: pytest.Config) -> None:
    """Register the marker, and the plugin that sees the run as a whole."""
    from agenttape_core.garbage import OneLook

    look = config.stash[_LOOK] = OneLook()
    config.add_cleanup(look.put_back)  # the last of all: what was added first
    config.addinivalue_line(
        "markers",
        f"{MARKER}(name=None, **options): replay the test's agent from a cassette; options are those of use_cassette",
    )
    config.addinivalue_line(
        "markers",
        "faults(*kinds, allow=None): let each recorded call of the test fail like this, without --cassette-lab; "
        "verdicts that aren't allowed fail the test, by default a run that passes with another result",
    )
    refuse(config)
    from agenttape_core.pytest_plugin.whole_run import WholeRun

    config.pluginmanager.register(WholeRun(config), "agenttape-whole-run")


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_load_initial_conftests() -> Generator[None, Any, Any]:
    """Import what tests share without collections of garbage."""
    from agenttape_core.garbage import collecting_late

    with collecting_late():
        return (yield)


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_collection() -> Generator[None, Any, Any]:
    """Import the modules of the tests, and with them their frameworks, without collections of garbage."""
    from agenttape_core.garbage import collecting_late

    with collecting_late():
        result = yield
        if "freezegun" in sys.modules:  # imported while it freezes the time, ours would take its clock for the real one
            import agenttape_core.freeze  # noqa: F401
        return result


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_runtestloop() -> Generator[None, Any, Any]:
    """Run the tests with fewer looks of the collector of garbage at all that was imported."""
    from agenttape_core.garbage import looking_at_all_seldom

    with looking_at_all_seldom():
        return (yield)


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_unconfigure(config: pytest.Config) -> Generator[None, Any, Any]:
    """Spare the run a second collection of all its garbage, straight after the first."""
    look = config.stash.get(_LOOK, None)
    if look is None:  # the options were refused
        return (yield)
    with look.made_in():
        return (yield)


@pytest.fixture
def cassette_config() -> dict[str, Any]:
    """Return options of `use_cassette` for the cassettes of tests; override it in a module or a `conftest.py`."""
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
    """Return the cassette of the test: the calls of its agent so far, and assertions about them.

    Without a marker, it is opened here. A fixture of this name in a project replaces this one.
    """
    for opened in [_cassette_of_the_test] if _cassette_of_the_test is not None else _opened(request):
        opened.session.ledger.watch_steps()
        yield opened


def _opened(request: pytest.FixtureRequest) -> Iterator[TestCassette]:
    from agenttape_core.garbage import collecting_late_before
    from agenttape_core.pytest_plugin.plain_imports import importing_plainly

    config = request.getfixturevalue("cassette_config")
    is_first = _MODULE not in sys.modules
    with collecting_late_before(_MODULE), importing_plainly(request.config) if is_first else nullcontext():
        from agenttape_core.pytest_plugin.running import Running, plainly

        running = plainly(lambda: Running(request, config), request.node)
        request.node.stash[RUNNING] = running
        opened = running.begin()
    yield opened
    running.give_up()  # does nothing if the test was called
    running.let_go()


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_runtest_protocol(item: pytest.Item) -> Generator[None, Any, Any]:
    """Let sessions that the test or a fixture opens itself follow the command line and the settings of the test."""

    def mode_of(path: Location) -> Mode | None:
        from agenttape_core.pytest_plugin.cassette_options import mode_of

        return mode_of(item, path)

    def places() -> Mapping[str, str]:
        from agenttape_core.pytest_plugin.cassette_options import places_among

        return places_among(getattr(item, "funcargs", {}))

    def derive_to(path: Location) -> Location | None:
        from agenttape_core.pytest_plugin.cassette_options import derived_to

        return derived_to(item.config, path)

    def is_part() -> bool:
        from agenttape_core.pytest_plugin import wider_fixtures

        return wider_fixtures.is_part(item.config)

    try:
        option, started_in = item.config.option, item.config.invocation_params.dir
        test = RunningTest(
            item.path.parent,
            started_in,
            mode_of,
            option.cassette_review,
            places,
            pace=option.cassette_pace,
            order=option.cassette_order,
            derive_to=derive_to,
            is_part=is_part,
        )
        from agenttape_core.pytest_plugin.further_runs import wants_changes

        if wants_changes(item) or item.config.stash.get(KEEPS_SESSIONS, False):
            test = replace(test, sessions=[])
        if option.cassette_plans:
            from agenttape_core.pytest_plugin.planning import OPTIONS

            test = replace(test, sessions=[], options=OPTIONS)
        with during(test):
            return (yield)
    finally:
        if RUNNING in item.stash:  # else every session would live as long as the run
            del item.stash[RUNNING]
        stack = sys.modules.get("agenttape_core.lifecycle.session_stack")
        if stack is not None:  # else no session was opened so far
            stack.let_go()


@pytest.hookimpl(wrapper=True)
def pytest_fixture_setup(
    fixturedef: pytest.FixtureDef[Any], request: pytest.FixtureRequest
) -> Generator[None, Any, Any]:
    """Let a miss in a fixture fail those tests that use it, and no others; note those that serve several tests."""
    from agenttape_core.pytest_plugin.wider_fixtures import setting_up

    try:
        if fixturedef.scope == "function":
            return (yield)
        with setting_up(request.config):
            return (yield)
    except BaseException as raised:
        errors = sys.modules.get("agenttape_core.errors")
        if errors is not None and isinstance(raised, errors.AgentTapeHalt):
            from agenttape_core.pytest_plugin.rerun import note_halt

            note_halt(fixturedef, request, raised)
        raise


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_runtest_setup(item: pytest.Item) -> Generator[None, Any, Any]:
    """Pause the session after the fixtures are set up: other plugins work between the phases."""
    try:
        return (yield)
    finally:
        if (running := item.stash.get(RUNNING, None)) is not None:
            running.pause()


@pytest.hookimpl(wrapper=True, trylast=True)
def pytest_runtest_call(item: pytest.Item) -> Generator[None, Any, Any]:
    """Run the test inside its session, and let findings of the session fail the test itself."""
    running = item.stash.get(RUNNING, None)
    if running is not None:
        with running.called():
            return (yield)
    try:
        result = yield
    except BaseException as error:
        _end_late(item, error)
        raise
    _end_late(item, None)
    return result


def _end_late(item: pytest.Item, error: BaseException | None) -> None:
    """End the session of a test that requested its cassette while it ran, as `request.getfixturevalue` does."""
    running = item.stash.get(RUNNING, None)
    if running is not None:
        running.end(error)


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_runtest_teardown(item: pytest.Item, nextitem: pytest.Item | None) -> Generator[None, Any, Any]:
    """Run a passed test again, if an option requires it, between the end of its own fixtures and of wider ones."""
    if "agenttape_core.lifecycle.session_stack" in sys.modules:  # else no session was opened so far
        from agenttape_core.pytest_plugin.rerun import halts_end_fixtures

        halts_end_fixtures(item)
    if (running := item.stash.get(RUNNING, None)) is not None:
        running.tear_down()
    from agenttape_core.pytest_plugin.further_runs import more_of

    more = more_of(item, nextitem, RUNNING)
    if more is None:
        return (yield)
    from agenttape_core.pytest_plugin.rerun import keeping_wider_fixtures, tear_down_for

    try:
        with keeping_wider_fixtures(item):
            result = yield
        more()
    finally:
        tear_down_for(nextitem, item)
    return result


def _note_caught(item: pytest.Item, report: pytest.TestReport) -> None:
    """Keep the failures of sessions that a test has caught, if it has passed."""
    test = this_test()
    if report.passed and test is not None and test.failed:
        from agenttape_core.pytest_plugin.swallowed import keep_caught

        keep_caught(item, test.failed)


def _may_be_ours(call: pytest.CallInfo[None]) -> bool:
    """Return whether a session may have to do with a failure.

    A test may fail while another clock replaces the real one: so imports happen only if necessary.
    """
    if "agenttape_core.session" in sys.modules:
        return True
    errors = sys.modules.get("agenttape_core.errors")
    ours = (errors.AgentTapeError, errors.AgentTapeHalt) if errors is not None else ()
    return call.excinfo is not None and isinstance(call.excinfo.value, ours)


def _phase_failed(item: pytest.Item, call: pytest.CallInfo[None], error: BaseException) -> None:
    """Add advice about a missing key, and leave our lines out of the traceback of a failure of ours."""
    if isinstance(error, Exception):
        _note_missing_key(item, error, item.stash.get(RUNNING, None))
    if _may_be_ours(call):
        from agenttape_core.pytest_plugin.failures import hide_ours

        hide_ours(error)


def _note_failure(call: pytest.CallInfo[None], report: pytest.TestReport) -> None:
    """Add the skipped side effects to the report of a failed test, and note a failure of ours as reported."""
    if call.when == "call" and _may_be_ours(call):
        from agenttape_core.pytest_plugin.failures import not_run

        report.sections.extend(not_run(call))
    if call.excinfo is not None and _may_be_ours(call):
        from agenttape_core.pytest_plugin.rerun import note_reported

        note_reported(call.excinfo.value)


def _note_missing_key(item: pytest.Item, error: Exception, running: Running | None) -> None:
    """Add advice about a missing key to a failure. A test without a session imports no module for that."""
    test = this_test()
    of_command = sys.modules.get("agenttape_core.tools.processes.process_session")  # of `agenttape replay -- pytest`
    has_session = running is not None or (test is not None and bool(test.reports)) or of_command is not None
    if has_session:
        from agenttape_core.pytest_plugin.failures import note_missing_key_of

        note_missing_key_of(item, error, running.opened if running is not None else None)


def _note_plans(item: pytest.Item, report: pytest.TestReport, running: Running | None) -> None:
    """Ignore the failure of a test in a dry run, and keep the plans for its own sessions in its last report."""
    test = this_test()
    sessions = test.sessions or [] if test is not None else []
    if not sessions and running is None:
        return
    from agenttape_core.pytest_plugin.planning import keep_own_plans, passed_over

    if report.failed:
        passed_over(report)
    if report.when == "teardown":
        from agenttape_core.pytest_plugin.running import named

        keep_own_plans(item, named(item), sessions, running.opened if running is not None else None)
        report.user_properties = list(item.user_properties)


def _show_ours(item: pytest.Item, call: pytest.CallInfo[None], report: pytest.TestReport) -> None:
    """Show a failure of ours as its message, and keep a miss for the summary of the run, whoever opened its session."""
    from agenttape_core.pytest_plugin.causes import keep_miss
    from agenttape_core.pytest_plugin.failures import name_shortly, ours_in, shown

    report.longrepr = shown(item, call) or report.longrepr
    name_shortly(report, call)
    if call.when != "teardown" and call.excinfo is not None:
        ours = ours_in(call.excinfo.value)
        item.user_properties[:] = keep_miss(item.user_properties, ours)
        if ours is not None and item.config.option.cassette_plans:
            from agenttape_core.pytest_plugin.planning import keep_refusal
            from agenttape_core.pytest_plugin.running import named

            keep_refusal(item, named(item), str(ours))
    report.user_properties = list(item.user_properties)


@pytest.hookimpl(wrapper=True)
def pytest_make_collect_report(collector: pytest.Collector) -> Generator[None, Any, Any]:
    """Say what to do where a module can't be imported without a key: its clients are made before any test runs."""
    report = yield
    call = getattr(report, "call", None)
    said = str(call.excinfo.value).lower() if report.failed and call is not None and call.excinfo is not None else ""
    if call is not None and ("key" in said or "credentials" in said or "authentication" in said):
        from agenttape_core.pytest_plugin.failures import missing_key

        if remedy := missing_key(collector.config, call.excinfo.value):
            report.sections.append(("AgentTape", remedy))
    return report


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item, call: pytest.CallInfo[None]) -> Generator[None, Any, Any]:
    """Show our errors as their messages, at the lines of the user's code, and pass on the verdict."""
    running = item.stash.get(RUNNING, None)
    if call.excinfo is not None:
        _phase_failed(item, call, call.excinfo.value)
    report = yield
    if item.config.option.cassette_plans:
        _note_plans(item, report, running)
    if hasattr(report, "wasxfail") and _may_be_ours(call):
        from agenttape_core.pytest_plugin.failures import fail_for_miss

        fail_for_miss(item, call, report)
    if report.failed:
        _note_failure(call, report)
    if call.when == "call":
        _note_caught(item, report)
        from agenttape_core.pytest_plugin.further_runs import note_end

        note_end(item, report)
    if report.failed and (running is not None or _may_be_ours(call)):
        _show_ours(item, call, report)
    if running is None:
        return report
    running.has_failed = running.has_failed or (report.failed and call.when == "setup")
    running.is_skipped = running.is_skipped or (report.skipped and call.when == "setup")
    if call.when == "call":
        running.reported(report)
        report.user_properties = list(item.user_properties)
    if call.when == "teardown":
        report.duration = max(report.duration - running.proving_seconds, 0.0)
    return report
