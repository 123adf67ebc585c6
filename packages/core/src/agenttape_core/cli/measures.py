"""The measures of `agenttape check`: which parts of a program recorded runs have used, and the scores of runs."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

from agenttape_core.checks.checking import Check, check_run
from agenttape_core.checks.judges import JUDGE
from agenttape_core.checks.run import Run
from agenttape_core.checks.scores import Scores, hash_of, read_scores, scores_path
from agenttape_core.checks.sources import run_of_cassette
from agenttape_core.checks.words import checks_of, loaded
from agenttape_core.cli.cassettes import Found
from agenttape_core.cli.output import print_table, print_text, progress
from agenttape_core.errors import ConfigurationError, counted
from agenttape_core.tools.reading.coverage import Coverage
from agenttape_core.tools.reading.prices import Prices
from agenttape_core.tools.reporting import Finding

_SAID = {
    "tools": "tools offered and never called",
    "errors": "tools that never failed",
    "nodes": "nodes that never ran",
    "edges": "edges never taken",
    "events": "events that never came",
}


class Measure(NamedTuple):
    """A measure of recorded runs.

    Args:
        plain: It as plain data.
        show: Prints it.
        failure: Why the check fails; empty if it doesn't.
    """

    plain: Any
    show: Callable[[], None]
    failure: str


class _Scored(NamedTuple):
    run: str
    scores: Mapping[str, float | bool]
    is_stale: bool
    findings: tuple[Finding, ...]

    def to_dict(self) -> dict[str, Any]:
        findings = [each.to_dict() for each in self.findings]
        return {"run": self.run, "scores": dict(self.scores), "stale": self.is_stale, "findings": findings}


def covered(cassettes: Sequence[Found], graph: str | None, fail_under: float | None) -> Measure:
    """Return which tools, nodes and edges runs have used.

    Args:
        cassettes: The recordings of the runs.
        graph: A graph or a workflow to compare with, as `module:graph`.
        fail_under: The least that must be covered, in percent; `None` for any.

    Raises:
        ConfigurationError: If that isn't one.
    """
    found = Coverage()
    if graph is not None:
        target = loaded(graph, "--graph")
        try:
            found.hold_against(target)
        except ConfigurationError as error:
            raise ConfigurationError(f"--graph: {graph} isn't a graph: {error}") from None
    has_calls = False
    for each in progress(cassettes, "reading"):
        cassette = each.look()
        found.add(cassette)
        has_calls = has_calls or bool(cassette.entries)
    failure = "" if has_calls else "nothing is covered: no cassette holds a call"
    if fail_under is not None and found.percent < fail_under and has_calls:
        failure = f"{found.percent:g} % is covered, and --fail-under is {fail_under:g}"
    return Measure(found.to_dict(), lambda: _print_coverage(found), failure)


def scored(
    cassettes: Sequence[Found], evaluators: Sequence[str], remove: Sequence[str], prices: Prices, *, replace: bool
) -> Measure:
    """Return the scores of runs; new ones are written next to the cassettes.

    Args:
        cassettes: The recordings of the runs.
        evaluators: The evaluators to call, as `module:function`.
        remove: The names of scores to remove.
        prices: The prices of tokens.
        replace: Whether evaluators replace scores that are there.
    """
    checks = [check for name in evaluators for check in checks_of("judged", name)]
    rows, has_calls = [], False
    for each in progress([each for each in cassettes if not each.shown.endswith(JUDGE)], "scoring"):
        run = run_of_cassette(each.open(), prices, each.shown)
        has_calls = has_calls or bool(run.happened or run.asked or run.answer)
        rows.append(_scored(run, checks, replace=replace, remove=remove))
    failure = "nothing was scored: no run holds a call or an answer" if checks and not has_calls else ""
    if failed := sum(bool(row.findings) for row in rows):
        failure = f"an evaluator failed for {counted(failed, 'run')}"
    return Measure([row.to_dict() for row in rows], lambda: _print_scores(rows), failure)


def _scored(run: Run, checks: Sequence[Check], *, replace: bool, remove: Sequence[str]) -> _Scored:
    before, of = read_scores(run), hash_of(run)
    is_stale = before is not None and before.of != of
    kept = dict(before.values) if before is not None and not is_stale else {}
    values = {name: value for name, value in kept.items() if name not in remove}
    wanted = [check for check in checks if replace or check.text.removeprefix("judged ") not in values]
    judged = check_run(run, wanted).judged
    for each in judged:
        values.update((name, value) for name, value in each.scores if replace or name not in values)
    if (checks or remove) and (before is None or is_stale or values != before.values):
        scores_path(run).write_text(Scores(of, values).text(), encoding="utf-8", newline="\n")
    failed = tuple(finding for each in judged if not each.scores for finding in each.findings)
    return _Scored(run.name, values, is_stale and not checks, failed)


def _print_coverage(found: Coverage) -> None:
    facts = found.to_dict()
    rows = [(f"tool {each['name']}", f"{each['called']:,}") for each in facts["tools"]]
    rows += [(f"node {each['name']}", f"{each['count']:,}") for each in facts["nodes"]]
    rows += [(f"edge {each['from']} → {each['to']}", f"{each['count']:,}") for each in facts["edges"]]
    rows += [
        (f"event {each['name']}", f"{each['count']:,}" if each["count"] is not None else "unknown")
        for each in facts.get("events", ())
    ]
    rows += [(f"interrupt {each['name']}", f"{each['count']:,}") for each in facts["interrupts"]]
    print_table(("what", "times"), rows, right=frozenset({"times"}))
    for sort, names in found.never.items():
        if names:
            print_text(f"{_SAID[sort]}: {', '.join(names)}")
    if found.unknown:
        print_text(f"events that the recordings don't show: {', '.join(found.unknown)}")
    print_text(f"{found.percent:g} % covered")


def _print_scores(rows: Sequence[_Scored]) -> None:
    names = tuple(dict.fromkeys(name for row in rows for name in row.scores))
    cells = [(row.run, *(_shown(row.scores.get(name)) for name in names)) for row in rows]
    print_table(("run", *names), cells, right=frozenset(names))
    for row in rows:
        if row.is_stale:
            print_text(f"{row.run}: its scores are those of another recording", "yellow")
        for finding in row.findings:
            print_text(str(finding), "red")


def _shown(value: float | bool | None) -> str:
    return "" if value is None else str(value).lower() if isinstance(value, bool) else f"{value:g}"
