"""The part that runs without LlamaIndex, or before it's known to be installed; it doesn't import it eagerly.

The readers of recorded streams, for tools: the command line need not import LlamaIndex. A chunk is the difference of a
response from the one before, as `agenttape_llamaindex.codec.streams` writes it.
"""

from __future__ import annotations

import importlib
import json
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from importlib.util import find_spec
from typing import Any

from agenttape_core.readers import CallPiece, Drawing, EventType, Plain, advanced, register_drawing, register_reader

_OF_WORKFLOWS = "workflows.runtime.control_loop"
_TOOL_CALLS = ("changes", "message", "$in", "tool_calls", "$items")


def register() -> None:
    """Register the readers, and the drawing of workflows."""
    register_drawing(_drawn)
    chat = partial(_join, "$chat_response", {"message": {"role": "assistant"}}, ("message", "content"))
    register_reader("$chat_chunk", join=chat, calls=_calls)
    register_reader("$text_chunk", join=partial(_join, "$completion_response", {}, ("text",)))


def _drawn(program: Any) -> Drawing | None:
    """Return the steps of a workflow, or of a class of workflows, and the types of events that they pass on."""
    workflow = getattr(sys.modules.get("workflows"), "Workflow", None)
    if workflow is None or not (
        issubclass(program, workflow) if isinstance(program, type) else isinstance(program, workflow)
    ):
        return None
    graph = importlib.import_module("workflows.representation").get_workflow_representation(program)
    steps = tuple(node.id for node in graph.nodes if node.node_type == "step")
    edges = [(edge.source, edge.target) for edge in graph.edges]
    events = [
        EventType(
            node.event_type,
            tuple(source for source, target in edges if target == node.id and source in steps),
            tuple(target for source, target in edges if source == node.id and target in steps),
        )
        for node in graph.nodes
        if node.node_type == "event"
    ]
    return Drawing(steps, events=tuple(events))


def _join(tag: str, start: Mapping[str, Plain], text: tuple[str, ...], bodies: Sequence[Mapping[str, Plain]]) -> Plain:
    """Return the response that a stream amounts to; `text` is the path of the text that `content` grows."""
    response = dict(start)
    for body in bodies:
        response = advanced(response, dict(body), text)
    return {tag: response}


def _calls(body: Mapping[str, Plain]) -> Iterator[CallPiece]:
    for key, change in _within(body, _TOOL_CALLS).items():
        new = _within(change, ("$in",)) or _within(change, ("$to",))
        args = new.get("args")
        if isinstance(args, Mapping):
            args = args.get("$to", args)
        text = args if isinstance(args, str) or args is None else json.dumps(args, ensure_ascii=False)
        yield CallPiece(key.removeprefix("#"), _text(new, "name"), _text(new, "id"), text)


def _text(change: Mapping[str, Any], key: str) -> str | None:
    value = change.get(key)
    return value if isinstance(value, str) else None


def _within(value: Any, path: Sequence[str]) -> Mapping[str, Any]:
    for key in path:
        value = value.get(key) if isinstance(value, Mapping) else None
    return value if isinstance(value, Mapping) else {}


@contextmanager
def workflows() -> Iterator[None]:
    """Connect LlamaIndex even in a program that only imports its workflows: `from workflows import Workflow`.

    Core connects it as soon as `llama_index` is imported. A program may have its own package that is called
    `workflows`; that one triggers no import.
    """
    if "llama_index" not in sys.modules and _is_of_llamaindex():
        importlib.import_module("llama_index")
    yield


def _is_of_llamaindex() -> bool:
    try:
        return find_spec(_OF_WORKFLOWS) is not None
    except (ImportError, ValueError):  # it has no such parts
        return False
