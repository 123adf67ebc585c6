"""The steps of a session that records: the runs of workflows and agents, and their step functions.

All other spans of LlamaIndex are in the addresses of the calls below them; in an observation they are steps too.
"""

from __future__ import annotations

import inspect
from dataclasses import dataclass, field
from time import perf_counter
from typing import Any

from workflows import Workflow

from agenttape_core.errors import AgentTapeError
from agenttape_core.integration import Session, Slot, StepEvent, current_session, plain_value, record_step
from agenttape_core.integration.observing import output_facts
from agenttape_llamaindex._compat import current_span_id, span_name
from agenttape_llamaindex.callbacks.runs import acting_agent, kind_of_workflow
from agenttape_llamaindex.run_tree import Span, readable, spans_of
from agenttape_llamaindex.span_listeners import SpanListener
from agenttape_llamaindex.workflows import RunRecord, subscribe_to_taped


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
