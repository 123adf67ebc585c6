"""Listeners to LlamaIndex's instrumentation and to its older callbacks."""

from __future__ import annotations

import inspect
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, Literal

from llama_index.core.callbacks.base_handler import BaseCallbackHandler
from llama_index.core.callbacks.schema import CBEventType
from llama_index.core.instrumentation.event_handlers import BaseEventHandler
from llama_index.core.instrumentation.events import BaseEvent
from llama_index.core.instrumentation.span import BaseSpan
from llama_index.core.instrumentation.span_handlers import BaseSpanHandler
from llama_index_instrumentation import get_dispatcher
from pydantic import PrivateAttr

SpanEnd = Literal["open", "exited", "dropped"]


@dataclass
class Reports:
    """The reports of the instrumentation while a block ran.

    Args:
        events: The events, in order.
        spans: The ends of the spans by their ids, in the order in which they began.
    """

    events: list[BaseEvent] = field(default_factory=list)
    spans: dict[str, SpanEnd] = field(default_factory=dict)

    def named(self, *families: str) -> list[BaseEvent]:
        """Return the events whose class name begins with one of some words."""
        return [event for event in self.events if type(event).__name__.startswith(families)]

    def shape(self, *families: str) -> list[str]:
        """Return the class names of those events."""
        return [type(event).__name__ for event in self.named(*families)]


class _EventListener(BaseEventHandler):
    _reports: Reports = PrivateAttr()

    def __init__(self, reports: Reports) -> None:
        super().__init__()
        self._reports = reports

    def handle(self, event: BaseEvent, **_: Any) -> None:
        """Keep an event."""
        self._reports.events.append(event)


class _SpanListener(BaseSpanHandler[BaseSpan]):
    _reports: Reports = PrivateAttr()

    def __init__(self, reports: Reports) -> None:
        super().__init__()
        self._reports = reports

    def new_span(
        self, id_: str, bound_args: inspect.BoundArguments, instance: Any = None, *_: Any, **__: Any
    ) -> BaseSpan:
        """Keep the beginning of a span."""
        self._reports.spans[id_] = "open"
        return BaseSpan(id_=id_)

    def prepare_to_exit_span(self, id_: str, bound_args: inspect.BoundArguments, *_: Any, **__: Any) -> BaseSpan | None:
        """Keep the end of a span."""
        self._reports.spans[id_] = "exited"
        return self.open_spans.get(id_)

    def prepare_to_drop_span(self, id_: str, bound_args: inspect.BoundArguments, *_: Any, **__: Any) -> BaseSpan | None:
        """Keep the end of a span that raised."""
        self._reports.spans[id_] = "dropped"
        return self.open_spans.get(id_)


@contextmanager
def listening() -> Iterator[Reports]:
    """Receive all events and spans of this process until the end of the block."""
    reports, root = Reports(), get_dispatcher()
    listeners = _EventListener(reports), _SpanListener(reports)
    root.event_handlers.append(listeners[0])
    root.span_handlers.append(listeners[1])
    try:
        yield reports
    finally:
        # By identity: handlers without state of their own are equal.
        root.event_handlers[:] = [listener for listener in root.event_handlers if listener is not listeners[0]]
        root.span_handlers[:] = [listener for listener in root.span_handlers if listener is not listeners[1]]


class CallbackListener(BaseCallbackHandler):
    """Receives the older callbacks.

    Attributes:
        begun: The ids of the events that began, in order, and their kinds.
        ended: The ids of the events that ended, in order.
    """

    def __init__(self) -> None:
        super().__init__(event_starts_to_ignore=[], event_ends_to_ignore=[])
        self.begun: list[tuple[str, CBEventType]] = []
        self.ended: list[str] = []

    def on_event_start(
        self,
        event_type: CBEventType,
        payload: dict[str, Any] | None = None,
        event_id: str = "",
        parent_id: str = "",
        **_: Any,
    ) -> str:
        """Keep the beginning of an event."""
        self.begun.append((event_id, event_type))
        return event_id

    def on_event_end(
        self,
        event_type: CBEventType,
        payload: dict[str, Any] | None = None,
        event_id: str = "",
        **_: Any,
    ) -> None:
        """Keep the end of an event."""
        self.ended.append(event_id)

    def start_trace(self, trace_id: str | None = None) -> None:
        """Ignore traces."""

    def end_trace(self, trace_id: str | None = None, trace_map: dict[str, list[str]] | None = None) -> None:
        """Ignore traces."""
