"""Read back the trials of an earlier run, as their table was written as JSON."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from agenttape_core.errors import ConfigurationError
from agenttape_core.experiments.strategies.trials.judging import Sample, Trial
from agenttape_core.tools.report.trajectory import Trajectory

_SAMPLE = frozenset(Sample.__dataclass_fields__)
_PATH = frozenset(Trajectory.__dataclass_fields__)


def read_trials(path: Path | str) -> list[Trial]:
    """Return the trials of a file that `--cassette-report` or `--report` has written.

    Args:
        path: The file.

    Raises:
        ConfigurationError: If it cannot be read, or is no such file.
    """
    try:
        plain = json.loads(Path(path).read_text(encoding="utf-8"))
        return [trial_of(one) for one in plain.get("trials", [plain])]
    except (OSError, ValueError, TypeError, KeyError, AttributeError) as error:
        said = error.strerror or error if isinstance(error, OSError) else f"{type(error).__name__}: {error}"
        raise ConfigurationError(
            f"{path}: no trials of candidates that could be resumed: {said}\n"
            "  name the JSON file that --cassette-report (pytest) or --report (agenttape lab model) has written"
        ) from None


def trial_of(plain: Mapping[str, Any]) -> Trial:
    """Return the trial that plain data describe.

    Args:
        plain: The data, as `plain_of` or `dataclasses.asdict` makes them.

    Raises:
        KeyError: If a field is missing.
        TypeError: If one is of another type.
    """
    return Trial(
        plain["name"],
        plain["candidate"],
        _path(plain["recorded"]),
        tuple(_sample(one) for one in plain["samples"]),
    )


def _sample(plain: Mapping[str, Any]) -> Sample:
    known = {key: value for key, value in plain.items() if key in _SAMPLE}
    several = {"unrecorded": tuple(plain["unrecorded"]), "differences": tuple(plain.get("differences", ()))}
    return Sample(**{**known, **several, "trajectory": _path(plain["trajectory"])})


def _path(plain: Mapping[str, Any]) -> Trajectory:
    known = {key: value for key, value in plain.items() if key in _PATH}
    return Trajectory(**{**known, "calls": tuple(plain["calls"])})
