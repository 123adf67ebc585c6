"""The interface for frameworks built on LangChain: the parts of this package that their integrations need."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from agenttape_langchain._compat import current_config, in_config
from agenttape_langchain.address import is_graph, placement
from agenttape_langchain.effects import (
    Effects,
    NoteEffect,
    aapply,
    apply,
    noting_effects,
    register_effects,
    request_of_run,
)
from agenttape_langchain.graphs import register_tape
from agenttape_langchain.inputs import plain_without_run_ids
from agenttape_langchain.requests import CALL, MEMORY, method_body, runnable_body
from agenttape_langchain.run_tree import ChainFacts, Run
from agenttape_langchain.session_tree import position_of, register_follower
from agenttape_langchain.tape import tape_within

if TYPE_CHECKING:
    from agenttape_langchain.callbacks.runs import RAISED, ObservedRun

__all__ = [
    "CALL",
    "MEMORY",
    "RAISED",
    "ChainFacts",
    "Effects",
    "NoteEffect",
    "ObservedRun",
    "Run",
    "aapply",
    "apply",
    "current_config",
    "in_config",
    "is_graph",
    "method_body",
    "noting_effects",
    "placement",
    "plain_without_run_ids",
    "position_of",
    "register_effects",
    "register_follower",
    "register_tape",
    "request_of_run",
    "runnable_body",
    "tape_within",
]


def __getattr__(name: str) -> Any:
    """Import what only sessions need that keep the steps of a run."""
    if name not in ("ObservedRun", "RAISED"):
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from agenttape_langchain.callbacks import runs

    return getattr(runs, name)
