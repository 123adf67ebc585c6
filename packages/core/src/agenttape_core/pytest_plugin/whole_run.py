"""The run as a whole: the summary of all cassettes, and cassettes that belong to no test."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from agenttape_core.errors import counted

if TYPE_CHECKING:
    from collections.abc import Sequence

    from agenttape_core.pytest_plugin.verdict import Verdict

_SHOWN = 20
"""The number of tests with a line each without `-v`; of more tests, the fully served ones are only counted."""
_SENT = "agenttape_orphans"


class WholeRun:
    """A plugin that sees the run as a whole; with pytest-xdist, one in each worker and one in the reporting process.

    Args:
        config: The configuration of the run.
    """

    def __init__(self, config: pytest.Config) -> None:
        self._config = config
        self._verdicts: list[Verdict] = []
        self._deselected: list[pytest.Item] = []
        self._orphans: set[str] = set()

    def pytest_deselected(self, items: Sequence[pytest.Item]) -> None:
        """Remember deselected tests: their cassettes are no orphans."""
        self._deselected += items

    def pytest_collection_finish(self, session: pytest.Session) -> None:
        """Look for cassettes that belong to no test."""
        if self._config.option.fail_on_orphans:
            from agenttape_core.pytest_plugin import orphans

            found = orphans.find([*session.items, *self._deselected], self._config)
            self._orphans.update(found)

    @pytest.hookimpl(optionalhook=True)
    def pytest_testnodedown(self, node: Any) -> None:
        """Take over the findings of a worker of pytest-xdist."""
        self._orphans.update(getattr(node, "workeroutput", {}).get(_SENT, ()))

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Collect the verdict of a test from its last phase, in whatever process it ran."""
        if report.when == "teardown" and any(name == "cassette.word" for name, _ in report.user_properties):
            from agenttape_core.pytest_plugin.verdict import Verdict

            verdict = Verdict.from_properties(report.user_properties)
            if verdict is not None:
                self._verdicts.append(verdict)

    def pytest_sessionfinish(self, session: pytest.Session, exitstatus: int) -> None:
        """Fail the run for orphans, or send them to the reporting process."""
        output: dict[str, Any] | None = getattr(self._config, "workeroutput", None)
        if output is not None:
            output[_SENT] = sorted(self._orphans)
        elif self._orphans and exitstatus in {pytest.ExitCode.OK, pytest.ExitCode.NO_TESTS_COLLECTED}:
            session.exitstatus = pytest.ExitCode.TESTS_FAILED

    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
        """Print the verdicts on the cassettes."""
        if self._verdicts:
            terminalreporter.section("cassettes")
            for line in summary(self._verdicts, everything=self._config.option.verbose > 0):
                terminalreporter.line(line)
        if self._orphans:
            terminalreporter.section("cassettes of no test", red=True)
            for path in sorted(self._orphans):
                terminalreporter.line(path)


def summary(verdicts: Sequence[Verdict], *, everything: bool) -> list[str]:
    """Return the lines of the summary.

    Args:
        verdicts: The verdicts on the cassettes of the tests.
        everything: Whether each test has a line, however many there are.
    """
    few = everything or len(verdicts) <= _SHOWN
    shown = [verdict for verdict in verdicts if few or verdict.word != "served"]
    lines = [str(verdict) for verdict in shown]
    if len(shown) < len(verdicts):
        lines.append(f"served    {counted(len(verdicts) - len(shown), 'test')}, all their calls")
    return [*lines, _sum(verdicts)]


def _sum(verdicts: Sequence[Verdict]) -> str:
    served, executed = sum(v.served for v in verdicts), sum(v.executed for v in verdicts)
    line = f"{counted(served, 'call')} served, {executed} executed"
    seconds, dollars = sum(v.seconds for v in verdicts), sum(v.dollars for v in verdicts)
    unpriced = sum(v.unpriced for v in verdicts)
    if served:
        line += f"; saved {seconds:.1f} s"
        if dollars:
            line += f" and about ${dollars:.4f}"
        if unpriced:
            line += f" ({counted(unpriced, 'call')} of models without a known price)"
    return line
