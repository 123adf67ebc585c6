"""Read what a sample was from the derived cassette that it has left."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from agenttape_core.checks.check_file import CheckFile
from agenttape_core.checks.gate import judge
from agenttape_core.checks.sources import run_of_cassette
from agenttape_core.errors import CassetteError, shown_path
from agenttape_core.experiments.strategies.trials.judging import LOST, NO_CALL, Lane, Sample, parts_at
from agenttape_core.schema import MODEL_KINDS, Interaction
from agenttape_core.storage import Location, open_cassette
from agenttape_core.tools.reading.answer import last_answer
from agenttape_core.tools.reading.prices import Prices
from agenttape_core.tools.report.trajectory import Trajectory, path_of

_NO_CALL = "it asked no model, and the recording did"
_OF_AN_ENDPOINT = re.compile(
    r"(?i)connect|timeout|ratelimit|throttl|unavailable|overload|exhausted|server|protocol|auth|permission|notfound"
)
"""Names of errors that say something of an endpoint or a key, and nothing of the model behind it."""


def sample_of(
    lane: Lane,
    number: int,
    derived: Location | None,
    recorded: Trajectory,
    prices: Prices,
    *,
    passed: bool,
    unrecorded: Sequence[dict[str, Any]] = (),
    problem: str = "",
    run_id: str = "",
) -> Sample:
    """Return a sample.

    Args:
        lane: Its lane.
        number: Its number in the lane.
        derived: The derived cassette; `None` if the run has left none.
        recorded: The path of the recording.
        prices: The prices of tokens.
        passed: Whether the run ended well.
        unrecorded: The calls that left the recorded world, as plain data.
        problem: The first line of what ended the run, if it did not end well.
        run_id: The id of the run.
    """
    if derived is None:
        return _nothing_of(lane, number, unrecorded, problem or _NO_CALL)
    try:
        cassette = open_cassette(derived)
        made = list(cassette.interactions())
    except CassetteError as error:
        return _nothing_of(
            lane, number, unrecorded, problem or f"its cassette cannot be read: {error}".partition("\n")[0]
        )
    path = path_of(made, prices)
    timings = cassette.header.volatile.timings
    asked = [item for item in made if item.kind in MODEL_KINDS]
    unseen = _unseen_in(asked, passed=passed)
    if recorded.calls and not asked:
        passed, problem = False, problem or _NO_CALL
    return Sample(
        lane,
        number,
        passed,
        tuple(unrecorded),
        path,
        round(sum(timings[one.number].duration_ms for one in asked if one.number in timings) / 1000, 3),
        parts_at(recorded, path),
        last_answer(made) or "",
        run_id,
        shown_path(derived),
        problem,
        unseen,
    )


def problem_of_checks(derived: Path, checks: Sequence[CheckFile], prices: Prices) -> str:
    """Return the first line of what checks find in a sample; empty if it passes.

    Args:
        derived: The derived cassette of the sample.
        checks: The checks.
        prices: The prices of tokens.
    """
    made = open_cassette(derived)
    reading = [(str(derived), lambda: run_of_cassette(made, prices))]
    failed = [one for found in judge(reading, checks, lambda _: ()) for one in found.findings if one.level == "error"]
    return str(failed[0]).partition("\n")[0] if failed else ""


def unrecorded_inside(line: str) -> dict[str, Any]:
    """Return what a session that the program opened itself lacked, as one of the calls that left the recorded world.

    Args:
        line: Its failure.
    """
    return {"kind": "session", "name": line.partition(": ")[0], "reason": line}


def _nothing_of(lane: Lane, number: int, unrecorded: Sequence[dict[str, Any]], problem: str) -> Sample:
    """Return a sample of which no call is known. It never passes: the recording, which is tried, holds some."""
    return Sample(lane, number, False, tuple(unrecorded), problem=problem, unseen=NO_CALL)


def _unseen_in(asked: Sequence[Interaction], *, passed: bool) -> str:
    """Return the reason why a sample says nothing about its model; empty if it does."""
    if not asked:
        return NO_CALL
    error = asked[-1].outcome.error
    lost = not passed and error is not None and _OF_AN_ENDPOINT.search(error.type.rpartition(".")[2])
    is_answered = any(item.outcome.status in {"returned", "streamed"} for item in asked)
    return LOST if lost or not is_answered else ""
