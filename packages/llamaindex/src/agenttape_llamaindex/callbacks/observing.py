"""Observation: the open spans, and the recording of those that have ended.

The spans of the framework report of each call its object, its arguments and its result. A session that substitutes has
just these at hand, so the requests are built by the very same code. Only events report the chunks of streams.
"""

from __future__ import annotations

import functools
import inspect
import weakref
from asyncio import CancelledError
from collections import deque
from collections.abc import AsyncGenerator, Callable, Generator, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from types import FrameType
from typing import Any, cast

from llama_index.core.base.base_retriever import BaseRetriever
from llama_index.core.base.embeddings.base import BaseEmbedding
from llama_index.core.base.embeddings.base_sparse import BaseSparseEmbedding
from llama_index.core.schema import QueryBundle
from llama_index.core.tools import BaseTool, ToolOutput
from workflows import Context, Workflow

from agenttape_core import Rule
from agenttape_core.integration import ExecutedCall, Family, Leaf, Position, plain_value
from agenttape_core.integration.observing import (
    INTERRUPTED,
    EventsOption,
    ObservedCall,
    Observer,
    Payload,
    Unrecorded,
    Unseen,
    as_observed,
    output_facts,
)
from agenttape_core.integration.patching import Wrappers
from agenttape_llamaindex._compat import current_span_id, is_decorated, reports_chunks, span_name, static, unmarked
from agenttape_llamaindex.callbacks.runs import (
    FROM_CACHE,
    NO_CHUNKS,
    ONE_OF_MANY,
    SUBMITTER,
    HiddenLeaf,
    ObservedResponses,
    OpenSpan,
    acting_agent,
    call_of,
    kind_of,
)
from agenttape_llamaindex.delegation import MethodRun, apart
from agenttape_llamaindex.embeddings import EMBEDDINGS, SPARSE_EMBEDDINGS
from agenttape_llamaindex.llms import LLMS
from agenttape_llamaindex.retrievers import POSTPROCESSORS, RETRIEVERS
from agenttape_llamaindex.run_tree import LEAVES, SPANS, Spans, input_of, is_program, readable, span_label
from agenttape_llamaindex.tools import FUNCTION_TOOLS, TOOLS
from agenttape_llamaindex.workflows import RunRecord

# -- The leaf methods of spans, and those that hide behind a span.
#
# The framework begins no span for leaf methods that have a default in their interface. A call of one is known from
# the public method around it: its span has the arguments, and its events the texts and the vectors, or the nodes.

_FAMILIES = (LLMS, EMBEDDINGS, SPARSE_EMBEDDINGS, RETRIEVERS, POSTPROCESSORS, FUNCTION_TOOLS, TOOLS)
_BEHIND: dict[str, tuple[str, ...]] = {
    "aget_query_embedding": ("_aget_query_embedding",),
    "aget_text_embedding": ("_aget_text_embedding",),
    "get_text_embedding_batch": ("_get_text_embeddings",),
    "aget_text_embedding_batch": ("_aget_text_embeddings", "_aget_text_embedding"),
    "aretrieve": ("_aretrieve",),
}
"""Public methods, and the leaf methods that they may call without a span. They call the first that a class has."""


def leaf_of(cls: type, method: str) -> Leaf | None:
    """Return the leaf of a method of a class, if it is a leaf method."""
    found: dict[str, Leaf] = _leaves(cls)
    return found.get(method)


@functools.lru_cache(1024)
def hidden_leaf_of(cls: type, method: str) -> tuple[str, Leaf] | None:
    """Return the name and the leaf of the leaf method behind a public method, if it has no separate span."""
    if not issubclass(cls, BaseEmbedding | BaseSparseEmbedding | BaseRetriever):
        return None
    leaves = _leaves(cls)
    for name in _BEHIND.get(method, ()):
        if name in leaves:
            return None if is_decorated(static(cls, name)) else (name, leaves[name])
    return None


@functools.lru_cache(1024)
def _leaves(cls: type) -> dict[str, Leaf]:
    family = _family_of(cls)
    return {name: family.leaves[name] for name in family.leaves_of(cls)} if family is not None else {}


def _family_of(cls: type) -> Family | None:
    return next((family for family in _FAMILIES if issubclass(cls, family.base)), None)


# -- The arguments of an observed call, as its request and its step have them.


