"""The table of trials, as text, as Markdown and as plain data."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from statistics import fmean
from typing import Any

from agenttape_core.tools.report.trajectory import Trajectory
from agenttape_core.tools.trials.judging import Sample, Trial

_HEADS = ("test", "verdict", "passed", "baseline", "drift", "calls", "tokens", "money", "parts at")


def _cells(trial: Trial) -> tuple[str, ...]:
    candidate, baseline = trial.lane("candidate"), trial.lane("baseline")
    return (
        trial.name,
        trial.judgement or "too few",
        _passed(candidate),
        _passed(baseline) if baseline else "-",
        str(sum(len(sample.drift) for sample in candidate)),
        f"{len(trial.recorded.calls)} → {_mean(len(one.trajectory.calls) for one in candidate)}",
        f"{trial.recorded.tokens} → {_mean(one.trajectory.tokens for one in candidate)}",
        _money(trial.recorded, candidate),
        trial.parts_at or "-",
    )


def _passed(samples: Sequence[Sample]) -> str:
    return f"{sum(sample.passed for sample in samples)}/{len(samples)}"


def _mean(numbers: Any) -> str:
    several = list(numbers)
    return f"{fmean(several):.0f}" if several else "-"


def _money(recorded: Trajectory, samples: Sequence[Sample]) -> str:
    now = fmean([sample.trajectory.dollars for sample in samples]) if samples else 0.0
    if not recorded.dollars or not now:
        return "-"
    return f"{(now / recorded.dollars - 1) * 100:+.0f} %"


def lines_of(trials: Sequence[Trial]) -> list[str]:
    """Return the table as lines of text."""
    rows = [_HEADS, *map(_cells, trials)]
    widths = [max(len(row[place]) for row in rows) for place in range(len(_HEADS))]
    return ["  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in rows]


def markdown_of(trials: Sequence[Trial]) -> str:
    """Return the table as Markdown."""
    rows = [_HEADS, ("---",) * len(_HEADS), *map(_cells, trials)]
    return "".join(f"| {' | '.join(cell.replace('|', chr(92) + '|') for cell in row)} |\n" for row in rows)


def plain_of(trials: Sequence[Trial]) -> dict[str, Any]:
    """Return the trials as plain data."""
    return {"trials": [_plain(trial) for trial in trials]}


def _plain(trial: Trial) -> dict[str, Any]:
    return {
        "name": trial.name,
        "candidate": trial.candidate,
        "verdict": trial.judgement,
        "floor": trial.floor,
        "parts_at": trial.parts_at or None,
        "recorded": asdict(trial.recorded),
        "lanes": {
            lane: {"samples": len(trial.lane(lane)), "share": trial.share(lane), "interval": trial.interval(lane)}
            for lane in ("baseline", "candidate")
        },
        "samples": [asdict(sample) for sample in trial.samples],
    }
