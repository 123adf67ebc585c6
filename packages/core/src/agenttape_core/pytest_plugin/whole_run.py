"""The run as a whole: the summary of all cassettes, and cassettes that belong to no test."""

from __future__ import annotations

import os
import shlex
import sys
from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest

from agenttape_core.errors import counted

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from agenttape_core.pytest_plugin.causes import Misses
    from agenttape_core.pytest_plugin.planning import OwnPlan
    from agenttape_core.pytest_plugin.reporting import TestReports
    from agenttape_core.pytest_plugin.verdict import Verdict
    from agenttape_core.tools.update import Plan


_SHOWN = 20
"""The number of tests with a line each without `-v`; of more tests, the fully replayed ones are only counted. Also the
number of tools that are named in the summary."""
_SENT = "agenttape_orphans"
_MISSES = "agenttape/misses"
_CALM = ("cassettes", "dry run", "faults", "orders", "mutants", "flaky", "why", "shrink", "change", "bisect")


class WholeRun:
    """A plugin that sees the run as a whole; with pytest-xdist, one in each worker and one in the reporting process."""

    def __init__(self, config: pytest.Config) -> None:
        self._config = config
        self._found: dict[str, Verdict] = {}  # by the ids of the tests: the last attempt counts
        self._places: dict[str, int] = {}
        """The positions of tests before they were reordered: the summary lists them in this order."""
        self._deselected: list[pytest.Item] = []
        self._orphans: set[str] = set()
        self._plans: dict[str, Plan] = {}
        self._own_plans: list[OwnPlan] = []
        self._refused: dict[str, str] = {}
        self._misses: Misses | None = None
        self._caught: list[list[str]] = []
        self._verified: list[str] = []
        self._results: list[dict[str, Any]] = []  # the results of experiments, as plain data
        self._passed: dict[str, None] = {}
        self._reports: TestReports | None = None
        self._unwritten: list[str] = []
        self._unseen: list[str] = []
        is_worker = hasattr(config, "workerinput")  # the reporting process sees all tests
        if not is_worker and (config.option.cassette_report or os.environ.get("GITHUB_ACTIONS") == "true"):
            from agenttape_core.pytest_plugin.reporting import TestReports

            self._reports = TestReports(config.rootpath)

    def pytest_deselected(self, items: Sequence[pytest.Item]) -> None:
        """Remember deselected tests: their cassettes aren't orphans."""
        self._deselected += items
        if items:
            from agenttape_core.pytest_plugin.wider_fixtures import note_deselected

            note_deselected(self._config)

    @pytest.hookimpl(trylast=True)
    def pytest_collection_modifyitems(self, items: list[pytest.Item]) -> None:
        """Run those first that are recorded again because they failed.

        Things that they share with others and make on first use, such as a store behind a cache, aren't there yet: they
        record them, and are green in any order.
        """
        if self._config.option.rerecord == "failed" and getattr(self._config, "cache", None) is not None:
            from agenttape_core.pytest_plugin.cassette_options import failed_last_time

            self._places = {item.nodeid: place for place, item in enumerate(items)}
            failed = failed_last_time(self._config)
            items.sort(key=lambda item: item.nodeid not in failed)

    def pytest_collection_finish(self, session: pytest.Session) -> None:
        """Look for cassettes that belong to no test."""
        if "orphans" in self._config.option.cassette_strict:
            from agenttape_core.pytest_plugin import orphans

            found = orphans.find([*session.items, *self._deselected], self._config)
            self._orphans.update(found)

    @pytest.hookimpl(optionalhook=True)
    def pytest_testnodedown(self, node: Any) -> None:
        """Take over the findings of a worker of pytest-xdist."""
        self._orphans.update(getattr(node, "workeroutput", {}).get(_SENT, ()))

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Collect the verdict of a test, and its misses, from its last phase, in whatever process it ran."""
        names = {name for name, _ in report.user_properties}
        is_each = getattr(self._config.option, "dist", "") == "each"  # with pytest-xdist: each worker runs all tests
        worker = getattr(report, "worker_id", "") if is_each else ""  # none if the worker has crashed
        test = f"{report.nodeid} [{worker}]" if worker else report.nodeid
        if self._reports is not None:
            self._reports.note(report, test)
        if report.when != "teardown" and report.failed and "agenttape.miss" in names:
            self._note_miss(report)
        if report.when == "teardown" and "cassette.word" in names:
            from agenttape_core.pytest_plugin.verdict import Verdict

            verdict = Verdict.from_properties(report.user_properties)
            if verdict is not None:
                self._passed.pop(report.nodeid, None)
                self._passed |= {report.nodeid: None} if verdict.word == "replayed" else {}
                self._found[test] = replace(verdict, keyless="agenttape.keyless" in names)
        if report.when == "teardown" and "agenttape.verified" in names:
            from agenttape_core.pytest_plugin.verifying import verified_in

            self._verified += verified_in(report.user_properties)
        if report.when == "teardown":
            self._note_further_runs(report, names)
        if report.when == "teardown" and self._config.option.cassette_plans:
            from agenttape_core.pytest_plugin.planning import own_plans_in, plan_in, refusals_in

            self._own_plans += own_plans_in(report)
            self._refused |= refusals_in(report)
            found = plan_in(report)
            if found is not None:
                self._plans[found[0]] = found[1]

    def _note_further_runs(self, report: pytest.TestReport, names: set[str]) -> None:
        """Collect the results of the further runs of a passed test, and the errors its program caught."""
        if "agenttape.caught" in names:
            from agenttape_core.pytest_plugin.swallowed import caught_in

            self._caught.append(caught_in(report))
        if "agenttape.found" in names:
            self._note_results(report.user_properties)

    def _note_results(self, properties: Sequence[tuple[str, object]]) -> None:
        from agenttape_core.pytest_plugin.experimenting import found_in

        self._results += found_in(properties)

    def _note_miss(self, report: pytest.TestReport) -> None:
        if hasattr(self._config, "workerinput"):
            return  # the reporting process sees all of them
        from agenttape_core.pytest_plugin.causes import Misses

        self._misses = self._misses or Misses()
        self._misses.note(report)

    def pytest_sessionfinish(self, session: pytest.Session, exitstatus: int) -> None:
        """Fail the run for orphans, or send them to the reporting process; keep looked-up costs, and the misses."""
        if "agenttape_core.pytest_plugin.costs" in sys.modules:
            from agenttape_core.pytest_plugin.costs import keep_costs

            keep_costs(self._config)
        output: dict[str, Any] | None = getattr(self._config, "workeroutput", None)
        if output is not None:
            output[_SENT] = sorted(self._orphans)
        elif exitstatus in {pytest.ExitCode.OK, pytest.ExitCode.NO_TESTS_COLLECTED}:
            self._unseen = list(self._nothing_looked_at()) if exitstatus == pytest.ExitCode.OK else []
            if any((self._orphans, self._has_changed(), self._refused, self._unseen, self._is_worse())):
                session.exitstatus = pytest.ExitCode.TESTS_FAILED
        if output is None:
            self._keep_misses()
        if output is None and self._verified:
            from agenttape_core.pytest_plugin.verifying import keep_verified

            keep_verified(self._config.rootpath, self._verified)
        summaries = self._write_tables() if output is None else []
        if self._reports is not None:
            verdicts = self._verdicts()
            lines = [*_sum(verdicts), *_not_run(verdicts, everything=True)]
            self._unwritten += self._reports.write(summaries, lines)
            if self._unwritten and exitstatus == pytest.ExitCode.OK:
                session.exitstatus = pytest.ExitCode.USAGE_ERROR

    def _keep_misses(self) -> None:
        """Keep the misses of this run in pytest's cache, where `agenttape mcp` finds them, in place of earlier ones."""
        cache, option = getattr(self._config, "cache", None), self._config.option
        if cache is None or not (self._found or self._misses) or option.cassette_plans or option.cassette_experiments:
            return
        found = self._misses.by_test if self._misses is not None else {}
        if cache.get(_MISSES, None) != found:
            cache.set(_MISSES, found)

    def _is_worse(self) -> bool:
        if not any(one["name"] == "model" for one in self._results):
            return False
        from agenttape_core.pytest_plugin.experimenting import is_worse

        return is_worse(self._results)

    def _has_changed(self) -> bool:
        plans = [*self._plans.values(), *(own.plan for own in self._own_plans)]
        return any(not plan.is_clean for plan in plans)

    def _nothing_looked_at(self) -> Iterator[str]:
        """Yield a line for each option that gives a verdict but had no test to judge."""
        option, among = self._config.option, f"among {counted(len(self._found), 'test')} with a cassette"
        if option.cassette_drift and not self._has_verified_a_call():
            yield f"--cassette-lab=live verified no cassette {among}: it needs tests that pass and make calls"
        tried = {one["name"] for one in self._results if one["plain"] and one["plain"].get("cells", True)}
        if option.cassette_candidate and "model" not in tried:
            yield f"--cassette-lab=model was tried on no test {among}: it needs recordings in which a model is asked"
        if option.cassette_plans and not self._plans and not self._own_plans:
            yield f"--cassette-dry-run found nothing to update {among}: record first, --cassette-mode=once"
        judging = [name for name in option.cassette_experiments if name not in {"mutants", "shrink", "bisect"}]
        if "mutants" in option.cassette_experiments and not self._passed:
            judging.append("mutants")
        for name in judging:
            if name not in tried:
                yield f"--cassette-lab={name} looked at no test {among}: it needs tests that pass with recorded calls"

    def _has_verified_a_call(self) -> bool:
        from agenttape_core.storage import open_cassette

        return any(open_cassette(self._config.rootpath / path).entries for path in self._verified)

    def _write_tables(self) -> list[str]:
        """Write the results of a dry run and of experiments; return the reports that are of the tests themselves."""
        option = self._config.option
        if "agenttape_core.pytest_plugin.experimenting" in sys.modules:
            from agenttape_core.pytest_plugin.experimenting import INTERRUPTED

            self._note_results(self._config.stash.get(INTERRUPTED, []))
        if "mutants" in option.cassette_experiments and self._passed:
            from agenttape_core.pytest_plugin.experimenting import with_mutants

            with_mutants(self._config, self._results, list(self._passed))
        return [path for path in option.cassette_report if not self._is_written(path)]

    def _is_written(self, path: str) -> bool:
        """Write the result of a dry run or of an experiment, if it has the form of the suffix."""
        option, form = self._config.option, f".{path.rpartition('.')[2]}"
        if option.cassette_plans and form == ".json":
            from agenttape_core.pytest_plugin.planning import by_cassette, write_plans

            write_plans(path, self._plans, by_cassette(self._own_plans), self._refused)
        elif self._results or option.cassette_experiments or option.cassette_candidate:
            from agenttape_core.pytest_plugin.experimenting import write_found

            write_found(path, self._results, self._config)
        else:
            return False
        return True

    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
        """Print the verdicts on the cassettes."""
        for title, lines in self._sections():
            terminalreporter.section(title, red=title not in _CALM and not title.startswith("candidate "))
            for line in lines:
                terminalreporter.line(line)
        for line in self._reports.annotations() if self._reports is not None else ():
            terminalreporter.line(line)

    def _verdicts(self) -> list[Verdict]:
        """Return the verdicts in the order of the tests."""
        return [self._found[test] for test in sorted(self._found, key=lambda test: self._places.get(test, 0))]

    def _again(self, option: str) -> str:
        """Return the command that runs the same tests with one more option."""
        return shlex.join(["pytest", *self._config.option.file_or_dir, option])

    def _sections(self) -> Iterator[tuple[str, Sequence[str]]]:
        verdicts = self._verdicts()
        if self._config.option.cassette_plans:
            from agenttape_core.pytest_plugin.planning import by_cassette, lines_of

            own = {name: one.plan for name, one in by_cassette(self._own_plans).items()}
            yield "dry run", lines_of(self._plans | own, self._refused, self._again)
        elif verdicts:
            lines = summary(verdicts, everything=self._config.option.verbose > 0)
            if self._config.option.cassette_drift:
                lines.append(f"{counted(len(self._verified), 'cassette')} verified by a run for real")
            yield "cassettes", [*lines, *remedies(verdicts, self._again)]
        yield from self._sections_of_results()
        if self._misses is not None and (lines := self._misses.lines(self._again)):
            yield "misses by cause", lines
        if self._caught:
            from agenttape_core.pytest_plugin.swallowed import lines_of as lines_of_caught

            yield "misses your program swallowed", lines_of_caught(self._caught)
        differing = [verdict for verdict in verdicts if verdict.difference]
        if differing:
            do, they = ("does", "it") if len(differing) == 1 else ("do", "they")
            title = f"{counted(len(differing), 'recording')} {do} not replay ({they} will fail in CI)"
            yield title, differences(differing)
        if self._orphans:
            yield "orphaned cassettes", sorted(self._orphans)
        if self._unwritten:
            yield "reports that are missing", self._unwritten
        if self._unseen:
            yield "nothing was looked at", self._unseen

    def _sections_of_results(self) -> Iterator[tuple[str, Sequence[str]]]:
        if self._results:
            from agenttape_core.pytest_plugin.experimenting import sections_of

            yield from sections_of(self._results)


