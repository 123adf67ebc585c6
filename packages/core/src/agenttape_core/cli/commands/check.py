"""`agenttape check`: what must be true of recorded runs, as a gate."""

from __future__ import annotations

import json
import os
import pickle
import signal
import subprocess
import sys
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, nullcontext
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import IO, Any

import click

from agenttape_core.checks.check_file import UNREADABLE, CheckFile, judge, read_checks
from agenttape_core.checks.judges import recording_judges
from agenttape_core.checks.limits import measured, shown, why_unknown
from agenttape_core.checks.run import Run
from agenttape_core.checks.sources import run_of_cassette
from agenttape_core.checks.traces import read_trace, runs_of
from agenttape_core.checks.words import unknown
from agenttape_core.cli import findings
from agenttape_core.cli.app import CASSETTE, FINDINGS, OK
from agenttape_core.cli.cassettes import STDIN, Found, paths_argument, reading
from agenttape_core.cli.findings import Paths, files_in
from agenttape_core.cli.labs import with_report
from agenttape_core.cli.measures import Measure, covered, scored
from agenttape_core.cli.output import cli_command, print_json, print_text, printable, progress_bar
from agenttape_core.errors import AgentTapeError, ConfigurationError, shown_path
from agenttape_core.lifecycle.project import project_settings
from agenttape_core.settings import Settings
from agenttape_core.storage import is_derived
from agenttape_core.tools.reading.prices import Prices, load_prices
from agenttape_core.tools.reporting import Checked, Finding, Judged
from agenttape_core.tools.reporting.forms import commands, headline, markdown, write_parts, write_report
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

_MANY, _CHUNK, _PROCESSES = 1_000, 200, 4
"""The number of cassettes from which several processes check them, the size of a chunk, and the most processes."""

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
    prices, settings = load_prices(project_settings().prices), project_settings()
    work = _Work(tuple(given["checks"]), compared, frozenset(parts), frozenset(paths), redact_prompts, write_baseline)
    with recording_judges() if given["record_judges"] else nullcontext():
        done = _done(work, rules, files.cassettes, given["trace"])
        measures = dict(_measures(files.cassettes, parts, given, prices))
    made = [*done.made, *_made_of_all(files, parts, settings, max_age)]
    checked = list(_together(made, done.judged))
    if redact_prompts:
        prompts = [run.prompt for run in checked]
        checked = list(map(Mask([*prompts, *done.prompts]).checked, checked))
    if write_baseline:
        write_parts(Path(baseline or _BASELINE), [baseline_text(done.facts)])
    passed = not any(run.has_failed for run in checked)
    runs = [run.to_dict() for run in checked] if reports or as_json else []
    plain = {"passed": passed, "runs": runs, **{name: measure.plain for name, measure in measures.items()}}
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
    if ("rules" in parts and done.is_empty) or not (checked or measures):
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


@dataclass(frozen=True, slots=True)
class _Work:
    """The checks to make of each cassette, in this process or another one."""

    rules: tuple[str, ...]  # the files of rules
    baseline: Baseline | None  # the figures that runs are compared with
    parts: frozenset[str]
    named: frozenset[str]  # the paths of the command line: a derived cassette is a run only if it's among them
    hides: bool  # whether prompts must not be shown
    has_new_baseline: bool  # whether the figures of runs are kept

    @property
    def has_runs(self) -> bool:
        """True if runs are judged, or their prompts are needed."""
        return "rules" in self.parts or self.hides

    def is_run(self, found: Found) -> bool:
        """Return True if a cassette holds a run to judge: neither the calls of a judge, nor a derived one."""
        return not found.shown.endswith(_JUDGE) and (found.shown in self.named or not is_derived(found.shown))


@dataclass(slots=True)
class _Done:
    """The results of those checks."""

    made: list[tuple[str, Judged]] = field(default_factory=list)  # by checks that need no rules, each with its file
    judged: list[Checked] = field(default_factory=list)  # the runs
    facts: dict[str, dict[str, Any]] = field(default_factory=dict)  # of runs, for a baseline
    prompts: list[str] = field(default_factory=list)  # that must not be shown
    is_empty: bool = True  # true as long as no run has a call or an answer, on which checks could say something

    def add(self, part: _Done, known: dict[Judged, Judged]) -> None:
        """Add the results of the cassettes that follow."""
        self.made += [(path, known.setdefault(each, each)) for path, each in part.made]
        self.judged += [_shared(each, known) for each in part.judged]
        self.facts |= part.facts
        self.prompts += part.prompts
        self.is_empty = self.is_empty and part.is_empty


def _shared(run: Checked, known: dict[Judged, Judged]) -> Checked:
    """Return a run whose checks are one object with the equal ones of other runs: most pass, and many are kept."""
    return replace(run, judged=tuple(known.setdefault(each, each) for each in run.judged))


