"""Tape every leaf call of the process while a session is open, with the user's code unchanged."""

from __future__ import annotations

import copy
import functools
import inspect
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from time import perf_counter
from typing import Any

from llama_index.core.chat_engine.types import StreamingAgentChatResponse
from llama_index.core.graph_stores.types import LabelledPropertyGraph
from llama_index.core.indices.keyword_table.retrievers import BaseKeywordTableRetriever
from llama_index.core.rate_limiter import BaseRateLimiter
from llama_index.core.storage.chat_store import sql
from workflows import Workflow
from workflows.events import StartEvent

from agenttape_core.errors import AgentTapeError, ConfigurationError
from agenttape_core.integration import (
    Family,
    Session,
    Slot,
    Source,
    StepEvent,
    current_session,
    forking_pools,
    plain_value,
    record_step,
    register_restart,
    wrapping,
)
from agenttape_core.integration.leaves import limiter_leaves
from agenttape_core.integration.observing import output_facts
from agenttape_core.integration.patching import Wrappers, register_run_ids
from agenttape_llamaindex._compat import (
    CONTROL_LOOP,
    RUN_IDS_OF,
    answered_steps,
    current_span_id,
    hook_span_handler,
    span_name,
)
from agenttape_llamaindex.callbacks.runs import acting_agent, kind_of_workflow
from agenttape_llamaindex.clocks import RUNNER_METHODS, OrderedTime
from agenttape_llamaindex.effect_hooks import EFFECTS_NOTED
from agenttape_llamaindex.embeddings import EMBEDDINGS, SPARSE_EMBEDDINGS
from agenttape_llamaindex.llms import LLMS
from agenttape_llamaindex.program_parts import PROGRAM_PARTS
from agenttape_llamaindex.readers import READERS
from agenttape_llamaindex.retrievers import POSTPROCESSORS, RETRIEVERS
from agenttape_llamaindex.run_tree import Span, SpanTree, readable, spans_of
from agenttape_llamaindex.span_listeners import SpanListener
from agenttape_llamaindex.stores import STORES
from agenttape_llamaindex.streamed_chats import following
from agenttape_llamaindex.threads import script_of
from agenttape_llamaindex.tools import FUNCTION_TOOLS, TOOLS
from agenttape_llamaindex.workflows import RunRecord, subscribe_to_taped
from agenttape_llamaindex.workflows.halts import halts_end_streams
from agenttape_llamaindex.workflows.order import in_recorded_order

# -- The steps of a session that records: the runs of workflows and agents, and their step functions.
#
# All other spans of LlamaIndex are in the addresses of the calls below them; in an observation they are steps too.


@dataclass(frozen=True, slots=True)
class _Begun:
    """A run of a workflow or a step of it that has begun in a session that records."""

    session: Session
    kind: str
    name: str
    span: Span
    began: float
    input: Any = None
    metadata: dict[str, str] = field(default_factory=dict)


class SessionSteps(SpanListener):
    """Records them when they end, each in the session that it began in.

    It has to see the beginning of a span after `SpanTree` has.
    """

    @classmethod
    def class_name(cls) -> str:
        """Return the name that the framework shows."""
        return "AgentTapeSessionSteps"

    def began(
        self, id_: str, bound: inspect.BoundArguments, instance: Any, parent_id: str | None, tags: dict[str, Any] | None
    ) -> None:
        """Note a run or a step that begins."""
        session = current_session()
        if session is None or not session.keeps_steps:
            return
        spans = spans_of(session)
        span = spans.get(id_)
        if span is None:
            return
        if isinstance(instance, Workflow):
            given = plain_value(readable(bound.arguments.get("start_event")))
            begun = _Begun(session, kind_of_workflow(instance), span_name(id_), span, perf_counter(), given)
        elif instance is None and (above := spans.get(parent_id or "")) is not None and above.is_run:
            name, agent = span_name(id_).rpartition(".")[2], acting_agent(bound.arguments)
            begun = _Begun(session, "node", name, span, perf_counter(), metadata=agent)
        else:
            return
        _begun_in(session)[id_] = begun

    def returned(self, id_: str, result: Any) -> None:
        """Record one that has ended."""
        _ended(id_, result=result)

    def failed(self, id_: str, error: BaseException | None) -> None:
        """Record one that has failed."""
        _ended(id_, error=error)


