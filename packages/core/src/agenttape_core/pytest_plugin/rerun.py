"""Running a test again right away: all use of pytest's internals for it.

The phases are run as plugins that repeat failed tests run them, inside the protocol of the test, so the two get along.
Nothing is reported: other plugins see phases that passed.
"""

from __future__ import annotations

import contextlib
import copy
import io
import warnings
from collections.abc import Callable, Iterator
from typing import Any
from weakref import WeakSet

import pytest

from agenttape_core.errors import AgentTapeHalt
from agenttape_core.pytest_plugin.failures import ours_in
from agenttape_core.pytest_plugin.replayed import AGAIN

Excinfo = pytest.ExceptionInfo[BaseException]
_REPORTED: WeakSet[BaseException] = WeakSet()
"""The halts for which a test has failed: a session around it, of a fixture, raises them once more when it ends."""
_NOTHING = pytest.Item.teardown  # the finalizer of most tests, modules and folders, which is empty
_OFTEN = 25  # a dot is shown for so many runs


@contextlib.contextmanager
def keeping_wider_fixtures(item: pytest.Item) -> Iterator[None]:
    """Let the teardown of a test end only the fixtures of its own scope: the test is about to run again."""
    state: Any = item.session._setupstate  # noqa: SLF001 - there is no public way to say which test comes next
    ends = state.teardown_exact
    again = copy.copy(item)  # another item below the same module and class
    state.teardown_exact = lambda _: ends(again)
    try:
        yield
    finally:
        del state.teardown_exact


def halts_end_fixtures(item: pytest.Item) -> None:
    """Let a halt in the teardown of a fixture fail that one: pytest would tear down no other one after it."""
    state: Any = item.session._setupstate  # noqa: SLF001 - as above
    for finalizers, _ in state.stack.values():
        finalizers[:] = [
            each if isinstance(each, _Plainly) or getattr(each, "__func__", None) is _NOTHING else _Plainly(each)
            for each in finalizers
        ]


class _Plainly:
    """A finalizer whose halts fail the test as any exception does."""

    def __init__(self, finalizer: Callable[[], object]) -> None:
        self._finalizer = finalizer

    def __call__(self) -> None:
        problem = None
        try:
            self._finalizer()
        except AgentTapeHalt as halt:
            problem = f"{type(halt).__name__}: {halt}" if halt not in _REPORTED else None
        if problem is not None:
            pytest.fail(problem, pytrace=False)


def note_reported(error: BaseException) -> None:
    """Note that a test has failed for an error: if it is a halt, no fixture of it fails for the same one again."""
    halt = ours_in(error)
    if isinstance(halt, AgentTapeHalt):
        _REPORTED.add(halt)


def note_halt(fixturedef: pytest.FixtureDef[Any], request: pytest.FixtureRequest, halt: AgentTapeHalt) -> None:
    """Let a halt in the setup of a fixture end that one: pytest would call it set up, and fail to set it up again.

    Before 8.2, pytest kept exceptions in another form, and ended such a fixture all the same.
    """
    if fixturedef.cached_result is None and pytest.version_tuple >= (8, 2):
        fixturedef.cached_result = (None, fixturedef.cache_key(request), (halt, halt.__traceback__))  # type: ignore[arg-type]


def tear_down_for(nextitem: pytest.Item | None, item: pytest.Item) -> None:
    """End the fixtures that the next test does not need."""
    state: Any = item.session._setupstate  # noqa: SLF001 - as above
    state.teardown_exact(nextitem)


def run_again(item: pytest.Item, nextitem: pytest.Item | None) -> Excinfo | None:
    """Run a test again, and tear its own fixtures down again; return the first exception raised (or skip), if any."""
    again: Any = item
    if isinstance(item.parent, pytest.Class) and again.__dict__.get("_instance") is not None:
        again.__dict__.pop("_instance")  # each run of a method has an instance of its own
        again.__dict__.pop("_obj", None)
    if hasattr(again, "dtest"):  # a doctest, which has cleared its names
        again.dtest.globs.update(getattr(again.parent.obj, "__dict__", {"__name__": "__main__"}))
    again._initrequest()  # noqa: SLF001 - as pytest-rerunfailures does
    item.stash[AGAIN] = True
    with _unnoticed(item) as of_subtests:
        raised = _phase(item, "setup", lambda: item.ihook.pytest_runtest_setup(item=item))
        if raised is None:
            raised = _phase(item, "call", lambda: item.ihook.pytest_runtest_call(item=item))
        with keeping_wider_fixtures(item):
            teardown = _phase(
                item, "teardown", lambda: item.ihook.pytest_runtest_teardown(item=item, nextitem=nextitem)
            )
    item.stash[AGAIN] = False
    return raised or next(iter(of_subtests), None) or teardown


def show_progress(config: pytest.Config, number: int) -> None:
    """Show that a test is still run again, by a dot after so many runs."""
    reporter = config.pluginmanager.get_plugin("terminalreporter")
    if reporter is not None and number % _OFTEN == 0 and not hasattr(config, "workerinput"):
        reporter.write("·")


def caught_by_unittest(item: pytest.Item) -> list[Excinfo]:
    """Return the list of failures that unittest's runner caught in the test and did not raise."""
    caught: list[Excinfo] | None = getattr(item, "_excinfo", None)
    return caught if caught is not None else []


def _phase(item: pytest.Item, when: Any, work: Callable[[], object]) -> Excinfo | None:
    ends = (pytest.exit.Exception, KeyboardInterrupt)
    call = pytest.CallInfo.from_call(work, when, reraise=ends)
    caught = caught_by_unittest(item)
    raised = call.excinfo or next(iter(caught), None)
    caught.clear()
    # Fixtures such as tmp_path, and other plugins, rely on a report of each phase.
    passed = pytest.CallInfo.from_call(lambda: None, when)
    item.ihook.pytest_runtest_makereport(item=item, call=passed)
    return raised


@contextlib.contextmanager
def _unnoticed(item: pytest.Item) -> Iterator[list[Excinfo]]:
    """Leave no trace of a run in the report of its test: properties, output, warnings, subtests; yield their failures.

    A subtest reports itself, and its test continues after a failure.
    """
    captured: list[Any] = item._report_sections  # noqa: SLF001 - the output that reports show
    properties, sections = list(item.user_properties), list(captured)
    silence, failed = io.StringIO(), list[Excinfo]()
    manager: Any = item.config.pluginmanager
    call_hook = manager._inner_hookexec  # noqa: SLF001 - no hook can stop others, which would count a subtest twice

    def unreported(name: str, methods: Any, given: Any, firstresult: bool) -> Any:
        if name == "pytest_runtest_logreport":
            return []
        made = call_hook(name, methods, given, firstresult)
        if name == "pytest_runtest_makereport" and made.failed and given["call"].excinfo is not None:
            failed.append(given["call"].excinfo)
        return made

    with contextlib.ExitStack() as around:
        around.enter_context(warnings.catch_warnings(record=True))
        if item.config.option.capture == "no":
            around.enter_context(contextlib.redirect_stdout(silence))
            around.enter_context(contextlib.redirect_stderr(silence))
        manager._inner_hookexec = unreported  # noqa: SLF001 - as above
        try:
            yield failed
        finally:
            manager._inner_hookexec = call_hook  # noqa: SLF001 - as above
            item.user_properties[:] = properties
            captured[:] = sections
