"""`agenttape check`: what must be true of recorded runs, as a gate."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import click

from agenttape_core.checks.check_file import read_checks
from agenttape_core.checks.gate import UNREADABLE, judge
from agenttape_core.checks.judges import recording_judges
from agenttape_core.checks.limits import measured, shown, why_unknown
from agenttape_core.checks.run import Run
from agenttape_core.checks.sources import run_of_cassette
from agenttape_core.checks.traces import read_trace, runs_of
from agenttape_core.checks.words import unknown
from agenttape_core.cli import findings
from agenttape_core.cli.app import CASSETTE, FINDINGS, OK
from agenttape_core.cli.cassettes import Found, paths_argument
from agenttape_core.cli.findings import Paths, files_in
from agenttape_core.cli.labs import with_report
from agenttape_core.cli.measures import Measure, covered, scored
from agenttape_core.cli.output import cli_command, print_json, print_text, printable, progress
from agenttape_core.errors import ConfigurationError, shown_path
from agenttape_core.lifecycle.project import project_settings
from agenttape_core.settings import Settings
from agenttape_core.storage import is_derived
from agenttape_core.tools.reading.prices import Prices, load_prices
from agenttape_core.tools.reporting import Checked, Finding, Judged
from agenttape_core.tools.reporting.forms import commands, headline, markdown, write_report
from agenttape_core.tools.reporting.masking import Mask
from agenttape_core.tools.upkeep.staleness import ALL_CHECKS, CHECKS

# -- Baselines: what each run took when it was last accepted, and how much more it may take.


MEASURES = ("calls", "tokens", "seconds", "dollars")
RULE = "baseline"
_VERSION = 1
_DIGITS = 6


@dataclass(frozen=True, slots=True)
class Slack:
    """The amount of something by which a run may exceed its baseline."""

    amount: float  # the amount, or the share of the baseline
    is_share: bool  # whether it is a share

    def limit(self, base: float) -> float:
        """Return the most that a run may take."""
        return base * (1 + self.amount) if self.is_share else base + self.amount


def read_slack(text: str) -> dict[str, Slack]:
    """Return the slack that an option gives: `tokens=10%,calls=1`. Raises `ConfigurationError` if it is malformed."""
    found = {}
    for part in filter(None, (part.strip() for part in text.split(","))):
        what, _, amount = part.partition("=")
        if what not in MEASURES:
            raise ConfigurationError(f"--slack: {unknown('measure', what, MEASURES)}")
        try:
            number = float(amount.removesuffix("%"))
        except ValueError:
            number = -1.0
        if not 0 <= number < float("inf"):
            raise ConfigurationError(f"--slack: expected such as tokens=10% or calls=1, found {part!r}")
        is_share = amount.endswith("%")
        found[what] = Slack(number / 100 if is_share else number, is_share)
    return found


@dataclass(frozen=True, slots=True)
class Baseline:
    """The facts of runs when they were last accepted."""

    # By the name of the run: its measures, and `tools`, the calls of tools in order.
    runs: Mapping[str, Mapping[str, Any]]
    # How much more they may take. Seconds differ with every recording, and count only where they have some.
    slack: Mapping[str, Slack]
    path: str  # the file

    def judge(self, run: Run) -> Iterator[Judged]:
        """Yield the figures of a run that have grown."""
        before = self.runs.get(run.key or run.name)
        findings = tuple(self._findings(run, before)) if before is not None else (self._is_new(run),)
        yield Judged(RULE, "baseline", findings)

    def _findings(self, run: Run, before: Mapping[str, Any]) -> Iterator[Finding]:
        for what in MEASURES:
            base = before.get(what)
            if base is None or (what == "seconds" and what not in self.slack):
                continue
            if unknown := why_unknown(run, what):
                yield run.finding(f"{what} cannot be judged, as in the baseline: {unknown}", rule=RULE)
                continue
            slack, now = self.slack.get(what, Slack(0, is_share=False)), round(measured(run, what), _DIGITS)
            if now > slack.limit(base) + 10**-_DIGITS / 2:
                yield run.finding(f"{shown(what, now)}, and {shown(what, base)} in the baseline", rule=RULE)
        tools = _tools(run)
        if before.get("tools") != tools:
            expected = ", ".join(map(str, before.get("tools") or ())) or "no calls"
            yield run.finding(
                "the tools are others than in the baseline",
                rule=RULE,
                expected=expected,
                found=", ".join(tools) or "no calls",
            )

    def _is_new(self, run: Run) -> Finding:
        return run.finding(f"the run is not in {self.path}; add it with --write-baseline", level="warning", rule=RULE)


def read_baseline(path: Path | str, slack: Mapping[str, Slack]) -> Baseline:
    """Read a baseline. Raises `ConfigurationError` if it cannot be read, or is none."""
    problem = f"{shown_path(path)}: no baseline: "
    try:
        data = json.loads(Path(path).read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError) as error:
        raise ConfigurationError(f"{problem}{error}\n  write one: --write-baseline") from None
    runs = data.get("runs") if isinstance(data, dict) else None
    if not isinstance(runs, dict) or data.get("baseline") != _VERSION or not all(map(_is_whole, runs.values())):
        raise ConfigurationError(
            f'{problem}expected {{"baseline": {_VERSION}, "runs": {{...}}}}\n  write one: --write-baseline'
        )
    return Baseline(runs, slack, shown_path(path))


def facts_of(run: Run) -> dict[str, Any]:
    """Return the figures of a run for a baseline."""
    known = {what: round(measured(run, what), _DIGITS) for what in MEASURES if not why_unknown(run, what)}
    return {**known, "tools": _tools(run)}


def baseline_text(facts: Mapping[str, Mapping[str, Any]]) -> str:
    """Return the baseline of runs: sorted, so that it is the same bytes for the same runs."""
    return json.dumps({"baseline": _VERSION, "runs": facts}, indent=2, sort_keys=True) + "\n"


def _tools(run: Run) -> list[str]:
    return [call.name for call in run.of_kind("tool")]


def _is_whole(facts: Any) -> bool:
    if not isinstance(facts, dict):
        return False
    numbers = [facts[what] for what in MEASURES if what in facts]
    return isinstance(facts.get("tools"), list) and all(isinstance(each, int | float) for each in numbers)


_JUDGE = (".judge.yaml", ".judge.jsonl")  # the ends of the names of judges' cassettes: they aren't runs
_BASELINE = "baseline.json"
_PARTS = ("files", "secrets", "checksums", "rules", "cache", "stale", *ALL_CHECKS, "coverage", "score")

Source = tuple[str, Callable[[], Run]]


@cli_command("agenttape check tests --checks checks.yaml --report report.xml")
@paths_argument
@click.option("--checks", multiple=True, metavar="FILE", help="A YAML file of rules for runs. Repeatable.")
@click.option("--trace", multiple=True, metavar="FILE", help="A JSONL trace to check by the rules. Repeatable.")
@click.option("--baseline", metavar="FILE", help="Fail if a run takes more, or calls other tools, than in this file.")
@click.option("--write-baseline", is_flag=True, help=f"Write the baseline, by default {_BASELINE}, and don't compare.")
@click.option("--slack", default="", metavar="LIST", help="How much more than the baseline: tokens=10%,calls=1.")
@click.option("--record-judges", is_flag=True, help="Let judges make calls that aren't recorded, and record them.")
@click.option("--stale", is_flag=True, help="Look for retired models, other packages, and older prompts or tools.")
@click.option("--max-age", metavar="AGE", help="The greatest age of a cassette: 90, 90d, 12h, 6w. By default any.")
@click.option("--coverage", is_flag=True, help="Show which tools, nodes and edges were used.")
@click.option("--graph", metavar="NAME", help="With --coverage: the graph or workflow to compare with, module:graph.")
@click.option("--fail-under", type=click.FloatRange(0, 100), help="Fail if less is covered, in percent.")
@click.option("--score", is_flag=True, help="Print the scores of runs.")
@click.option("--evaluator", multiple=True, metavar="NAME", help="Add scores by module:function. Repeatable.")
@click.option("--replace", is_flag=True, help="Replace existing scores. By default they are kept.")
@click.option("--remove", multiple=True, metavar="SCORE", help="Remove a score. Repeatable.")
@click.option("--only", multiple=True, type=click.Choice(_PARTS), help="Check only this. Repeatable.")
@with_report
@click.option("--github", is_flag=True, help="Annotate lines and add to the summary, in GitHub Actions.")
@click.option("--redact-prompts", is_flag=True, help="Leave no byte of a prompt in any output.")
def check(
    paths: tuple[str, ...],
    *,
    baseline: str | None,
    write_baseline: bool,
    slack: str,
    max_age: str | None,
    reports: tuple[str, ...],
    github: bool,
    redact_prompts: bool,
    as_json: bool,
    **given: Any,
) -> int:
    """Check cassettes: readable, without secrets, and as your rules say.

    Reads each cassette to its end, with every asset, and looks for secrets, even in the journals of interrupted
    recordings and the files of TapeSaver; it never prints the secret. If there is a file of checksums, it compares
    them. Rules say which tools are called, in which order, for how many tokens, and with which answer.

    With --stale, lists cassettes from which a recording of today would differ. --only verified lists those that pytest
    --cassette-lab=live has not compared with a real run. --only cache warns of calls that read a prompt again which the
    provider's prompt cache would have held. Scores are in NAME.scores.json, next to the cassette.

    Exits with 1 if a check fails, with 2 if the rules are malformed, with 3 if a cassette cannot be read.
    """
    parts = _parts(given, max_age, has_rules=baseline is not None or write_baseline)
    rules = [read_checks(file) for file in given["checks"]]
    allowed = read_slack(slack)
    compared = read_baseline(baseline, allowed) if baseline is not None and not write_baseline else None
    files = files_in(paths) if paths or not given["trace"] else Paths([], [], [])
    gathered, prices, judged = _Gathered(compared), load_prices(project_settings().prices), []
    made = list(_made(files, parts, project_settings(), max_age, prices))
    with recording_judges() if given["record_judges"] else nullcontext():
        if "rules" in parts or redact_prompts:
            named = [one for one in files.cassettes if one.shown in paths or not is_derived(one.shown)]
            runs = list(_runs(named, given["trace"], prices))
            judged = list(judge(list(progress(runs, "checking")), rules, gathered.add))
        measures = dict(_measures(files.cassettes, parts, given, prices))
    checked = list(_together(made, judged))
    if redact_prompts:
        prompts = [run.prompt for run in checked]
        checked = list(map(Mask([*prompts, *gathered.prompts]).checked, checked))
    if write_baseline:
        _write(baseline or _BASELINE, baseline_text(gathered.facts))
    passed = not any(run.has_failed for run in checked)
    plain = {"passed": passed, "runs": [run.to_dict() for run in checked], **{n: m.plain for n, m in measures.items()}}
    for file in reports:
        write_report(file, checked, plain, "\n".join(text for text, _ in _lines(checked)), has_table=False)
    if github:
        _annotate(checked)
    if as_json:
        print_json(plain)
    else:
        for text, style in () if github else _lines(checked):
            print_text(text, style)
        for measure in measures.values():
            measure.show()
    failures = [measure.failure for measure in measures.values() if measure.failure]
    if ("rules" in parts and gathered.is_empty) or not (checked or measures):
        failures.append("nothing was checked: no run holds a call or an answer")
    return _code(checked, failures)


def _code(checked: Sequence[Checked], failures: Sequence[str]) -> int:
    for failure in failures:
        click.echo(printable(failure), err=True)
    if any(finding.rule == UNREADABLE for run in checked for finding in run.findings):
        return CASSETTE
    return FINDINGS if failures or any(run.has_failed for run in checked) else OK


def _parts(given: Mapping[str, Any], max_age: str | None, *, has_rules: bool) -> set[str]:
    """Return the checks to make: the ones in `--only`, or else files, secrets and checksums, and any with options."""
    asked = {
        **dict.fromkeys(("files", "secrets", "checksums"), True),
        "rules": has_rules or given["checks"] or given["trace"],
        "stale": given["stale"] or max_age is not None,
        "coverage": given["coverage"] or given["graph"] is not None or given["fail_under"] is not None,
        "score": given["score"] or given["evaluator"] or given["remove"],
    }
    parts = set(given["only"]) or {part for part, is_wanted in asked.items() if is_wanted}
    return parts | {*CHECKS} if "stale" in parts else parts


def _made(
    files: Paths, parts: set[str], settings: Settings, max_age: str | None, prices: Prices
) -> Iterator[tuple[str, Judged]]:
    """Yield the checks that need no rules, each with the file that it is about."""
    if "files" in parts:
        yield from findings.files(files.cassettes)
    if "secrets" in parts:
        yield from findings.secrets(files, settings)
    if "checksums" in parts:
        yield from findings.checksums(files.cassettes)
    if "cache" in parts:
        yield from findings.prompt_caches(files.cassettes, prices)
    if checks := [check for check in ALL_CHECKS if check in parts]:
        yield from findings.stale(files.cassettes, checks, max_age)


def _measures(
    cassettes: Sequence[Found], parts: set[str], given: Mapping[str, Any], prices: Prices
) -> Iterator[tuple[str, Measure]]:
    if "coverage" in parts:
        yield "coverage", covered(cassettes, given["graph"], given["fail_under"])
    if "score" in parts:
        yield "scores", scored(cassettes, given["evaluator"], given["remove"], prices, replace=given["replace"])


def _together(made: Sequence[tuple[str, Judged]], judged: Sequence[Checked]) -> Iterator[Checked]:
    """Yield each run with all checks that were made of it and of its file, then the files that aren't runs."""
    of_files: dict[str, list[Judged]] = {}
    for path, each in made:
        of_files.setdefault(path, []).append(each)
    for run in judged:
        yield replace(run, judged=tuple(dict.fromkeys([*run.judged, *of_files.pop(run.name, [])])))
    for path, several in of_files.items():
        yield Checked(path, path, "", tuple(dict.fromkeys(several)))


