"""Tape models, tools and retrievers inside the runnables that LangChain wraps around them."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

from langchain_core.runnables import Runnable
from langchain_core.runnables.base import RunnableBindingBase, RunnableEachBase

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
