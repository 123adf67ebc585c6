"""What observation is made of: the open spans, the recording of what has ended, and its errors.

The spans of the framework tell of each call: which object, which arguments, what came back. That is what a session has
before it that substitutes, so the requests are built by the very same code. Only events tell of the chunks of streams.
"""

from __future__ import annotations

import inspect
import weakref
from collections import deque
from collections.abc import AsyncGenerator, Callable, Generator, Iterator, Mapping, Sequence
from pathlib import Path
from time import perf_counter
from types import FrameType
from typing import Any

from llama_index.core.base.base_retriever import BaseRetriever
from llama_index.core.base.embeddings.base import BaseEmbedding
from llama_index.core.schema import QueryBundle
from llama_index.core.tools import FunctionTool
from workflows import Workflow

from agenttape_core import Rule
from agenttape_core.integration import (
    Crossing,
    Leaf,
    Position,
    StepEvent,
    Unseen,
    as_observed,
    plain_value,
    record_step,
)
from agenttape_llamaindex._compat import current_span_id, span_name, tells_chunks, unmarked
from agenttape_llamaindex.callbacks.calls import (
    CANCELLED,
    FROM_CACHE,
    NO_CHUNKS,
    ONE_OF_MANY,
    ObservedCall,
    ObservedEmbedding,
    ObservedFunction,
    ObservedStream,
    Unrecorded,
)
from agenttape_llamaindex.callbacks.leaves import hidden_leaf, leaf_of
from agenttape_llamaindex.callbacks.reentrant import ReentrantObserver
from agenttape_llamaindex.callbacks.runs import Hidden, OpenSpan, kind_of, output_facts, readable
from agenttape_llamaindex.codec import CHATS, TEXTS
from agenttape_llamaindex.delegation import apart
from agenttape_llamaindex.effects import effects_of
from agenttape_llamaindex.run_tree import LEAVES, span_label
from agenttape_llamaindex.workflows import RunRecord

_UNSEEN = Unseen(
    "events",
    ("memory", "http", "call"),
    "the run was recorded by an event handler, and LlamaIndex tells handlers of LLMs, embedding models, retrievers, "
    "rerankers and tools only, not of stores; record it with use_cassette instead",
)
_NOT_ENDED = "it was not told to have ended when the observation was closed"
_ITERATOR = "an argument of it can be read only once, and is the call's to read"


