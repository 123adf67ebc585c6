"""`tape`: one function for everything that can be taped."""

from __future__ import annotations

import functools
import importlib
import sys
from collections.abc import Callable, Iterable, Iterator
from typing import Any, TypeVar

from langchain_core.runnables import Runnable
from langchain_core.runnables.base import RunnableBindingBase, RunnableEachBase

from agenttape_core.errors import ConfigurationError
from agenttape_core.integration import Family
from agenttape_core.integration.alias import alias_class, alias_of
from agenttape_langchain._compat import configurable_model_class, configured_model
from agenttape_langchain.chat_models import CHAT_MODELS
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


# -- Tape the configurable models of `init_chat_model`, which make a model of the configuration for each call.

_OPERATIONS = frozenset({"bind_tools", "with_structured_output"})
"""Operations that a configurable model queues until it has a model."""


def is_configurable_model(value: object) -> bool:
    """Return whether an object is a configurable model."""
    cls = configurable_model_class()
    return cls is not None and isinstance(value, cls)


def tape_configurable_model(model: Any) -> Any:
    """Return the taped alias of a configurable model: every model that it makes is taped."""
    return alias_of(model, _configurable_alias)


@functools.cache
def _configurable_alias(cls: Any) -> type:
    def _model(self: Any, config: Any = None) -> Any:
        return configured_model(cls, self, config, CHAT_MODELS.tape)

    def with_config(self: Any, config: Any = None, **kwargs: Any) -> Any:
        return tape_configurable_model(cls.with_config(self, config, **kwargs))

    def __getattr__(self: Any, name: str) -> Any:  # noqa: N807 - it becomes the method of that name
        value = cls.__getattr__(self, name)
        return _taping(value) if name in _OPERATIONS else value

    methods = {"_model": _model, "with_config": with_config, "__getattr__": __getattr__}
    return alias_class(cls, methods, _configurable_alias)


def _taping(operation: Callable[..., Any]) -> Callable[..., Any]:
    """Wrap an operation, which returns another configurable model."""

    @functools.wraps(operation)
    def taping(*args: Any, **kwargs: Any) -> Any:
        return tape_configurable_model(operation(*args, **kwargs))

    return taping


# -- Tape models, tools and retrievers inside the runnables that LangChain wraps around them.

TapeLeaf = Callable[[Any], Any]
"""Tapes a model, a tool or a retriever; returns None for anything else."""


def tape_within(runnable: Runnable[Any, Any], tape_leaf: TapeLeaf) -> Any:
    """Return a runnable with the model, tool or retriever inside it taped; None if there is none in its core.

    Args:
        runnable: A leaf, or one inside `bind`, `with_config`, `with_retry`, `map`, `with_fallbacks`,
            `configurable_fields`, `configurable_alternatives`, in any order.
        tape_leaf: Tapes a leaf.
    """
    # Imported here, as a session needs none of them: LangChain imports them late, too.
    from langchain_core.runnables.configurable import DynamicRunnable, RunnableConfigurableAlternatives
    from langchain_core.runnables.fallbacks import RunnableWithFallbacks

    within = functools.partial(tape_within, tape_leaf=tape_leaf)
    if (leaf := tape_leaf(runnable)) is not None:
        return leaf
    if isinstance(runnable, RunnableBindingBase | RunnableEachBase):
        return _with(runnable, bound=within(runnable.bound))
    if isinstance(runnable, RunnableConfigurableAlternatives):
        alternatives = {key: _alternative(each, within) for key, each in runnable.alternatives.items()}
        return _with(runnable, default=within(runnable.default), alternatives=alternatives)
    if isinstance(runnable, DynamicRunnable):
        return _with(runnable, default=within(runnable.default))
    if isinstance(runnable, RunnableWithFallbacks):
        fallbacks = [within(fallback) or fallback for fallback in runnable.fallbacks]
        return _with(runnable, runnable=within(runnable.runnable), fallbacks=fallbacks)
    return None


def _with(whole: Any, /, **parts: Any) -> Any:
    """Return a copy of a runnable with other parts; None if a part is None."""
    return None if any(part is None for part in parts.values()) else whole.model_copy(update=parts)


def _alternative(alternative: Any, within: Callable[[Any], Any]) -> Any:
    """Return an alternative with the leaf inside it taped, even if it is made only when it is chosen."""
    if isinstance(alternative, Runnable):
        return within(alternative) or alternative
    return lambda: _alternative(alternative(), within)
