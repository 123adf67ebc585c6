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
`Family.tape` tapes one object, `wrapping` all objects while sessions are open; `original_of` returns the object behind
a taped one, `state_of` the state that both share. `plain`, `coroutine`, `generator` and `async_generator` wrap a method
or a function, given a `Call` with the special features of a call; `leaf_call` makes the usual one. `begin` begins its
call in `session_of_call`, with `named_arguments`. `note_side_effect` adds a side effect that no hook sees.

`InMemoryClasses` lists the classes of a family that keep their data in the process: they run. A `program_call` is a
call of a component that runs, unless it reaches outside directly; a `ProgramCall` is one that runs and is watched.

**Requests.** `request_value` makes plain data of anything, `KeyedItems` marks items that are compared by a key, and
`model_of` and `settings_of` read the settings of an object.

**Places.** A `Position` is the location of a call in the run; `here` and `below` find it. `register_position`,
`register_scope` and `register_address_reader` connect the framework's own tree, `forking_pools` the work in pools;
`register_run_reader` lets a miss say how the run around it differs. `RecordedRuns` finds the recorded run that an
outermost run is, by its conversation and its input (compared `without_ids`), and an address for one that is added.

**Values.** `register_codecs` adds a `TypeCodec` for values of the framework, `register_result_attribute` an attribute
of its errors. `value_codec` and `plain_value` encode; `class_name` and `loaded_class` name classes without importing
one. Readers of recorded chunks and drawings of programs have a separate interface, `agenttape_core.readers`.

**Damages.** `register_damage` defines how faults damage the answers of the framework; a `Damage` gets the way (`How`).

**Candidates.** `register_candidates` makes a `CandidateModel` of a model or its name, `candidate_of` returns the one to
call instead of the program's own, and `refuse_tools` ends a run that offers tools to a candidate that can't call any.

**Runs begun again.** A `FirstInput` keeps the input that a run began with; `register_restart` begins a run again from
the `Source` that has it.

**Steps and state.** `record_step` keeps a `StepEvent`, which gives the recorded run its shape. A `Slot` is a typed
place for state that belongs to a session.

Other parts of an integration are in separate modules: `threads` (their order), `patching` (functions of the framework),
`codecs` (building blocks of codecs), `observing` (callback handlers), `stand_ins` (objects made of a cassette),
`importing` (recordings of other tools), `cassettes` (files). What only some need is imported from its module: the
settings of models and stores (`object_settings`), aliases (`alias`), streams (`shapes`, `leaves`), arguments that a
call changes (`changed_arguments`), parts of answers (`answers`).

An integration that is automatic publishes a context manager as an entry point of the group `agenttape.integrations`,
named after the root module of its framework. It is entered when the first session of the process opens, or as soon as
the framework is imported, and left with the last session.
"""

from agenttape_core.errors import register_result_attribute
from agenttape_core.integration.alias import original_of, state_of
from agenttape_core.integration.automatic import wrapping
from agenttape_core.integration.in_memory import InMemoryClasses
from agenttape_core.integration.leaves import Cross, Family, Leaf, begin, leaf_call, named_arguments, session_of_call
from agenttape_core.integration.object_settings import model_of, settings_of
from agenttape_core.integration.request_values import request_value
from agenttape_core.integration.shapes import Call, async_generator, coroutine, generator, plain
from agenttape_core.interventions import How, register_damage
from agenttape_core.lifecycle.entry_points import load_integration
from agenttape_core.lifecycle.restarting import Source, register_restart
from agenttape_core.matching import KeyedItems, Position
from agenttape_core.scheduling import taking_part
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
from agenttape_core.session.candidates import CandidateModel, candidate_of, refuse_tools, register_candidates
from agenttape_core.session.codecs import register_codecs
from agenttape_core.session.conditional_boundary import ProgramCall, program_call
from agenttape_core.session.executed_call import anotified_outside, notified_outside
from agenttape_core.session.intercept import awaited
from agenttape_core.session.miss import register_address_reader, register_run_reader
from agenttape_core.session.positions import below, here, register_position, register_scope
from agenttape_core.session.recorded_runs import RecordedRuns, without_ids
from agenttape_core.session.runs import outcomes_of, times_left, times_recorded
from agenttape_core.session.side_effects import note_side_effect
from agenttape_core.session.thread_pools import forking_pools

__all__ = [
    "Boundary",
    "Call",
    "CandidateModel",
    "Cross",
    "ExecutedCall",
    "Family",
    "FirstInput",
    "How",
    "InMemoryClasses",
    "KeyedItems",
    "Leaf",
    "Outcome",
    "Plain",
    "Position",
    "ProgramCall",
    "RecordedRuns",
    "Session",
    "SessionCall",
    "Slot",
    "Source",
    "StepEvent",
    "TypeCodec",
    "Usage",
    "aintercept",
    "aintercept_stream",
    "anotified_outside",
    "areplay_call",
    "areplay_stream",
    "async_generator",
    "awaited",
    "begin",
    "below",
    "candidate_of",
    "class_name",
    "context_session",
    "coroutine",
    "current_session",
    "executing",
    "forking_pools",
    "generator",
    "here",
    "intercept",
    "intercept_stream",
    "leaf_call",
    "load_integration",
    "loaded_class",
    "model_of",
    "named_arguments",
    "note_side_effect",
    "notified_outside",
    "original_of",
    "outcomes_of",
    "plain",
    "plain_value",
    "program_call",
    "record_step",
    "refuse_tools",
    "register_address_reader",
    "register_candidates",
    "register_codecs",
    "register_damage",
    "register_position",
    "register_restart",
    "register_result_attribute",
    "register_run_reader",
    "register_scope",
    "replay_call",
    "replay_stream",
    "request_value",
    "session_of_call",
    "settings_of",
    "state_of",
    "taking_part",
    "times_left",
    "times_recorded",
    "value_codec",
    "without_ids",
    "wrapping",
]