_BEGUN: Slot[dict[str, _Begun]] = Slot(lambda _: {})


def _begun_in(session: Session) -> dict[str, _Begun]:
    return session.extension(_BEGUN)


def _ended(id_: str, *, result: Any = None, error: BaseException | None = None) -> None:
    session = current_session()
    begun = _begun_in(session).pop(id_, None) if session is not None else None
    if begun is None:
        return
    is_outermost = begun.kind != "node"
    with begun.session.latch:
        facts = output_facts(readable(result)) if is_outermost and error is None else {}
        event = StepEvent(
            begun.kind,
            begun.name,
            begun.span.position.address,
            begun.span.position.order,
            begun.began,
            status="failed" if error is not None else "ended",
            error=error,
            input=begun.input,
            metadata=begun.metadata,
            **facts,
        )
        record_step(begun.session, event)


# -- ticks -----------------------------------------------------------------------------------------------------------


_RUN_RECORDS: Slot[dict[str, RunRecord]] = Slot(lambda _: {})


class _TapedRuns:
    """Records the ticks of workflows on a `TapeRuntime` in the session in force."""

    def run_record(self, run_id: str) -> RunRecord | None:
        """Return the record of the run in whose context this is called."""
        session = current_session()
        if session is None or not session.records:
            return None
        records = session.extension(_RUN_RECORDS)
        if run_id not in records:
            span = spans_of(session).get(current_span_id() or "")
            if span is None or not span.is_run:
                return None
            records[run_id] = RunRecord(lambda: session, span.position)
        return records[run_id]

    def could_not_record(self, error: Exception) -> None:
        """Let the session fail at its end: its cassette would be incomplete."""
        session = current_session()
        if session is not None and isinstance(error, AgentTapeError):
            session.latch.keep(error)


subscribe_to_taped(_TapedRuns())

# -- The triplets of LlamaIndex's property graph in one order, whatever the hash seed of the process.
#
# `LabelledPropertyGraph` keeps them in a set, whose order goes into prompts by way of the retrievers. The relations
# are in a dict beside it, so the order in which they were added is known.


def _triplets_in_order(get_triplets: Callable[..., list[Any]]) -> Callable[..., list[Any]]:
    """Return the method of a graph with its result in the order in which the relations were added, within sessions."""

    @functools.wraps(get_triplets)
    def ordered(graph: Any) -> list[Any]:
        triplets = get_triplets(graph)
        if current_session() is None:
            return triplets
        places = {id(relation): place for place, relation in enumerate(graph.relations.values())}

        def place(triplet: Any) -> tuple[int, str, str]:
            subject, relation, target = triplet
            return places[id(relation)], subject.id, target.id

        return sorted(triplets, key=place)

    return ordered


# -- The nodes that LlamaIndex's keyword tables find, in one order, whatever the hash seed of the process.
#
# A table keeps the nodes of a keyword in a set, and keywords are extracted as a set. Nodes with equally many keywords
# of a query come in the order of both, and only the first of them get into the prompt.


def _nodes_in_order(retrieve: Callable[..., list[Any]]) -> Callable[..., list[Any]]:
    """Return the method of a retriever with the nodes of a keyword in the order of their ids, within sessions."""

    @functools.wraps(retrieve)
    def ordered(retriever: Any, *args: Any, **kwargs: Any) -> list[Any]:
        if current_session() is None:
            return retrieve(retriever, *args, **kwargs)
        twin = copy.copy(retriever)
        twin._get_keywords = lambda query: sorted(retriever._get_keywords(query))
        twin._index_struct = _InOrder(retriever._index_struct)
        return retrieve(twin, *args, **kwargs)

    return ordered


class _InOrder:
    """A table of keywords, as a retriever reads it."""

    def __init__(self, table: Any) -> None:
        self.keywords = table.keywords
        self.table = {keyword: sorted(nodes) for keyword, nodes in table.table.items()}


# Rate limiters, which wait as a part of the calls that they let through.

_BEFORE = ("llama_index.core.llms.callbacks", "llama_index.core.base.embeddings.base")