def as_passed(bound: inspect.BoundArguments) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """Return the arguments of a tool as an agent passes them: by name, where they have one."""
    names = [name for name, item in bound.signature.parameters.items() if item.kind is item.POSITIONAL_OR_KEYWORD]
    named = {name: bound.arguments[name] for name in names if name in bound.arguments}
    return bound.args[len(named) :], {**named, **bound.kwargs}


def as_shown(bound: inspect.BoundArguments, tool: BaseTool) -> dict[str, Any]:
    """Return the arguments of a tool that is part of the program, without its context."""
    given = {**bound.arguments, **bound.arguments.get("kwargs", {})}
    left_out = {"kwargs", getattr(tool, "ctx_param_name", None)}
    return {name: value for name, value in given.items() if name not in left_out and not isinstance(value, Context)}


_UNSEEN = Unseen(
    "events",
    ("memory", "http", "call"),
    "the run was recorded by an event handler, and LlamaIndex reports calls of LLMs, embedding models, retrievers, "
    "rerankers and tools to handlers, but not of stores and readers; record it with use_cassette instead",
)
_ITERATOR = "one of its arguments can be read only once, and is the call's to read"


def _begin_leaf(observer: Observer[OpenSpan], span: OpenSpan, method: str, bound: inspect.BoundArguments) -> None:
    """Begin the call of a span, if its method is a leaf or hides one."""
    cls: type = type(span.instance)
    leaf = leaf_of(cls, method)
    hidden = hidden_leaf_of(cls, method) if leaf is None else None
    if leaf is not None:
        by_name = isinstance(span.instance, BaseTool)
        _begin_call(observer, span, method, leaf, as_passed(bound) if by_name else (bound.args, bound.kwargs))
    elif hidden is not None and isinstance(span.instance, BaseRetriever):
        query = next(iter(bound.arguments.values()))
        given = (QueryBundle(query) if isinstance(query, str) else query,)
        _begin_call(observer, span, *hidden, (given, {}))
    elif hidden is not None:
        span.hidden = HiddenLeaf(*hidden, texts=next(iter(bound.arguments.values())))


def _begin_call(
    observer: Observer[OpenSpan], span: OpenSpan, method: str, leaf: Leaf, given: tuple[tuple[Any, ...], dict[str, Any]]
) -> None:
    args, kwargs = given
    if any(isinstance(value, Iterator) for value in (*args, *kwargs.values())):
        span.lost = _ITERATOR
        return

    def begin() -> ObservedCall | None:
        session_call = _cross(observer, span, leaf, args, kwargs)
        return None if session_call is None else call_of(session_call, span.instance, method, kwargs)

    observer.begin_call(span, begin)
    if method not in LEAVES or span.lost != "":
        return
    if span.call is not None:
        span.leaf = MethodRun(span.call.session_call, method)
    else:
        span.begin_part(method, lambda session_call: call_of(session_call, span.instance, method, kwargs))


def _cross(
    observer: Observer[OpenSpan], span: OpenSpan, leaf: Leaf, args: tuple[Any, ...], kwargs: dict[str, Any]
) -> ExecutedCall | None:
    """Begin a leaf call, as a session would; `None` if it is part of a call of the same object."""
    session = observer.session()
    session.extend(SPANS, cast("Spans", observer.open_runs))
    if isinstance(span.instance, BaseEmbedding) and any(above.hidden is not None for above in span.around()):
        return None  # an embedding model that embeds by another one
    with as_observed(session, _call_around(observer, span)), apart():
        session_call = leaf.cross(span.instance, args, dict(kwargs))
    if session_call is not None:
        assert not session_call.is_replayed  # nothing is replayed to an observer
        session_call.metadata = span.own_metadata
    return session_call


def _call_around(observer: Observer[OpenSpan], span: OpenSpan) -> ExecutedCall | None:
    """Return the call around a span, or around the one that submitted its work to a pool."""
    if span.call_around is not None:
        return span.call_around
    submitter = observer.open_runs.get(span.outermost.submitter)
    if submitter is None:
        return None
    return submitter.call.session_call if submitter.call is not None else _call_around(observer, submitter)


