"""Tape every leaf call of the process while a session is open, with the user's code unchanged."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager

from llama_index.core.chat_engine.types import StreamingAgentChatResponse
from llama_index.core.graph_stores.types import LabelledPropertyGraph
from llama_index.core.indices.keyword_table.retrievers import BaseKeywordTableRetriever
from llama_index.core.storage.chat_store import sql

from agenttape_core.integration import forking_pools, patch, register_restart, register_run_ids, wrapping
from agenttape_llamaindex import keyword_tables, property_graphs
from agenttape_llamaindex._compat import CONTROL_LOOP, RUN_IDS_OF, hook_span_handler
from agenttape_llamaindex.clocks import RUNNER_METHODS, OrderedTime
from agenttape_llamaindex.effect_hooks import noting_effects
from agenttape_llamaindex.embeddings import EMBEDDINGS, SPARSE_EMBEDDINGS
from agenttape_llamaindex.limiters import LIMITERS
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

_FAMILIES = (
    LLMS,
    EMBEDDINGS,
    SPARSE_EMBEDDINGS,
    LIMITERS,
    FUNCTION_TOOLS,
    TOOLS,
    RETRIEVERS,
    POSTPROCESSORS,
    READERS,
    *STORES,
)


register_restart(restart)
register_run_ids(*RUN_IDS_OF)


@contextmanager
def integration() -> Iterator[None]:
    """Connect LlamaIndex to the sessions of this process; core enters it with the first and leaves it with the last."""
    with ExitStack() as stack:
        # Each handler is put before the others: the tree, which the steps read, has to see a span first.
        stack.callback(hook_span_handler(SessionSteps()))
        stack.callback(hook_span_handler(SpanTree()))
        for family in _FAMILIES:
            stack.enter_context(wrapping(family))
        for family in PROGRAM_PARTS:
            stack.enter_context(wrapping(family, is_program=True))
        stack.enter_context(noting_effects())
        for name, wrap in RUNNER_METHODS.items():
            patch(stack, CONTROL_LOOP, name, wrap)
        patch(stack, CONTROL_LOOP, "run", in_recorded_order)
        stack.enter_context(halts_end_streams())
        patch(stack, sql, "time", OrderedTime)
        patch(stack, StreamingAgentChatResponse, "__post_init__", following)
        patch(stack, LabelledPropertyGraph, "get_triplets", property_graphs.in_order)
        patch(stack, BaseKeywordTableRetriever, "_retrieve", keyword_tables.in_order)
        stack.enter_context(forking_pools())
        yield
