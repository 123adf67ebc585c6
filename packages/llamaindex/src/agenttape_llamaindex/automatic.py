"""Tape every leaf call of the process while a session is open, with the user's code unchanged."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from llama_index.core.chat_engine.types import StreamingAgentChatResponse
from llama_index.core.graph_stores.types import LabelledPropertyGraph
from llama_index.core.indices.keyword_table.retrievers import BaseKeywordTableRetriever
from llama_index.core.rate_limiter import BaseRateLimiter
from llama_index.core.storage.chat_store import sql

from agenttape_core.integration import Family, register_restart, wrapping
from agenttape_core.integration.leaves import limiter_leaves
from agenttape_core.integration.patching import Wrappers, register_run_ids
from agenttape_core.integration.threads import forking_pools
from agenttape_llamaindex import keyword_tables, property_graphs
from agenttape_llamaindex._compat import CONTROL_LOOP, RUN_IDS_OF, hook_span_handler
from agenttape_llamaindex.clocks import RUNNER_METHODS, OrderedTime
from agenttape_llamaindex.effect_hooks import EFFECTS_NOTED
from agenttape_llamaindex.embeddings import EMBEDDINGS, SPARSE_EMBEDDINGS
from agenttape_llamaindex.llms import LLMS
from agenttape_llamaindex.postprocessors import POSTPROCESSORS
from agenttape_llamaindex.program_parts import PROGRAM_PARTS
from agenttape_llamaindex.readers import READERS
from agenttape_llamaindex.restarting import restart
from agenttape_llamaindex.retrievers import RETRIEVERS
from agenttape_llamaindex.run_tree import SpanTree
from agenttape_llamaindex.steps import SessionSteps
from agenttape_llamaindex.stores import STORES
from agenttape_llamaindex.streamed_chats import following
from agenttape_llamaindex.tools import FUNCTION_TOOLS, TOOLS
from agenttape_llamaindex.workflows.halts import halts_end_streams
from agenttape_llamaindex.workflows.order import in_recorded_order

# Rate limiters, which wait as a part of the calls that they let through.

_BEFORE = ("llama_index.core.llms.callbacks", "llama_index.core.base.embeddings.base")

_LIMITERS = Family(BaseRateLimiter, limiter_leaves("acquire", "async_acquire", before=_BEFORE))
"""Every rate limiter."""


_FAMILIES = (
    LLMS,
    EMBEDDINGS,
    SPARSE_EMBEDDINGS,
    _LIMITERS,
    FUNCTION_TOOLS,
    TOOLS,
    RETRIEVERS,
    POSTPROCESSORS,
    READERS,
    *STORES,
)


register_restart(restart)
register_run_ids(*RUN_IDS_OF)


def _install(wrappers: Wrappers) -> None:
    # Each handler is put before the others: the tree, which the steps read, has to see a span first.
    wrappers.hold(lambda: _hooked(SessionSteps()))
    wrappers.hold(lambda: _hooked(SpanTree()))
    wrappers.enter(wrapping(*_FAMILIES))
    wrappers.enter(wrapping(*PROGRAM_PARTS, is_program=True))
    wrappers.enter(EFFECTS_NOTED)
    for name, wrap in RUNNER_METHODS.items():
        wrappers.patch(CONTROL_LOOP, name, wrap)
    wrappers.patch(CONTROL_LOOP, "run", in_recorded_order)
    wrappers.hold(halts_end_streams)
    wrappers.patch(sql, "time", OrderedTime)
    wrappers.patch(StreamingAgentChatResponse, "__post_init__", following)
    wrappers.patch(LabelledPropertyGraph, "get_triplets", property_graphs.in_order)
    wrappers.patch(BaseKeywordTableRetriever, "_retrieve", keyword_tables.in_order)
    wrappers.enter(forking_pools())


@contextmanager
def _hooked(handler: Any) -> Iterator[None]:
    unhook = hook_span_handler(handler)
    try:
        yield
    finally:
        unhook()


_wrappers = Wrappers(_install)


def integration() -> Wrappers:
    """Connect LlamaIndex to the sessions of this process; core enters it with the first and leaves it with the last."""
    return _wrappers
