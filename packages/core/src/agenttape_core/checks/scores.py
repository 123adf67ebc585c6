"""Scores of recorded runs, in a file beside the cassette, which stays as it is."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from agenttape_core.checks.run import Run
from agenttape_core.errors import ConfigurationError, shown_path

SCORES = ".scores.json"
"""The end of the name of a file of scores."""
_VERSION = 1
_REMEDY = "delete the file, and score again"


@dataclass(frozen=True, slots=True)
class Scores:
    """The scores of a run.

    Args:
        of: A hash of what was scored: another recording has another.
        values: The scores by their names.
    """

    of: str
    values: Mapping[str, float | bool] = field(default_factory=dict)

    def text(self) -> str:
        """Return the file: sorted, so that it is the same bytes for the same scores."""
        return json.dumps({"scores": _VERSION, "of": self.of, "values": self.values}, indent=2, sort_keys=True) + "\n"


def scores_path(run: Run) -> Path:
    """Return the file of the scores of a run.

    Args:
        run: A run of a local cassette.

    Raises:
        ConfigurationError: If it is of no local file.
    """
    if not run.path or "://" in run.path:
        raise ConfigurationError(f"{run.path or run.name} isn't a local file beside which scores could stand")
    path = Path(run.path)
    return path.with_name(f"{path.name.partition('.')[0]}{SCORES}")


def hash_of(run: Run) -> str:
    """Return a hash of what evaluators read of a run."""
    calls = [[call.kind, call.name, call.arguments, call.error, call.result] for call in run.happened]
    whole = json.dumps([run.prompt, run.answer, calls], sort_keys=True, default=str)
    return hashlib.sha256(whole.encode("utf-8", "surrogatepass")).hexdigest()[:32]


def read_scores(run: Run) -> Scores | None:
    """Return the scores that stand beside a run; `None` if there are none.

    Args:
        run: The run.

    Raises:
        ConfigurationError: If the file is malformed.
    """
    path = scores_path(run)
    if not path.exists():
        return None
    try:
        data: Any = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError) as error:
        raise ConfigurationError(
            f"{shown_path(path)}: no scores: {error}\n  delete the file, and score again"
        ) from None
    values = data.get("values") if isinstance(data, dict) else None
    is_whole = isinstance(values, dict) and all(isinstance(each, bool | int | float) for each in values.values())
    if not is_whole or data.get("scores") != _VERSION or not isinstance(data.get("of"), str):
        raise ConfigurationError(
            f"{shown_path(path)}: no scores of version {_VERSION}\n  delete the file, and score again"
        )
    return Scores(data["of"], data["values"])
