"""Read what a sample was from the derived cassette that it has left."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from agenttape_core.errors import CassetteError, shown_path
from agenttape_core.schema import MODEL_KINDS
from agenttape_core.storage import Cassette, Location, open_cassette
from agenttape_core.tools.reading.answer import last_answer
from agenttape_core.tools.reading.prices import Prices
from agenttape_core.tools.report.trajectory import Trajectory, path_of
from agenttape_core.tools.trials.judging import Lane, Sample, parts_at


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
    cassette = _opened(derived)
    if cassette is None or derived is None:
        return Sample(lane, number, passed, tuple(drift), problem=problem or "it made no call", is_answered=False)
    made = list(cassette.interactions())
    path = path_of(made, prices)
    timings = cassette.header.volatile.timings
    asked = [item for item in made if item.kind in MODEL_KINDS]
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


def _opened(derived: Location | None) -> Cassette | None:
    try:
        return open_cassette(derived) if derived is not None else None
    except CassetteError:
        return None
