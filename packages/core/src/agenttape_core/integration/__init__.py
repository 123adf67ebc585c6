"""The face for integration authors: how a framework's calls become interactions.

An integration substitutes the leaf calls of its framework. At each it builds the request, asks the current session
for a crossing, and hands it with the real call to the shell of the right shape:

    session = current_session()
    if session is None:
        return real(query)
    crossing = session.cross(Boundary("retrieval"), "my-index", {"query": query})
    return intercept(crossing, lambda: real(query))

An integration that wants to be ambient publishes a context manager as an entry point of the group
`agenttape.integrations`, named after the root module of its framework. It is entered when the first session of the
process opens, or as soon as the framework is imported, and left with the last session.
"""

from __future__ import annotations

from agenttape_core.errors import register_result_attribute
from agenttape_core.freeze import register_backoff, register_seam
from agenttape_core.guard import register_tracer
from agenttape_core.integration.alias import (
    alias_class,
    alias_of,
    is_alias,
    is_alias_class,
    original_of,
    state_of,
)
from agenttape_core.integration.ambient import wrapping
from agenttape_core.integration.leaves import Cross, DescribeLeaf, Family, Leaf, begin, kept, leaf_call, named_arguments
from agenttape_core.integration.object_settings import (
    EMBEDDING_SETTINGS,
    SEARCH_SETTINGS,
    STORE_SETTINGS,
    model_of,
    settings_of,
)
from agenttape_core.integration.observed import (
    CANCELLED,
    HOLE,
    ObservedCall,
    ObservedStream,
    OpenRun,
    Unrecorded,
    output_facts,
)
from agenttape_core.integration.observer import Observer, Unseen
from agenttape_core.integration.recorded_settings import (
    Meaning,
    Setting,
    distinct_settings,
    format_meaning,
    formats_agree,
    meaning_of,
)
from agenttape_core.integration.request_values import asked
from agenttape_core.integration.shapes import (
    Call,
    Describe,
    Shape,
    achunks_of,
    as_it_is,
    async_generator,
    chunks_of,
    coroutine,
    generator,
    plain,
)
from agenttape_core.integration.stand_in import (
    Options,
    Pace,
    RecordedModel,
    RecordedPart,
    StandIn,
    settings_of_method,
)
from agenttape_core.integration.thread_pools import forking_pools
from agenttape_core.lifecycle.derived import deriving
from agenttape_core.lifecycle.header import redactor_for
from agenttape_core.lifecycle.imported import Graded, Importer, Importing, ImportReport, Told
from agenttape_core.lifecycle.observed import Observation
from agenttape_core.lifecycle.project import project_settings
from agenttape_core.lifecycle.replay_only import Recording, open_replay
from agenttape_core.matching import (
    Asked,
    Branch,
    Exhausted,
    IdMap,
    Ignored,
    Keyed,
    Matcher,
    Position,
    Way,
    current_branch,
    differences,
    enter_branch,
    rank_name,
    recorded_request,
    task_branch,
)
from agenttape_core.redaction import Redactor
from agenttape_core.schema import Outcome, Plain, TypeCodec, Usage, class_name, loaded_class
from agenttape_core.schema.readers import CallPiece, register_reader
from agenttape_core.session import (
    Boundary,
    Crossed,
    Crossing,
    Session,
    StepEvent,
    Texts,
    aintercept,
    aintercept_stream,
    as_observed,
    aserve,
    aserve_stream,
    below,
    context_session,
    current_session,
    executing,
    here,
    intercept,
    intercept_stream,
    plain_value,
    record_error,
    record_step,
    register_address_reader,
    register_codecs,
    register_place,
    register_scope,
    serve,
    serve_stream,
    taking_part,
    value_codec,
)
from agenttape_core.storage import Cassette, Location, write_cassette

__all__ = [
    "CANCELLED",
    "EMBEDDING_SETTINGS",
    "HOLE",
    "SEARCH_SETTINGS",
    "STORE_SETTINGS",
    "Asked",
    "Boundary",
    "Branch",
    "Call",
    "CallPiece",
    "Cassette",
    "Cross",
    "Crossed",
    "Crossing",
    "Describe",
    "DescribeLeaf",
    "Exhausted",
    "Family",
    "Graded",
    "IdMap",
    "Ignored",
    "ImportReport",
    "Importer",
    "Importing",
    "Keyed",
    "Leaf",
    "Location",
    "Matcher",
    "Meaning",
    "Observation",
    "ObservedCall",
    "ObservedStream",
    "Observer",
    "OpenRun",
    "Options",
    "Outcome",
    "Pace",
    "Plain",
    "Position",
    "RecordedModel",
    "RecordedPart",
    "Recording",
    "Redactor",
    "Session",
    "Setting",
    "Shape",
    "StandIn",
    "StepEvent",
    "Texts",
    "Told",
    "TypeCodec",
    "Unrecorded",
    "Unseen",
    "Usage",
    "Way",
    "achunks_of",
    "aintercept",
    "aintercept_stream",
    "alias_class",
    "alias_of",
    "as_it_is",
    "as_observed",
    "aserve",
    "aserve_stream",
    "asked",
    "async_generator",
    "begin",
    "below",
    "chunks_of",
    "class_name",
    "context_session",
    "coroutine",
    "current_branch",
    "current_session",
    "deriving",
    "differences",
    "distinct_settings",
    "enter_branch",
    "executing",
    "forking_pools",
    "format_meaning",
    "formats_agree",
    "generator",
    "here",
    "intercept",
    "intercept_stream",
    "is_alias",
    "is_alias_class",
    "kept",
    "leaf_call",
    "loaded_class",
    "meaning_of",
    "model_of",
    "named_arguments",
    "open_replay",
    "original_of",
    "output_facts",
    "plain",
    "plain_value",
    "project_settings",
    "rank_name",
    "record_error",
    "record_step",
    "recorded_request",
    "redactor_for",
    "register_address_reader",
    "register_backoff",
    "register_codecs",
    "register_place",
    "register_reader",
    "register_result_attribute",
    "register_scope",
    "register_seam",
    "register_tracer",
    "serve",
    "serve_stream",
    "settings_of",
    "settings_of_method",
    "state_of",
    "taking_part",
    "task_branch",
    "value_codec",
    "wrapping",
    "write_cassette",
]
