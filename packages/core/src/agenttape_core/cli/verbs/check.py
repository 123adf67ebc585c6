"""`agenttape check`: what must be true of recorded runs, as a gate."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import click

from agenttape_core.checks.baselines import Baseline, baseline_text, facts_of, read_baseline, read_slack
from agenttape_core.checks.check_file import read_checks
from agenttape_core.checks.gate import UNREADABLE, judge
from agenttape_core.checks.judges import recording_judges
from agenttape_core.checks.run import Run
from agenttape_core.checks.sources import run_of_cassette
from agenttape_core.checks.traces import read_trace, runs_of
from agenttape_core.cli.app import CASSETTE, FINDINGS, OK
from agenttape_core.cli.cassettes import Found, found_in, paths_argument
from agenttape_core.cli.output import print_json, print_text, progress, verb
from agenttape_core.errors import ConfigurationError, counted, shown_path
from agenttape_core.lifecycle.project import project_settings
from agenttape_core.tools.reading.prices import Prices, load_prices
from agenttape_core.tools.reporting import Checked, Judged
from agenttape_core.tools.reporting.forms import FORMS
from agenttape_core.tools.reporting.github import commands
from agenttape_core.tools.reporting.markdown import headline, markdown
from agenttape_core.tools.reporting.masking import Mask

_JUDGE = (".judge.yaml", ".judge.jsonl")
"""The ends of the names of what judges asked: they are no runs."""
_BASELINE = "baseline.json"

Source = tuple[str, Callable[[], Run]]


@verb("agenttape check runs --checks checks.yaml --junit report.xml")
@paths_argument
@click.option("--checks", multiple=True, metavar="FILE", help="A YAML file of checks. Repeatable.")
@click.option("--trace", multiple=True, metavar="FILE", help="A JSONL trace to check. Repeatable.")
@click.option(
    "--baseline", metavar="FILE", help="Fail where a run takes more, or calls other tools, than in this file."
)
@click.option("--write-baseline", is_flag=True, help=f"Write the baseline, by default {_BASELINE}, and do not compare.")
@click.option("--slack", default="", metavar="LIST", help="How much more than the baseline: tokens=10%,calls=1.")
@click.option("--record-judges", is_flag=True, help="Let judges ask what is not recorded, and record it.")
@click.option("--junit", "junit_to", metavar="FILE", help="Write JUnit's XML.")
@click.option("--sarif", "sarif_to", metavar="FILE", help="Write SARIF 2.1.0.")
@click.option("--trx", "trx_to", metavar="FILE", help="Write TRX, for Azure DevOps.")
@click.option("--markdown", "markdown_to", metavar="FILE", help="Write Markdown.")
@click.option("--github", is_flag=True, help="Annotate lines and add to the summary, in GitHub Actions.")
@click.option("--redact-prompts", is_flag=True, help="Leave no byte of a prompt in any output.")
def check(
    paths: tuple[str, ...],
    *,
    checks: tuple[str, ...],
    trace: tuple[str, ...],
    baseline: str | None,
    write_baseline: bool,
    slack: str,
    record_judges: bool,
    redact_prompts: bool,
    github: bool,
    as_json: bool,
    **reports: str | None,
) -> int:
    """Check recorded runs against your rules.

    Rules say which tools are called, in which order, for how many tokens, and with which answer.

    Exits with 1 if a check fails, with 2 if the checks are malformed, with 3 if a run cannot be read.
    """
    if not checks and baseline is None and not write_baseline:
        raise click.UsageError("nothing to check with: name a file with --checks, or one with --baseline")
    files = [read_checks(file) for file in checks]
    allowed = read_slack(slack)
    compared = read_baseline(baseline, allowed) if baseline is not None and not write_baseline else None
    runs = list(_runs(paths, trace, load_prices(project_settings().prices)))
    gathered = _Gathered(compared)
    with recording_judges() if record_judges else nullcontext():
        checked = list(judge(list(progress(runs, "checking")), files, gathered.add))
    if redact_prompts:
        prompts = [run.prompt for run in checked]
        checked = list(map(Mask([*prompts, *gathered.prompts]).checked, checked))
    if write_baseline:
        _write(baseline or _BASELINE, baseline_text(gathered.facts))
    _report(checked, reports)
    if github:
        _annotate(checked)
    if as_json:
        print_json({"passed": not any(run.has_failed for run in checked), "runs": [run.to_dict() for run in checked]})
    elif not github:
        _print(checked)
    if any(each.rule == UNREADABLE for run in checked for each in run.judged):
        return CASSETTE
    if gathered.is_empty:
        click.echo("nothing was checked: no run holds a call or an answer", err=True)
    return FINDINGS if gathered.is_empty or any(run.has_failed for run in checked) else OK


class _Gathered:
    """The facts of runs that outlive them.

    Args:
        baseline: What they are compared with; `None` if they are not.
    """

    def __init__(self, baseline: Baseline | None) -> None:
        self.facts: dict[str, dict[str, Any]] = {}
        self.prompts: list[str] = []
        self.is_empty = True
        """True as long as no run has a call or an answer, on which checks could say something."""
        self._baseline = baseline

    def add(self, run: Run) -> Iterator[Judged]:
        """Note a run, and yield what the baseline says of it."""
        self.facts[run.key or run.name] = facts_of(run)
        self.is_empty = self.is_empty and not (run.happened or run.asked or run.answer)
        self.prompts += [
            text for message in run.conversation() if message["role"] == "user" for text in [message["content"]]
        ]
        if self._baseline is not None:
            yield from self._baseline.judge(run)


def _runs(paths: Sequence[str], traces: Sequence[str], prices: Prices) -> Iterator[Source]:
    """Yield the runs: of the paths, by default of the current folder unless there is a trace, then of traces."""

    def reader(found: Found) -> Callable[[], Run]:
        return lambda: run_of_cassette(found.open(), prices, found.shown)

    if paths or not traces:
        several = [found for found in found_in(paths) if not found.shown.endswith(_JUDGE)]
        if not several:
            raise click.UsageError("these paths hold only what judges asked: name the cassettes of runs")
        yield from ((found.shown, reader(found)) for found in several)
    for trace in traces:
        shown = shown_path(trace)
        for run in runs_of(read_trace(trace), shown):
            yield run.name, lambda run=run: run  # type: ignore[misc]


def _report(checked: Sequence[Checked], reports: dict[str, str | None]) -> None:
    forms = {"junit_to": ".xml", "sarif_to": ".sarif", "trx_to": ".trx", "markdown_to": ".md"}
    for name, suffix in forms.items():
        path = reports[name]
        if path is not None:
            _write(path, FORMS[suffix](checked))


def _write(path: str, text: str) -> None:
    try:
        Path(path).write_text(text, encoding="utf-8", errors="replace", newline="\n")
    except OSError as error:
        raise ConfigurationError(f"{path} cannot be written: {error.strerror or error}") from None


def _annotate(checked: Sequence[Checked]) -> None:
    for line in commands(checked):
        click.echo(line)
    summary = os.environ.get("GITHUB_STEP_SUMMARY")
    if summary:
        with Path(summary).open("a", encoding="utf-8", errors="replace") as file:
            file.write(markdown(checked) + "\n")
    click.echo(headline(checked))


def _print(checked: Sequence[Checked]) -> None:
    for run in checked:
        if run.findings:
            print_text(f"{run.name}: {counted(len(run.findings), 'finding')}", "red" if run.has_failed else "yellow")
            for finding in run.findings:
                print_text("\n".join(f"  {line}" for line in finding.lines()))
    print_text(headline(checked))
