"""The parts that a session is made of."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from agenttape_core.engine import Policy
from agenttape_core.freeze import Frozen
from agenttape_core.matching import NOTHING, Ignored, Position
from agenttape_core.named_tuples import NamedTuple
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
    """All that a session is made of. Nothing is assigned to a session later."""

    path: Path | str  # the cassette: its file, or its URL
    policy: Policy  # the permissions of the session
    redactor: Redactor  # replaces secrets
    source: Source  # the recordings
    remedy: Callable[[], list[str]]  # returns how to record a missing call, a line each
    root: Position  # the position below which the run stands
    began: float  # when the recording began, by `time.perf_counter()`; calls and steps are timed from here
    scheduler: Scheduler  # decides when outside events reach the program
    # Functions that answer calls without a recording, by the name of the boundary.
    fakes: Mapping[str, Callable[..., Any]]
    sink: Sink | None = None  # where executed interactions go; `None` when none can be executed
    auto: bool = True  # whether integrations record objects that the user didn't wrap
    # The request paths that are not compared; the fingerprints of the source leave out the same.
    ignored: Ignored = NOTHING
    opaque: bool = False  # whether values without a codec are kept as opaque ones
    pace: Tempo | None = None  # how fast recordings are replayed; right away if it's `None`
    tracing: bool = True  # whether tracers may report the session to the outside
    # Returns True for a host and a port (`None` if it is not known) to which the requests of HTTP clients are taped
    # that the user did not tape.
    tapes_http: Callable[[str, int | None], bool] | None = None
    # The clock, ids and random numbers that are frozen for the session; `None` without any.
    frozen: Frozen | None = None
    # Returns the recorded times by the numbers of their interactions. Called when they are first needed, because most
    # replays never need them.
    timings: Callable[[], Mapping[int, Timing]] = dict
    keeps_input: bool = True  # whether the input that the run began with is kept
    takes_strays: bool = True  # whether a thread without a context belongs to the session where it is the only open one
    zone: str = ""  # how the local time zone differs from the recording's, as a sentence; empty if it doesn't
    hash_seed: int | None = None  # the hash seed of the process that recorded, as far as it's known
    run_id: str = ""  # the id of this run, which no other run has
    events: Events | None = None  # receives events as they happen; `None` without a sink
    revise: Callable[[Step], Step | None] = _unchanged  # returns the step to keep, or `None` to drop it
    candidates: Candidates | None = None  # the models that are tried instead of the program's own; `None` if none is
    unavailable: str = UNAVAILABLE  # the words of the error result of a tool that has no recording
    notes_divergences: bool = False  # whether the report notes calls that differ from their recordings
