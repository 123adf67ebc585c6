"""Runs of tests whose program was edited: the runner of `agenttape lab mutants`, in a separate process."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Generator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from agenttape_core.experiments.strategies.mutants.running import Facts
from agenttape_core.lifecycle.running_test import this_test
from agenttape_core.pytest_plugin.failures import ours_in
from agenttape_core.pytest_plugin.replayed import KEEPS_SESSIONS

_KNOWN = "ignore::pytest.PytestAssertRewriteWarning"
"""The warning that we are imported before pytest, which many projects turn into an error."""
_SAME = ("--assert=plain", "-q", "-W", _KNOWN)
"""Tests are imported like all other files, so that they can be edited as well."""
_WITHOUT = ("cacheprovider", "unraisableexception", "threadexception")
"""Plugins that would write, or collect all garbage at the end of a process that is about to end."""


class _JudgedError(AssertionError):
    """The test has failed by its own words."""


class _EndedError(BaseException):
    """All tests have run: the process ends right away, without a summary."""


def run(program: dict[str, Any], *, begin: Callable[[str], object], stops: bool) -> dict[str, Any]:
    """Run tests once, and return the facts of each.

    `begin` is called with the id of each test before it runs, and with an empty text after it; with `stops`, the first
    test that does not pass is the last.
    """
    driver = _Driver(begin)
    without = [word for name in _WITHOUT for word in ("-p", f"no:{name}")]
    code: int = pytest.ExitCode.OK
    os.environ["AGENTTAPE_CHECK_REPLAY"] = "false"  # of this process, which is about to end
    with suppress(_EndedError):
        code = pytest.main([*program["tests"], *_SAME, *without, *(["-x"] if stops else [])], plugins=[driver])
    if not driver.problem and code not in {pytest.ExitCode.OK, pytest.ExitCode.TESTS_FAILED}:
        no_tests = code == pytest.ExitCode.NO_TESTS_COLLECTED
        driver.problem = "pytest found no tests" if no_tests else f"pytest ended with {int(code)}"
    return {"facts": driver.facts, "files": sorted(driver.files), "problem": driver.problem}


class _Driver:
    """A plugin that notes how each test ends. `begin` is called with the id of each test before it runs."""

    def __init__(self, begin: Callable[[str], object]) -> None:
        self._begin = begin
        self._errors: list[BaseException] = []
        self._is_skipped = False
        self._began = 0.0
        self.facts: dict[str, Facts] = {}
        self.files: set[str] = set()
        self.problem = ""

    @pytest.hookimpl(wrapper=True, tryfirst=True)
    def pytest_load_initial_conftests(self, early_config: pytest.Config) -> Generator[None, Any, Any]:
        """Measure no coverage: only one can watch the lines."""
        known = early_config.known_args_namespace
        if hasattr(known, "no_cov"):
            known.no_cov = True
        return (yield)

    @pytest.hookimpl(tryfirst=True)
    def pytest_configure(self, config: pytest.Config) -> None:
        """Let the tests run in this process, and keep their sessions."""
        config.stash[KEEPS_SESSIONS] = True
        config.option.cassette_lab = []
        if hasattr(config.option, "dist"):  # of pytest-xdist
            config.option.dist, config.option.numprocesses, config.option.tx = "no", None, []

    @pytest.hookimpl(tryfirst=True)
    def pytest_sessionfinish(self) -> None:
        """End the run, if tests have run."""
        if self.facts:
            raise _EndedError

    def pytest_collectreport(self, report: pytest.CollectReport) -> None:
        """Note why a module cannot be imported."""
        if report.failed and not self.problem:
            self.problem = _last_line(report.longreprtext)

    def pytest_collection_finish(self, session: pytest.Session) -> None:
        """Note the files that hold tests."""
        self.files = {str(item.path.resolve()) for item in session.items}

    @pytest.hookimpl(wrapper=True, tryfirst=True)
    def pytest_runtest_protocol(self, item: pytest.Item) -> Generator[None, Any, Any]:
        """Note when a test begins and ends."""
        self._errors, self._is_skipped, self._began = [], False, time.perf_counter()
        self._begin(item.nodeid)
        try:
            return (yield)
        finally:
            self._begin("")

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_makereport(self, call: pytest.CallInfo[None]) -> Generator[None, Any, Any]:
        """Note the exceptions of each phase that let it fail."""
        report = yield
        if report.failed and call.excinfo is not None:
            self._errors.append(call.excinfo.value)
        self._is_skipped = self._is_skipped or report.skipped
        return report

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Keep the facts of a test that has ended."""
        test = this_test()
        if report.when != "teardown" or test is None:
            return
        if self._is_skipped:
            self.facts[report.nodeid] = Facts("skipped")
            return
        error = next(iter(self._errors), None)
        judged = _JudgedError(str(error)) if isinstance(error, pytest.fail.Exception) else error
        ours = next((found for one in self._errors if (found := ours_in(one)) is not None), None)
        seconds = time.perf_counter() - self._began
        self.facts[report.nodeid] = Facts.of(test.sessions or (), judged, ours=ours, seconds=seconds)


def _last_line(text: str) -> str:
    lines = [line.removeprefix("E").strip() for line in text.splitlines() if line.startswith("E ")]
    return lines[-1] if lines else Path(text.strip().partition("\n")[0]).name
