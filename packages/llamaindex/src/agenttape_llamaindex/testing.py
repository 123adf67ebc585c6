"""For tests of whole runs: all that LlamaIndex reports to observers, for raw comparison."""

from __future__ import annotations

import inspect
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from llama_index.core import Settings
from llama_index.core.callbacks import CallbackManager
from llama_index.core.callbacks.base_handler import BaseCallbackHandler
from llama_index.core.callbacks.schema import CBEventType
from llama_index.core.instrumentation.event_handlers import BaseEventHandler
from llama_index.core.instrumentation.events import BaseEvent
from llama_index.core.instrumentation.span import BaseSpan
from llama_index.core.instrumentation.span_handlers import BaseSpanHandler
from llama_index_instrumentation import get_dispatcher
from pydantic import PrivateAttr

from agenttape_core.testing import Capture

__all__ = ["capturing"]


@contextmanager
def capturing(capture: Capture) -> Iterator[None]:
    """Take down all that LlamaIndex reports until the end of the block.

    The part `events` has every event of the instrumentation, the part `spans` the begin and the end of every span with
    its arguments and its result, the part `callbacks` the arguments of the older callbacks in `Settings`.

    Args:
        capture: What they are taken down in.
    """
    root, before = get_dispatcher(), Settings.callback_manager
    events, spans = _Events(capture), _Spans(capture)
    _ = Settings.transformations  # made once in a process, and keep the callbacks of that moment
    root.event_handlers.append(events)
    root.span_handlers.append(spans)
    Settings.callback_manager = CallbackManager([_Callbacks(capture)])
    try:
        yield
    finally:
        Settings.callback_manager = before
        # By identity: handlers without state of their own are equal.
        root.event_handlers[:] = [each for each in root.event_handlers if each is not events]
        root.span_handlers[:] = [each for each in root.span_handlers if each is not spans]


class _Events(BaseEventHandler):
    _capture: Capture = PrivateAttr()

    def __init__(self, capture: Capture) -> None:
        super().__init__()
        self._capture = capture

    def handle(self, event: BaseEvent, **_: Any) -> None:
        """Take an event down."""
        self._capture.add("events", event)


class _Spans(BaseSpanHandler[BaseSpan]):
    _capture: Capture = PrivateAttr()

    def __init__(self, capture: Capture) -> None:
        super().__init__()
        self._capture = capture

    def new_span(
        self,
        id_: str,
        bound_args: inspect.BoundArguments,
        instance: Any = None,
        parent_span_id: str | None = None,
        tags: dict[str, Any] | None = None,
        **_: Any,
    ) -> BaseSpan:
        """Take the begin of a span down."""
        given = dict(bound_args.arguments)
        self._capture.add("spans", ["begin", id_, parent_span_id, type(instance), given, tags])
        return BaseSpan(id_=id_)

    def prepare_to_exit_span(
        self, id_: str, bound_args: inspect.BoundArguments, instance: Any = None, result: Any = None, **_: Any
    ) -> BaseSpan | None:
        """Take the end of a span down."""
        self._capture.add("spans", ["end", id_, result])
        return self.open_spans.get(id_)

    def prepare_to_drop_span(
        self, id_: str, bound_args: inspect.BoundArguments, instance: Any = None, err: Any = None, **_: Any
    ) -> BaseSpan | None:
        """Take the end of a span that raised down."""
        self._capture.add("spans", ["drop", id_, err])
        return self.open_spans.get(id_)


class _Callbacks(BaseCallbackHandler):
    def __init__(self, capture: Capture) -> None:
        super().__init__(event_starts_to_ignore=[], event_ends_to_ignore=[])
        self._capture = capture

    def on_event_start(
        self,
        event_type: CBEventType,
        payload: dict[str, Any] | None = None,
        event_id: str = "",
        parent_id: str = "",
        **_: Any,
    ) -> str:
        """Take the begin of an event down."""
        self._capture.add("callbacks", ["start", event_type, event_id, parent_id, payload])
        return event_id

    def on_event_end(
        self, event_type: CBEventType, payload: dict[str, Any] | None = None, event_id: str = "", **_: Any
    ) -> None:
        """Take the end of an event down."""
        self._capture.add("callbacks", ["end", event_type, event_id, payload])

    def start_trace(self, trace_id: str | None = None) -> None:
        """Take the begin of a trace down."""
        self._capture.add("callbacks", ["start trace", trace_id])

    def end_trace(self, trace_id: str | None = None, trace_map: dict[str, list[str]] | None = None) -> None:
        """Take the end of a trace down, and its tree."""
        self._capture.add("callbacks", ["end trace", trace_id, trace_map])
