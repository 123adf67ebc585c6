"""The table of trials, as text, as Markdown and as plain data."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from statistics import fmean
from typing import Any

from agenttape_core.experiments.strategies.trials.judging import Judgement, Lane, Sample, Trial, judged
from agenttape_core.experiments.verdicts import difference_of
from agenttape_core.tools.report.trajectory import Trajectory

_HEADS = ("run", "verdict", "passed", "baseline", "not counted", "calls", "tokens", "money", "parts at")


def _cells(judgement: Judgement) -> tuple[str, ...]:
    trial = judgement.trial
    candidate = trial.lane("candidate")
    return (
        trial.name,
        judgement.verdict,
        _passed(trial, "candidate"),
        _passed(trial, "baseline") if trial.lane("baseline") else "-",
        str(sum(trial.left_out.values())),
        f"{len(trial.recorded.calls)} → {_mean(len(one.trajectory.calls) for one in candidate)}",
        f"{trial.recorded.tokens} → {_mean(one.trajectory.tokens for one in candidate)}",
        _money(trial.recorded, candidate),
        trial.parts_at or "-",
    )


def _passed(trial: Trial, lane: Lane) -> str:
    return f"{trial.passed(lane)}/{len(trial.counting(lane))}"


def _mean(numbers: Any) -> str:
    several = list(numbers)
    return f"{fmean(several):.0f}" if several else "-"


def _money(recorded: Trajectory, samples: Sequence[Sample]) -> str:
    now = fmean([sample.trajectory.dollars for sample in samples]) if samples else 0.0
    if not recorded.dollars or not now:
        return "-"
    return f"{(now / recorded.dollars - 1) * 100:+.0f} %"


def lines_of(judgements: Sequence[Judgement]) -> list[str]:
    """Return the table as lines of text, and a line for each thing to know besides."""
    rows = [_HEADS, *map(_cells, judgements)]
    widths = [max(len(row[place]) for row in rows) for place in range(len(_HEADS))]
    table = ["  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in rows]
    return [*table, *(f"{one.trial.name}: {note}" for one in judgements for note in one.notes)]


def markdown_of(trials: Sequence[Trial]) -> str:
    """Return the table as Markdown, and a line for each thing to know besides."""
    judgements = judged(trials)
    rows = [_HEADS, ("---",) * len(_HEADS), *map(_cells, judgements)]
    table = "".join(f"| {' | '.join(cell.replace('|', chr(92) + '|') for cell in row)} |\n" for row in rows)
    notes = "".join(f"- {one.trial.name}: {note}\n" for one in judgements for note in one.notes)
    return f"{table}\n{notes}" if notes else table


def plain_of(trials: Sequence[Trial]) -> dict[str, Any]:
    """Return the trials as plain data."""
    return {"trials": [_plain(judgement) for judgement in judged(trials)]}


def _plain(judgement: Judgement) -> dict[str, Any]:
    trial = judgement.trial
    lanes: tuple[Lane, ...] = ("baseline", "candidate")
    return {
        "name": trial.name,
        "candidate": trial.candidate,
        "verdict": judgement.verdict,
        "difference": difference_of(trial.pairs),
        "pairs": trial.pairs._asdict(),
        "more_pairs": judgement.more,
        "more_dollars": judgement.dollars or None,
        "not_counted": trial.left_out,
        "parts_at": trial.parts_at or None,
        "recorded": asdict(trial.recorded),
        "lanes": {
            lane: {"samples": len(trial.lane(lane)), "counted": len(trial.counting(lane)), "passed": trial.passed(lane)}
            for lane in lanes
        },
        "samples": [asdict(sample) | {"left_out": sample.left_out} for sample in trial.samples],
    }
