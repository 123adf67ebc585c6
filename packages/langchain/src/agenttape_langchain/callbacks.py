"""Observe a run through LangChain's callbacks; what was observed can be replayed.

Callbacks see the same messages, parameters and tool arguments as the leaf calls that a session substitutes, so both
compute the same fingerprints and addresses.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from threading import RLock
from typing import TYPE_CHECKING, Any

from langchain_core.outputs import ChatGenerationChunk, ChatResult, LLMResult

from agenttape_core import Rule
from agenttape_core.integration import Boundary, Crossing, Observation, Position, value_codec
from agenttape_langchain._compat import as_provider_sees, refused_arguments
from agenttape_langchain.chat_models import CHAT
from agenttape_langchain.requests import chat_body, tool_body
from agenttape_langchain.run_tree import Run, RunTree, model_name, tagged
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

    The file is complete whenever no observed run is open: after `invoke` returns, it is there; what ends later than
    the run it belongs to is not part of it. While runs are open, a journal beside it holds every finished call, which
    a crash does not lose (`agenttape_core.recover`). A handler only observes: it never changes or breaks a run. What
    it could not record is logged and kept in `errors`. One handler may observe many runs, also at once; they all go
    to its file, one after the other.

    Args:
        path: The cassette: `.yaml` or `.jsonl`, also with `.gz`, or a bare name under the cassette folder. What is
            there already is replaced.
        redact: Rules beyond the built-in ones, or `False` to keep secrets as they are.
        tags: Words for the header.

    Raises:
        ConfigurationError: If the path names no file, or a rule or setting is not valid.
    """

    raise_error = False

    def __init__(self, path: str | Path, *, redact: bool | Sequence[Rule] = True, tags: Sequence[str] = ()) -> None:
        super().__init__(Position())
        self._observation = Observation(path, redact=redact, tags=tags)
        self._observed: dict[UUID, _Observed] = {}
        self._parents: dict[UUID, UUID | None] = {}
        self._outermost: set[UUID] = set()
        self._gate = RLock()  # no run begins between the end of the last one and the writing of the file
        self.errors: list[Exception] = []

    @property
    def path(self) -> Path | str:
        """The cassette."""
        return self._observation.path

    @contextmanager
    def _observing(self) -> Iterator[None]:
        """Keep our errors out of the observed run, and not lose them."""
        try:
            yield
        except Exception as error:  # noqa: BLE001 - whatever it is, it is ours and not the run's
            self.errors.append(error)
            _log.error("TapeCallbackHandler(%s) could not record a call: %s", self.path, error)

    def _begin(self, run_id: UUID, parent_run_id: UUID | None, name: str, *args: Any, **facts: Any) -> Run:
        with self._gate:
            if parent_run_id not in self._parents:
                self._outermost.add(run_id)
            self._parents[run_id] = parent_run_id
            return super()._begin(run_id, parent_run_id, name, *args, **facts)

    def _branch(self, above: Position) -> None:
        """No session forks strands for this tree; what the context still holds of another says nothing about it."""

    def _end(self, run_id: UUID) -> Run | None:
        with self._gate:
            run = super()._end(run_id)
            self._parents.pop(run_id, None)
            self._outermost.discard(run_id)
            if not self._outermost:
                for abandoned in (self._runs, self._parents, self._observed):
                    abandoned.clear()
                with self._observing():
                    self._observation.flush()
        return run

    def _cross(self, boundary: Boundary, name: str, run_id: UUID, run: Run, body: Callable[[], Any]) -> None:
        ids = (run.tool_call_id,) if run.tool_call_id is not None else ()
        with self._observing():
            around = self._crossing_around(run_id)
            session = self._observation.session
            crossing = session.cross(boundary, name, body(), position=run.position, ids=ids, parent=around)
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
        name = model_name(serialized, kwargs)
        run = self._begin(run_id, parent_run_id, name, *tagged(kwargs), params=invocation_params)
        asked = invocation_params or {}
        self._cross(CHAT, name, run_id, run, lambda: chat_body(as_provider_sees(messages[0], traced=True), asked))

    def on_llm_new_token(self, token: Any, *, chunk: Any = None, run_id: UUID, **kwargs: Any) -> None:
        """Note a chunk as it is now: the run goes on to change it."""
        observed = self._observed.pop(run_id, None)
        if observed is None:
            return
        with self._observing():
            if isinstance(chunk, ChatGenerationChunk):
                observed.crossing.chunk_arrived()
                observed.chunks.append(value_codec().encode(chunk))
            self._observed[run_id] = observed  # not reached when a chunk cannot be kept: a stream with a hole is none

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
        self._end(run_id)

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
        self._end(run_id)

    # -- tools -------------------------------------------------------------------------------------------------

    def on_tool_start(self, serialized: dict[str, Any] | None, input_str: str, *, run_id: UUID, **kwargs: Any) -> None:
        """Note what a tool is asked."""
        super().on_tool_start(serialized, input_str, run_id=run_id, **kwargs)
        run = self.run(run_id)
        assert run is not None
        name = str((serialized or {}).get("name", "tool"))
        self._cross(TOOL, name, run_id, run, lambda: tool_body(name, run.inputs))

    def on_tool_end(self, output: Any, *, run_id: UUID, **kwargs: Any) -> None:
        """Record what a tool answered. A formatted message is recorded as it is: its parts cannot be told from it."""
        observed = self._observed.pop(run_id, None)
        if observed is not None:
            with self._observing():
                observed.crossing.returned(output)
        self._end(run_id)

    def on_tool_error(self, error: BaseException, *, run_id: UUID, **kwargs: Any) -> None:
        """Record that a tool failed; one that was given wrong arguments did not run, and will fail by itself again."""
        observed = self._observed.pop(run_id, None)
        if observed is not None and isinstance(error, Exception) and not refused_arguments(error):
            with self._observing():
                observed.crossing.raised(error)
        self._end(run_id)
