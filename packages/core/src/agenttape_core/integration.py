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

from agenttape_core.freeze import register_backoff, register_seam
from agenttape_core.guard import register_tracer
from agenttape_core.importing import Graded, Importer, Importing, ImportReport, Told
from agenttape_core.matching import Branch, IdMap, Keyed, Position, current_branch, enter_branch, rank_name, task_branch
from agenttape_core.observation import Observation
from agenttape_core.observer import Observer, Unseen
from agenttape_core.schema import TypeCodec, Usage, class_name, loaded_class
from agenttape_core.session import (
    Boundary,
    Crossing,
    Happening,
    Session,
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
from agenttape_core.standalone import Recording, open_replay

__all__ = [
    "Boundary",
    "Branch",
    "Crossing",
    "Graded",
    "Happening",
    "IdMap",
    "ImportReport",
    "Importer",
    "Importing",
    "Keyed",
    "Observation",
    "Observer",
    "Position",
    "Recording",
    "Session",
    "Texts",
    "Told",
    "TypeCodec",
    "Unseen",
    "Usage",
    "aintercept",
    "aintercept_stream",
    "as_observed",
    "aserve",
    "aserve_stream",
    "below",
    "class_name",
    "context_session",
    "current_branch",
    "current_session",
    "enter_branch",
    "executing",
    "here",
    "intercept",
    "intercept_stream",
    "loaded_class",
    "open_replay",
    "plain_value",
    "rank_name",
    "record_error",
    "record_step",
    "register_address_reader",
    "register_backoff",
    "register_codecs",
    "register_place",
    "register_scope",
    "register_seam",
    "register_tracer",
    "serve",
    "serve_stream",
    "taking_part",
    "task_branch",
    "value_codec",
]
