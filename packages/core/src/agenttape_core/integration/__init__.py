"""The face of AgentTape for integrations: with the root and `testing`, all that taping a framework needs.

An integration tapes the *leaf calls* of its framework, those that reach outside. At each it makes the request as
plain data, begins a call in the current session, and hands the call with the real call to the function that
replays or executes it:

    session = current_session()
    if session is None:
        return real(query)
    call = session.cross(Boundary("retrieval"), "my-index", {"query": query})
    return intercept(call, lambda: real(query))

The names of this module, by purpose:

**Calls.** `Boundary` names a family of calls. `current_session`, `context_session` and `executing` say where a call is
made; `notified_outside` puts handlers of the program outside of the call that notifies them, and `taking_part` makes a
session automatic for the code inside. `intercept`, `aintercept`, `intercept_stream` and `aintercept_stream` replay or
execute a call; `replay_call`, `areplay_call`, `replay_stream` and `areplay_stream` only replay one.

**Classes that others write.** A `Family` is an interface of the framework with its leaf methods, each a `Leaf`.
`Family.tape` tapes one object, `wrapping` all objects while sessions are open. `plain`, `coroutine`, `generator` and
`async_generator` wrap a method or a function, given a `Call` with the special features of a call; `leaf_call` makes the
usual one, `chunks_of` and `achunks_of` the stream of one. `begin` begins its call in `session_of_call`, with
`named_arguments` and `kept` arguments. `note_side_effect` adds a side effect that no hook sees, and `passing_on` marks
requests that are recorded above.

`limiter_leaves` wraps rate limiters, and `waiting_first` and `awaiting_first` make calls that wait for them. Underneath
are aliases: `alias_class`, `alias_of`, `original_of`, `state_of`, `is_alias`. `InMemoryClasses` lists the classes of a
family that keep their data in the process: they run; `holding_in_memory` notes one without leaf methods. A
`program_call` is a call of a component that runs, unless it reaches outside directly; a `ProgramCall` is one that runs
and is watched. `taking_part_here`, `taking_part_while` and the two for streams tape what such an object calls.

**Requests.** `request_value` makes plain data of anything, `KeyedItems` marks items that are compared by a key, and
`model_of` and `settings_of` read an object's `MODEL_SETTINGS`, `EMBEDDING_SETTINGS`, `SEARCH_SETTINGS` and
`STORE_SETTINGS`. `public_fields` describes a model that doesn't describe itself, `warn_unless_identified` warns if even
that isn't enough, and `as_recorded` returns an observer's view of a request, if only that was recorded.

**Places.** A `Position` is the location of a call in the run; `here` and `below` find it. `register_position`,
`register_scope` and `register_address_reader` connect the framework's own tree; `register_run_reader` lets a miss say
how the run around it differs. A `Branch` distinguishes concurrent work: `current_branch`, `enter_branch`,
`task_branch`, and `forking_pools` for thread pools. `RecordedRuns` finds the recorded run that an outermost run is, by
its conversation and its input (compared `without_ids`), and an address for one that is added.

**Threads.** `in_order`, `steps_in_order` and `visible` order the interactions of threads, and of the event loop,
between calls. `comes_yet` waits for a task as long as it may still be done. `register_lazy_stream` names a stream that
works while it is read. `Lock` and `RLock` are like those in `threading`, but free in a forked child.

**Values.** `register_codecs` adds a `TypeCodec` for values of the framework, `register_result_attribute` an attribute
of its errors. `value_codec` and `plain_value` encode; `class_name` and `loaded_class` name classes without importing
one. `note_text` and `recorded_text` keep the text of a value that another process would write differently, such as a
set. Readers of recorded chunks and drawings of programs have a separate interface, `agenttape_core.readers`.

**Damages.** `register_damage` defines how faults damage the answers of the framework; a `Damage` gets the way (`How`).

**Candidates.** `register_candidates` makes a `CandidateModel` of a model or its name, `candidate_of` returns the one to
call instead of the program's own, and `refuse_tools` ends a run that offers tools to a candidate that can't call any.
`model_over_http` returns the name of the model that gets a request over HTTP instead of the program's.

**Runs begun again.** A `FirstInput` keeps the input that a run began with; `register_restart` begins a run again from
the `Source` that has it.

**Steps and state.** `record_step` keeps a `StepEvent`, which gives the recorded run its shape; `Texts` shares long
texts among them. A `Slot` is a typed place for state that belongs to a session.

**The world.** `register_seam` names functions that make ids or tell the time, `register_run_ids` modules that draw ids
of runs which only handlers see, `register_backoff` functions that sleep before a retry, `register_tracer` hosts that a
tracer reports to, `register_thread_files` what yields each `Stored` part of the files in which it keeps threads,
`register_packages` the packages whose versions a cassette names.

`patch` wraps a function of the framework until an `ExitStack` is closed, and `PatchedOnImport` one of a module that
need not be imported; `ConnectedOnImport` does more with such a module. `is_sleep_ordered` returns whether a wait in an
event loop is part of a recorded order.

Other parts of an integration are in separate modules: `codecs` (building blocks of codecs), `observing` (callback
handlers), `stand_ins` (objects made of a cassette), `importing` (recordings of other tools), `cassettes` (files).

An integration that is automatic publishes a context manager as an entry point of the group `agenttape.integrations`,
named after the root module of its framework. It is entered when the first session of the process opens, or as soon as
the framework is imported, and left with the last session.
"""

