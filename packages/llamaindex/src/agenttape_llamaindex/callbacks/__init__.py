"""Observe a run through LlamaIndex's instrumentation; what was observed can be replayed."""

from __future__ import annotations

import inspect
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from llama_index.core.instrumentation.events.embedding import EmbeddingEndEvent, SparseEmbeddingEndEvent
from llama_index.core.instrumentation.events.exception import ExceptionEvent
from llama_index.core.instrumentation.events.llm import (
    LLMChatEndEvent,
    LLMChatInProgressEvent,
    LLMCompletionEndEvent,
    LLMCompletionInProgressEvent,
)
from llama_index_instrumentation import get_dispatcher
from llama_index_instrumentation.base import BaseEvent
from llama_index_instrumentation.dispatcher import Dispatcher
from llama_index_instrumentation.event_handlers import BaseEventHandler
from llama_index_instrumentation.span_handlers import NullSpanHandler
from pydantic import PrivateAttr

from agenttape_core import Rule
from agenttape_llamaindex.callbacks.observing import Observing
from agenttape_llamaindex.effect_hooks import noting_effects
from agenttape_llamaindex.workflows import hear_ticks, unhear_ticks

_OWN = ("llama_index.core.", "llama_index_instrumentation.", "workflows.")
"""Modules whose events tell what spans tell already."""


class TapeSpanHandler(NullSpanHandler):
    """Tells an observation of spans; `TapeEventHandler.span_handler` is one.

    Args:
        observing: What is told.
    """

    _observing: Observing = PrivateAttr()

    def __init__(self, observing: Observing) -> None:
        super().__init__()
        self._observing = observing

    @classmethod
    def class_name(cls) -> str:
        """Return the name that the framework shows."""
        return "TapeSpanHandler"

    def span_enter(
        self,
        id_: str,
        bound_args: inspect.BoundArguments,
        instance: Any | None = None,
        parent_id: str | None = None,
        tags: dict[str, Any] | None = None,
        **kwargs: Any,
    ) -> None:
        """Note that a span begins."""
        self._observing.told(lambda: self._observing.began(id_, bound_args, instance, parent_id, tags))

    def span_exit(
        self,
        id_: str,
        bound_args: inspect.BoundArguments,
        instance: Any | None = None,
        result: Any | None = None,
        **kwargs: Any,
    ) -> None:
        """Record a span that has ended."""
        self._observing.told(lambda: self._observing.returned(id_, result))

    def span_drop(
        self,
        id_: str,
        bound_args: inspect.BoundArguments,
        instance: Any | None = None,
        err: BaseException | None = None,
        **kwargs: Any,
    ) -> None:
        """Record a span that raised."""
        self._observing.told(lambda: self._observing.failed(id_, err))

    def close(self) -> None:
        """Write what was observed: the dispatcher is shutting down."""
        self._observing.flush()


