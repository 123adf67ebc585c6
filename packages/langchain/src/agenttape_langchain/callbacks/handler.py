"""Observe runs through LangChain's callbacks; an observed run can be replayed.

Callbacks receive the same messages, parameters and tool arguments as the leaf calls that a session substitutes, so both
compute the same fingerprints and addresses. Facts that callbacks do not receive are marked in the cassette.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self

from agenttape_core import Rule
from agenttape_core.errors import ConfigurationError
from agenttape_core.integration import Boundary
from agenttape_core.integration.observing import EventsOption, ObservedCall, Payload, Unrecorded, output_facts
from agenttape_langchain._compat import InlineHandler, as_provider_sees, beginning_tool
from agenttape_langchain.address import model_name, run_name
from agenttape_langchain.callbacks.calls import (
    Batch,
    ObservedCompletion,
    ObservedModel,
    ObservedTool,
)
from agenttape_langchain.callbacks.runs import ObservedRun, Observing
from agenttape_langchain.chat_models import CHAT
from agenttape_langchain.configurables import begun_with
from agenttape_langchain.decision_requests import DECISION, decision_body, is_decision
from agenttape_langchain.effects import request_of_run
from agenttape_langchain.graphs import load_graphs
from agenttape_langchain.inputs import plain_without_run_ids
from agenttape_langchain.llms import COMPLETION
from agenttape_langchain.requests import RETRIEVAL, chat_body, completion_body, retrieval_body, tool_body
from agenttape_langchain.tools import TOOL

if TYPE_CHECKING:
    from uuid import UUID

    from langchain_core.agents import AgentAction, AgentFinish
    from langchain_core.outputs import LLMResult
    from tenacity import RetryCallState

_OF_LLAMAINDEX = (
    "TapeCallbackHandler observes LangChain, and LlamaIndex does not report to it\n"
    "  observe LlamaIndex:  with agenttape_llamaindex.TapeEventHandler(path): ..."
)


class TapeCallbackHandler(InlineHandler):
    """Writes the tree of every run that it observes to a cassette, which can be replayed.

    Calls of chat models, text models, tools and retrievers become interactions; all other runs become steps. The
    handler only observes: it never changes or breaks a run. A call that it could not record is logged, and the error is
    kept in `errors`. One handler may observe many runs, even in parallel, in threads and in tasks, synchronous and
    asynchronous.

    A journal beside the cassette holds everything that has ended, so a crash does not lose it
    (`agenttape_core.recover`). The cassette itself is written when no observed run is open: after `invoke` returns, it
    is there. A file of more than 64 KiB is written when there is much to add; one of more than a megabyte only by
    `flush`, by `close`, or at the end of the program, since writing takes memory for the whole file.

    Args:
        path: The cassette: `.yaml` or `.jsonl`, also `.gz`, or a bare name under the cassette folder. An existing
            one is replaced.
        redact: Rules in addition to the built-in ones, or `False` to keep secrets unchanged.
        tags: Words for the header.
        payload: `full`, or `none` for kinds, names, places, times, tokens and models alone; that can't be replayed.
        events: Receives an event for each call when it ends, as in `use_cassette`; by default as set in the settings.

    Raises:
        CassetteLockedError: If another handler or session is recording to the cassette at this moment.
        ConfigurationError: If the path names no file, or a rule or setting is not valid.
    """

    def __init__(
        self,
        path: str | Path,
        *,
        redact: bool | Sequence[Rule] = True,
        tags: Sequence[str] = (),
        payload: Payload = "full",
        events: EventsOption | None = None,
    ) -> None:
        self._observing = Observing(path, redact=redact, tags=tags, payload=payload, events=events)
        self._batches: dict[Any, Batch] = {}

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, exc_type: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close()

    @property
    def path(self) -> Path | str:
        """The cassette."""
        return self._observing.path

    @property
    def errors(self) -> list[Exception]:
        """The errors of what could not be recorded."""
        return self._observing.errors

    def flush(self) -> None:
        """Write all that was observed to the cassette: now, or when the open runs have ended.

        Raises:
            CassetteError: If it cannot be written; the message shows where the recording is kept.
        """
        self._observing.flush()

    def close(self) -> None:
        """Write all that was observed to the cassette, and observe no more. Open runs are cut off here.

        If it observed no call, it writes no file; a replay would only find it missing, so the log has the reason.

        Raises:
            CassetteError: If it can't be written; the message shows where the recording is kept.
        """
        self._observing.close()

    # -- wrong uses --------------------------------------------------------------------------------------------

    @property
    def start_trace(self) -> Any:
        """Refuse to be a handler of LlamaIndex's callbacks.

        Raises:
            ConfigurationError: Always.
        """
        raise ConfigurationError(_OF_LLAMAINDEX)

    def handle(self, event: Any, **kwargs: Any) -> None:
        """Log once that events of LlamaIndex aren't recorded; LlamaIndex swallows a handler's exceptions."""
        if not self.errors:
            self._observing.could_not_record(ConfigurationError(_OF_LLAMAINDEX))

    # -- observing ---------------------------------------------------------------------------------------------

    def _end(self, run_id: UUID) -> None:
        self._observing.end(run_id)
        if not self._observing.open_runs:
            self._batches.clear()  # of which the framework did not tell all

    def _cross(
        self, run: ObservedRun, boundary: Boundary, name: str, body: Callable[[], Any], call: type[ObservedCall]
    ) -> None:
        self._observing.begin_call(run, lambda: call(self._observing.session_call(run, boundary, name, body())))

    # -- chains ------------------------------------------------------------------------------------------------

    def on_chain_start(
        self,
        serialized: dict[str, Any] | None,
        inputs: Any,
        *,
        run_id: UUID,
        parent_run_id: UUID | None = None,
        **kwargs: Any,
    ) -> None:
        """Note that a chain, an agent, a graph or one of its nodes begins, or the request of a decision model."""
        name = run_name(serialized, kwargs)
        run = self._observing.open(run_id, parent_run_id, name, kwargs)
        if is_decision(kwargs.get("run_type"), inputs):
            run.kind, model = "model", str(run.metadata.get("ls_model_name", ""))
            self._cross(run, DECISION, name, lambda: decision_body(model, inputs), ObservedCall)
            return
        run.kind = run.chain_kind()
        if run.above is None:
            with self._observing.noting():
                run.input = plain_without_run_ids(inputs)
                self._observing.tree.inputs.began(run_id, inputs, begun_with())

    def on_chain_end(self, outputs: Any, *, run_id: UUID, **kwargs: Any) -> None:
        """Record the step, or the answers of a decision model."""
        run = self._observing.open_runs.get(run_id)
        if run is not None and run.kind == "model":
            self._returned(run_id, outputs)
            return
        with self._observing.noting():
            self._observing.tree.inputs.ended(run_id, kwargs)
            if run is not None:
                self._observing.record(run, **(output_facts(outputs) if run.above is None else {}))
        self._end(run_id)

    def on_chain_error(self, error: BaseException, *, run_id: UUID, **kwargs: Any) -> None:
        """Record the step as failed, or that a decision model failed."""
        run = self._observing.open_runs.get(run_id)
        if run is not None and run.kind == "model":
            self._failed(run_id, error)
            return
        with self._observing.noting():
            self._observing.tree.inputs.ended(run_id, kwargs)
            if run is not None:
                self._observing.record(run, status="failed", error=error, **run.failed(error))
        self._end(run_id)

    # -- models ------------------------------------------------------------------------------------------------

    def on_chat_model_start(
        self,
        serialized: dict[str, Any] | None,
        messages: list[list[Any]],
        *,
        run_id: UUID,
        parent_run_id: UUID | None = None,
        invocation_params: dict[str, Any] | None = None,
        **kwargs: Any,
    ) -> None:
        """Note the request of a chat model."""
        name, params = model_name(serialized, kwargs), invocation_params or {}
        run = self._observing.open(run_id, parent_run_id, name, kwargs, kind="model")
        self._cross(
            run, CHAT, name, lambda: chat_body(as_provider_sees(messages[0], traced=True), params), ObservedModel
        )

    def on_llm_start(
        self,
        serialized: dict[str, Any] | None,
        prompts: list[str],
        *,
        run_id: UUID,
        parent_run_id: UUID | None = None,
        invocation_params: dict[str, Any] | None = None,
        batch_size: int = 1,
        **kwargs: Any,
    ) -> None:
        """Note the request of a text model: all its prompts are one call, which callbacks report one by one."""
        name, params = model_name(serialized, kwargs), invocation_params or {}
        self._observing.open(run_id, parent_run_id, name, kwargs, kind="model")
        together = (threading.get_ident(), parent_run_id, name, batch_size)
        batch = self._batches.setdefault(together, Batch(batch_size))
        if not batch.add(run_id, prompts):
            return
        del self._batches[together]
        runs = [opened for each in batch.runs if (opened := self._observing.open_runs.get(each)) is not None]
        first = runs[0]
        self._observing.begin_call(
            first,
            lambda: ObservedCompletion(
                self._observing.session_call(first, COMPLETION, name, completion_body(batch.prompts, params)),
                batch.runs,
            ),
        )
        for each in runs:
            each.call, each.lost = first.call, first.lost

    def on_llm_new_token(self, token: Any, *, chunk: Any = None, run_id: UUID, **kwargs: Any) -> None:
        """Note a chunk."""
        run = self._observing.open_runs.get(run_id)
        if run is not None and isinstance(run.call, ObservedModel):
            with self._observing.noting():
                run.call.arrived(chunk)

    def on_stream_event(self, event: Any, *, run_id: UUID, **kwargs: Any) -> None:
        """Note that the stream of a model is reported in events."""
        run = self._observing.open_runs.get(run_id)
        if run is not None and isinstance(run.call, ObservedModel):
            run.call.sent_event()

    def on_llm_end(self, response: LLMResult, *, run_id: UUID, **kwargs: Any) -> None:
        """Record the answer of a model."""

        def answer(call: ObservedModel) -> Unrecorded | None:
            if isinstance(call, ObservedCompletion):
                return call.returned_to(run_id, response)
            return call.returned(response)

        self._answered(run_id, answer, output=response)

    def on_llm_error(
        self, error: BaseException, *, run_id: UUID, response: LLMResult | None = None, **kwargs: Any
    ) -> None:
        """Record that a model failed, or that its stream was broken or closed."""
        self._answered(run_id, lambda call: call.failed(error, response), error=error)

    # -- tools and retrievers ----------------------------------------------------------------------------------

    def on_tool_start(
        self,
        serialized: dict[str, Any] | None,
        input_str: str,
        *,
        run_id: UUID,
        parent_run_id: UUID | None = None,
        inputs: dict[str, Any] | None = None,
        tool_call_id: str | None = None,
        **kwargs: Any,
    ) -> None:
        """Note the arguments of a tool."""
        name = str((serialized or {}).get("name", "tool"))
        arguments, tool = inputs if inputs is not None else input_str, beginning_tool()
        around = self._observing.tree.ids_around(tool, kwargs.get("metadata"))
        run = self._observing.open(
            run_id, parent_run_id, name, kwargs, kind="tool", tool_call_id=tool_call_id, ids_around=around
        )

        def begin() -> ObservedTool:
            load_graphs()
            body = {**tool_body(name, arguments), **request_of_run(tool.config if tool is not None else None)}
            return ObservedTool(self._observing.session_call(run, TOOL, name, body), tool)

        self._observing.begin_call(run, begin)

    def on_tool_end(self, output: Any, *, run_id: UUID, **kwargs: Any) -> None:
        """Record the result of a tool."""
        self._returned(run_id, output)

    def on_tool_error(self, error: BaseException, *, run_id: UUID, **kwargs: Any) -> None:
        """Record that a tool failed."""
        self._failed(run_id, error)

    def on_retriever_start(
        self,
        serialized: dict[str, Any] | None,
        query: str,
        *,
        run_id: UUID,
        parent_run_id: UUID | None = None,
        **kwargs: Any,
    ) -> None:
        """Note the query of a retriever; callbacks do not receive its settings."""
        name = run_name(serialized, kwargs)
        run = self._observing.open(run_id, parent_run_id, name, kwargs, kind="retriever")
        self._cross(run, RETRIEVAL, name, lambda: retrieval_body(query, {}), ObservedCall)

    def on_retriever_end(self, documents: Any, *, run_id: UUID, **kwargs: Any) -> None:
        """Record the documents of a retriever."""
        self._returned(run_id, documents)

    def on_retriever_error(self, error: BaseException, *, run_id: UUID, **kwargs: Any) -> None:
        """Record that a retriever failed."""
        self._failed(run_id, error)

    def _returned(self, run_id: UUID, value: Any) -> None:
        self._answered(run_id, lambda call: call.returned(value), output=value)

    def _failed(self, run_id: UUID, error: BaseException) -> None:
        self._answered(run_id, lambda call: call.failed(error), error=error)

    def _answered(
        self,
        run_id: UUID,
        answer: Callable[[Any], Unrecorded | None],
        *,
        output: Any = None,
        error: BaseException | None = None,
    ) -> None:
        """Record a call; one of which no interaction can be made becomes a step with the reason."""
        run = self._observing.open_runs.get(run_id)
        with self._observing.noting(again=run is not None and run.lost != ""):
            if run is not None:
                self._observing.answered(run, answer, output=output, error=error)
        self._end(run_id)

    # -- what happens within runs ------------------------------------------------------------------------------

    def on_custom_event(self, name: str, data: Any, *, run_id: UUID, **kwargs: Any) -> None:
        """Record a custom event of the program."""
        self._happened(run_id, "event", name, data)

    def on_text(self, text: str, *, run_id: UUID, **kwargs: Any) -> None:
        """Record a text that a chain reports."""
        self._happened(run_id, "event", "text", text)

    def on_agent_action(self, action: AgentAction, *, run_id: UUID, **kwargs: Any) -> None:
        """Record an action that an agent of the older kind has chosen."""
        self._happened(
            run_id, "event", "agent_action", {"tool": action.tool, "input": action.tool_input, "log": action.log}
        )

    def on_agent_finish(self, finish: AgentFinish, *, run_id: UUID, **kwargs: Any) -> None:
        """Record that an agent of the older kind has finished."""
        self._happened(run_id, "event", "agent_finish", {"output": finish.return_values, "log": finish.log})

    def on_retry(self, retry_state: RetryCallState, *, run_id: UUID, **kwargs: Any) -> None:
        """Record a retry: the number of the failed attempt, the seconds of waiting, and the error."""
        failed = retry_state.outcome is not None and retry_state.outcome.failed
        error = retry_state.outcome.exception() if retry_state.outcome is not None and failed else None
        data = {"attempt": retry_state.attempt_number, "wait_s": retry_state.idle_for}
        self._happened(run_id, "retry", "retry", data, error=error)

    def _happened(self, run_id: UUID, kind: str, name: str, data: Any, error: BaseException | None = None) -> None:
        with self._observing.noting():
            self._observing.happened(self._observing.open_runs.get(run_id), kind, name, data, error)
