"""One use of one cassette: the current session, what happens on a call, the latch and the report.

- A session: `session` is made of what `setup` has, and holds its parts: `recordings`, `ledger`, `report`, and a
  scheduler. `ports` and `sources` are the interfaces that it reads from and writes to, `slot` a typed place for the
  data of others.
- The session of a call: `context` finds it; `thread_pools` and `side_effects` do so for work in pools, and for effects
  outside the process. `runs` records the events of a run.
- A call: `call` has its facts, and `intercept` its four shapes. `boundary` has the families of calls, `positions` and
  `recorded_runs` the places, `session_call` how it begins.
- It's answered (`answered_call`: from its recording, or by a function), or executed (`executed_call`: for real, or
  stepped into). `conditional_boundary` leaves out the calls of components that only run the program's own code.
- An answer: `id_mapping`, `recorded_errors`, `stale_objects` and `pacing` turn a recording into the program's value;
  `candidates` ask another model.
- A record: `recording`, `side_effects_of_call`, `shared_texts`, `steps` and `run_input` build it, with `codecs`, and
  without the secrets in `secret_scope`; `ledger` has all records.
- What's rare: `listening` is what may listen to a call, and `listeners` what does.
- The result: `miss` has the words, `report` the fate of each call, `events` the stream of events, and
  `hash_seed` the reason why sets come in another order.

When an answer reaches the program, and which session code belongs to, is decided one floor below, in `scheduling`.
"""

from agenttape_core.session import runs
from agenttape_core.session.answered_call import AnsweredCall
from agenttape_core.session.boundary import Boundary
from agenttape_core.session.call import stop_watching, watch_answers, watch_calls
from agenttape_core.session.candidates import (
    HTTP,
    CandidateModel,
    Candidates,
    candidate_of,
    made_candidate,
    model_over_http,
    refuse_tools,
    register_candidates,
    why_not_exchanged,
)
from agenttape_core.session.codecs import is_written_in_requests, plain_value, register_codecs, value_codec
from agenttape_core.session.conditional_boundary import ProgramCall, program_call
from agenttape_core.session.context import (
    as_observed,
    call_is_under_way,
    context_session,
    current_session,
    executing_of,
    frozen_of_bare_thread,
    is_passed_on,
    owning_session,
    passing_on,
)
from agenttape_core.session.events import Event, Events, EventSink
from agenttape_core.session.executed_call import ExecutedCall, anotified_outside, executing, notified_outside
from agenttape_core.session.hash_seed import hash_seed
from agenttape_core.session.intercept import (
    aintercept,
    aintercept_stream,
    areplay_call,
    areplay_stream,
    awaited,
    intercept,
    intercept_stream,
    replay_call,
    replay_stream,
)
from agenttape_core.session.listeners import NAMES, LateCalls, listen
from agenttape_core.session.miss import register_address_reader, register_run_reader
from agenttape_core.session.pacing import Tempo
from agenttape_core.session.ports import Sink, Source
from agenttape_core.session.positions import below, current_scope, here, register_position, register_scope, scope_seen
from agenttape_core.session.recorded_errors import record_error
from agenttape_core.session.recorded_runs import RecordedRuns, without_ids
from agenttape_core.session.recording import redacted_effects
from agenttape_core.session.report import (
    NO_SIDE_EFFECTS,
    CallRecord,
    Divergence,
    ReachedChange,
    Report,
    not_as_recorded,
    side_effects_skipped,
    why_not_run,
)
from agenttape_core.session.run_input import FirstInput, RunInput
from agenttape_core.session.session import Session
from agenttape_core.session.session_call import SessionCall
from agenttape_core.session.setup import Setup
from agenttape_core.session.side_effects import note_side_effect, recording_side_effects
from agenttape_core.session.slot import Slot
from agenttape_core.session.sources import EMPTY, Edited, Extended, RecordedCall, compared_by
from agenttape_core.session.steps import StepEvent, record_step
from agenttape_core.session.thread_pools import REMEMBERING_POOLS, forking_pools
from agenttape_core.session.time_zones import another_zone, zone_at

__all__ = [
    "EMPTY",
    "HTTP",
    "NAMES",
    "NO_SIDE_EFFECTS",
    "REMEMBERING_POOLS",
    "AnsweredCall",
    "Boundary",
    "CallRecord",
    "CandidateModel",
    "Candidates",
    "Divergence",
    "Edited",
    "Event",
    "EventSink",
    "Events",
    "ExecutedCall",
    "Extended",
    "FirstInput",
    "LateCalls",
    "ProgramCall",
    "ReachedChange",
    "RecordedCall",
    "RecordedRuns",
    "Report",
    "RunInput",
    "Session",
    "SessionCall",
    "Setup",
    "Sink",
    "Slot",
    "Source",
    "StepEvent",
    "Tempo",
    "aintercept",
    "aintercept_stream",
    "another_zone",
    "anotified_outside",
    "areplay_call",
    "areplay_stream",
    "as_observed",
    "awaited",
    "below",
    "call_is_under_way",
    "candidate_of",
    "compared_by",
    "context_session",
    "current_scope",
    "current_session",
    "executing",
    "executing_of",
    "forking_pools",
    "frozen_of_bare_thread",
    "hash_seed",
    "here",
    "intercept",
    "intercept_stream",
    "is_passed_on",
    "is_written_in_requests",
    "listen",
    "made_candidate",
    "model_over_http",
    "not_as_recorded",
    "note_side_effect",
    "notified_outside",
    "owning_session",
    "passing_on",
    "plain_value",
    "program_call",
    "record_error",
    "record_step",
    "recording_side_effects",
    "redacted_effects",
    "refuse_tools",
    "register_address_reader",
    "register_candidates",
    "register_codecs",
    "register_position",
    "register_run_reader",
    "register_scope",
    "replay_call",
    "replay_stream",
    "runs",
    "scope_seen",
    "side_effects_skipped",
    "stop_watching",
    "value_codec",
    "watch_answers",
    "watch_calls",
    "why_not_exchanged",
    "why_not_run",
    "without_ids",
    "zone_at",
]
