"""Every leaf interface of LangGraph is a boundary, or code of the program for a reason that's given here."""

from __future__ import annotations

from agenttape_langgraph.stores import STORES

from ..kit.leaf_interfaces import leaf_interfaces, unjudged, unneeded

_STATE = "state of the graph, in this process"
_SAVER = "a saver is part of the graph, and works in a replay; over the network it's refused"

PROGRAM = {
    "langgraph.cache.base.BaseCache": "a cache of the program: what it holds decides which nodes run",
    "langgraph.channels.base.BaseChannel": _STATE,
    "langgraph.checkpoint.base.BaseCheckpointSaver": _SAVER,
    "langgraph.checkpoint.sqlite.SqliteSaver": _SAVER,
    "langgraph.managed.base.ManagedValue": _STATE,
    "langgraph.pregel._loop.PregelLoop": "the loop of the graph itself",
    "langgraph.pregel.protocol.PregelProtocol": "a graph: its nodes run, and their calls are boundaries",
    "langgraph.pregel.remote.RemoteGraph": "a graph on a server: refused, unless http=True records its requests",
    "langgraph.store.sqlite.base.SqliteStore": "says to use its asynchronous form",
    "langgraph.stream._types.StreamTransformer": "transforms the stream of a graph, in this process",
}


def test_every_leaf_interface_is_judged() -> None:
    """An abstract leaf method that LangGraph adds fails here until it's a boundary, or listed with a reason."""
    found = leaf_interfaces("langgraph")
    assert len(found) > 5
    assert unjudged(found, [(STORES.base, method) for method in STORES.leaves], PROGRAM) == []


def test_listed_program_code_exists() -> None:
    """What's listed as code of the program is a leaf interface of the newest LangGraph, not misspelt."""
    known = leaf_interfaces("langgraph")
    newer = {"langgraph.stream._types.StreamTransformer"}  # the oldest version that's supported hasn't got it
    assert set(unneeded(known, PROGRAM)) <= newer
