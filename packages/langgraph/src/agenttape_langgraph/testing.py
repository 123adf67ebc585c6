"""For tests of whole runs: all that a thread of a graph has left behind, for raw comparison."""

from __future__ import annotations

from typing import Any

from langgraph.checkpoint.memory import InMemorySaver

from agenttape_core.testing import Capture

__all__ = ["acapture_thread", "capture_thread"]


def capture_thread(capture: Capture, graph: Any, config: Any) -> None:
    """Take down the state, the history, the bytes of the saver and the items of the store.

    Args:
        capture: What they are taken down in, as the parts `state`, `history`, `saver` and `store`.
        graph: A compiled graph. It may do without a saver and without a store.
        config: The config of its thread.
    """
    if graph.checkpointer:
        capture.add("state", graph.get_state(config, subgraphs=True))
        for state in graph.get_state_history(config):
            capture.add("history", state)
        _capture_saver(capture, graph.checkpointer)
    _capture_store(capture, graph.store)


async def acapture_thread(capture: Capture, graph: Any, config: Any) -> None:
    """Do the same by the asynchronous methods of the graph."""
    if graph.checkpointer:
        capture.add("state", await graph.aget_state(config, subgraphs=True))
        async for state in graph.aget_state_history(config):
            capture.add("history", state)
        _capture_saver(capture, graph.checkpointer)
    _capture_store(capture, graph.store)


def _capture_saver(capture: Capture, saver: Any) -> None:
    if isinstance(saver, InMemorySaver):
        capture.add("saver", {"storage": saver.storage, "writes": saver.writes, "blobs": saver.blobs})


def _capture_store(capture: Capture, store: Any) -> None:
    if store is not None:
        for namespace in store.list_namespaces():
            capture.add("store", [namespace, store.search(namespace, limit=1000)])
