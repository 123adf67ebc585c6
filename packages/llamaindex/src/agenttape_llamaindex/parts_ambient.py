"""Connect the parts of agents and engines to the sessions of this process: tools, retrievers, stores, workflows."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from typing import Any

from llama_index.core.storage.chat_store import sql

from agenttape_core.substitution import wrapping
from agenttape_llamaindex._compat import CONTROL_LOOP, OUTER_CONTEXT
from agenttape_llamaindex.clocks import RUNNER_METHODS, OrderedTime
from agenttape_llamaindex.effect_patches import noting_effects
from agenttape_llamaindex.postprocessors import POSTPROCESSORS
from agenttape_llamaindex.retrievers import RETRIEVERS
from agenttape_llamaindex.runs import running, streaming
from agenttape_llamaindex.stores import FAMILIES
from agenttape_llamaindex.tools import FUNCTION_TOOLS, TOOLS

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
