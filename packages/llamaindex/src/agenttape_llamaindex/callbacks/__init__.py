"""Observe a run through LlamaIndex's instrumentation; you can replay the result."""

from __future__ import annotations

import functools
import inspect
import weakref
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from pathlib import Path
from types import TracebackType
from typing import Any, Protocol, Self, runtime_checkable

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
from llama_index_instrumentation.event_handlers import BaseEventHandler, NullEventHandler
from pydantic import PrivateAttr

from agenttape_core import Rule
from agenttape_core.errors import ConfigurationError
from agenttape_core.integration.observing import EventsOption, Payload
from agenttape_core.integration.patching import Wrappers
from agenttape_llamaindex.callbacks.observing import SUBMITTERS_NOTED, Observing
from agenttape_llamaindex.effect_hooks import EFFECTS_NOTED
from agenttape_llamaindex.span_listeners import SpanListener
from agenttape_llamaindex.workflows import subscribe, unsubscribe

_OWN = ("llama_index.core.", "llama_index_instrumentation.", "workflows.")
"""The modules whose events report what spans report already."""
_HEARD = (
    LLMChatInProgressEvent,
    LLMCompletionInProgressEvent,
    LLMChatEndEvent,
    LLMCompletionEndEvent,
    EmbeddingEndEvent,
    SparseEmbeddingEndEvent,
    ExceptionEvent,
)
"""The framework's events that report more than spans do."""
_RIGHT_WAY = (
    "  observe a part of the program:  with TapeEventHandler(path): ...\n"
    "  or from now on:                 get_dispatcher().add_event_handler(TapeEventHandler(path))"
)


class TapeSpanHandler(SpanListener):
    """Reports spans to an observation; `TapeEventHandler.span_handler` is one."""

    _observing: Observing = PrivateAttr()

    def __init__(self, observing: Observing) -> None:
        super().__init__()
        self._observing = observing

    @classmethod
    def class_name(cls) -> str:
        """Return the name that the framework shows."""
        return "TapeSpanHandler"

    def began(
        self, id_: str, bound: inspect.BoundArguments, instance: Any, parent_id: str | None, tags: dict[str, Any] | None
    ) -> None:
        """Begin a span."""
        observing = self._observing
        observing.receive(observing.began, id_, bound, instance, parent_id, tags)

    def returned(self, id_: str, result: Any) -> None:
        """Record a span that has ended."""
        observing = self._observing
        observing.receive(observing.returned, id_, result)

    def failed(self, id_: str, error: BaseException | None) -> None:
        """Record a span that raised."""
        observing = self._observing
        observing.receive(observing.failed, id_, error)

    def close(self) -> None:
        """Write everything observed so far: the dispatcher is shutting down."""
        self._observing.flush()


