"""The boundary of nodes and tasks that are replayed as a whole."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, TypeAlias

from langchain_core.messages import BaseMessage
from langchain_core.runnables import RunnableConfig
from pydantic import BaseModel

from agenttape_core.integration import Session, SessionCall, below
from agenttape_langchain.integration import CALL, current_config, in_config, request_of_run, runnable_body
from agenttape_langgraph._compat import NS_END, context_of, graph_of

ReplayNodes: TypeAlias = Collection[str] | Callable[[str], bool] | bool
"""The nodes or tasks that are replayed as a whole: their names, a function of a name, or `True` for all of them."""

NODE = CALL._replace(kind="node")


def is_replayed(replay_nodes: ReplayNodes, name: str) -> bool:
    """Return true for the name of a node or a task that is replayed as a whole."""
    if isinstance(replay_nodes, bool):
        return replay_nodes
    return bool(replay_nodes(name)) if callable(replay_nodes) else name in replay_nodes


def cross_node(session: Session, name: str, given: Any, config: RunnableConfig | None) -> SessionCall:
    """Begin a node or a task. `given` is its input, a state or arguments; `config` is by default the one in force."""
    config = config if config is not None else current_config() or {}
    name = str.__str__(name)  # it may be a member of an enum
    body = {**runnable_body(given, _options(config)), **request_of_run(config)}
    ids = tuple(_ids(given, graph_of(config)[0]))
    session_call = session.cross(NODE, name, body, position=below(session, name), ids=ids)
    if not session_call.is_replayed:
        session_call.drops_ids = True
    return session_call


def _ids(given: Any, namespace: Sequence[str]) -> Iterator[str]:
    """Yield ids that are not part of the request but may be in the outcome.

    Commands for other graphs are addressed by the ids of the task and of the tasks around it. Messages in the state are
    removed and replaced by their ids.
    """
    for segment in namespace:
        yield segment.rpartition(NS_END)[2]
    for message in _messages(given):
        if message.id is not None:
            yield message.id


def _messages(given: Any) -> Iterator[BaseMessage]:
    if isinstance(given, BaseMessage):
        yield given
    elif isinstance(given, list | tuple):
        for item in given:
            yield from _messages(item)
    elif isinstance(given, Mapping):
        for item in given.values():
            yield from _messages(item)
    elif isinstance(given, BaseModel) or dataclasses.is_dataclass(given):
        yield from _messages(getattr(given, "__dict__", None))


def _options(config: RunnableConfig) -> Mapping[str, Any]:
    context = context_of(config)
    return {} if context is None else {"context": context}


@contextmanager
def with_config(config: RunnableConfig | None) -> Iterator[None]:
    """Put the config of a run in force while inside, even where the framework does not."""
    if config is None:
        yield
        return
    with in_config(config):
        yield
