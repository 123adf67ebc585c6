"""Baselines: what each run took when it was last accepted, and how much more it may take."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from agenttape_core.checks.limits import measured, shown, why_unknown
from agenttape_core.checks.run import Run
from agenttape_core.checks.words import unknown
from agenttape_core.errors import ConfigurationError, shown_path
from agenttape_core.tools.reporting import Finding, Judged

MEASURES = ("calls", "tokens", "seconds", "dollars")
RULE = "baseline"
_VERSION = 1
_DIGITS = 6


@dataclass(frozen=True, slots=True)
class Slack:
    """The amount of something by which a run may exceed its baseline.

    Args:
        amount: The amount, or the share of the baseline.
        is_share: Whether it is a share.
    """

    amount: float
    is_share: bool

    def limit(self, base: float) -> float:
        """Return the most that a run may take.

        Args:
            base: What it took.
        """
        return base * (1 + self.amount) if self.is_share else base + self.amount


def read_slack(text: str) -> dict[str, Slack]:
    """Return the slack that an option gives: `tokens=10%,calls=1`.

    Args:
        text: The option.

    Raises:
        ConfigurationError: If it is malformed.
    """
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
    """The facts of runs when they were last accepted.

    Args:
        runs: By the name of the run: its measures, and `tools`, the calls of tools in order.
        slack: How much more they may take. Seconds differ with every recording, and count only where they have some.
        path: The file.
    """

    runs: Mapping[str, Mapping[str, Any]]
    slack: Mapping[str, Slack]
    path: str

    def judge(self, run: Run) -> Iterator[Judged]:
        """Yield what is more than it was in a run."""
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
    """Read a baseline.

    Args:
        path: The file.
        slack: How much more runs may take.

    Raises:
        ConfigurationError: If it cannot be read, or is none.
    """
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
    """Return what a baseline keeps of a run."""
    known = {what: round(measured(run, what), _DIGITS) for what in MEASURES if not why_unknown(run, what)}
    return {**known, "tools": _tools(run)}


def baseline_text(facts: Mapping[str, Mapping[str, Any]]) -> str:
    """Return the baseline of runs: sorted, so that it is the same bytes for the same runs.

    Args:
        facts: By the name of the run, what it took.
    """
    return json.dumps({"baseline": _VERSION, "runs": facts}, indent=2, sort_keys=True) + "\n"


def _tools(run: Run) -> list[str]:
    return [call.name for call in run.of_kind("tool")]


def _is_whole(facts: Any) -> bool:
    if not isinstance(facts, dict):
        return False
    numbers = [facts[what] for what in MEASURES if what in facts]
    return isinstance(facts.get("tools"), list) and all(isinstance(each, int | float) for each in numbers)