_LIMITERS = Family(BaseRateLimiter, limiter_leaves("acquire", "async_acquire", before=_BEFORE))
"""Every rate limiter."""


_FAMILIES = (
    LLMS,
    EMBEDDINGS,
    SPARSE_EMBEDDINGS,
    _LIMITERS,
    FUNCTION_TOOLS,
    TOOLS,
    RETRIEVERS,
    POSTPROCESSORS,
    READERS,
    *STORES,
)


def _install(wrappers: Wrappers) -> None:
    # Each handler is put before the others: the tree, which the steps read, has to see a span first.
    wrappers.hold(lambda: _hooked(SessionSteps()))
    wrappers.hold(lambda: _hooked(SpanTree()))
    wrappers.enter(wrapping(*_FAMILIES))
    wrappers.enter(wrapping(*PROGRAM_PARTS, is_program=True))
    wrappers.enter(EFFECTS_NOTED)
    for name, wrap in RUNNER_METHODS.items():
        wrappers.patch(CONTROL_LOOP, name, wrap)
    wrappers.patch(CONTROL_LOOP, "run", in_recorded_order)
    wrappers.hold(halts_end_streams)
    wrappers.patch(sql, "time", OrderedTime)
    wrappers.patch(StreamingAgentChatResponse, "__post_init__", following)
    wrappers.patch(LabelledPropertyGraph, "get_triplets", _triplets_in_order)
    wrappers.patch(BaseKeywordTableRetriever, "_retrieve", _nodes_in_order)
    wrappers.enter(forking_pools())


@contextmanager
def _hooked(handler: Any) -> Iterator[None]:
    unhook = hook_span_handler(handler)
    try:
        yield
    finally:
        unhook()


_wrappers = Wrappers(_install)


def integration() -> Wrappers:
    """Connect LlamaIndex to the sessions of this process; core enters it with the first and leaves it with the last."""
    return _wrappers


# -- Begin a recorded workflow again in the session that is open, as `agenttape replay --run` does.
#
# A recording that holds the ticks of the run has the events that came from outside later; another one has the event
# that the run began with.

_EVENT = "event"
"""The key of the name of the class, beside the fields of an event."""


def restart(app: Any, source: Source) -> Callable[[], Any] | None:
    """Return a function that runs a workflow again with its recorded events.

    Returns `None` for any other `app`; a recording of a server is left to others. Raises `ConfigurationError` if an
    event cannot be rebuilt, or the recording has no input.
    """
    if not isinstance(app, Workflow) or source.is_request:
        return None
    script = None if source.is_replaced else script_of(source.cassette.path, app)
    if script is not None:
        return lambda: _played(script, app)
    _refuse_answers(app, source)
    event = _begun_with(app, source)
    return lambda: _run(app, event)


async def _played(script: Any, workflow: Workflow) -> Any:
    result, _ = await script.play(workflow)
    return result


async def _run(workflow: Workflow, event: StartEvent) -> Any:
    return await workflow.run(start_event=event)


def _refuse_answers(workflow: Workflow, source: Source) -> None:
    """Refuse a run in which a person answered, where the answers are not known: it would wait for them."""
    answered = answered_steps(workflow) & {step.name for step in source.cassette.steps() if step.kind == "node"}
    if answered:
        raise ConfigurationError(
            f"{source.cassette.path}: step {min(answered)} was given an answer from outside, and the "
            "recording does not hold it\n  observe the run with TapeEventHandler, which keeps what comes from outside, "
            "and leave --input out"
        )


def _begun_with(workflow: Workflow, source: Source) -> StartEvent:
    given = source.given()
    if not isinstance(given, dict):
        raise ConfigurationError(
            f"{source.cassette.path}: expected the fields of an event as the input of a workflow, found "
            f"a {type(given).__name__}"
        )
    fields = {key: value for key, value in given.items() if key != _EVENT}
    made = workflow.start_event_class
    try:
        return made(**fields)
    except (TypeError, ValueError) as error:
        raise ConfigurationError(
            f"{source.cassette.path}: the recorded input does not fit {made.__name__}: {error}"
        ) from error


register_restart(restart)
register_run_ids(*RUN_IDS_OF)
