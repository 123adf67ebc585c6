"""What a call tells LlamaIndex's instrumentation and its older callbacks."""

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
class Heard:
    """What was heard while somebody listened.

    Args:
        events: The events, in order.
        spans: How each span ended, by its id, in the order in which they began.
    """

    events: list[BaseEvent] = field(default_factory=list)
    spans: dict[str, SpanEnd] = field(default_factory=dict)

    def named(self, *families: str) -> list[BaseEvent]:
        """Return the events whose class name begins with one of some words."""
        return [event for event in self.events if type(event).__name__.startswith(families)]

    def shape(self, *families: str) -> list[str]:
        """Return the class names of those events."""
        return [type(event).__name__ for event in self.named(*families)]


class _EventEar(BaseEventHandler):
    _heard: Heard = PrivateAttr()

    def __init__(self, heard: Heard) -> None:
        super().__init__()
        self._heard = heard

    def handle(self, event: BaseEvent, **_: Any) -> None:
        """Keep an event."""
        self._heard.events.append(event)


class _SpanEar(BaseSpanHandler[BaseSpan]):
    _heard: Heard = PrivateAttr()

    def __init__(self, heard: Heard) -> None:
        super().__init__()
        self._heard = heard

    def new_span(
        self, id_: str, bound_args: inspect.BoundArguments, instance: Any = None, *_: Any, **__: Any
    ) -> BaseSpan:
        """Keep that a span began."""
        self._heard.spans[id_] = "open"
        return BaseSpan(id_=id_)

    def prepare_to_exit_span(self, id_: str, bound_args: inspect.BoundArguments, *_: Any, **__: Any) -> BaseSpan | None:
        """Keep that it ended."""
        self._heard.spans[id_] = "exited"
        return self.open_spans.get(id_)

    def prepare_to_drop_span(self, id_: str, bound_args: inspect.BoundArguments, *_: Any, **__: Any) -> BaseSpan | None:
        """Keep that it was broken off."""
        self._heard.spans[id_] = "dropped"
        return self.open_spans.get(id_)


@contextmanager
def listening() -> Iterator[Heard]:
    """Hear all events and spans of this process until the end of the block."""
    heard, root = Heard(), get_dispatcher()
    ears = _EventEar(heard), _SpanEar(heard)
    root.event_handlers.append(ears[0])
    root.span_handlers.append(ears[1])
    try:
        yield heard
    finally:
        # By identity: handlers without state of their own are equal.
        root.event_handlers[:] = [ear for ear in root.event_handlers if ear is not ears[0]]
        root.span_handlers[:] = [ear for ear in root.span_handlers if ear is not ears[1]]


class CallbackEar(BaseCallbackHandler):
    """Hears the older callbacks.

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
        """Keep that an event began."""
        self.begun.append((event_id, event_type))
        return event_id

    def on_event_end(
        self,
        event_type: CBEventType,
        payload: dict[str, Any] | None = None,
        event_id: str = "",
        **_: Any,
    ) -> None:
        """Keep that it ended."""
        self.ended.append(event_id)

    def start_trace(self, trace_id: str | None = None) -> None:
        """Hear nothing of traces."""

    def end_trace(self, trace_id: str | None = None, trace_map: dict[str, list[str]] | None = None) -> None:
        """Hear nothing of traces."""
