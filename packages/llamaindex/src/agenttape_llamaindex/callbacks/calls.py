"""What is seen of a call that reaches outside, as the crossing that a session would have recorded.

Each call is told of what happens to it, and says at its end whether it could be recorded.
"""

from __future__ import annotations

from contextlib import ExitStack
from dataclasses import dataclass
from typing import Any

from llama_index.core.tools import ToolOutput

from agenttape_core import AgentTapeError
from agenttape_core.integration import Crossing, value_codec
from agenttape_core.integration.codecs import packed
from agenttape_llamaindex.codec.streams import Sort
from agenttape_llamaindex.effects import Effects

HOLE = "a chunk of its stream could not be recorded, and a stream with a hole is none"
CANCELLED = "it was cancelled before it had an outcome"
FROM_CACHE = "the model has a cache, and nobody is told which texts that answered: what was asked is not certain"
NO_CHUNKS = "it was streamed, and its class tells no events of its chunks"
ONE_OF_MANY = "one of several calls that were made at once has failed, and nobody is told which"
UNWRITTEN = "the tool did something to its workflow that cannot be written"


@dataclass(frozen=True, slots=True)
class Unrecorded:
    """No interaction was made of a call.

    Args:
        note: What is missing of the run because of that; nothing where nothing reached outside.
    """

    note: str = ""


class ObservedCall:
    """A call whose answer is the value of its method.

    Args:
        crossing: Its crossing.
    """

    def __init__(self, crossing: Crossing) -> None:
        self.crossing = crossing

    def returned(self, value: Any) -> Unrecorded | None:
        """Record what came back."""
        self.crossing.returned(value)
        return None

    def failed(self, error: BaseException | None) -> Unrecorded | None:
        """Record that it failed. What ends a program or a task is no outcome."""
        if not isinstance(error, Exception):
            return Unrecorded(CANCELLED)
        self.crossing.raised(error)
        return None


class ObservedEmbedding(ObservedCall):
    """A call of an embedding model.

    Args:
        crossing: Its crossing.
        method: The leaf method.
    """

    def __init__(self, crossing: Crossing, method: str) -> None:
        super().__init__(crossing)
        self._is_single = method.endswith(("_text_embedding", "_image_embedding"))

    def returned(self, value: Any) -> Unrecorded | None:
        """Record what came back, as it is recorded of a batch."""
        return super().returned([packed(value)] if self._is_single else packed(value))


class ObservedFunction(ObservedCall):
    """A call of a tool made of a function: what the function returned is recorded, and the tool makes its output of it.

    What it does to its workflow besides returning is noted from now until it ends.

    Args:
        crossing: Its crossing.
        effects: The effects of calls in its workflow.
    """

    is_served = False

    def __init__(self, crossing: Crossing, effects: Effects) -> None:
        super().__init__(crossing)
        self._noting = ExitStack()
        self._noting.enter_context(effects.noted(self))

    def effected(self, value: Any) -> None:
        """Note what it has just done. The run must not feel it if that cannot be written."""
        try:
            self.crossing.effected(value)
        except AgentTapeError as error:
            self.crossing.fidelity_note = f"{UNWRITTEN}: {error}"

    def returned(self, value: Any) -> Unrecorded | None:
        """Record what came back."""
        self._noting.close()
        return super().returned(value.raw_output if isinstance(value, ToolOutput) else value)

    def failed(self, error: BaseException | None) -> Unrecorded | None:
        """Record that it failed, or that it waits for a person."""
        self._noting.close()
        return super().failed(error)


class ObservedStream(ObservedCall):
    """A call of an LLM that streams: its method returns at once, and events tell of its chunks.

    Args:
        crossing: Its crossing.
        sort: The sort of its responses.
    """

    def __init__(self, crossing: Crossing, sort: Sort) -> None:
        super().__init__(crossing)
        self._chunk_of = sort.writer()
        self._chunks: list[Any] = []
        self._last: Any = None
        self._is_whole = True

    def arrived(self, response: Any) -> None:
        """Keep a chunk as it is now: the run goes on to change it.

        Raises:
            UnrecordableValueError: If it has no codec.
        """
        self.crossing.chunk_arrived()
        self._is_whole, was_whole = False, self._is_whole
        self._chunks.append(value_codec().encode(self._chunk_of(response)))
        self._last = response
        self._is_whole = was_whole

    def ended(self, error: BaseException | None = None) -> Unrecorded | None:
        """Record the stream: it was read to its end, closed by its reader, or broken.

        Args:
            error: What ended it.
        """
        if not self._is_whole:
            return Unrecorded(HOLE)
        if error is not None and not isinstance(error, Exception | GeneratorExit):
            return Unrecorded(CANCELLED)
        if isinstance(error, Exception):
            self.crossing.streamed(self._chunks, "raised", error)
        elif error is not None:
            self.crossing.streamed(self._chunks, "closed")
        else:
            usage = self.crossing.boundary.usage(self._last) if self._last is not None else None
            self.crossing.streamed(self._chunks, "exhausted", usage=usage)
        return None
