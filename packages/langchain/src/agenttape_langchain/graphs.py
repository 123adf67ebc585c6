"""Objects of LangGraph, which only its own package can tape.

A compiled graph is a runnable of LangChain. Taped as one, it would be replayed whole: no node would run on replay, and
another model, another prompt or a broken tool inside would go unnoticed.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any

from agenttape_core.errors import ConfigurationError
from agenttape_core.integration import load_integration

_LANGGRAPH = "langgraph"
_tapes: list[Callable[[Any], Any]] = []


def register_tape(tape: Callable[[Any], Any]) -> None:
    """Register how a package tapes the objects of its framework, so that `tape` here hands them on.

    Args:
        tape: Returns the taped object, or `None` for one that is not of its framework.
    """
    _tapes.append(tape)


def load_graphs() -> None:
    """Import the integration of LangGraph where that is in use, so that the effects of tools on graphs are known."""
    if _LANGGRAPH in sys.modules:
        load_integration(_LANGGRAPH)


def tape_graph(obj: Any) -> Any:
    """Return an object of LangGraph as `agenttape_langgraph.tape` does; `None` for any other object.

    Raises `ConfigurationError` if it is a graph, and that package is not installed.
    """
    classes = [cls for cls in type(obj).__mro__ if cls.__module__.partition(".")[0] == _LANGGRAPH]
    if not classes:
        return None
    load_integration(_LANGGRAPH)  # nobody may have imported it
    taped = next((taped for tape in _tapes if (taped := tape(obj)) is not None), None)
    if taped is None and any(cls.__name__ in {"Pregel", "StateGraph"} for cls in classes):
        raise ConfigurationError(
            f"cannot tape {type(obj).__module__}.{type(obj).__qualname__}: expected a model, a tool or another object "
            "of LangChain, found a graph of LangGraph\n"
            "  install the package that tapes graphs: pip install agenttape-langgraph"
        )
    return taped
