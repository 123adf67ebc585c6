"""Scripts: generators of actions on graphs, savers and sessions.

A script yields actions and is sent their results, or their errors. One driver carries them out synchronously, another
asynchronously, so each procedure is written once.
"""

from __future__ import annotations

from collections.abc import Generator
from dataclasses import dataclass
from typing import Any, TypeAlias, TypeVar

from langchain_core.runnables import RunnableConfig
from langgraph.checkpoint.base import BaseCheckpointSaver
from langgraph.pregel import Pregel

from agenttape_core import use_cassette
from agenttape_core.integration.cassettes import deriving

T = TypeVar("T")
Graph = Pregel[Any, Any, Any, Any]


@dataclass(frozen=True, slots=True)
class Enter:
    """Open a session. It is closed with the error if the script is left by one."""

    block: use_cassette | deriving


@dataclass(frozen=True, slots=True)
class Leave:
    """Close the sessions that were opened."""


@dataclass(frozen=True, slots=True)
class ListCheckpoints:
    """List the checkpoints of a thread."""

    saver: BaseCheckpointSaver[Any]
    config: RunnableConfig


@dataclass(frozen=True, slots=True)
class Invoke:
    """Run a graph until it ends, stops to ask, or is stopped."""

    graph: Graph
    input: Any
    config: RunnableConfig
    context: Any


@dataclass(frozen=True, slots=True)
class Update:
    """Change the state of a graph, or of a subgraph whose namespace is in the config."""

    graph: Graph
    config: RunnableConfig
    values: Any
    as_node: str | None


@dataclass(frozen=True, slots=True)
class GetState:
    """Get the state of a graph."""

    graph: Graph
    config: RunnableConfig


Action = Enter | Leave | ListCheckpoints | Invoke | Update | GetState
Script: TypeAlias = Generator[Action, Any, T]
"""A procedure that returns a `T`."""
