"""The report on a fleet: a few causes instead of a line for each run. Reports add up in any order and grouping."""

from __future__ import annotations

import html
import json
import math
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from importlib.metadata import version
from itertools import chain
from pathlib import Path
from typing import Any

from agenttape_core.checks.check_file import parsed
from agenttape_core.errors import ConfigurationError, counted
from agenttape_core.experiments.verdicts import (
    Pairs,
    Verdict,
    difference_of,
    pairs_to_settle,
    verdict_of,
    verdicts_of,
)
from agenttape_core.fleet.items import Item, Plan
from agenttape_core.fleet.outcomes import VERDICTS, Outcome, outcomes_in, plans_in
from agenttape_core.locks import cached_property
from agenttape_core.named_tuples import NamedTuple
from agenttape_core.schema import OWN
from agenttape_core.tools.reporting import Checked, Finding, Judged
from agenttape_core.tools.reporting.forms import cell, junit, sarif

# -- The verdicts on another model over a fleet: for each class of runs with the same calls, and for all runs.


class ClassVerdict(NamedTuple):
    """The verdict on a candidate for a class of runs, or for all of them."""

    trajectory: str  # the hash of the recorded calls of the class; empty for all runs
    runs: float  # the number of recorded runs that the samples represent
    candidate: str  # the model that was tried
    pairs: Pairs
    verdict: Verdict
    difference: tuple[float, float]  # the bounds of the share by which the candidate passes more often
    more: int | None = None
    """The pairs that would settle it if they are like those before; `None` for a class, and for more than 2,000."""


def verdicts(items: Mapping[str, Item], outcomes: Mapping[str, Outcome]) -> list[ClassVerdict]:
    """Return the verdict on all recorded runs of each candidate, followed by those on the classes.

    Over all runs, a pair counts in proportion to the runs that it represents, and the heaviest counts as one. That
    keeps the verdict valid: the expectation of a power of a bet's gain is at most the power of its expectation
    (Jensen), and the weighted geometric mean of the classes' expectations is at most their arithmetic mean. Each round
    of samples represents all runs, so rounds multiply.

    Args:
        items: The items of a plan, by id.
        outcomes: The outcomes, by the ids of the items.
    """
    found = []
    for candidate in sorted({one.candidate for one in items.values()} - {"", OWN}):
        several = [one for one in items.values() if one.candidate in {OWN, candidate}]
        pairs = _pairs(several, outcomes)
        heaviest = max((weight for _, weight, _ in pairs), default=1.0)
        overall = _sum(Pairs(*(each * weight / heaviest for each in pair)) for _, weight, pair in pairs)
        runs = math.fsum(one.weight for one in several if one.candidate == candidate)
        (more,) = pairs_to_settle([overall])
        judged = ClassVerdict(
            "", runs, candidate, overall, verdict_of(overall), difference_of(overall), more if pairs else None
        )
        found += [judged, *of_classes(several, outcomes)]
    return found


def of_classes(items: Collection[Item], outcomes: Mapping[str, Outcome]) -> list[ClassVerdict]:
    """Return the verdict on each class of which there are pairs, judged together. There is one candidate."""
    pairs: dict[str, list[Pairs]] = {}
    for name, _, pair in _pairs(items, outcomes):
        pairs.setdefault(name, []).append(pair)
    weights: dict[str, list[float]] = {}
    for item in items:
        if item.candidate != OWN:
            weights.setdefault(item.trajectory, []).append(item.weight)
    runs = {name: math.fsum(several) for name, several in weights.items()}
    candidate = next((item.candidate for item in items if item.candidate != OWN), "")
    names = sorted(pairs, key=lambda name: (-runs[name], name))
    family = [_sum(pairs[name]) for name in names]
    return [
        ClassVerdict(name, runs[name], candidate, each, verdict, difference_of(each))
        for name, each, verdict in zip(names, family, verdicts_of(family), strict=True)
    ]


