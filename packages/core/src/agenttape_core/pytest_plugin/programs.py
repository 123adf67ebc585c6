"""A test as a program that is replayed again and again, in one run of pytest."""

from __future__ import annotations

import contextlib
import inspect
import io
import os
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, TypeVar

import pytest

from agenttape_core.errors import AgentTapeError, ConfigurationError, UnusedInteractionsError
from agenttape_core.experiments.program import Run, Source
from agenttape_core.experiments.targets import recording
from agenttape_core.lifecycle.running_test import this_test
from agenttape_core.lifecycle.variation import Variation, varying
from agenttape_core.pytest_plugin.cassette_options import chosen_by
from agenttape_core.pytest_plugin.failures import ours_in
from agenttape_core.pytest_plugin.replayed import REPLAYED
from agenttape_core.pytest_plugin.rerun import run_again, tear_down_for
from agenttape_core.pytest_plugin.running import named
from agenttape_core.session import Session

Result = TypeVar("Result")

_SHOWN = 20
_KNOWN = "ignore::pytest.PytestAssertRewriteWarning"
"""The warning that we are imported before pytest, which many projects turn into an error."""
_QUIETLY = ("-o", "addopts=", "-p", "no:cacheprovider", "-q", "-W", _KNOWN)


@dataclass(frozen=True, slots=True)
class TestProgram:
    """A test, while pytest runs it."""

    __test__ = False  # not a class of tests for pytest

    item: pytest.Item
    nextitem: pytest.Item | None  # the next one; there is none, as one test is run at a time
    key: pytest.StashKey[Any]  # the place of the test's cassette among its stashed objects
    # The session of the test, among all that it opens, whose cassette is varied, as in a plain replay; by default the
    # one of its marker.
    varied: Session | None = None
    order_of: str = ""  # the name of that cassette in front of an order, if the test has replayed several

    @property
    def name(self) -> str:
        """The id of the test."""
        return str(self.item.nodeid)

    @property
    def cassette(self) -> Path | None:
        """The varied cassette, or the test's own, if any. Raises `ConfigurationError` if it isn't a local file."""
        if self.varied is not None:
            path = self.varied.path
        elif self.item.get_closest_marker("cassette") is not None:
            path = chosen_by(self.item, {}).path
        else:
            return None
        return Path(os.path.normpath(path)) if isinstance(path, Path) else recording(str(path))

    @property
    def function(self) -> None:
        """None, as pytest calls the test."""

    @property
    def source(self) -> Source | None:
        """The location of the test in the source; `None` if it isn't a function, and has no name there."""
        item: Any = self.item
        if not isinstance(item, pytest.Function) or item.module.__file__ is None:
            return None
        owner = item.cls.__qualname__ if item.cls is not None else ""
        if "<locals>" in owner:
            return None
        return Source(
            item.module.__name__,
            item.path,
            item.originalname,
            inspect.iscoroutinefunction(item.obj),
            is_test=True,
            fixtures=tuple(name for name in item.fixturenames if hasattr(item.module, name)),
            owner=owner,
            case=_case_of(item),
        )

    def run(self, variation: Variation) -> Run:
        """Run the test once with a cassette, and return how it ended."""
        if self.key in self.item.stash:
            del self.item.stash[self.key]  # if the setup fails, there is no other
        return self._of_marker(variation) if self.varied is None else self._among_several(self.varied, variation)

    def _of_marker(self, variation: Variation) -> Run:
        item = self.item
        if item.get_closest_marker("cassette") is None:
            item.add_marker(pytest.mark.cassette(str(variation.cassette)))
        item.stash[REPLAYED] = variation
        try:
            raised = run_again(item, self.nextitem)
        finally:
            del item.stash[REPLAYED]
        running = item.stash.get(self.key, None)
        error = raised.value if raised is not None else None
        if running is None or running.opened is None:
            if isinstance(error, AgentTapeError):
                raise error
            raise ConfigurationError(f"{self.name} cannot be set up: {_first_line(raised)}")
        if isinstance(error, pytest.skip.Exception):
            raise ConfigurationError(f"{self.name} is skipped: {error}")
        return Run(running.opened, None, error, tuple(running.failed_inside))

    def _among_several(self, varied: Session, variation: Variation) -> Run:
        test = this_test()
        assert test is not None
        assert test.sessions is not None
        test.sessions.clear()
        with varying(replace(variation, cassette=None), str(varied.path)):
            raised = run_again(self.item, self.nextitem)
        session = next((one for one in test.sessions if one.path == varied.path), varied)
        error = raised.value if raised is not None else None
        if error is not None and isinstance(ours_in(error), UnusedInteractionsError):
            error = None  # what it did not ask for is seen in the report
        return Run(session, None, error, is_assertion=isinstance(error, pytest.fail.Exception))


