"""Reports on the tests of a run, with the same reporters as `agenttape check`."""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict
from pathlib import Path

import pytest

from agenttape_core.errors import ConfigurationError
from agenttape_core.pytest_plugin.verdict import Verdict
from agenttape_core.tools.reporting import Checked, Finding, Judged
from agenttape_core.tools.reporting.forms import FORMS, commands, markdown

_CHECKED = "agenttape.checked"  # the name of the property of a test report with the findings of checks, as JSON
_PASSES = Judged("test", "test passes")


def is_on_github() -> bool:
    """Return whether this run is a step of GitHub Actions."""
    return os.environ.get("GITHUB_ACTIONS") == "true"


def is_wanted(config: pytest.Config) -> bool:
    """Return whether anybody reads what checks say, beside the tests themselves."""
    return bool(config.option.cassette_report) or is_on_github()


def refuse_unknown(config: pytest.Config) -> None:
    """Refuse reports with an unknown suffix. Raises `pytest.UsageError` if there is such a file."""
    for path in config.option.cassette_report:
        if Path(path).suffix not in {".json", *FORMS}:
            raise pytest.UsageError(
                f"--cassette-report={path}: the suffix is the form, and this one is not known\n"
                f"  use one of .json, {', '.join(FORMS)}"
            )


def keep_checked(properties: Iterable[tuple[str, object]], checked: Sequence[Checked]) -> list[tuple[str, object]]:
    """Return properties of a test report with the findings of checks, replacing the ones of an earlier run."""
    kept = [(name, value) for name, value in properties if name != _CHECKED]
    judged = [asdict(each) for one in checked for each in one.judged]
    return [*kept, (_CHECKED, json.dumps(judged))] if judged else kept


class TestReports:
    """The findings about the tests of a run that have a cassette. Paths are shown from `root`."""

    __test__ = False  # not a class of tests for pytest

    def __init__(self, root: Path) -> None:
        self._root = root
        self._problems: dict[str, list[Finding]] = {}
        self._checked: dict[str, Checked] = {}

    def note(self, report: pytest.TestReport, test: str) -> None:
        """Note a phase of a test, in whatever process it ran; the last one has the verdict on its cassette.

        Args:
            report: The report on the phase.
            test: The name of the test in the report.
        """
        if report.when == "setup":
            self._problems.pop(test, None)
        if report.failed:
            self._problems.setdefault(test, []).append(self._finding(report))
        verdict = Verdict.from_properties(report.user_properties) if report.when == "teardown" else None
        if verdict is not None:
            judged = _judged_in(report.user_properties)
            told = self._problems.get(test, ())
            if any(each.has_failed for each in judged):
                told = told[1:]  # the first one says what they say
            own = Judged(_PASSES.rule, _PASSES.text, (*told, *_differing(verdict)))
            self._checked[test] = Checked(test, verdict.path, "", (own, *judged))

    def write(self, paths: Sequence[str], lines: Sequence[str]) -> Iterator[str]:
        """Write the reports, ending with `lines`, and GitHub's job summary; yield those that failed."""
        checked = list(self._checked.values())
        for path in paths:
            form = FORMS.get(Path(path).suffix, _as_json)
            try:
                text = "".join(form(checked))
            except ConfigurationError as error:  # a library is missing
                yield f"{path} cannot be written: {error}"
            else:
                yield from _written(path, "\n".join([text, *lines, ""]) if Path(path).suffix == ".md" else text, "w")
        summary = os.environ.get("GITHUB_STEP_SUMMARY") if is_on_github() else None
        if summary and checked:
            yield from _written(summary, "\n".join([markdown(checked), *lines, ""]), "a")

    def annotations(self) -> list[str]:
        """Return the commands that annotate lines on GitHub; none elsewhere."""
        return list(commands(self._checked.values())) if is_on_github() else []

    def _finding(self, report: pytest.TestReport) -> Finding:
        """Return a failed phase as a finding, at the line of the project where it failed."""
        crash = getattr(report.longrepr, "reprcrash", None)
        file, line, _ = report.location
        path, number = self._root / file, (line or 0) + 1
        message = str(report.longrepr or "").strip().rpartition("\n")[2]
        if crash is not None:
            path, number, message = Path(crash.path), int(crash.lineno), str(crash.message).partition("\n")[0]
        shown = os.path.relpath(path, self._root) if path.is_relative_to(self._root) else str(path)
        phase = "" if report.when == "call" else f"{report.when}: "
        return Finding(f"{phase}{message}", rule=_PASSES.rule, path=Path(shown).as_posix(), line=number)


def _as_json(checked: Sequence[Checked]) -> str:
    return json.dumps({"tests": [each.to_dict() for each in checked]}, indent=2)


def _differing(verdict: Verdict) -> Iterator[Finding]:
    """Yield the warning about a recording that does not replay."""
    if verdict.difference:
        message = "does not replay"
        yield Finding(message, found=verdict.difference, level="warning", rule=_PASSES.rule, path=verdict.path)


def _judged_in(properties: Iterable[tuple[str, object]]) -> tuple[Judged, ...]:
    found = next((str(value) for name, value in properties if name == _CHECKED), "[]")
    return tuple(map(Judged.from_dict, json.loads(found)))


def _written(path: str, text: str, how: str) -> Iterator[str]:
    """Write a file, and yield why not if that fails."""
    try:
        Path(path).parent.mkdir(parents=True, exist_ok=True)
        with Path(path).open(how, encoding="utf-8", errors="replace", newline="\n") as file:
            file.write(text)
    except OSError as error:
        yield f"{path} cannot be written: {error.strerror or error}"
