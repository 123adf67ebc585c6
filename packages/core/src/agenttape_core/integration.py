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

from agenttape_core.freeze import register_seam
from agenttape_core.matching import Branch, Keyed, Position, current_branch, enter_branch, rank_name, task_branch
from agenttape_core.schema import TypeCodec, Usage, class_name, loaded_class
from agenttape_core.session import (
    Boundary,
    Crossing,
    Session,
    aintercept,
    aintercept_stream,
    current_session,
    executing,
    intercept,
    intercept_stream,
    register_codecs,
    register_scope,
    value_codec,
)
from agenttape_core.standalone import Observation, open_replay

__all__ = [
    "Boundary",
    "Branch",
    "Crossing",
    "Keyed",
    "Observation",
    "Position",
    "Session",
    "TypeCodec",
    "Usage",
    "aintercept",
    "aintercept_stream",
    "class_name",
    "current_branch",
    "current_session",
    "enter_branch",
    "executing",
    "intercept",
    "intercept_stream",
    "loaded_class",
    "open_replay",
    "rank_name",
    "register_codecs",
    "register_scope",
    "register_seam",
    "task_branch",
    "value_codec",
]
