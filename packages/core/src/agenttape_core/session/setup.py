"""The parts that a session is made of."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from agenttape_core.engine import Policy
from agenttape_core.freeze import Frozen
from agenttape_core.matching import NOTHING, Ignored, Position
from agenttape_core.scheduling import Scheduler
from agenttape_core.schema import UNAVAILABLE, Step, Timing
from agenttape_core.session.candidates import Candidates
from agenttape_core.session.events import Events
from agenttape_core.session.pacing import Tempo
from agenttape_core.session.ports import Sink, Source

if TYPE_CHECKING:
    from agenttape_core.redaction import Redactor


def _unchanged(step: Step) -> Step | None:
    return step


class Setup(NamedTuple):
    """All that a session is made of. Nothing is assigned to a session later.

    Args:
        path: The cassette: its file, or its URL.
        policy: The permissions of the session.
        redactor: Replaces secrets.
        source: The recordings.
        sink: Where executed interactions go; `None` when none can be executed.
        remedy: Returns how to record a missing call, a line each.
        auto: Whether integrations record objects that the user didn't wrap.
        ignored: The request paths that are not compared; the fingerprints of the source leave out the same.
        opaque: Whether values without a codec are kept as opaque ones.
        pace: How fast recordings are replayed; right away if it's `None`.
        tracing: Whether tracers may report the session to the outside.
        tapes_http: Returns True for a host and a port (`None` if it is not known) to which the requests of HTTP clients
            are taped that the user did not tape.
        frozen: The clock, ids and random numbers that are frozen for the session; `None` without any.
        timings: Returns the recorded times by the numbers of their interactions. Called when they are first needed,
            because most replays never need them.
        keeps_input: Whether the input that the run began with is kept.
        takes_strays: Whether a thread without a context belongs to the session where it is the only open one.
        root: The position below which the run stands.
        zone: How the local time zone differs from the recording's, as a sentence; empty if it doesn't.
        hash_seed: The hash seed of the process that recorded, as far as it's known.
        began: When the recording began, by `time.perf_counter()`; calls and steps are timed from here.
        run_id: The id of this run, which no other run has.
        events: Receives events as they happen; `None` without a sink.
        revise: Returns the step to keep, or `None` to drop it.
        candidates: The models that are tried instead of the program's own; `None` if none is.
        fakes: Functions that answer calls without a recording, by the name of the boundary.
        unavailable: The words of the error result of a tool that has no recording.
        notes_divergences: Whether the report notes calls that differ from their recordings.
        scheduler: Decides when outside events reach the program.
    """

    path: Path | str
    policy: Policy
    redactor: Redactor
    source: Source
    remedy: Callable[[], list[str]]
    root: Position
    began: float
    scheduler: Scheduler
    fakes: Mapping[str, Callable[..., Any]]
    sink: Sink | None = None
    auto: bool = True
    ignored: Ignored = NOTHING
    opaque: bool = False
    pace: Tempo | None = None
    tracing: bool = True
    tapes_http: Callable[[str, int | None], bool] | None = None
    frozen: Frozen | None = None
    timings: Callable[[], Mapping[int, Timing]] = dict
    keeps_input: bool = True
    takes_strays: bool = True
    zone: str = ""
    hash_seed: int | None = None
    run_id: str = ""
    events: Events | None = None
    revise: Callable[[Step], Step | None] = _unchanged
    candidates: Candidates | None = None
    unavailable: str = UNAVAILABLE
    notes_divergences: bool = False