def _pairs(items: Iterable[Item], outcomes: Mapping[str, Outcome]) -> list[tuple[str, float, Pairs]]:
    """Return the pairs of samples that both count, each with its class and its weight."""
    groups: dict[tuple[str, int], dict[bool, Item]] = {}
    for item in items:
        groups.setdefault((item.cassette, item.sample), {})[item.candidate == OWN] = item
    found = []
    for group in groups.values():
        ended = [outcomes.get(group[own].id) if own in group else None for own in (False, True)]
        tried, own = (one.passed if one is not None else None for one in ended)
        if tried is not None and own is not None:
            better, worse = tried and not own, own and not tried
            found.append((group[False].trajectory, group[False].weight, Pairs(better, tried == own, worse)))
    return found


def _sum(pairs: Iterable[Pairs]) -> Pairs:
    return Pairs(*(math.fsum(each) for each in zip(*pairs, strict=True)))


_MOST = 20  # the rows of a table for people


class Cause(NamedTuple):
    """Runs that aren't the same for one reason."""

    verdict: str
    where: str  # the first new request, or the broken rules
    id: str  # the hash of the place of the first new request and of its difference; empty for broken rules
    rules: tuple[str, ...]
    outcomes: tuple[Outcome, ...]  # sorted by their recordings


class Table(NamedTuple):
    """A part of a report as text."""

    title: str
    columns: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]