def _done(work: _Work, rules: Sequence[CheckFile], cassettes: Sequence[Found], traces: Sequence[str]) -> _Done:
    """Check cassettes, then traces. Many cassettes are checked by a process on each core, with the same result."""
    if work.has_runs and not traces and not any(map(work.is_run, cassettes)):
        raise click.UsageError("these paths hold only what judges asked: name the cassettes of runs")
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    if cores == 1 or traces or not _is_divisible(rules, cassettes):
        return _checked_here(work, rules, cassettes, traces)
    chunks = [cassettes[at : at + _CHUNK] for at in range(0, len(cassettes), _CHUNK)]
    cores, whole = min(cores, _PROCESSES), _Done()
    known: dict[Judged, Judged] = {}
    with ExitStack() as stack:
        processes = [stack.enter_context(_process(work, chunks[n::cores])) for n in range(cores)]
        advance = stack.enter_context(progress_bar(len(chunks), "checking"))
        for number in range(len(chunks)):
            whole.add(_next_of(processes[number % cores]), known)
            advance()
    return whole


@contextmanager
def _process(work: _Work, chunks: Sequence[Sequence[Found]]) -> Iterator[IO[bytes]]:
    """Start a process that checks cassettes, and yield its output, to which it pickles the results of each chunk."""
    begin = f"from {__name__} import serve_checks; serve_checks()"
    with subprocess.Popen([sys.executable, "-c", begin], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:  # noqa: S603 - this Python
        assert process.stdin is not None
        assert process.stdout is not None
        try:
            pickle.dump((sys.path, work, chunks), process.stdin)
            process.stdin.close()
            yield process.stdout
        finally:
            process.kill()


def _next_of(output: IO[bytes]) -> _Done:
    try:
        found: _Done = pickle.load(output)  # noqa: S301 - of a process of ours
    except EOFError:
        raise AgentTapeError("a process that checked cassettes has died; its output is above") from None
    return found


def serve_checks() -> None:
    """Check the cassettes that a process gets from the one that has started it."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C ends the other one, which ends this one
    sys.path[:], work, chunks = pickle.load(sys.stdin.buffer)  # noqa: S301 - of a process of ours
    rules = [read_checks(file) for file in work.rules]
    for chunk in chunks:
        pickle.dump(_checked_here(work, rules, chunk), sys.stdout.buffer)
        sys.stdout.flush()


def _is_divisible(rules: Sequence[CheckFile], cassettes: Sequence[Found]) -> bool:
    """Return True if other processes can check many cassettes.

    They can't if a case may be about any run, an evaluator may record or print, or only this process has the files.
    """
    every = [check for file in rules for check in file.every]
    is_plain = not any(file.cases for file in rules) and not any(check.rule == "judged" for check in every)
    is_only_here = any(one.shown.startswith("memory:") or one.file.location == Path(STDIN) for one in cassettes)
    return len(cassettes) >= _MANY and is_plain and not is_only_here


def _checked_here(
    work: _Work, rules: Sequence[CheckFile], cassettes: Sequence[Found], traces: Sequence[str] = ()
) -> _Done:
    """Check cassettes one after another, each read once, then traces, in this process."""
    done, prices = _Done(), load_prices(project_settings().prices)

    def runs() -> Iterator[Source]:
        for found in reading(cassettes, "checking"):
            done.made += ((found.shown, each) for each in _made(found, work.parts, project_settings(), prices))
            if work.has_runs and work.is_run(found):
                yield found.shown, lambda found=found: run_of_cassette(found.open(), prices, found.shown)  # type: ignore[misc]
        for trace in traces if work.has_runs else ():
            for run in runs_of(read_trace(trace), shown_path(trace)):
                yield run.name, lambda run=run: run  # type: ignore[misc]

    def note(run: Run) -> Iterator[Judged]:
        if work.has_new_baseline:
            done.facts[run.key or run.name] = facts_of(run)
        done.is_empty = done.is_empty and not (run.happened or run.asked or run.answer)
        if work.hides:
            done.prompts += [said["content"] for said in run.conversation() if said["role"] == "user"]
        if work.baseline is not None:
            yield from work.baseline.judge(run)

    known: dict[Judged, Judged] = {}
    done.judged = [_shared(each, known) for each in judge(runs(), rules, note)]
    return done


def _made(found: Found, parts: Collection[str], settings: Settings, prices: Prices) -> Iterator[Judged]:
    """Yield the checks of one cassette that need no rules."""
    if "files" in parts:
        yield findings.damage_of(found)
    if "secrets" in parts:
        yield findings.secrets_of(found, settings)
    if "cache" in parts:
        yield findings.prompt_cache_of(found, prices)


def _made_of_all(files: Paths, parts: set[str], settings: Settings, max_age: str | None) -> findings.Made:
    """Yield the checks without rules of files that aren't cassettes, and those that compare cassettes with others."""
    if "secrets" in parts:
        yield from findings.secrets_beside(files, settings)
    if "checksums" in parts:
        yield from findings.checksums(files.cassettes)
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