def replays_of(item: pytest.Item, nextitem: pytest.Item | None, key: pytest.StashKey[Any]) -> list[TestProgram]:
    """Return a passed test as programs, one for each cassette that it replayed. Arguments: see `look_at`."""
    test = this_test()
    sessions = test.sessions if test is not None and test.sessions is not None else []
    replayed = {one.path: one for one in sessions if one.is_replay and one.report.replayed and not one.report.recorded}
    names = [f"{Path(str(path)).name.partition('.')[0]}:" if len(replayed) > 1 else "" for path in replayed]
    return [TestProgram(item, nextitem, key, one, of) for one, of in zip(replayed.values(), names, strict=True)]


def _case_of(item: Any) -> dict[str, int]:
    """Return the position of a test's values in each mark, by the name of their first argument."""
    given = item.callspec.params if hasattr(item, "callspec") else {}
    found: dict[str, int] = {}
    for mark in item.iter_markers("parametrize"):
        names = [name.strip() for name in mark.args[0].split(",")] if isinstance(mark.args[0], str) else mark.args[0]
        for place, each in enumerate(mark.args[1]):
            values = getattr(each, "values", None) if type(each).__name__ == "ParameterSet" else None
            values = values if values is not None else [each] if len(names) == 1 else each
            if all(name in given and given[name] is value for name, value in zip(names, values, strict=False)):
                found[names[0]] = place
                break
    return found


def tests_in(target: str) -> list[str]:
    """Return the ids of the tests with a cassette in a file or folder. Raises `ConfigurationError` if there's none."""
    collecting, said = _Collecting(), io.StringIO()
    with contextlib.redirect_stdout(said):
        pytest.main([target, "--collect-only", *_QUIETLY], plugins=[collecting])
    if not collecting.found:
        raise ConfigurationError(f"{target} has no test with a cassette\n{_last(said.getvalue())}")
    return collecting.found


class _Collecting:
    """A plugin that notes the tests with a cassette."""

    def __init__(self) -> None:
        self.found: list[str] = []

    def pytest_collection_finish(self, session: pytest.Session) -> None:
        self.found = [named(item) for item in session.items if item.get_closest_marker("cassette") is not None]


def with_test(nodeid: str, work: Callable[[TestProgram], Result]) -> Result:
    """Do something with a test as a program: pytest is started, and collects it.

    `work` runs the test as often as it likes. Raises `ConfigurationError` if this is the id of no test, or of several.
    """
    driver = _Driver(work)
    said = io.StringIO()
    with contextlib.redirect_stdout(said):
        code = pytest.main([nodeid, "--capture=no", *_QUIETLY], plugins=[driver])
    if driver.error is not None:
        raise driver.error
    if driver.done is None:
        raise ConfigurationError(f"{nodeid}: pytest ended with {int(code)} and ran no test\n{_last(said.getvalue())}")
    return driver.done[0]  # type: ignore[no-any-return]


class _Driver:
    """A plugin that does its work instead of running a test, and ignores tests after the first."""

    def __init__(self, work: Callable[[TestProgram], Any]) -> None:
        self._work = work
        self.done: tuple[Any] | None = None
        self.error: BaseException | None = None

    def pytest_collection_modifyitems(self, items: list[pytest.Item]) -> None:
        if len(items) > 1:
            names = [str(item.nodeid) for item in items[:_SHOWN]]
            self.error = ConfigurationError("\n  ".join([f"{len(items)} tests have this id; name one of them", *names]))
            items.clear()

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtest_protocol(self, item: pytest.Item, nextitem: pytest.Item | None) -> bool:
        from agenttape_core.pytest_plugin import RUNNING

        program = TestProgram(item, nextitem, RUNNING)
        try:
            self.done = (self._work(program),)
        except (Exception, KeyboardInterrupt, AgentTapeError) as error:  # noqa: BLE001 - raised where pytest was started
            self.error = error
        finally:
            with contextlib.suppress(Exception):
                tear_down_for(nextitem, item)
        return True


def _first_line(raised: pytest.ExceptionInfo[BaseException] | None) -> str:
    return raised.exconly().partition("\n")[0] if raised is not None else "it opened no cassette"


def _last(text: str) -> str:
    return "\n".join(text.strip().splitlines()[-_SHOWN:])