class TapeEventHandler(BaseEventHandler):
    """Writes the tree of every run that it observes to a cassette, which can be replayed.

    Calls of LLMs, embedding models, retrievers, postprocessors and tools become interactions, as a session would have
    recorded them; all other spans become steps, and so do the ticks of workflows. The handler only observes: it never
    changes or breaks a run. What it could not record is logged and kept in `errors`. One handler may observe many runs,
    also at once, in threads and in tasks; several handlers may observe one.

        with TapeEventHandler("runs/incident-417.jsonl"):
            answer = query_engine.query("Who pays?")

    A journal beside the cassette holds everything that has ended, which a crash does not lose
    (`agenttape_core.recover`). The cassette itself is written when no observed span is open: it is there after the
    outermost call has returned, and its stream has been read. A file of more than 64 KiB is written when there is much
    to add, at the latest by `flush`, by `close`, or at the end of the program.

    Args:
        path: The cassette: `.yaml` or `.jsonl`, also with `.gz`, or a bare name under the cassette folder. What is
            there already is replaced.
        redact: Rules beyond the built-in ones, or `False` to keep secrets as they are.
        tags: Words for the header.

    Raises:
        CassetteLockedError: If another handler or session is recording to the cassette at this moment.
        ConfigurationError: If the path names no file, or a rule or setting is not valid.
    """

    _observing: Observing = PrivateAttr()
    _span_handler: TapeSpanHandler = PrivateAttr()
    _dispatchers: list[Dispatcher] = PrivateAttr(default_factory=list)
    _noting: ExitStack = PrivateAttr(default_factory=ExitStack)

    def __init__(self, path: str | Path, *, redact: bool | Sequence[Rule] = True, tags: Sequence[str] = ()) -> None:
        super().__init__()
        self._observing = Observing(path, redact=redact, tags=tags)
        self._span_handler = TapeSpanHandler(self._observing)

    @classmethod
    def class_name(cls) -> str:
        """Return the name that the framework shows."""
        return "TapeEventHandler"

    @property
    def path(self) -> Path | str:
        """The cassette."""
        return self._observing.path

    @property
    def errors(self) -> list[Exception]:
        """What could not be recorded."""
        return self._observing.errors

    @property
    def span_handler(self) -> TapeSpanHandler:
        """The part that follows spans, for who adds both to a dispatcher by hand."""
        return self._span_handler

    # -- being told --------------------------------------------------------------------------------------------

    def attach(self, dispatcher: Dispatcher | None = None) -> Self:
        """Observe what a dispatcher tells, until `detach`. Doing it twice is the same as once.

        Args:
            dispatcher: The dispatcher; by default the root, which hears of everything.
        """
        dispatcher = dispatcher or get_dispatcher()
        if not any(dispatcher is other for other in self._dispatchers):
            if not self._dispatchers:
                hear_ticks(self._observing)
                self._noting.enter_context(noting_effects())
            self._dispatchers.append(dispatcher)
        if not any(handler is self for handler in dispatcher.event_handlers):
            dispatcher.add_event_handler(self)
        if not any(handler is self._span_handler for handler in dispatcher.span_handlers):
            dispatcher.add_span_handler(self._span_handler)
        return self

    def detach(self, dispatcher: Dispatcher | None = None) -> None:
        """Observe a dispatcher no more; what goes on is cut off by `close`.

        Args:
            dispatcher: The dispatcher; by default all that were attached to.
        """
        for each in [dispatcher] if dispatcher is not None else list(self._dispatchers):
            each.event_handlers[:] = [handler for handler in each.event_handlers if handler is not self]
            each.span_handlers[:] = [handler for handler in each.span_handlers if handler is not self._span_handler]
            if any(each is other for other in self._dispatchers):
                self._dispatchers[:] = [other for other in self._dispatchers if other is not each]
                if not self._dispatchers:
                    unhear_ticks(self._observing)
                    self._noting.close()

    def __enter__(self) -> Self:
        return self.attach()

    def __exit__(
        self, exc_type: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.detach()
        self.close()

    def flush(self) -> None:
        """Write all that was observed to the cassette: now, or when the observed spans that are open have ended.

        Raises:
            CassetteError: If it cannot be written; the message says where the recording is kept.
        """
        self._observing.flush()

    def close(self) -> None:
        """Write all that was observed to the cassette, and observe no more. Spans that are open are cut off here.

        Raises:
            CassetteError: If it cannot be written; the message says where the recording is kept.
        """
        self.detach()
        self._observing.close()

    def handle(self, event: BaseEvent, **kwargs: Any) -> None:
        """Note an event."""
        self._observing.told(lambda: self._heard(event))

    def _heard(self, event: BaseEvent) -> None:
        observing, span_id = self._observing, event.span_id
        if isinstance(event, LLMChatInProgressEvent | LLMCompletionInProgressEvent):
            observing.arrived(span_id, event.response)
        elif isinstance(event, LLMChatEndEvent | LLMCompletionEndEvent):
            observing.stream_ended(span_id)
        elif isinstance(event, EmbeddingEndEvent | SparseEmbeddingEndEvent):
            observing.embedded(span_id, event.chunks, event.embeddings)
        elif isinstance(event, ExceptionEvent):
            observing.stream_ended(span_id, event.exception)
        elif not type(event).__module__.startswith(_OWN):
            observing.happened(span_id, type(event).__name__, event.model_dump())