def _embedded(
    observer: Observer[OpenSpan], span: OpenSpan, hidden: HiddenLeaf, texts: list[str], vectors: list[Any]
) -> None:
    """Record the vectors of an embedding model, if its leaf method has no span."""
    hidden.embedded += 1
    if getattr(span.instance, "embeddings_cache", None):
        span.lost = FROM_CACHE
        return
    for argument, answer in [(texts, vectors)] if hidden.is_batch else zip(texts, vectors, strict=True):
        session_call = _cross(observer, span, hidden.leaf, (argument,), {})
        if session_call is not None:
            call_of(session_call, span.instance, hidden.name, {}).returned(answer)


def _not_embedded(
    observer: Observer[OpenSpan], span: OpenSpan, hidden: HiddenLeaf, error: BaseException | None
) -> None:
    """Record that an embedding model failed, if its argument is certain."""
    argument = hidden.failed_with(getattr(span.instance, "embed_batch_size", None))
    is_outcome = isinstance(error, Exception | CancelledError)
    if argument is None or not is_outcome or getattr(span.instance, "embeddings_cache", None):
        span.lost = ONE_OF_MANY if is_outcome else INTERRUPTED
        return
    session_call = _cross(observer, span, hidden.leaf, (argument,), {})
    if session_call is not None:
        ObservedCall(session_call).failed(error)


def _opened(
    span_id: str,
    bound: inspect.BoundArguments,
    instance: Any,
    above: OpenSpan | None,
    root: Position,
) -> OpenSpan:
    name = span_name(span_id)
    method = name.rpartition(".")[2]
    kind = kind_of(instance, method, above)
    return OpenSpan(
        key=span_id,
        position=(above.position_inside if above is not None else root).child(span_label(name, instance)),
        name=method if kind == "node" else name,
        above=above,
        kind=kind,
        instance=instance,
        agent=acting_agent(bound.arguments) if kind == "node" else {},
    )


def _end(observer: Observer[OpenSpan], span: OpenSpan, record: Callable[[], None]) -> None:
    if span.error is None:
        observer.noted(record, again=span.lost != "")
    else:
        with observer.noting(again=span.lost != ""), unmarked(span.error):
            record()
    observer.finished(span)


def _end_call(
    observer: Observer[OpenSpan],
    span: OpenSpan,
    answer: Callable[[Any], Unrecorded | None],
    *,
    output: Any = None,
    error: BaseException | None = None,
) -> None:
    """Record a call that has ended; parts of it whose outcome is not the recorded one become steps."""
    if span.leaf is not None:
        span.leaf.error = error

    def record() -> None:
        observer.answered(span, answer, output=output, error=error)
        if span.is_part:
            return
        for part in span.unrecorded():
            _record_step(observer, part, part.error)
        if span.has_delegated:
            _record_step(observer, span, error, output)

    _end(observer, span, record)


def _record_step(observer: Observer[OpenSpan], span: OpenSpan, error: BaseException | None, output: Any = None) -> None:
    """Record the step that a span of a call is where another one is recorded as the interaction."""
    if error is not None and not isinstance(error, GeneratorExit):
        observer.record(span, status="failed", error=error)
    else:
        observer.record(span, **(output_facts(readable(output)) if span.above is None and output is not None else {}))


def _workflow_around(span: OpenSpan | None) -> OpenSpan | None:
    """Return the innermost span, from this one outward, that is the run of a workflow."""
    while span is not None and not isinstance(span.instance, Workflow):
        span = span.above
    return span


