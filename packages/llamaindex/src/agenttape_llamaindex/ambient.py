"""Tape every leaf of the process while a session is open, with the user's code unchanged."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager

from agenttape_core.substitution import forking_pools, wrapping
from agenttape_llamaindex._compat import hook_span_handler
from agenttape_llamaindex.embeddings import EMBEDDINGS, SPARSE_EMBEDDINGS
from agenttape_llamaindex.limiters import LIMITERS
from agenttape_llamaindex.llms import LLMS
from agenttape_llamaindex.parts_ambient import parts
from agenttape_llamaindex.positions import SpanTree
from agenttape_llamaindex.session_steps import SessionSteps

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
