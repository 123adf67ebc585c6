"""The graph that runs: LangGraph finds a subgraph to edit by its node, and one that a tool runs belongs to none."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any

from agenttape_core.integration.patching import Wrappers
from agenttape_langgraph._compat import BEGINNING
from agenttape_langgraph.time_travel.script import Graph

_running: ContextVar[Graph | None] = ContextVar("agenttape_running_graph", default=None)
_wrappers = Wrappers(lambda wrappers: wrappers.patch(*BEGINNING, _noting))


def running_graph() -> Graph | None:
    """Return the graph that began last in this context, while graphs are noted."""
    return _running.get()


@contextmanager
def noting_graphs() -> Iterator[None]:
    """Note each graph that begins, while inside; even in several threads in parallel."""
    with _wrappers:
        before = _running.set(None)
        try:
            yield
        finally:
            _running.reset(before)


def _noting(real: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(real)
    def begin(self: Graph, *args: Any, **kwargs: Any) -> Any:
        _running.set(self)
        return real(self, *args, **kwargs)

    return begin
