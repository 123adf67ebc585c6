"""What callbacks see of a call that reaches outside, as the crossing that a session would have recorded.

Each call is told of what happens to it, and says at its end whether it could be recorded.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from langchain_core.messages import ToolMessage
from langchain_core.outputs import ChatGenerationChunk, ChatResult, GenerationChunk, LLMResult

from agenttape_core.integration import Crossing
from agenttape_core.integration.observing import HOLE, ObservedCall, ObservedStream, Unrecorded
from agenttape_langchain._compat import came_from_cache, refused_arguments, returns_artifact

if TYPE_CHECKING:
    from uuid import UUID

FROM_CACHE = "LangChain's cache answered it: no provider was asked, and nobody knows what it would have said"
ONLY_WHOLE = "it was streamed, but callbacks were shown the whole of it only, and not the chunks"
NO_ARTIFACT = "the tool returned an artifact, which callbacks are not told of where no model asked for the call"
_CHUNKS = (ChatGenerationChunk, GenerationChunk)


class ObservedTool(ObservedCall):
    """A call of a tool.

    A formatted message is recorded as it is: the tool is served it, and passes it on unchanged.
    """

    def __init__(self, crossing: Crossing) -> None:
        super().__init__(crossing)
        self._lacks_artifact = not crossing.request.extra and returns_artifact()

    def returned(self, value: Any) -> Unrecorded | None:
        """Record what came back, as far as it was shown."""
        if self._lacks_artifact and not isinstance(value, ToolMessage):
            self.crossing.fidelity_note = NO_ARTIFACT
            value = (value, None)  # as the tool's own code returns it
        return super().returned(value)

    def failed(self, error: BaseException | None) -> Unrecorded | None:
        """Record that it failed; one that was given wrong arguments did not run, and will fail by itself again."""
        return Unrecorded() if error is not None and refused_arguments(error) else super().failed(error)


class ObservedModel(ObservedStream):
    """A call of a chat model."""

    def __init__(self, crossing: Crossing) -> None:
        super().__init__(crossing)
        self._has_events = False

    def arrived(self, chunk: Any) -> None:
        """Keep a chunk; other tokens are no parts of an answer."""
        if isinstance(chunk, _CHUNKS):
            super().arrived(chunk)

    def sent_event(self) -> None:
        """Note that its stream is reported in events."""
        self._has_events = True

    def returned(self, value: LLMResult) -> Unrecorded | None:
        """Record what came back."""
        if came_from_cache(value):
            return Unrecorded(FROM_CACHE)
        result = self._result(value)
        if self.chunks or not self.is_whole:
            return self.exhausted(result)
        self._note_lost_stream(value)
        return super().returned(result)

    def _note_lost_stream(self, shown: LLMResult | None) -> None:
        """Mark a call that has streamed although no chunk was shown: it ends with the sum of its chunks."""
        parts = [part for batch in shown.generations for part in batch] if shown is not None else []
        if not self.chunks and (self._has_events or any(isinstance(part, _CHUNKS) for part in parts)):
            self.crossing.fidelity_note = ONLY_WHOLE

    def _result(self, value: LLMResult) -> Any:
        return ChatResult(generations=value.generations[0], llm_output=value.llm_output)

    def failed(self, error: BaseException | None, shown: LLMResult | None = None) -> Unrecorded | None:
        """Record that it failed, or that its stream was broken or closed.

        Args:
            error: What it failed with.
            shown: What had come before.
        """
        if not self.is_whole:
            return Unrecorded(HOLE)
        self._note_lost_stream(shown)
        if isinstance(error, GeneratorExit):  # raised where a chunk was handed out, so there was one
            self.crossing.fidelity_note = "" if self.chunks else ONLY_WHOLE
            return self.broken(error)
        return self.broken(error) if isinstance(error, Exception) and self.chunks else super().failed(error)


class ObservedCompletion(ObservedModel):
    """A call of a text model, which may be given several prompts at once: each is a run of its own to callbacks.

    Args:
        crossing: Its crossing.
        runs: The runs of its prompts, in order.
    """

    def __init__(self, crossing: Crossing, runs: list[UUID]) -> None:
        super().__init__(crossing)
        self._waiting = dict.fromkeys(runs)
        self._answers: dict[UUID, LLMResult] = {}
        self._has_failed = False

    def returned_to(self, run_id: UUID, value: LLMResult) -> Unrecorded | None:
        """Record what came back, once it is there for all prompts."""
        self._answers[run_id] = value
        return self.returned(value) if self._answers.keys() == self._waiting.keys() else None

    def _result(self, value: LLMResult) -> LLMResult:
        answers = [self._answers[run_id] for run_id in self._waiting]
        generations = [answer.generations[0] for answer in answers]
        return LLMResult(generations=generations, llm_output=answers[0].llm_output)

    def failed(self, error: BaseException | None, shown: LLMResult | None = None) -> Unrecorded | None:
        """Record that it failed; every prompt is told, and it is one failure."""
        if self._has_failed:
            return None
        self._has_failed = True
        return super().failed(error, shown)


@dataclass(slots=True)
class Batch:
    """The prompts of one call of a text model, while its callbacks are told of them one after the other.

    Args:
        size: How many there are.
    """

    size: int
    prompts: list[str] = field(default_factory=list)
    runs: list[UUID] = field(default_factory=list)

    def add(self, run_id: UUID, prompts: list[str]) -> bool:
        """Add what a run was told; whether all are there now."""
        self.prompts.extend(prompts)
        self.runs.append(run_id)
        return len(self.runs) >= self.size
