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
- A record: `recording`, `shared_texts`, `steps` and `run_input` build it, with `codecs`, and without the secrets in
  `secret_scope`; `ledger` has all records.
- What's rare: `listening` is what may listen to a call, and `listeners` what does.
- The result: `miss` has the words, `report` the fate of each call, `events` the stream of events, and
  `hash_seed` the reason why sets come in another order.

Names that several packages use are imported from here, others from their module.

When an answer reaches the program, and which session code belongs to, is decided one floor below, in `scheduling`.
"""

from agenttape_core.session.answered_call import AnsweredCall
from agenttape_core.session.boundary import Boundary
from agenttape_core.session.codecs import plain_value, value_codec
from agenttape_core.session.context import context_session, current_session
from agenttape_core.session.events import Event
from agenttape_core.session.executed_call import ExecutedCall, executing
from agenttape_core.session.intercept import (
    aintercept,
    aintercept_stream,
    areplay_call,
    areplay_stream,
    intercept,
    intercept_stream,
    replay_call,
    replay_stream,
)
from agenttape_core.session.ports import Sink, Source
from agenttape_core.session.report import CallRecord, Report
from agenttape_core.session.run_input import FirstInput
from agenttape_core.session.session import Session
from agenttape_core.session.session_call import SessionCall
from agenttape_core.session.setup import Setup
from agenttape_core.session.slot import Slot
from agenttape_core.session.steps import StepEvent, record_step

__all__ = [
    "AnsweredCall",
    "Boundary",
    "CallRecord",
    "Event",
    "ExecutedCall",
    "FirstInput",
    "Report",
    "Session",
    "SessionCall",
    "Setup",
    "Sink",
    "Slot",
    "Source",
    "StepEvent",
    "aintercept",
    "aintercept_stream",
    "areplay_call",
    "areplay_stream",
    "context_session",
    "current_session",
    "executing",
    "intercept",
    "intercept_stream",
    "plain_value",
    "record_step",
    "replay_call",
    "replay_stream",
    "value_codec",
]