@dataclass(frozen=True)
class Report:
    """The outcomes of the items of a plan, so far.

    Reports are added as sets are united: `a + b` is `b + a`, and `a + a` is `a`. If an item was worked on twice, the
    outcome whose bytes come first counts.

    Args:
        items: The items of the plan, by their ids.
        outcomes: The outcomes, by the ids of their items; other items are left out.
        cases: The places of the cases in your rules, each of which needs a run.
        damaged: The names of results that are damaged or copied, and don't count.

    Raises:
        ConfigurationError: If the outcomes were made by versions that don't fit each other.
    """

    items: Mapping[str, Item] = field(default_factory=dict)
    outcomes: Mapping[str, Outcome] = field(default_factory=dict)
    cases: frozenset[str] = frozenset()
    damaged: frozenset[str] = frozenset()

    def __post_init__(self) -> None:
        found: dict[tuple[tuple[str, str], ...], list[Outcome]] = {}
        for outcome in self.outcomes.values():
            found.setdefault(tuple(sorted(outcome.versions.items())), []).append(outcome)
        if len(found) > 1:
            lines = [
                f"{', '.join(map(' '.join, versions))}: {counted(len(several), 'result')}, such as "
                f"{_name(min(several, key=_order))}"
                for versions, several in sorted(found.items())
            ]
            raise ConfigurationError(
                "the results are of versions that don't fit each other\n  "
                + "\n  ".join(lines)
                + "\n  work on the plan with one version, and an empty --output"
            )

    def __add__(self, other: Report) -> Report:
        """Return the report on all outcomes of both. Raises `ConfigurationError` if their versions don't fit."""
        both = _united([*self.outcomes.values(), *other.outcomes.values()])
        return Report({**self.items, **other.items}, both, self.cases | other.cases, self.damaged | other.damaged)

    @cached_property
    def done(self) -> list[Outcome]:
        """The outcomes, sorted."""
        return sorted((each for key, each in self.outcomes.items() if key in self.items), key=_order)

    @cached_property
    def missing(self) -> list[Item]:
        """The items without an outcome, sorted."""
        return sorted((item for key, item in self.items.items() if key not in self.outcomes), key=_order)

    @cached_property
    def unmet(self) -> list[str]:
        """The cases of your rules that no run belongs to, sorted; empty while an item isn't done."""
        return sorted(self.cases.difference(*(each.cases for each in self.done))) if not self.missing else []

    @property
    def has_failed(self) -> bool:
        """True if something isn't done or isn't as recorded, a case has no run, or a candidate is WORSE or unjudged."""
        candidates = any(one.verdict == "WORSE" or not one.pairs.total for one in self.candidates())
        return bool(self.missing or self.unmet) or candidates or any(map(_fails, self.done))

    def verdicts(self) -> dict[str, int]:
        """Return the number of outcomes of each verdict."""
        found = Counter(each.verdict for each in self.done)
        return {verdict: found[verdict] for verdict in VERDICTS}

    def causes(self) -> list[Cause]:
        """Return the outcomes that aren't the same, grouped by verdict and cause; the largest group first."""
        groups: dict[tuple[Any, ...], list[Outcome]] = {}
        for each in filter(_is_bad, self.done):
            groups.setdefault((each.verdict, each.cause or each.where, each.rules), []).append(each)
        causes = [
            Cause(each.verdict, each.where or ", ".join(each.rules), each.cause, each.rules, tuple(several))
            for several in groups.values()
            for each in several[:1]
        ]
        return sorted(causes, key=lambda cause: (-len(cause.outcomes), cause.verdict, cause.where, cause.id))

    def trajectories(self) -> list[tuple[str, list[Outcome]]]:
        """Return the outcomes by their trajectory; the most frequent first."""
        groups: dict[str, list[Outcome]] = {}
        for each in self.done:
            if each.trajectory:
                groups.setdefault(each.trajectory, []).append(each)
        return sorted(groups.items(), key=lambda group: (-len(group[1]), group[0]))

    def headline(self) -> str:
        """Return the result in one line."""
        ways = Counter(cause.verdict for cause in self.causes())
        parts = [
            f"{count:,} {verdict}" + (f" in {ways[verdict]} ways" if ways[verdict] > 1 else "")
            for verdict, count in self.verdicts().items()
            if count
        ]
        total = f"{len(self.items):,} {'run' if len(self.items) == 1 else 'runs'}"
        parts += [f"{len(self.missing):,} not done"] if self.missing else []
        parts += [f"{counted(len(self.unmet), 'case')} without a run"] if self.unmet else []
        return f"{total}: {', '.join(parts)}"

    def tables(self) -> Iterator[Table]:
        """Yield the parts of the report for people: causes, candidates, trajectories, what isn't done or is damaged."""
        causes = [(str(len(one.outcomes)), one.verdict, one.where, _name(one.outcomes[0])) for one in self.causes()]
        yield _table("Cases without a run", ("case",), [(place,) for place in self.unmet])
        yield _table("Causes", ("runs", "verdict", "first difference", "such as"), causes)
        yield _table(
            "Candidates",
            ("model", "calls", "runs", "verdict", "better", "equal", "worse", "difference"),
            [_cells(one) for one in self.candidates()],
        )
        paths = [
            (path, str(len(each)), str(sum(map(_is_bad, each))), _name(each[0])) for path, each in self.trajectories()
        ]
        yield _table("Trajectories", ("trajectory", "runs", "not the same", "such as"), paths)
        yield _table("Not done", ("recording",), [(_name(item),) for item in self.missing])
        yield _table("Damaged results", ("file",), [(name,) for name in sorted(self.damaged)])

    def to_dict(self) -> dict[str, Any]:
        """Return it as plain data."""
        done = self.done
        priced = [each.dollars for each in done if each.dollars is not None]
        return {
            "passed": not self.has_failed,
            "items": len(self.items),
            "done": len(done),
            "verdicts": self.verdicts(),
            "causes": [
                {
                    "verdict": each.verdict,
                    "where": each.where,
                    "cause": each.id,
                    "rules": list(each.rules),
                    "runs": len(each.outcomes),
                    "weight": math.fsum(self.items[one.item].weight for one in each.outcomes),
                    "recordings": [_name(one) for one in each.outcomes],
                }
                for each in self.causes()
            ],
            "cases_without_run": self.unmet,
            "candidates": [
                {
                    "model": one.candidate,
                    "trajectory": one.trajectory or None,
                    "runs": round(one.runs, 6),
                    "verdict": one.verdict,
                    "pairs": {name: round(count, 6) for name, count in one.pairs._asdict().items()},
                    "difference": [round(bound, 6) for bound in one.difference],
                    "more_pairs": one.more,
                }
                for one in self.candidates()
            ],
            "trajectories": [
                {"trajectory": path, "runs": len(each), "not_same": sum(map(_is_bad, each)), "such_as": _name(each[0])}
                for path, each in self.trajectories()
            ],
            "missing": [_name(item) for item in self.missing],
            "damaged": sorted(self.damaged),
            "calls": sum(each.calls for each in done),
            "tokens": sum(each.tokens for each in done),
            "dollars": round(math.fsum(priced), 9),
            "unpriced": len(done) - len(priced),
            "seconds": round(math.fsum(each.seconds for each in done), 6),
            "versions": dict(sorted(done[0].versions.items())) if done else {},
        }

    def candidates(self) -> list[ClassVerdict]:
        """Return the verdicts on candidates: over all runs, and by class."""
        return verdicts(self.items, self.outcomes)


