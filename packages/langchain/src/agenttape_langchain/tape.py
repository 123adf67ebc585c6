"""`tape`: one function for everything that can be taped."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Iterable, Iterator
from typing import Any, TypeVar

from langchain_core.runnables import Runnable

from agenttape_core.errors import ConfigurationError
from agenttape_core.integration import Family
from agenttape_langchain.bindings import tape_within
from agenttape_langchain.chat_models import CHAT_MODELS
from agenttape_langchain.configurable_models import is_configurable_model, tape_configurable_model
from agenttape_langchain.graphs import tape_graph

T = TypeVar("T")

_LATE_RUNNABLES = {
    "langchain_core.language_models.llms": ("agenttape_langchain.llms", "LLMS"),
    "langchain_core.tools.base": ("agenttape_langchain.tools", "TOOLS"),
    "langchain_core.retrievers": ("agenttape_langchain.retrievers", "RETRIEVERS"),
    "langchain_core.decisions.base": ("agenttape_langchain.decisions", "DECISION_MODELS"),
    "langchain_core.indexing.base": ("agenttape_langchain.document_indexes", "DOCUMENT_INDEXES"),
    "langchain_openai.decisions.base": ("agenttape_langchain.openai_decisions", "OPENAI_DECISIONS"),
}
_HISTORIES = "langchain_core.chat_history"
_LATE_OTHERS = {
    "langchain_core.embeddings.embeddings": ("agenttape_langchain.embeddings", "EMBEDDINGS"),
    "langchain_core.vectorstores.base": ("agenttape_langchain.vector_stores", "VECTOR_STORES"),
    "langchain_core.documents.compressor": ("agenttape_langchain.compressors", "COMPRESSORS"),
    "langchain_core.cross_encoders": ("agenttape_langchain.cross_encoders", "CROSS_ENCODERS"),
    "langchain_core.stores": ("agenttape_langchain.stores", "STORES"),
    _HISTORIES: ("agenttape_langchain.histories", "HISTORIES"),
}
LATE = _LATE_RUNNABLES | _LATE_OTHERS
"""The families of modules that an agent may do without, and that are never imported for them: where each is made. In a
runnable, LangChain wraps others, which are taped inside. Those that aren't runnables come first: an object may be both.
"""


def late_family(module: str) -> Family:
    """Return the family of a module that is imported; see `LATE`."""
    maker, name = LATE[module]
    family: Family = getattr(importlib.import_module(maker), name)
    return family


def tape(obj: T) -> T:
    """Return an object of the same kind whose real work is recorded and replayed by the current session.

    Outside any session it behaves exactly as `obj` does, whose state it shares. Taping twice is taping once.

    Args:
        obj: A chat model, a text model, a decision model, a tool or a retriever, also inside `bind`, `with_config`,
            `with_retry`, `with_fallbacks` and the like, or the configurable model of `init_chat_model`; an embedding
            model, a vector store, a document compressor, a cross encoder, a key-value store, a chat message history. A
            graph of LangGraph is taped by `agenttape_langgraph.tape`. Any other runnable is recorded as a whole: its
            parts don't run in a replay.

    Raises:
        ConfigurationError: If `obj` is none of these, keeps its state where a taped object cannot share it, or is a
            graph and `agenttape-langgraph` is not installed.
    """
    if _HISTORIES in sys.modules:
        from agenttape_langchain.histories import refuse_history_in_process

        refuse_history_in_process(obj)
    if (family := _family_of(obj, tuple(_imported(_LATE_OTHERS)))) is not None:
        return family.tape(obj)
    if (graph := tape_graph(obj)) is not None:
        return graph  # type: ignore[no-any-return]
    if isinstance(obj, Runnable):
        from agenttape_langchain.runnables import tape_runnable  # a session needs none

        taped: Any = tape_within(obj, _tape_leaf)
        return taped if taped is not None else tape_runnable(obj)  # type: ignore[return-value]
    raise ConfigurationError(
        f"cannot tape {type(obj).__module__}.{type(obj).__qualname__}: expected a model, a tool, a retriever, an "
        "embedding model, a store, a compressor, a cross encoder, a history or another runnable of LangChain\n"
        "  tape its parts instead, open a session with auto=True, which tapes every part it meets, or mark the "
        "functions that reach outside with agenttape_core.boundary"
    )


def _tape_leaf(obj: Any) -> Any:
    from agenttape_langchain.runnables import TapedRunnable

    if isinstance(obj, TapedRunnable):
        return obj
    if is_configurable_model(obj):
        return tape_configurable_model(obj)
    family = _family_of(obj, (CHAT_MODELS, *_imported(_LATE_RUNNABLES)))
    return family.tape(obj) if family is not None else tape_graph(obj)


def _imported(modules: Iterable[str]) -> Iterator[Family]:
    return (late_family(module) for module in modules if module in sys.modules)


def _family_of(obj: Any, families: tuple[Family, ...]) -> Family | None:
    return next((family for family in families if isinstance(obj, family.base)), None)
