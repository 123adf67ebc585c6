"""Labels of runs: how LangChain's name, tags and metadata of a run become one step of an address, and back.

LangGraph tags a node's run `graph:step:N` and puts the path of its task into the metadata; a `RunnableParallel` tags
its branches `map:key:K`. These are stable across runs, which run ids are not.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

_NODE = r"(?P<node>[^/]+?)@(?P<step>-?\d+)(?P<sent>(?:\[\d+\])*)(?:#(?P<again>\d+))?"
_PUSHED = "__pregel_push"
"""The first part of the path of a task that was sent by `Send` or called by a function; tasks of edges have another."""
_STRUCTURAL_TAGS = ("graph:step:", "map:key:", "seq:step:", "langsmith:")
"""Tags of the framework itself, which say no more than the address does."""


def run_name(serialized: dict[str, Any] | None, kwargs: dict[str, Any]) -> str:
    """Return the name of a run."""
    return kwargs.get("name") or (serialized or {}).get("name") or "run"


def model_name(serialized: dict[str, Any] | None, kwargs: dict[str, Any]) -> str:
    """Return the class of a model: a run name is for readers of traces, and may hold anything."""
    return (
        (serialized or {}).get("name") or ((serialized or {}).get("id") or [None])[-1] or run_name(serialized, kwargs)
    )


def placement(name: str, tags: Sequence[str], metadata: Mapping[str, Any]) -> dict[str, Any]:
    """Return the arguments of `Position.child` that place a run among its siblings.

    Args:
        name: The name of the run.
        tags: All its tags.
        metadata: All its metadata.
    """
    for tag in tags:
        if tag.startswith("graph:step:"):
            step = int(tag.removeprefix("graph:step:"))
            sent = _send_index(metadata.get("langgraph_path"))
            return {"label": f"{name}@{step}{sent}", "at": step}
        if tag.startswith("map:key:"):
            return {"label": f"{tag.removeprefix('map:key:')}={name}", "group": "map"}
    if metadata.get("langgraph_node") == name and (index := index_of_call(name, metadata)) is not None:
        return {"label": f"{name}[{index}]", "group": "call", "within": index}
    return {"label": name}


def index_of_call(name: str, metadata: Mapping[str, Any]) -> int | None:
    """Return the index of a run among the calls of its caller, if it is a function that is a LangGraph task.

    The path of such a task is `("__pregel_push", (...), 2, True)`; runs inside it inherit the path, but not the name.
    """
    path = metadata.get("langgraph_path")
    if metadata.get("langgraph_node") != name:
        return None
    if not isinstance(path, tuple | list) or len(path) < 3 or path[0] != _PUSHED or path[-1] is not True:  # noqa: PLR2004 - as in the path above
        return None
    return path[2] if type(path[2]) is int else None


def is_graph(metadata: Mapping[str, Any]) -> bool:
    """Return whether an outermost run is a graph of LangGraph, even one that runs no node.

    Args:
        metadata: All its metadata; LangGraph names itself there.
    """
    return "ls_integration" in metadata


def _send_index(path: Any) -> str:
    """Return the numbers of a task path such as `("__pregel_push", 2, False)`; tasks of edges have none."""
    if not isinstance(path, tuple | list) or not path or path[0] != _PUSHED:
        return ""
    return "".join(f"[{part}]" for part in path[1:] if type(part) is int)


def own_tags(tags: Sequence[str], inherited: Sequence[str]) -> list[str]:
    """Return the tags that were meant for a run."""
    return [tag for tag in tags if tag not in inherited and not tag.startswith(_STRUCTURAL_TAGS)]


def place_in_words(address: str) -> str | None:
    """Return the innermost graph node of an address in words, with its step; None outside of graphs."""
    found = next((match for label in reversed(address.split("/")) if (match := re.fullmatch(_NODE, label))), None)
    if found is None:
        return None
    sent = ", Send " + found["sent"].strip("[]").replace("][", ".") if found["sent"] else ""
    again = f", attempt {found['again']}" if found["again"] else ""
    return f'node "{found["node"]}", step {found["step"]}{sent}{again}'