def _noting_submitter(real: Callable[..., Any]) -> Callable[..., Any]:
    """Wrap `submit` of pools of threads, by which `run_in_executor` works."""

    @functools.wraps(real)
    def submit(self: Any, fn: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Any:
        span_id = current_span_id() or SUBMITTER.get()
        return real(self, fn if span_id is None else functools.partial(_run_for, span_id, fn), *args, **kwargs)

    return submit


def _run_for(span_id: str, fn: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Any:
    token = SUBMITTER.set(span_id)
    try:
        return fn(*args, **kwargs)
    finally:
        SUBMITTER.reset(token)


SUBMITTERS_NOTED = Wrappers(lambda wrappers: wrappers.patch(ThreadPoolExecutor, "submit", _noting_submitter))
"""While inside, work in pools of threads is known to belong to the call that submits it."""


class OpenStreams:
    """The streams that are read, by their frames, and those that were freed before their end."""

    def __init__(self) -> None:
        self._frames: dict[FrameType, OpenSpan] = {}
        self._unread: deque[str] = deque()

    def follow(self, span: OpenSpan, stream: Any) -> bool:
        """Wait for the end of a stream, or of its object if it's never read; `False` if no event reports its chunks."""
        frame = getattr(stream, "gi_frame", None) or getattr(stream, "ag_frame", None)
        if frame is None or not reports_chunks(frame):
            return False
        self._frames[frame] = span
        weakref.finalize(stream, self._unread.append, span.key).atexit = False
        return True

    def read_here(self) -> OpenSpan | None:
        """Return the span of the stream whose code runs now."""
        frame = inspect.currentframe() if self._frames else None
        while frame is not None:
            if frame in self._frames:
                return self._frames[frame]
            frame = frame.f_back
        return None

    def forget(self, span: OpenSpan) -> None:
        """Take out the stream of a span."""
        for frame in [frame for frame, other in list(self._frames.items()) if other is span]:
            self._frames.pop(frame, None)

    @property
    def has_unread(self) -> bool:
        """True if the object of a stream was freed that was never read."""
        return bool(self._unread)

    def unread(self) -> Iterator[str]:
        """Yield the keys of the spans whose streams were never read, each once."""
        while self._unread:
            yield self._unread.popleft()

    def asynchronous(self) -> list[OpenSpan]:
        """Return the spans of asynchronous streams."""
        found = [(frame.f_code.co_flags, span) for frame, span in self._frames.items()]
        return [span for flags, span in found if flags & inspect.CO_ASYNC_GENERATOR]


class Observing(Observer[OpenSpan]):
    """Follows the spans that handlers are called with, and records each when it has ended. Thread-safe.

    Args:
        path: The cassette.
        redact: Rules in addition to the built-in ones, or `False` to keep secrets unchanged.
        tags: Words for the header.
        keeps_steps: Whether workflows can be stepped through afterwards.
        payload: The part of calls that is recorded: `full`, or `none` for their shape alone.
        events: Receives an event for each call when it ends; `None` to follow the settings.
    """

    def __init__(
        self,
        path: str | Path,
        *,
        redact: bool | Sequence[Rule],
        tags: Sequence[str],
        keeps_steps: bool,
        payload: Payload,
        events: EventsOption | None,
    ) -> None:
        super().__init__("TapeEventHandler", path, _UNSEEN, redact=redact, tags=tags, payload=payload, events=events)
        self._keeps_steps = keeps_steps
        self._runs: dict[str, RunRecord] = {}
        self._streams = OpenStreams()
        self.sees_spans = False
        self._is_closed = False

    def receive(self, report: Callable[..., None], *arguments: Any) -> None:
        """Handle a report, unless the observation is closed: dispatchers that were copied continue reporting."""
        if not self._is_closed:
            super().receive(report, *arguments)

    def close(self) -> None:
        """Write all that was observed, and observe no more. Raises as the base does."""
        self._is_closed = True
        super().close()

    def began(
        self,
        span_id: str,
        bound: inspect.BoundArguments,
        instance: Any,
        parent_id: str | None,
        tags: Mapping[str, Any] | None,
    ) -> None:
        """Begin a span."""
        self.sees_spans = True
        if span_id in self.open_runs:  # the handler of spans was added to the dispatcher twice
            return
        with self._gate:
            above = self._above(parent_id)
            span = _opened(span_id, bound, instance, above, self.root)
            span.tags.update(tags or {})
            self.open_runs[span_id] = span
        method = span_name(span_id).rpartition(".")[2]
        if above is None:
            span.input = plain_value(input_of(bound, instance))
            if is_program(instance):
                self.first_input.note(span.input, method=method)
        if instance is not None:
            _begin_leaf(self, span, method, bound)
        if span.kind == "tool" and span.is_plain and isinstance(instance, BaseTool):
            with self.noting():
                span.name = instance.metadata.get_name()
                span.input = plain_value(as_shown(bound, instance))

    def _above(self, parent_id: str | None) -> OpenSpan | None:
        """Return the span that one begins below: spans that a stream begins while it is read belong to the stream."""
        parent = self._span(parent_id)
        reading = self._streams.read_here()
        if reading is None or (parent is not None and (parent is reading or reading in parent.around())):
            return parent
        return reading

    def _span(self, span_id: str | None) -> OpenSpan | None:
        return self.open_runs.get(span_id) if span_id is not None else None

    def returned(self, span_id: str, result: Any) -> None:
        """Record a span that has ended. The stream that it may have returned continues."""
        span = self._span(span_id)
        if span is None:
            return
        cls: type = type(result)
        is_stream = _is_stream(cls)
        if span.is_plain:
            facts = output_facts(_shown(result)) if span.is_shown_whole and not is_stream else {}
            _end(self, span, functools.partial(self.record, span, **facts))
        elif is_stream and isinstance(span.call, ObservedResponses):
            self._follow(span, result)
        else:
            if span.leaf is not None:
                span.leaf.answered(result)
            output = None if is_stream else result
            _end_call(self, span, lambda call: call.returned(result), output=output)

    def failed(self, span_id: str, error: BaseException | None) -> None:
        """Record a span that raised."""
        span = self._span(span_id)
        if span is None:
            return
        span.error = error
        if span.hidden is not None:
            with self.noting(), unmarked(error):
                _not_embedded(self, span, span.hidden, error)
        if span.is_plain:
            _end(self, span, lambda: self.record(span, status="failed", error=error))
        else:
            _end_call(self, span, lambda call: call.failed(error), error=error)

    def forget(self, run: OpenSpan) -> None:
        """Take out a span, with the frame of its stream and the record of its workflow run."""
        super().forget(run)
        if run.call is not None:
            self._streams.forget(run)
        if run.run is not None:
            for run_id in [run_id for run_id, record in list(self._runs.items()) if record is run.run]:
                self._runs.pop(run_id, None)

    def _follow(self, span: OpenSpan, stream: Any) -> None:
        span.has_ended = True
        if not self._streams.follow(span, stream):
            span.lost = NO_CHUNKS
            _end(self, span, lambda: self.record(span, missing=NO_CHUNKS))

    def chunk_arrived(self, span_id: str | None, response: Any) -> None:
        """Note a chunk."""
        span = self._span(span_id)
        if span is not None and isinstance(span.call, ObservedResponses):
            if span.leaf is not None:
                span.leaf.answered(response)
            span.call.arrived(response)

    def stream_ended(self, span_id: str | None, error: BaseException | None = None) -> None:
        """Record a stream, if the reported end belongs to one."""
        span = self._span(span_id)
        if span is None or not span.has_ended:
            return
        span.error = error
        _end_call(self, span, lambda call: call.ended(error), error=error)

    @property
    def has_unreported(self) -> bool:
        """True if the object of a stream was freed that was never read."""
        return self._streams.has_unread

    def before_writing(self) -> None:
        """Record the streams that were never read, as a session does; the others have reported their end."""
        for span_id in self._streams.unread():
            self.stream_ended(span_id, GeneratorExit())

    def cut_off(self) -> None:
        """Record asynchronous streams as left by their readers, and all else as it stands.

        An event loop closes an unfinished generator some rounds later, and that may be after the observation.
        """
        for span in self._streams.asynchronous():
            self.stream_ended(span.key, GeneratorExit())
        super().cut_off()

    def embedded(self, span_id: str | None, texts: list[str], vectors: list[Any]) -> None:
        """Record the vectors of an embedding model, if its leaf method has no span."""
        span = self._span(span_id)
        if span is not None and span.hidden is not None:
            _embedded(self, span, span.hidden, texts, vectors)

    def run_record(self, run_id: str) -> RunRecord | None:
        """Return the record of a workflow run, in whose context this is called; `None` if it is not observed."""
        known = self._runs.get(run_id)
        if known is not None:
            return known
        span = _workflow_around(self._span(current_span_id()))
        if span is None or span.run is not None:
            return None
        span.run = self._runs[run_id] = RunRecord(self.session, span.position, keeps_steps=self._keeps_steps)
        return span.run

    def event_fired(self, span_id: str | None, name: str, data: Any) -> None:
        """Record an event of the program's own."""
        self.happened(self._span(span_id), "event", name, data)


@functools.lru_cache(1024)
def _is_stream(cls: type) -> bool:
    return issubclass(cls, Generator | AsyncGenerator)


def _shown(result: Any) -> Any:
    return result.content if isinstance(result, ToolOutput) else readable(result)
