"""Read what a sample was from the derived cassette that it has left."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from agenttape_core.errors import CassetteError, shown_path
from agenttape_core.schema import MODEL_KINDS
from agenttape_core.storage import Location, open_cassette
from agenttape_core.tools.reading.answer import last_answer
from agenttape_core.tools.reading.prices import Prices
from agenttape_core.tools.report.trajectory import Trajectory, path_of
from agenttape_core.tools.trials.judging import Lane, Sample, parts_at

_NO_CALL = "it asked no model, and the recording did"


def sample_of(
    lane: Lane,
    number: int,
    derived: Location | None,
    recorded: Trajectory,
    prices: Prices,
    *,
    passed: bool,
    drift: Sequence[dict[str, Any]] = (),
    problem: str = "",
) -> Sample:
    """Return a sample.

    Args:
        lane: Its lane.
        number: Its number in the lane.
        derived: The derived cassette; `None` if the run has left none.
        recorded: The path of the recording.
        prices: The prices of tokens.
        passed: Whether the run ended well.
        drift: The calls that left the recorded world, as plain data.
        problem: The first line of what ended the run, if it did not end well.
    """
    if derived is None:
        return _unseen(lane, number, drift, problem or _NO_CALL)
    try:
        cassette = open_cassette(derived)
        made = list(cassette.interactions())
    except CassetteError as error:
        return _unseen(lane, number, drift, problem or f"its cassette cannot be read: {error}".partition("\n")[0])
    path = path_of(made, prices)
    timings = cassette.header.volatile.timings
    asked = [item for item in made if item.kind in MODEL_KINDS]
    if recorded.calls and not asked:
        passed, problem = False, problem or _NO_CALL
    return Sample(
        lane,
        number,
        passed,
        tuple(drift),
        path,
        round(sum(timings[one.number].duration_ms for one in asked if one.number in timings) / 1000, 3),
        parts_at(recorded, path),
        last_answer(made) or "",
        shown_path(derived),
        problem,
        is_answered=any(item.outcome.status in {"returned", "streamed"} for item in asked),
    )


def drift_inside(line: str) -> dict[str, Any]:
    """Return what a session that the program opened itself lacked, as one of the calls that left the recorded world.

    Args:
        line: Its failure.
    """
    return {"kind": "session", "name": line.partition(": ")[0], "reason": line}


def _unseen(lane: Lane, number: int, drift: Sequence[dict[str, Any]], problem: str) -> Sample:
    """Return a sample of which no call is known. It never passes: the recording, which is tried, holds some."""
    return Sample(lane, number, False, tuple(drift), problem=problem, is_answered=False)
