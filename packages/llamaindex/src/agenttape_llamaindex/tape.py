"""`tape`: one function for everything that can be taped."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any, TypeVar

from agenttape_core.errors import ConfigurationError

T = TypeVar("T")


@functools.cache
def _taped_by() -> tuple[tuple[type, Callable[[Any], Any]], ...]:
    """Return the ways to tape objects, by their classes; the first class that an object is an instance of counts.

    What it needs is imported here: who only imports the package need not wait for LlamaIndex.
    """
    from llama_index.core.base.llms.base import BaseLLM

    from agenttape_core.integration.shapes import as_it_is
    from agenttape_core.integration.stand_ins import StandIn
    from agenttape_llamaindex.containers import CONTAINERS, tape_container
    from agenttape_llamaindex.embeddings import EMBEDDINGS, SPARSE_EMBEDDINGS
    from agenttape_llamaindex.llms import tape_llm
    from agenttape_llamaindex.program_parts import PROGRAM_PARTS, tape_part
    from agenttape_llamaindex.readers import READERS
    from agenttape_llamaindex.retrievers import POSTPROCESSORS, RETRIEVERS
    from agenttape_llamaindex.stores import STORES, tape_store
    from agenttape_llamaindex.tools import FUNCTION_TOOLS, TOOLS

    families = (EMBEDDINGS, SPARSE_EMBEDDINGS, FUNCTION_TOOLS, TOOLS, RETRIEVERS, POSTPROCESSORS, READERS)
    return (
        (StandIn, as_it_is),
        (BaseLLM, tape_llm),
        *((family.base, family.tape) for family in families),
        *((family.base, tape_store) for family in STORES),
        *((family.base, tape_part) for family in PROGRAM_PARTS),
        *((cls, tape_container) for cls in CONTAINERS),
    )


def tape(obj: T) -> T:
    """Return an object of the same kind whose real work is recorded and replayed by the session in force.

    Outside any session it behaves exactly as `obj` does, whose state it shares. Taping twice is taping once.

    Args:
        obj: An LLM, also a structured one; an embedding model; a tool, a retriever, a node postprocessor, a reader, a
            store, a memory. A query engine, a chat engine, an index, a workflow, an agent and any other object that is
            made of components runs in every replay, like stores in memory: its calls that reach outside are taped, even
            in sessions that aren't automatic.

    Raises:
        ConfigurationError: If `obj` is of no such class, or keeps its state where an alias cannot share it.
    """
    for cls, tape_it in _taped_by():
        if isinstance(obj, cls):
            return tape_it(obj)  # type: ignore[no-any-return]
    raise ConfigurationError(
        f"cannot tape {type(obj).__module__}.{type(obj).__qualname__}: expected an LLM, an embedding "
        "model, a tool, a retriever, a postprocessor, a reader, a store, or an engine, an agent or a "
        "workflow of LlamaIndex\n"
        "  tape its components, open a session with auto=True, which tapes every component that is called, or mark "
        "the functions that reach outside with agenttape_core.boundary"
    )
