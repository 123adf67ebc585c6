"""Calls that callbacks observe, recorded as the calls that a session would have recorded.

A call receives its chunks and its outcome; its last method returns None, or the reason why it wasn't recorded.
"""

from __future__ import annotations

from asyncio import CancelledError
from contextlib import ExitStack, suppress
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from langchain_core.messages import ToolMessage
from langchain_core.outputs import ChatGenerationChunk, ChatResult, GenerationChunk, LLMResult

from agenttape_core.errors import AgentTapeError
from agenttape_core.integration import ExecutedCall
from agenttape_core.integration.observing import HOLE, ObservedCall, ObservedStream, Unrecorded
from agenttape_langchain._compat import BeginningTool, came_from_cache, refused_arguments
from agenttape_langchain.effects import observing_effects

if TYPE_CHECKING:
    from uuid import UUID

FROM_CACHE = "LangChain's cache answered it, so there is no answer of the provider"
ONLY_WHOLE = "it was streamed, but callbacks received only the whole answer, and not the chunks"
NO_ARTIFACT = "the tool returned an artifact, which callbacks receive only for the tool call of a model"
UNWRITTEN = "the tool had an effect on its graph that cannot be written"
_CHUNKS = (ChatGenerationChunk, GenerationChunk)


class ObservedTool(ObservedCall):
    """A call of a tool.

    A formatted message is recorded unchanged: in a replay, the tool returns the same message. Its effects other than
    its result are noted from now until it ends. `tool` is what callbacks do not receive of it.
    """

    def __init__(self, session_call: ExecutedCall, tool: BeginningTool | None) -> None:
        super().__init__(session_call)
        self._lacks_artifact = not session_call.request.extra and tool is not None and tool.returns_artifact
        self._noting = ExitStack()
        if tool is not None:
            self._noting.enter_context(observing_effects(session_call, tool, self._effected))

    def _effected(self, word: str, value: Any) -> None:
        """Note an effect that it has just had. The run must not notice if that cannot be written."""
        try:
            self.session_call.effected({word: value})
        except AgentTapeError as error:
            self.session_call.fidelity_note = f"{UNWRITTEN}: {error}"

    def returned(self, value: Any) -> Unrecorded | None:
        """Record the result, without an artifact that callbacks did not receive."""
        self._noting.close()
        if self._lacks_artifact and not isinstance(value, ToolMessage):
            self.session_call.fidelity_note = NO_ARTIFACT
            value = (value, None)  # as the tool's own code returns it
        return super().returned(value)

    def failed(self, error: BaseException | None) -> Unrecorded | None:
        """Record that it failed, unless its arguments were refused: it didn't run, and will fail again in a replay."""
        with suppress(BaseException):  # it passes the error on
            if error is not None:
                self._noting.__exit__(type(error), error, error.__traceback__)
        return Unrecorded() if error is not None and refused_arguments(error) else super().failed(error)


class ObservedModel(ObservedStream):
    """A call of a chat model."""

    def __init__(self, session_call: ExecutedCall) -> None:
        super().__init__(session_call)
        self._has_events = False

    def arrived(self, chunk: Any) -> None:
        """Keep a chunk; other tokens are not part of the answer."""
        if isinstance(chunk, _CHUNKS):
            super().arrived(chunk)

    def sent_event(self) -> None:
        """Note that its stream is reported in events."""
        self._has_events = True

    def returned(self, value: LLMResult) -> Unrecorded | None:
        """Record the result."""
        if came_from_cache(value):
            return Unrecorded(FROM_CACHE)
        result = self._result(value)
        if self.chunks or not self.is_whole:
            return self.exhausted(result)
        self._note_lost_stream(value)
        return super().returned(result)

    def _note_lost_stream(self, shown: LLMResult | None) -> None:
        """Mark a call that streamed without reporting a chunk: its result is the sum of its chunks."""
        parts = [part for batch in shown.generations for part in batch] if shown is not None else []
        if not self.chunks and (self._has_events or any(isinstance(part, _CHUNKS) for part in parts)):
            self.session_call.fidelity_note = ONLY_WHOLE

    def _result(self, value: LLMResult) -> Any:
        return ChatResult(generations=value.generations[0], llm_output=value.llm_output)

    def failed(self, error: BaseException | None, shown: LLMResult | None = None) -> Unrecorded | None:
        """Record that it failed, or that its stream was broken or closed.

        `shown` is the part of the answer that had come before.
        """
        if not self.is_whole:
            return Unrecorded(HOLE)
        self._note_lost_stream(shown)
        if isinstance(error, GeneratorExit):  # raised at a `yield` of a chunk, so there was one
            self.session_call.fidelity_note = "" if self.chunks else ONLY_WHOLE
            return self.broken(error)
        if isinstance(error, Exception | CancelledError) and self.chunks:
            return self.broken(error)
        return super().failed(error)


class ObservedCompletion(ObservedModel):
    """A call of a text model, which may have several prompts: for callbacks each is its own run.

    `runs` are the runs of its prompts, in order.
    """

    def __init__(self, session_call: ExecutedCall, runs: list[UUID]) -> None:
        super().__init__(session_call)
        self._waiting = dict.fromkeys(runs)
        self._answers: dict[UUID, LLMResult] = {}
        self._has_failed = False

    def returned_to(self, run_id: UUID, value: LLMResult) -> Unrecorded | None:
        """Record the result, once it is there for all prompts."""
        self._answers[run_id] = value
        return self.returned(value) if self._answers.keys() == self._waiting.keys() else None

    def _result(self, value: LLMResult) -> LLMResult:
        answers = [self._answers[run_id] for run_id in self._waiting]
        generations = [answer.generations[0] for answer in answers]
        return LLMResult(generations=generations, llm_output=answers[0].llm_output)

    def failed(self, error: BaseException | None, shown: LLMResult | None = None) -> Unrecorded | None:
        """Record that it failed; callbacks report the one failure for every prompt."""
        if self._has_failed:
            return None
        self._has_failed = True
        return super().failed(error, shown)


@dataclass(slots=True)
class Batch:
    """The prompts of one call of a text model, which callbacks report one after the other."""

    size: int  # the number of prompts
    prompts: list[str] = field(default_factory=list)
    runs: list[UUID] = field(default_factory=list)

    def add(self, run_id: UUID, prompts: list[str]) -> bool:
        """Add the prompts of a run, and return whether all are there now."""
        self.prompts.extend(prompts)
        self.runs.append(run_id)
        return len(self.runs) >= self.size
