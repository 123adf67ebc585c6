"""Another model on what was recorded, tried several times: samples in lanes, and what they are worth."""

from agenttape_core.experiments.strategies.trials.judging import (
    Judgement,
    Sample,
    Trial,
    judged,
    lines_of,
    markdown_of,
    parts_at,
    plain_of,
    read_trials,
    trial_of,
)
from agenttape_core.experiments.strategies.trials.sampling import sample_of, unrecorded_inside

__all__ = [
    "Judgement",
    "Sample",
    "Trial",
    "judged",
    "lines_of",
    "markdown_of",
    "parts_at",
    "plain_of",
    "read_trials",
    "sample_of",
    "trial_of",
    "unrecorded_inside",
]