class Observing(ReentrantObserver):
    """Follows the spans that handlers are told of, and records each when it has ended. Thread-safe.

    Args:
        path: The cassette.
        redact: Rules beyond the built-in ones, or `False` to keep secrets as they are.
        tags: Words for the header.
    """

    def __init__(self, path: str | Path, *, redact: bool | Sequence[Rule], tags: Sequence[str]) -> None:
        super().__init__("TapeEventHandler", path, _UNSEEN, redact=redact, tags=tags)
        self._root = Position()
        self._open: dict[str, OpenSpan] = {}
        self._runs: dict[str, RunRecord] = {}
        self._frames: dict[FrameType, OpenSpan] = {}
        self._unread: deque[str] = deque()

    def is_busy(self) -> bool:
        """Whether an observed span is open."""
        return bool(self._open)

    def cut_off(self) -> None:
        """Record the spans that are open as they stand."""
        for span in list(self._open.values()):
            self._forget(span)
            with self.noting(again=span.lost != ""):
                self._record(span, status="open", missing=_NOT_ENDED if span.call is not None else span.lost)

    # -- spans -------------------------------------------------------------------------------------------------

    def began(
        self,
        span_id: str,
        bound: inspect.BoundArguments,
        instance: Any,
        parent_id: str | None,
        tags: Mapping[str, Any] | None,
    ) -> None:
        """Begin a span."""
        with self._gate:
            above = self._above(parent_id)
            name = span_name(span_id)
            kind = kind_of(instance, name.rpartition(".")[2], above)
            base = above.inside if above is not None else self._root
            named = name.rpartition(".")[2] if kind == "node" else name
            span = OpenSpan(
                span_id, base.child(span_label(name, instance)), named, kind, above, instance, dict(tags or {})
            )
            self._open[span_id] = span
        if above is None:
            span.input = self.input_of(_input(bound, instance))
        if instance is not None:
            self._begin_leaf(span, name.rpartition(".")[2], bound)

    def _begin_leaf(self, span: OpenSpan, method: str, bound: inspect.BoundArguments) -> None:
        cls: type = type(span.instance)
        leaf = leaf_of(cls, method)
        hidden = hidden_leaf(cls, method) if leaf is None else None
        if leaf is not None:
            self._begin_call(span, method, leaf, bound.args, bound.kwargs)
        elif hidden is not None and isinstance(span.instance, BaseRetriever):
            query = next(iter(bound.arguments.values()))
            self._begin_call(span, *hidden, (QueryBundle(query) if isinstance(query, str) else query,), {})
        elif hidden is not None:
            span.hidden = Hidden(*hidden, texts=next(iter(bound.arguments.values())))

    def _above(self, parent_id: str | None) -> OpenSpan | None:
        """Return the span that one begins below: what a stream does when it is read belongs to the stream."""
        parent = self._open.get(parent_id) if parent_id is not None else None
        reading = self._stream_being_read() if self._frames else None
        if reading is None or (parent is not None and (parent is reading or reading in parent.around())):
            return parent
        return reading

    def _stream_being_read(self) -> OpenSpan | None:
        frame = inspect.currentframe()
        while frame is not None:
            if frame in self._frames:
                return self._frames[frame]
            frame = frame.f_back
        return None

    def _begin_call(
        self, span: OpenSpan, method: str, leaf: Leaf, args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> None:
        if any(isinstance(value, Iterator) for value in (*args, *kwargs.values())):
            span.lost = _ITERATOR
            return
        try:
            crossing = self._cross(span, leaf, args, kwargs)
        except Exception as error:  # noqa: BLE001 - as in `noting`
            span.lost = self.could_not_record(error)
            return
        if crossing is not None:
            crossing.metadata = span.own_metadata
            span.call, span.methods = _call_of(crossing, span.instance, method, kwargs), (method,)
        elif method in LEAVES:
            span.take_over(method, lambda crossing: _call_of(crossing, span.instance, method, kwargs))

    def _cross(self, span: OpenSpan, leaf: Leaf, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Crossing | None:
        """Begin the crossing of a leaf call, as a session would; nothing if it is part of a call of the same object."""
        session = self.session()
        session.keepsake("llamaindex.spans", lambda: self._open)
        if isinstance(span.instance, BaseEmbedding) and any(above.hidden is not None for above in span.around()):
            return None  # an embedding model that embeds by another one
        with as_observed(session, span.crossing_around), apart():
            return leaf.cross(span.instance, args, dict(kwargs))

    def returned(self, span_id: str, result: Any) -> None:
        """Record a span that has ended. The stream that it may have returned goes on."""
        span = self._open.get(span_id)
        if span is None:
            return
        if (
            isinstance(result, Generator | AsyncGenerator)
            and isinstance(span.call, ObservedStream)
            and not span.is_plain
        ):
            self._follow(span, result)
            return
        if span.is_plain:
            self._end(span, lambda: self._record(span, **self._output(span, result)))
        else:
            self._end(span, lambda: self._answered(span, lambda call: call.returned(result), output=result))

    def failed(self, span_id: str, error: BaseException | None) -> None:
        """Record a span that raised."""
        span = self._open.get(span_id)
        if span is None:
            return
        span.error = error
        if span.hidden is not None:
            with self.noting(), unmarked(error):
                self._not_embedded(span, span.hidden, error)
        if span.is_plain:
            self._end(span, lambda: self._record(span, status="failed", error=error))
        else:
            self._end(span, lambda: self._answered(span, lambda call: call.failed(error), error=error))

    def _output(self, span: OpenSpan, result: Any) -> dict[str, Any]:
        is_stream = isinstance(result, Generator | AsyncGenerator)
        return output_facts(result) if span.above is None and not is_stream else {}

    def _end(self, span: OpenSpan, record: Callable[[], None]) -> None:
        with self.noting(again=span.lost != ""), unmarked(span.error):
            record()
        with self._gate:
            self._forget(span)
            if not self._open:
                self.nothing_goes_on()

    def _forget(self, span: OpenSpan) -> None:
        self._open.pop(span.span_id, None)
        for frame in [frame for frame, other in list(self._frames.items()) if other is span]:
            self._frames.pop(frame, None)
        for run_id in [run_id for run_id, run in list(self._runs.items()) if run is span.run]:
            self._runs.pop(run_id, None)

    # -- streams -----------------------------------------------------------------------------------------------

    def _follow(self, span: OpenSpan, stream: Any) -> None:
        """Wait for what events tell of a stream; or for nobody to hold it any more, before it was read."""
        span.has_ended = True
        frame = getattr(stream, "gi_frame", None) or getattr(stream, "ag_frame", None)
        if frame is None or not tells_chunks(frame):
            span.lost = NO_CHUNKS
            self._end(span, lambda: self._record(span, missing=NO_CHUNKS))
            return
        self._frames[frame] = span
        weakref.finalize(stream, self._unread.append, span.span_id).atexit = False

    def arrived(self, span_id: str | None, response: Any) -> None:
        """Note a chunk."""
        span = self._open.get(span_id) if span_id is not None else None
        if span is not None and isinstance(span.call, ObservedStream):
            span.call.arrived(response)

    def stream_ended(self, span_id: str | None, error: BaseException | None = None) -> None:
        """Record a stream, if it is the end of one that was told."""
        span = self._open.get(span_id) if span_id is not None else None
        if span is None or not span.has_ended:
            return
        span.error = error
        if span.is_plain:
            self._end(span, lambda: self._record(span))
        else:
            self._end(span, lambda: self._answered(span, lambda call: call.ended(error), error=error))

    def before_writing(self) -> None:
        """Record the streams that nobody read, as a session does; those that were read have told their end."""
        while self._unread:
            self.stream_ended(self._unread.popleft(), GeneratorExit())

    # -- embeddings --------------------------------------------------------------------------------------------

    def embedded(self, span_id: str | None, texts: list[str], vectors: list[Any]) -> None:
        """Record what an embedding model answered, if its leaf method has no span."""
        span = self._open.get(span_id) if span_id is not None else None
        if span is None or span.hidden is None:
            return
        hidden = span.hidden
        hidden.ended += 1
        if getattr(span.instance, "embeddings_cache", None):
            span.lost = FROM_CACHE
            return
        for asked, answer in [(texts, vectors)] if hidden.is_batch else zip(texts, vectors, strict=True):
            crossing = self._cross(span, hidden.leaf, (asked,), {})
            if crossing is not None:
                crossing.metadata = span.own_metadata
                _call_of(crossing, span.instance, hidden.name, {}).returned(answer)

    def _not_embedded(self, span: OpenSpan, hidden: Hidden, error: BaseException | None) -> None:
        """Record that an embedding model failed, if it is certain what it was asked."""
        asked = hidden.failed_with(getattr(span.instance, "embed_batch_size", None))
        if asked is None or not isinstance(error, Exception) or getattr(span.instance, "embeddings_cache", None):
            span.lost = ONE_OF_MANY if isinstance(error, Exception) else CANCELLED
            return
        crossing = self._cross(span, hidden.leaf, (asked,), {})
        if crossing is not None:
            crossing.raised(error)

    # -- workflows ---------------------------------------------------------------------------------------------

    def run_record(self, run_id: str) -> RunRecord | None:
        """Return the record of a workflow run, in whose context this is called; nothing if it is not observed."""
        known = self._runs.get(run_id)
        if known is not None:
            return known
        span = self._open.get(current_span_id() or "")
        while span is not None and not isinstance(span.instance, Workflow):
            span = span.above
        if span is None or span.run is not None:
            return None
        span.run = self._runs[run_id] = RunRecord(self.session, span.position)
        return span.run

    # -- recording ---------------------------------------------------------------------------------------------

    def _answered(
        self,
        span: OpenSpan,
        answer: Callable[[Any], Unrecorded | None],
        *,
        output: Any = None,
        error: BaseException | None = None,
    ) -> None:
        """Record a call; one of which no interaction can be made is a step, which says what is missing."""
        lacking: Unrecorded | None = Unrecorded(span.lost)
        if span.call is not None:
            try:
                lacking = answer(span.call)
            except Exception as failure:  # noqa: BLE001 - as in `noting`
                lacking = Unrecorded(self.could_not_record(failure))
        if lacking is not None:
            status = "failed" if error is not None else "ended"
            shown = None if isinstance(output, Generator | AsyncGenerator) else plain_value(output)
            self._record(span, status=status, error=error, missing=lacking.note, output=shown)

    def _record(self, span: OpenSpan, **facts: Any) -> None:
        """Record a step; the facts are those of a `StepEvent`."""
        event = StepEvent(
            kind=span.kind,
            name=span.name,
            address=span.position.address,
            order=span.position.order,
            began=span.began,
            metadata=span.own_metadata,
            input=span.input,
            **facts,
        )
        record_step(self.session(), event)

    def happened(self, span_id: str | None, name: str, data: Any) -> None:  # type: ignore[override]
        """Record an event of the program's own."""
        span = self._open.get(span_id) if span_id is not None else None
        position = span.position if span is not None else self._root
        event = StepEvent("event", name, position.address, position.moment(), perf_counter(), data=plain_value(data))
        record_step(self.session(), event)


def _call_of(crossing: Crossing, instance: Any, method: str, kwargs: Mapping[str, Any]) -> ObservedCall:
    if crossing.boundary.kind in ("chat", "completion") and "stream" in method:
        return ObservedStream(crossing, CHATS if LEAVES[method] == "chat" else TEXTS)
    if crossing.boundary.kind == "embeddings":
        return ObservedEmbedding(crossing, method)
    if isinstance(instance, FunctionTool):
        return ObservedFunction(crossing, effects_of(kwargs.get(instance.ctx_param_name or "")))
    return ObservedCall(crossing)


def _input(bound: inspect.BoundArguments, instance: Any) -> Any:
    """Return what an outermost method was given; a workflow is given the event that it begins with."""
    arguments = bound.arguments
    return readable(arguments.get("start_event")) if isinstance(instance, Workflow) else dict(arguments)