from agenttape_core.errors import register_result_attribute
from agenttape_core.freeze import is_sleep_ordered, register_backoff, register_run_ids, register_seam
from agenttape_core.guard import register_tracer
from agenttape_core.guard.patching import Wrappers
from agenttape_core.integration.alias import alias_class, alias_of, is_alias, original_of, state_of
from agenttape_core.integration.answers import field_of, note_text, recorded_text, tokens_in, usage_in
from agenttape_core.integration.automatic import holding_in_memory, wrapping
from agenttape_core.integration.changed_arguments import changing_arguments, that_may_change
from agenttape_core.integration.in_memory import InMemoryClasses
from agenttape_core.integration.leaves import (
    Cross,
    DescribeLeaf,
    Family,
    Leaf,
    async_stream_taking_part,
    begin,
    kept,
    leaf_call,
    limiter_leaves,
    named_arguments,
    session_of_call,
    stream_taking_part,
    taking_part_here,
    taking_part_while,
)
from agenttape_core.integration.object_settings import (
    EMBEDDING_SETTINGS,
    MODEL_SETTINGS,
    SEARCH_SETTINGS,
    STORE_SETTINGS,
    model_of,
    public_fields,
    settings_of,
    warn_unless_identified,
)
from agenttape_core.integration.request_values import as_recorded, request_value, was_observed
from agenttape_core.integration.shapes import (
    Call,
    Describe,
    Shape,
    achunks_of,
    as_it_is,
    async_generator,
    awaiting_first,
    chunks_of,
    coroutine,
    generator,
    plain,
    waiting_first,
)
from agenttape_core.interventions import How, register_damage
from agenttape_core.lifecycle.entry_points import load_integration
from agenttape_core.lifecycle.packages import register_packages
from agenttape_core.lifecycle.patched_on_import import ConnectedOnImport, PatchedOnImport
from agenttape_core.lifecycle.restarting import Source, register_restart
from agenttape_core.lifecycle.thread_files import Stored, register_thread_files
from agenttape_core.locks import Lock, RLock
from agenttape_core.matching import Branch, KeyedItems, Position, current_branch, enter_branch, task_branch
from agenttape_core.scheduling import (
    FuturesInOrder,
    comes_yet,
    in_order,
    is_notified_directly,
    register_lazy_stream,
    steps_in_order,
    taking_part,
    visible,
)
from agenttape_core.schema import Outcome, Plain, TypeCodec, Usage, class_name, loaded_class
from agenttape_core.session import (
    Boundary,
    ExecutedCall,
    FirstInput,
    Session,
    SessionCall,
    Slot,
    StepEvent,
    aintercept,
    aintercept_stream,
    areplay_call,
    areplay_stream,
    context_session,
    current_session,
    executing,
    intercept,
    intercept_stream,
    plain_value,
    record_step,
    replay_call,
    replay_stream,
    value_codec,
)
from agenttape_core.session.candidates import (
    CandidateModel,
    candidate_of,
    model_over_http,
    refuse_tools,
    register_candidates,
)
from agenttape_core.session.codecs import register_codecs
from agenttape_core.session.conditional_boundary import ProgramCall, program_call
from agenttape_core.session.context import is_passed_on, passing_on
from agenttape_core.session.executed_call import anotified_outside, notified_outside
from agenttape_core.session.intercept import awaited
from agenttape_core.session.miss import register_address_reader, register_run_reader
from agenttape_core.session.positions import below, here, register_position, register_scope
from agenttape_core.session.recorded_runs import RecordedRuns, without_ids
from agenttape_core.session.runs import outcomes_of, times_left, times_recorded
from agenttape_core.session.side_effects import note_side_effect
from agenttape_core.session.thread_pools import forking_pools

