"""LlamaIndex's spans as positions of AgentTape: the address of a call is the path of spans around it.

The framework begins a span for each of its methods that matter: a query, a retrieval, a call of a model, a workflow and
each step of it. A handler follows them.
"""

from __future__ import annotations

import inspect
from dataclasses import dataclass
from typing import Any

from llama_index.core.base.base_query_engine import BaseQueryEngine
from llama_index.core.base.llms.base import BaseLLM
from llama_index.core.chat_engine.types import BaseChatEngine
from workflows import Workflow
from workflows.events import Event

from agenttape_core.integration import (
    Position,
    RecordedRuns,
    Session,
    Slot,
    current_session,
    executing,
    here,
    plain_value,
    register_position,
)
from agenttape_core.integration.threads import task_branch
from agenttape_llamaindex._compat import current_span_id, span_name
from agenttape_llamaindex.span_listeners import SpanListener

LEAVES = {
    "chat": "chat",
    "achat": "chat",
    "stream_chat": "chat",
    "astream_chat": "chat",
    "complete": "complete",
    "acomplete": "complete",
    "stream_complete": "complete",
    "astream_complete": "complete",
}
"""The leaf methods of LLMs with their names in addresses: methods that make the same request have one name."""

Spans = dict[str, "Span"]

_RUNS: Slot[RecordedRuns] = Slot(RecordedRuns)


@dataclass(slots=True)
class Span:
    """A span that has begun."""

    position: Position
    instance: Any  # the object whose method it is, while the method runs
    is_run: bool  # whether it is the run of a workflow, whose steps are its children


SPANS: Slot[Spans] = Slot(lambda _: {})
"""The spans that have begun in a session, by id."""


def spans_of(session: Session) -> Spans:
    """Return the spans that have begun in a session, by id."""
    return session.extension(SPANS)


def current_span(session: Session) -> Span | None:
    """Return the span that the caller's code runs in."""
    span_id = current_span_id()
    return spans_of(session).get(span_id) if span_id is not None else None


def own_span(session: Session, owner: Any, method: str) -> Position | None:
    """Return the position of the span that the framework has begun for this very call, if it has.

    `owner` is the object that is called.
    """
    span_id = current_span_id()
    span = spans_of(session).get(span_id) if span_id is not None else None
    if span_id is None or span is None or span.instance is not owner:
        return None
    return span.position if span_name(span_id).endswith(f".{method}") else None


class SpanTree(SpanListener):
    """Follows the spans of all sessions of this process, in whatever thread or task they happen."""

    @classmethod
    def class_name(cls) -> str:
        """Return the name that the framework shows."""
        return "AgentTapeSpanTree"

    def began(
        self, id_: str, bound: inspect.BoundArguments, instance: Any, parent_id: str | None, tags: dict[str, Any] | None
    ) -> None:
        """Begin a span."""
        session = current_session()
        if session is None:
            return
        spans = spans_of(session)
        parent = spans.get(parent_id) if parent_id is not None else None
        above = _above(session, parent)
        if above is session.root and session.first_input.is_wanted and is_program(instance) and executing() is None:
            session.first_input.note(plain_value(input_of(bound, instance)), method=span_name(id_).rpartition(".")[2])
        branch = task_branch(above)
        label = span_label(span_name(id_), instance)
        if parent is not None and parent.is_run and instance is None:
            position = above.child(label)  # a step: the n-th of its name, in whichever task the workflow runs it
            position.branch = branch
        elif above is session.root and isinstance(instance, Workflow):
            given = readable(bound.arguments.get("start_event"))
            position = session.extension(_RUNS).begin(lambda: above.child(label, branch=branch), given)
        else:
            position = above.child(label, branch=branch)
        spans[id_] = Span(position, instance, isinstance(instance, Workflow))

    def returned(self, id_: str, result: Any) -> None:
        """End a span; its position stays, for the stream that it may have returned."""
        _ended(id_)

    def failed(self, id_: str, error: BaseException | None) -> None:
        """End a span that raised."""
        _ended(id_)


def is_program(instance: Any) -> bool:
    """Return True for an object whose methods a user calls to run a program: a workflow, a query or chat engine."""
    return isinstance(instance, Workflow | BaseQueryEngine | BaseChatEngine)


def input_of(bound: inspect.BoundArguments, instance: Any) -> Any:
    """Return the input of an outermost method; for a workflow, that's the event that it begins with."""
    arguments = bound.arguments
    return readable(arguments.get("start_event")) if isinstance(instance, Workflow) else dict(arguments)


def readable(value: Any) -> Any:
    """Return a value as a step shows it: an event as its class and its fields."""
    if not isinstance(value, Event):
        return value
    fields = value.model_dump()
    return {"event": type(value).__name__, **fields.pop("_data", {}), **fields}


def _ended(id_: str) -> None:
    session = current_session()
    span = spans_of(session).get(id_) if session is not None else None
    if span is not None:
        span.instance = None


def _above(session: Session, parent: Span | None) -> Position:
    """Return the position above a new span: the span around it, or the call or the place of another framework."""
    above = parent.position if parent is not None else here(session)
    outer = executing()
    if outer is not None and outer.session is session and len(outer.position.order) > len(above.order):
        return outer.position
    return above


def span_label(name: str, instance: Any) -> str:
    """Return the name of a span in addresses, which is the same for a method and its asynchronous form."""
    cls, dot, method = name.rpartition(".")
    if not dot:
        return name
    if isinstance(instance, BaseLLM) and method in LEAVES:
        return f"{cls}.{LEAVES[method]}"
    plain = f"_{method[2:]}" if method.startswith("_a") else method.removeprefix("a")
    return f"{cls}.{plain}" if instance is not None and plain != method and hasattr(type(instance), plain) else name


def _place(session: Session) -> Position | None:
    """Return the position of the innermost span whose code is executing here."""
    span = current_span(session)
    return span.position if span is not None else None


register_position(_place)
