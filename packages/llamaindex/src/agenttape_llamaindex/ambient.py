"""Tape every leaf of the process while a session is open, with the user's code unchanged."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from typing import Any

from llama_index.core.storage.chat_store import sql

from agenttape_core.integration import forking_pools, wrapping
from agenttape_llamaindex._compat import CONTROL_LOOP, OUTER_CONTEXT, hook_span_handler
from agenttape_llamaindex.effects import noting_effects
from agenttape_llamaindex.embeddings import EMBEDDINGS, SPARSE_EMBEDDINGS
from agenttape_llamaindex.frozen_defaults import RUNNER_METHODS, OrderedTime
from agenttape_llamaindex.halts import running, streaming
from agenttape_llamaindex.limiters import LIMITERS
from agenttape_llamaindex.llms import LLMS
from agenttape_llamaindex.postprocessors import POSTPROCESSORS
from agenttape_llamaindex.retrievers import RETRIEVERS
from agenttape_llamaindex.run_tree import SpanTree
from agenttape_llamaindex.steps import SessionSteps
from agenttape_llamaindex.stores import FAMILIES
from agenttape_llamaindex.tools import FUNCTION_TOOLS, TOOLS

_FAMILIES = (LLMS, EMBEDDINGS, SPARSE_EMBEDDINGS, LIMITERS)


@contextmanager
def integration() -> Iterator[None]:
    """Connect LlamaIndex to the sessions of this process; core enters it with the first and leaves it with the last."""
    with ExitStack() as stack:
        stack.callback(hook_span_handler(SessionSteps()))  # told after the tree, which is put before it
        stack.callback(hook_span_handler(SpanTree()))
        for family in _FAMILIES:
            stack.enter_context(wrapping(family))
        stack.enter_context(parts())
        stack.enter_context(forking_pools())
        yield


PART_FAMILIES = (FUNCTION_TOOLS, TOOLS, RETRIEVERS, POSTPROCESSORS, *FAMILIES)


@contextmanager
def parts() -> Iterator[None]:
    """Connect the parts; everything is as it was afterwards."""
    with ExitStack() as stack:
        for family in PART_FAMILIES:
            stack.enter_context(wrapping(family))
        stack.enter_context(noting_effects())
        for name, wrap in RUNNER_METHODS.items():
            _patch(stack, CONTROL_LOOP, name, wrap)
        _patch(stack, CONTROL_LOOP, "run", running)
        _patch(stack, OUTER_CONTEXT, "stream_events", streaming)
        _patch(stack, sql, "time", OrderedTime)
        yield


def _patch(stack: ExitStack, where: Any, name: str, wrap: Callable[[Any], Any]) -> None:
    real = getattr(where, name)
    setattr(where, name, wrap(real))
    stack.callback(setattr, where, name, real)