__all__ = [
    "EMBEDDING_SETTINGS",
    "MODEL_SETTINGS",
    "SEARCH_SETTINGS",
    "STORE_SETTINGS",
    "Boundary",
    "Branch",
    "Call",
    "CandidateModel",
    "ConnectedOnImport",
    "Cross",
    "Describe",
    "DescribeLeaf",
    "ExecutedCall",
    "Family",
    "FirstInput",
    "FuturesInOrder",
    "How",
    "InMemoryClasses",
    "KeyedItems",
    "Leaf",
    "Lock",
    "Outcome",
    "PatchedOnImport",
    "Plain",
    "Position",
    "ProgramCall",
    "RLock",
    "RecordedRuns",
    "Session",
    "SessionCall",
    "Shape",
    "Slot",
    "Source",
    "StepEvent",
    "Stored",
    "TypeCodec",
    "Usage",
    "Wrappers",
    "achunks_of",
    "aintercept",
    "aintercept_stream",
    "alias_class",
    "alias_of",
    "anotified_outside",
    "areplay_call",
    "areplay_stream",
    "as_it_is",
    "as_recorded",
    "async_generator",
    "async_stream_taking_part",
    "awaited",
    "awaiting_first",
    "begin",
    "below",
    "candidate_of",
    "changing_arguments",
    "chunks_of",
    "class_name",
    "comes_yet",
    "context_session",
    "coroutine",
    "current_branch",
    "current_session",
    "enter_branch",
    "executing",
    "field_of",
    "forking_pools",
    "generator",
    "here",
    "holding_in_memory",
    "in_order",
    "intercept",
    "intercept_stream",
    "is_alias",
    "is_notified_directly",
    "is_passed_on",
    "is_sleep_ordered",
    "kept",
    "leaf_call",
    "limiter_leaves",
    "load_integration",
    "loaded_class",
    "model_of",
    "model_over_http",
    "named_arguments",
    "note_side_effect",
    "note_text",
    "notified_outside",
    "original_of",
    "outcomes_of",
    "passing_on",
    "plain",
    "plain_value",
    "program_call",
    "public_fields",
    "record_step",
    "recorded_text",
    "refuse_tools",
    "register_address_reader",
    "register_backoff",
    "register_candidates",
    "register_codecs",
    "register_damage",
    "register_lazy_stream",
    "register_packages",
    "register_position",
    "register_restart",
    "register_result_attribute",
    "register_run_ids",
    "register_run_reader",
    "register_scope",
    "register_seam",
    "register_thread_files",
    "register_tracer",
    "replay_call",
    "replay_stream",
    "request_value",
    "session_of_call",
    "settings_of",
    "state_of",
    "steps_in_order",
    "stream_taking_part",
    "taking_part",
    "taking_part_here",
    "taking_part_while",
    "task_branch",
    "that_may_change",
    "times_left",
    "times_recorded",
    "tokens_in",
    "usage_in",
    "value_codec",
    "visible",
    "waiting_first",
    "warn_unless_identified",
    "was_observed",
    "without_ids",
    "wrapping",
]
