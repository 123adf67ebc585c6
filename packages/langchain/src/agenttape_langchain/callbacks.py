"""Observe a run through LangChain's callbacks; what was observed can be replayed.

Callbacks see the same messages, parameters and tool arguments as the leaf calls that a session substitutes, so both
compute the same fingerprints and addresses.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from langchain_core.outputs import ChatGenerationChunk, ChatResult, LLMResult

from agenttape_core import AgentTapeError, Rule
from agenttape_core.integration import Boundary, Crossing, Observation, Position, value_codec
from agenttape_langchain._compat import as_provider_sees
from agenttape_langchain.chat_models import CHAT
from agenttape_langchain.requests import chat_body, tool_body
from agenttape_langchain.run_tree import RunTree, model_name
from agenttape_langchain.tools import TOOL

if TYPE_CHECKING:
    from uuid import UUID

_log = logging.getLogger("agenttape")


class _Observed:
    """An interaction whose start was seen."""

    def __init__(self, crossing: Crossing) -> None:
        self.crossing = crossing
        self.chunks: list[Any] = []


class TapeCallbackHandler(RunTree):
    """Writes every model and tool call that it observes to a cassette, which can be replayed.

    The file is complete whenever no observed run is open: after `invoke` returns, it is there. While runs are open,
    a journal beside it holds every finished call, which a crash does not lose (`agenttape_core.recover`). A handler
    only observes: it never changes or breaks a run. What it could not record is logged and kept in `errors`.

    Args:
        path: The cassette: `.yaml` or `.jsonl`, also with `.gz`. What is there already is replaced.
        redact: Rules beyond the built-in ones, or `False` to keep secrets as they are.
        tags: Words for the header.
    """

    raise_error = False

    def __init__(self, path: str | Path, *, redact: bool | Sequence[Rule] = True, tags: Sequence[str] = ()) -> None:
        super().__init__(Position())
        self._observation = Observation(Path(path), redact=redact, tags=tags)
        self._observed: dict[UUID, _Observed] = {}
        self._parents: dict[UUID, UUID | None] = {}
        self.errors: list[AgentTapeError] = []

    @property
    def path(self) -> Path:
        """The cassette."""
        return self._observation.path

    @contextmanager
    def _observing(self) -> Iterator[None]:
        """Keep our errors out of the observed run, and not lose them."""
        try:
            yield
        except AgentTapeError as error:
            self.errors.append(error)
            _log.error("TapeCallbackHandler(%s) could not record a call: %s", self.path, error)

    def _begin(self, run_id: UUID, parent_run_id: UUID | None, name: str, *args: Any, **facts: Any) -> Any:
        self._parents[run_id] = parent_run_id
        return super()._begin(run_id, parent_run_id, name, *args, **facts)

    def _end(self, run_id: UUID) -> Any:
        run = super()._end(run_id)
        self._parents.pop(run_id, None)
        if not self._parents:
            with self._observing():
                self._observation.flush()
        return run

    def _cross(self, boundary: Boundary, name: str, run_id: UUID, body: Callable[[], Any], *ids: str) -> None:
        run = self.run(run_id)
        assert run is not None
        with self._observing():
            session = self._observation.session
            crossing = session.cross(
                boundary, name, body(), position=run.position, ids=ids, parent=self._crossing_around(run_id)
            )
            self._observed[run_id] = _Observed(crossing)

    def _crossing_around(self, run_id: UUID) -> Crossing | None:
        above = self._parents.get(run_id)
        while above is not None:
            if above in self._observed:
                return self._observed[above].crossing
            above = self._parents.get(above)
        return None

    # -- chat models -------------------------------------------------------------------------------------------

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
        """Note what a model is asked."""
        super().on_chat_model_start(
            serialized,
            messages,
            run_id=run_id,
            parent_run_id=parent_run_id,
            invocation_params=invocation_params,
            **kwargs,
        )
        name = model_name(serialized, kwargs)
        self._cross(
            CHAT,
            name,
            run_id,
            lambda: chat_body(as_provider_sees(messages[0], traced=True), invocation_params or {}),
        )

    def on_llm_new_token(self, token: Any, *, chunk: Any = None, run_id: UUID, **kwargs: Any) -> None:
        """Note a chunk as it is now: the run goes on to change it."""
        observed = self._observed.get(run_id)
        if observed is not None and isinstance(chunk, ChatGenerationChunk):
            with self._observing():
                observed.crossing.chunk_arrived()
                observed.chunks.append(value_codec().encode(chunk))

    def on_llm_end(self, response: LLMResult, *, run_id: UUID, **kwargs: Any) -> None:
        """Record what a model answered."""
        observed = self._observed.pop(run_id, None)
        if observed is not None:
            with self._observing():
                result = ChatResult(generations=response.generations[0], llm_output=response.llm_output)
                if observed.chunks:
                    observed.crossing.streamed(observed.chunks, "exhausted", usage=CHAT.usage(result))
                else:
                    observed.crossing.returned(result)
        super().on_llm_end(response, run_id=run_id)

    def on_llm_error(self, error: BaseException, *, run_id: UUID, **kwargs: Any) -> None:
        """Record that a model failed, or that its stream was broken or closed."""
        observed = self._observed.pop(run_id, None)
        if observed is not None:
            with self._observing():
                if isinstance(error, GeneratorExit):
                    observed.crossing.streamed(observed.chunks, "closed")
                elif isinstance(error, Exception) and observed.chunks:
                    observed.crossing.streamed(observed.chunks, "raised", error)
                elif isinstance(error, Exception):
                    observed.crossing.raised(error)
        super().on_llm_error(error, run_id=run_id)

    # -- tools -------------------------------------------------------------------------------------------------

    def on_tool_start(self, serialized: dict[str, Any] | None, input_str: str, *, run_id: UUID, **kwargs: Any) -> None:
        """Note what a tool is asked."""
        super().on_tool_start(serialized, input_str, run_id=run_id, **kwargs)
        run = self.run(run_id)
        assert run is not None
        name = str((serialized or {}).get("name", "tool"))
        ids = (run.tool_call_id,) if run.tool_call_id is not None else ()
        self._cross(TOOL, name, run_id, lambda: tool_body(name, run.inputs), *ids)

    def on_tool_end(self, output: Any, *, run_id: UUID, **kwargs: Any) -> None:
        """Record what a tool answered. A formatted message is recorded as it is: its parts cannot be told from it."""
        observed = self._observed.pop(run_id, None)
        if observed is not None:
            with self._observing():
                observed.crossing.returned(output)
        super().on_tool_end(output, run_id=run_id)

    def on_tool_error(self, error: BaseException, *, run_id: UUID, **kwargs: Any) -> None:
        """Record that a tool failed."""
        observed = self._observed.pop(run_id, None)
        if observed is not None and isinstance(error, Exception):
            with self._observing():
                observed.crossing.raised(error)
        super().on_tool_error(error, run_id=run_id)
