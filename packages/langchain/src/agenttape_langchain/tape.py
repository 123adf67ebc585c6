"""`tape`: one verb for everything that can be taped."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

from langchain_core.chat_history import BaseChatMessageHistory
from langchain_core.documents import BaseDocumentCompressor
from langchain_core.embeddings import Embeddings
from langchain_core.language_models import BaseChatModel, BaseLLM
from langchain_core.retrievers import BaseRetriever
from langchain_core.runnables import Runnable
from langchain_core.stores import BaseStore
from langchain_core.tools import BaseTool
from langchain_core.vectorstores import VectorStore

from agenttape_core import ConfigurationError
from agenttape_langchain.bindings import tape_within
from agenttape_langchain.chat_models import tape_chat_model
from agenttape_langchain.compressors import tape_compressor
from agenttape_langchain.configurable_models import is_configurable_model, tape_configurable_model
from agenttape_langchain.embeddings import tape_embeddings
from agenttape_langchain.histories import tape_history
from agenttape_langchain.llms import tape_llm
from agenttape_langchain.retrievers import tape_retriever
from agenttape_langchain.runnables import TapedRunnable, tape_runnable
from agenttape_langchain.stores import tape_store
from agenttape_langchain.tools import tape_tool
from agenttape_langchain.vector_stores import tape_vector_store

T = TypeVar("T")

_RUNNABLES: tuple[tuple[type, Callable[[Any], Any]], ...] = (
    (BaseChatModel, tape_chat_model),
    (BaseLLM, tape_llm),
    (BaseTool, tape_tool),
    (BaseRetriever, tape_retriever),
)
_OTHERS: tuple[tuple[type, Callable[[Any], Any]], ...] = (
    (Embeddings, tape_embeddings),
    (VectorStore, tape_vector_store),
    (BaseDocumentCompressor, tape_compressor),
    (BaseStore, tape_store),
    (BaseChatMessageHistory, tape_history),
)


def tape(obj: T) -> T:
    """Return an object of the same kind whose real work is recorded and replayed by the session in force.

    Outside any session it behaves exactly as `obj` does, whose state it shares. Taping twice is taping once.

    Args:
        obj: A chat model, a text model, a tool or a retriever, also inside what `bind`, `with_config`, `with_retry`,
            `with_fallbacks` and the like make of it, or the configurable model of `init_chat_model`; an embedding
            model, a vector store, a document compressor, a key-value store, a chat message history. Any other
            runnable is taped as a whole: nothing inside it runs on replay.

    Raises:
        ConfigurationError: If `obj` is nothing of that, or keeps its state where a taped one cannot share it.
    """
    for cls, tape_it in _OTHERS:
        if isinstance(obj, cls):
            return tape_it(obj)  # type: ignore[no-any-return]
    if isinstance(obj, Runnable):
        taped: Any = tape_within(obj, _tape_leaf)
        return taped if taped is not None else tape_runnable(obj)  # type: ignore[return-value]
    raise ConfigurationError(
        f"cannot tape {type(obj).__module__}.{type(obj).__qualname__}: expected a model, a tool, a retriever, an "
        "embedding model, a store, a compressor, a history or another runnable of LangChain\n"
        "  tape its parts instead, open a session with ambient=True, which tapes every part it meets, or mark what "
        "reaches outside with agenttape_core.boundary"
    )


def _tape_leaf(obj: Any) -> Any:
    if isinstance(obj, TapedRunnable):
        return obj
    if is_configurable_model(obj):
        return tape_configurable_model(obj)
    return next((tape_it(obj) for cls, tape_it in _RUNNABLES if isinstance(obj, cls)), None)