class TapeEventHandler(BaseEventHandler):
    """Records the tree of every run that it observes to a cassette, which can be replayed.

    Calls of LLMs, embedding models, retrievers, postprocessors and tools become interactions, as a session would have
    recorded them; all other spans become steps, and so do the ticks of workflows. The handler only observes: it never
    changes or breaks a run. Its own failures are logged and kept in `errors`. One handler may observe many runs, even
    in parallel, in threads and in tasks; several handlers may observe one.

        with TapeEventHandler("runs/incident-417.jsonl"):
            answer = query_engine.query("Who pays?")

    Added as other handlers are, by `get_dispatcher().add_event_handler(handler)`, it observes until `close`.

    A journal beside the cassette holds everything that has ended, so that a crash does not lose it
    (`agenttape_core.recover`). The cassette itself is written when no observed span is open: it is there after the
    outermost call has returned, and its stream has been read.

    A file of more than 64 KiB is written when there is much to add; one of more than a megabyte only by `flush`, by
    `close`, or at the end of the program, since writing takes memory for the whole file.

    Args:
        path: The cassette: `.yaml` or `.jsonl`, optionally with `.gz`, or a bare name under the cassette folder. An
            existing file is replaced.
        redact: Rules in addition to the built-in ones, or `False` to keep secrets unchanged.
        tags: Words for the header.
        steps: Whether workflows can be stepped through afterwards (`steps_of`, `context_at`, `replay_thread`). If not,
            a turn of an agent costs half as much; of the ticks, the order is recorded that a replay goes by.
        payload: `full`, or `none` to record the shape of calls (kinds, names, places, times, tokens, models) without a
            byte of their contents; that can't be replayed.
        events: Receives an event for each call when it ends, as in `use_cassette`; by default as set in the settings.

    Raises:
        CassetteLockedError: If another handler or session is recording to the cassette at this moment.
        ConfigurationError: If the path names no file, or a rule or setting is not valid.
    """

    _observing: Observing = PrivateAttr()
    _span_handler: TapeSpanHandler = PrivateAttr()
    _dispatchers: list[Dispatcher] = PrivateAttr(default_factory=list)
    _noting: ExitStack = PrivateAttr(default_factory=ExitStack)

    def __init__(
        self,
        path: str | Path,
        *,
        redact: bool | Sequence[Rule] = True,
        tags: Sequence[str] = (),
        steps: bool = True,
        payload: Payload = "full",
        events: EventsOption | None = None,
    ) -> None:
        super().__init__()
        self._observing = Observing(
            path, redact=redact, tags=tags, keeps_steps=steps and payload == "full", payload=payload, events=events
        )
        self._span_handler = TapeSpanHandler(self._observing)
        _attach_when_added(self)

    def __copy__(self) -> Self:  # as for `SpanListener`
        return self

    def __deepcopy__(self, memo: dict[int, Any] | None = None) -> Self:
        return self

    def __reduce__(self) -> tuple[type[NullEventHandler], tuple[()]]:
        return NullEventHandler, ()

    @classmethod
    def class_name(cls) -> str:
        """Return the name that the framework shows."""
        return "TapeEventHandler"

    @property
    def start_trace(self) -> Any:
        """Refuse to be a handler of LlamaIndex's older callbacks.

        Raises:
            ConfigurationError: Always.
        """
        raise ConfigurationError(
            "TapeEventHandler isn't a handler of a CallbackManager: it listens to LlamaIndex's instrumentation, which "
            f"reports more than the older callbacks do\n{_RIGHT_WAY}"
        )

    @property
    def raise_error(self) -> bool:
        """Refuse to be a handler of LangChain's callbacks.

        Raises:
            ConfigurationError: Always.
        """
        raise ConfigurationError(
            "TapeEventHandler observes LlamaIndex and isn't a callback handler of LangChain: give LangChain "
            f"agenttape_langchain.TapeCallbackHandler(path)\n{_RIGHT_WAY}"
        )

    @property
    def run_inline(self) -> bool:
        """Refuse to be a handler of LangChain's callbacks, as `raise_error` does."""
        return self.raise_error

    @property
    def path(self) -> Path | str:
        """The cassette."""
        return self._observing.path

    @property
    def errors(self) -> list[Exception]:
        """The errors of calls that could not be recorded."""
        return self._observing.errors

    @property
    def span_handler(self) -> TapeSpanHandler:
        """The handler of spans, to add both to a dispatcher by hand."""
        return self._span_handler

    # -- attaching --------------------------------------------------------------------------------------------

    def attach(self, dispatcher: Dispatcher | None = None) -> Self:
        """Observe the reports of a dispatcher until `detach`. Attaching twice is attaching once.

        Args:
            dispatcher: The dispatcher; by default the root, which receives everything.
        """
        dispatcher = dispatcher or get_dispatcher()
        if not any(dispatcher is other for other in self._dispatchers):
            if not self._dispatchers:
                subscribe(self._observing)
                self._noting.enter_context(EFFECTS_NOTED)
                self._noting.enter_context(SUBMITTERS_NOTED)
            self._dispatchers.append(dispatcher)
        if not any(handler is self for handler in dispatcher.event_handlers):
            dispatcher.event_handlers.append(self)
        if not any(handler is self._span_handler for handler in dispatcher.span_handlers):
            dispatcher.add_span_handler(self._span_handler)
        return self

    def detach(self, dispatcher: Dispatcher | None = None) -> None:
        """Stop observing a dispatcher. Open spans stay open until `close` cuts them off.

        Args:
            dispatcher: The dispatcher; by default all that it is attached to.
        """
        for each in [dispatcher] if dispatcher is not None else list(self._dispatchers):
            each.event_handlers[:] = [handler for handler in each.event_handlers if handler is not self]
            each.span_handlers[:] = [handler for handler in each.span_handlers if handler is not self._span_handler]
            if any(each is other for other in self._dispatchers):
                self._dispatchers[:] = [other for other in self._dispatchers if other is not each]
                if not self._dispatchers:
                    unsubscribe(self._observing)
                    self._noting.close()

    def __enter__(self) -> Self:
        return self.attach()

    def __exit__(
        self, exc_type: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.detach()
        self.close()

    def flush(self) -> None:
        """Write everything observed so far to the cassette: now, or when the open spans have ended.

        Raises:
            CassetteError: If it cannot be written; the message shows where the recording is kept.
        """
        self._observing.flush()

    def close(self) -> None:
        """Write everything observed to the cassette, and stop observing. Open spans are cut off here.

        Raises:
            CassetteError: If it cannot be written; the message shows where the recording is kept.
        """
        self.detach()
        self._observing.close()

    def handle(self, event: BaseEvent, **kwargs: Any) -> None:
        """Receive an event of the framework or of the program."""
        if _says_something(type(event)) or not self._dispatchers:
            self._observing.receive(self._receive, event)

    def _receive(self, event: BaseEvent) -> None:
        observing, span_id = self._observing, event.span_id
        if not self._dispatchers and not observing.sees_spans:
            self._warn_of_no_spans()
        if isinstance(event, LLMChatInProgressEvent | LLMCompletionInProgressEvent):
            observing.chunk_arrived(span_id, event.response)
        elif isinstance(event, LLMChatEndEvent | LLMCompletionEndEvent):
            observing.stream_ended(span_id)
        elif isinstance(event, EmbeddingEndEvent | SparseEmbeddingEndEvent):
            observing.embedded(span_id, event.chunks, event.embeddings)
        elif isinstance(event, ExceptionEvent):
            observing.stream_ended(span_id, event.exception)
        elif _is_of_program(type(event)):
            observing.event_fired(span_id, type(event).__name__, event.model_dump())

    def _warn_of_no_spans(self) -> None:
        if not self.errors:
            self._observing.could_not_record(
                ConfigurationError(
                    "TapeEventHandler receives events, but no spans, and records nothing: it is not attached\n"
                    f"{_RIGHT_WAY}"
                )
            )


@functools.lru_cache(1024)
def _says_something(cls: type[BaseEvent]) -> bool:
    """Return whether events of a class report more than spans do."""
    return issubclass(cls, _HEARD) or _is_of_program(cls)


def _is_of_program(cls: type[BaseEvent]) -> bool:
    return not cls.__module__.startswith(_OWN)


# LlamaIndex's own way to add a handler, `dispatcher.add_event_handler(handler)`: it attaches ours.
#
# The framework would pass it events only. The calls themselves are in the spans.


@runtime_checkable
class _Attachable(Protocol):
    """A handler that adds itself to a dispatcher."""

    def attach(self, dispatcher: Dispatcher | None = None) -> object:
        """Observe the reports of a dispatcher."""


def _attaching(real: Callable[[Dispatcher, BaseEventHandler], None]) -> Callable[[Dispatcher, BaseEventHandler], None]:
    """Wrap `add_event_handler` of dispatchers: an attachable handler is attached."""

    @functools.wraps(real)
    def add_event_handler(self: Dispatcher, handler: BaseEventHandler) -> None:
        if isinstance(handler, _Attachable):
            handler.attach(self)
        else:
            real(self, handler)

    return add_event_handler


_wrappers = Wrappers(lambda wrappers: wrappers.patch(Dispatcher, "add_event_handler", _attaching))
"""In place while there are handlers of ours."""


def _attach_when_added(handler: _Attachable) -> None:
    """Let a handler be attached where it is added to a dispatcher, for as long as it lives."""
    _wrappers.__enter__()
    weakref.finalize(handler, _wrappers.__exit__).atexit = False