def read_report(stores: Sequence[str | Path], plan: str = "") -> Report:
    """Return the report on the results in stores: all shards of a plan, in one store or several.

    Args:
        stores: Folders or URLs that `work` wrote to.
        plan: The beginning of the id of a plan, if there are results of several.

    Raises:
        CassetteError: If a store can't be read.
        ConfigurationError: If the plan isn't there, there are several, or versions don't fit each other.
    """
    plans = {one.id: one for store in stores for one in plans_in(store)}
    found = [one for name, one in sorted(plans.items()) if name.startswith(plan)]
    if len(found) != 1:
        raise ConfigurationError(_which_plan(", ".join(map(str, stores)), plan, plans))
    items = {item.id: item for item in found[0].items}
    damaged: set[str] = set()
    outcomes = _united(one for store in stores for one in outcomes_in(store, items, damaged))
    return Report(items, outcomes, _cases_of(found[0]), frozenset(damaged))


def _united(outcomes: Iterable[Outcome]) -> dict[str, Outcome]:
    """Return outcomes by their items; of several for an item, the one whose bytes come first."""
    found: dict[str, Outcome] = {}
    for one in outcomes:
        found[one.item] = min(found[one.item], one, key=Outcome.to_bytes) if one.item in found else one
    return found


def _cases_of(plan: Plan) -> frozenset[str]:
    """Return the places of the cases that need a run. Samples of a model needn't have one of each."""
    if plan.items[0].experiment == "model":
        return frozenset()
    files = plan.settings.get("checks", {}).items()
    return frozenset(case.place for name, text in files for case in parsed(text, name).cases)


def _which_plan(shown: str, plan: str, plans: Mapping[str, Plan]) -> str:
    if not plans:
        return f"{shown}: no plan\n  name the --output of agenttape fleet work"
    meant = {name: one for name, one in plans.items() if name.startswith(plan)}
    problem = f"there are results of {len(meant)} plans" if meant else f"no plan {plan}"
    listed = (meant or plans).items()
    shown_plans = (
        f"--plan {name}  {one.items[0].experiment}, {counted(len(one.items), 'item')}" for name, one in listed
    )
    return "\n  ".join([f"{shown}: {problem}; choose one:", *sorted(shown_plans)])


def _is_bad(outcome: Outcome) -> bool:
    """Return True if the recording doesn't hold. A candidate may answer in other ways, and is judged by passing."""
    return outcome.verdict != "same" and not (outcome.passed and outcome.verdict == "changed")


def _fails(outcome: Outcome) -> bool:
    """Return True if an outcome is a finding. That of a sample isn't: only the verdict on its candidate is."""
    return _is_bad(outcome) and not outcome.candidate


def _cells(one: ClassVerdict) -> tuple[str, ...]:
    """Return the row of a verdict. Over all runs, pairs are weighted."""
    low, high = one.difference
    counts = (f"{count:.1f}".removesuffix(".0") for count in one.pairs)
    verdict = f"{one.verdict}: about {one.more} pairs more would settle it" if one.more else one.verdict
    bounds = f"{100 * low:+.0f} to {100 * high:+.0f} %" if one.pairs.total else "-"
    return one.candidate, one.trajectory or "all", f"{one.runs:,.0f}", verdict, *counts, bounds


def _order(one: Outcome | Item) -> tuple[str, str, int]:
    return one.cassette, one.candidate, one.sample


def _name(one: Outcome | Item) -> str:
    return " ".join([one.cassette, *([f"{one.candidate} #{one.sample}"] if one.candidate else [])])


def _table(title: str, columns: tuple[str, ...], rows: Sequence[tuple[str, ...]]) -> Table:
    shown = tuple(rows[:_MOST])
    if len(rows) > _MOST:
        shown += ((f"… and {len(rows) - _MOST:,} more", *[""] * (len(columns) - 1)),)
    return Table(title, columns, shown)


# -- Forms.