def summary(verdicts: Sequence[Verdict], *, everything: bool) -> list[str]:
    """Return the lines of the summary. With `everything`, each test has a line, even if all its calls were replayed."""
    shown = [
        verdict
        for verdict in verdicts
        if everything or verdict.word != "replayed" or verdict.otherwise or verdict.unused
    ]
    lines = [line for verdict in shown for line in (str(verdict), *verdict.refused_lines())]
    waiting = sum(verdict.word == "to review" for verdict in verdicts)
    review = [f"{counted(waiting, 'recording')} to review:  agenttape review"]
    return [*lines, *_sum(verdicts), *_not_run(verdicts, everything=everything), *(review if waiting else [])]


def remedies(verdicts: Sequence[Verdict], again: Callable[[str], str]) -> list[str]:
    """Return one command for all tests that fail because a recording is missing, a line for each kind of these.

    A single test's message has its own command, and misses are reported by their causes. `again` returns the command
    that runs the same tests with one more option.
    """
    missing = sum(verdict.word == "missing" for verdict in verdicts)
    keyless = sum(verdict.keyless for verdict in verdicts)
    outdated = sum((verdict.word == "unused" or verdict.renewable) and not verdict.keyless for verdict in verdicts)
    lines = [f"to record the {missing} that are missing:  {again('--cassette-mode=once')}"] if missing > 1 else []
    if outdated > 1:
        lines.append(f"to record again what failed:  {again('--rerecord=failed')}")
    if keyless:
        tests = counted(keyless, "test")
        lines.append(f"{tests} failed because a key is missing; in a replay any text will do, and no call is sent")
    return lines