class _Gathered:
    """The facts of runs that outlive them. They are compared with `baseline`, if there is one."""

    def __init__(self, baseline: Baseline | None) -> None:
        self.facts: dict[str, dict[str, Any]] = {}
        self.prompts: list[str] = []
        self.is_empty = True  # true as long as no run has a call or an answer, on which checks could say something
        self._baseline = baseline

    def add(self, run: Run) -> Iterator[Judged]:
        """Note a run, and yield the baseline's findings about it."""
        self.facts[run.key or run.name] = facts_of(run)
        self.is_empty = self.is_empty and not (run.happened or run.asked or run.answer)
        self.prompts += [
            text for message in run.conversation() if message["role"] == "user" for text in [message["content"]]
        ]
        if self._baseline is not None:
            yield from self._baseline.judge(run)


def _runs(cassettes: Sequence[Found], traces: Sequence[str], prices: Prices) -> Iterator[Source]:
    """Yield the runs of cassettes, then of traces."""
    several = [found for found in cassettes if not found.shown.endswith(_JUDGE)]
    if not several and not traces:
        raise click.UsageError("these paths hold only what judges asked: name the cassettes of runs")
    for found in several:
        yield found.shown, lambda found=found: run_of_cassette(found.open(), prices, found.shown)  # type: ignore[misc]
    for trace in traces:
        for run in runs_of(read_trace(trace), shown_path(trace)):
            yield run.name, lambda run=run: run  # type: ignore[misc]


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


def _lines(checked: Sequence[Checked]) -> Iterator[tuple[str, str]]:
    """Yield the findings and the result, each with its style."""
    for run in checked:
        for finding in run.findings:
            yield "\n".join(finding.lines()), "red" if finding.level == "error" else "yellow"
    if checked:
        yield headline(checked), ""