def _markdown(report: Report) -> str:
    lines = [f"### AgentTape: {report.headline()}", ""]
    for title, columns, rows in report.tables():
        if rows:
            lines += [f"**{title}**", "", f"| {' | '.join(columns)} |", "|---" * len(columns) + "|"]
            lines += [f"| {' | '.join(_cell(each) for each in row)} |" for row in rows] + [""]
    return "\n".join(lines)


def _cell(text: str) -> str:
    return text if text.isdecimal() else cell(text) if text else ""


_STYLE = (
    "body{font:15px system-ui,sans-serif;margin:2em auto;max-width:70em;padding:0 1em}table{border-collapse:collapse}"
    "td,th{text-align:left;padding:.3em .8em;border-bottom:1px solid #8884;vertical-align:top;overflow-wrap:anywhere}"
    ":root{color-scheme:light dark}"
)


def _page(report: Report) -> str:
    """Return the report as a page of one file, without scripts."""
    title = html.escape(f"AgentTape: {report.headline()}")
    parts = [
        f'<!doctype html><html lang="en"><meta charset="utf-8"><title>{title}</title>',
        f"<style>{_STYLE}</style><h1>{title}</h1>",
    ]
    for name, columns, rows in report.tables():
        if rows:
            heads = "".join(f"<th>{html.escape(each)}</th>" for each in columns)
            cells = ["".join(f"<td>{html.escape(each)}</td>" for each in row) for row in rows]
            parts += [f"<h2>{html.escape(name)}</h2>", "<table>", f"<tr>{heads}</tr>"]
            parts += [*(f"<tr>{each}</tr>" for each in cells), "</table>"]
    return "\n".join(parts) + "\n"


def _tests(report: Report) -> Iterator[Checked]:
    """Yield a run for each item, as results of tests."""
    for each in report.done:
        findings = (_finding(each.verdict, each.where or ", ".join(each.rules), each.cassette),) if _fails(each) else ()
        yield Checked(_name(each), each.cassette, "", (Judged(each.experiment, each.experiment, findings),))
    yield from _worse(report)
    yield from _unmet(report)
    for item in report.missing:
        finding = _finding("missing", "it isn't done yet", item.cassette)
        yield Checked(_name(item), item.cassette, "", (Judged(item.experiment, item.experiment, (finding,)),))


def _causes(report: Report) -> Iterator[Checked]:
    """Yield a run for each cause, named after how many there are."""
    yield from _worse(report)
    yield from _unmet(report)
    for each in (one for one in report.causes() if _fails(one.outcomes[0])):
        first, count = each.outcomes[0], counted(len(each.outcomes), "run")
        finding = _finding(each.verdict, f"{each.where}\nsuch as {_name(first)}", first.cassette)
        yield Checked(count, first.cassette, "", (Judged(each.verdict, each.verdict, (finding,)),))


def _worse(report: Report) -> Iterator[Checked]:
    """Yield a run for each verdict on a candidate."""
    for one in report.candidates():
        name = f"{one.candidate} on {f'runs {one.trajectory}' if one.trajectory else 'all runs'}"
        worse = (_finding("model", f"{name}: WORSE", ""),) if one.verdict == "WORSE" else ()
        yield Checked(name, "", "", (Judged("model", name, worse),))


def _unmet(report: Report) -> Iterator[Checked]:
    """Yield a run for each case that has none."""
    for place in report.unmet:
        finding = _finding("case", f"{place}: no run has exactly this prompt", place.rpartition(":")[0])
        yield Checked(place, finding.path, "", (Judged("case", "case has a run", (finding,)),))


def _finding(rule: str, message: str, path: str) -> Finding:
    return Finding(message, rule=rule, path=path)


FORMS: Mapping[str, Callable[[Report], Iterable[str]]] = {
    ".html": lambda report: [_page(report)],
    ".json": lambda report: chain(json.JSONEncoder(indent=2).iterencode(report.to_dict()), ["\n"]),
    ".md": lambda report: [_markdown(report)],
    ".sarif": lambda report: sarif(_causes(report), version("agenttape-core")),
    ".xml": lambda report: junit([*_tests(report)]),
}
"""The functions that write a report, in parts, by the suffix of its file."""