def _not_run(verdicts: Sequence[Verdict], *, everything: bool) -> list[str]:
    from agenttape_core.session.report import NO_SIDE_EFFECTS, side_effects_skipped

    every = dict.fromkeys(tool for verdict in verdicts for tool in verdict.not_run.split("; ") if tool)
    tools = [tool for tool in every if everything or not tool.endswith(NO_SIDE_EFFECTS)]
    more = [f"and {len(tools) - _SHOWN} more"] if len(tools) > _SHOWN else []
    return [side_effects_skipped([*tools[:_SHOWN], *more])] if tools else []


def differences(verdicts: Sequence[Verdict]) -> list[str]:
    """Return the lines about recordings that do not replay."""
    from agenttape_core.pytest_plugin.replay_check import ADVICE

    lines = [line for verdict in verdicts for line in verdict.difference.splitlines()]
    is_left = any("step_into=" not in verdict.difference for verdict in verdicts)
    return [*lines, *(ADVICE if is_left else ())]


def _sum(verdicts: Sequence[Verdict]) -> list[str]:
    """Return the line with the totals; no line if no call was made."""
    replayed = sum(verdict.replayed + verdict.stepped_into for verdict in verdicts)
    executed, live = sum(verdict.recorded for verdict in verdicts), sum(verdict.live for verdict in verdicts)
    cassettes = sum(verdict.replayed + verdict.stepped_into > 0 for verdict in verdicts)
    parts = [f"{counted(cassettes, 'cassette')} replayed, {counted(replayed, 'call')}"] if replayed else []
    parts += [f"{counted(executed, 'call')} recorded"] if executed else []
    parts += [f"{counted(live, 'live call')}"] if live else []
    if replayed:
        parts.append(_saved(verdicts))
    checked = sum(verdict.replay_check == "same" for verdict in verdicts)
    parts += [f"{counted(checked, 'recording')} {'replays' if checked == 1 else 'replay'} OK"] if checked else []
    return ["; ".join(parts)] if parts else []


def _saved(verdicts: Sequence[Verdict]) -> str:
    seconds, dollars = sum(verdict.seconds for verdict in verdicts), sum(verdict.dollars for verdict in verdicts)
    unpriced = sum(verdict.unpriced for verdict in verdicts)
    saved = f"saved {seconds:.1f} s" + (f" and about ${dollars:.4f}" if dollars else "")
    return saved + (f" ({counted(unpriced, 'call')} of models without a known price)" if unpriced else "")
