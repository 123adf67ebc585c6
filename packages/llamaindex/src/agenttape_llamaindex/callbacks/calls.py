"""Calls that reach outside, as an observer sees them: each holds the call that a session would have recorded."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import ExitStack
from typing import Any

from llama_index.core.tools import FunctionTool, ToolOutput

from agenttape_core.errors import AgentTapeError
from agenttape_core.integration import ExecutedCall
from agenttape_core.integration.answers import note_text
from agenttape_core.integration.codecs import packed
from agenttape_core.integration.observing import ObservedCall, ObservedStream, Unrecorded
from agenttape_llamaindex.codec import CHATS, TEXTS
from agenttape_llamaindex.codec.streams import Sort
from agenttape_llamaindex.effects import Effects, effects_of
from agenttape_llamaindex.run_tree import LEAVES

FROM_CACHE = "the model has a cache, and no event says which texts that answered: the request is not certain"
NO_CHUNKS = (
    "it was streamed, and its class fires no events for its chunks: decorate the methods with llm_chat_callback() or "
    "llm_completion_callback(), as LlamaIndex's own LLMs do"
)
ONE_OF_MANY = "one of several calls that were made at once has failed, and no event says which"
UNWRITTEN = "the tool had an effect on its workflow that cannot be written"


class ObservedEmbedding(ObservedCall):
    """A call of an embedding model. `method` is the leaf method."""

    def __init__(self, session_call: ExecutedCall, method: str) -> None:
        super().__init__(session_call)
        self._is_single = method.endswith(("_text_embedding", "_image_embedding"))

    def returned(self, value: Any) -> Unrecorded | None:
        """Record the vector, in the form of a batch of one."""
        return super().returned([packed(value)] if self._is_single else packed(value))


class ObservedFunction(ObservedCall):
    """A call of a tool made of a function: the value of the function is recorded, of which the tool makes its output.

    Its effects on its workflow are noted from now until it ends. `effects` are of calls in its workflow.
    """

    is_replayed = False

    def __init__(self, session_call: ExecutedCall, effects: Effects) -> None:
        super().__init__(session_call)
        self._noting = ExitStack()
        self._noting.enter_context(effects.noted(self))

    def effected(self, value: Any) -> None:
        """Note an effect that it has just had. The run must not notice if that cannot be written."""
        try:
            self.session_call.effected(value)
        except AgentTapeError as error:
            self.session_call.fidelity_note = f"{UNWRITTEN}: {str(error).partition(chr(10))[0]}"

    def returned(self, value: Any) -> Unrecorded | None:
        """Record the value of the function."""
        self._noting.close()
        result = value.raw_output if isinstance(value, ToolOutput) else value
        note_text(self.session_call, result)
        return super().returned(result)

    def failed(self, error: BaseException | None) -> Unrecorded | None:
        """Record the error, or that the call waits for a person."""
        self._noting.close()
        return super().failed(error)


class ObservedResponses(ObservedStream):
    """A call of an LLM that streams: its method returns right away, and events report its chunks."""

    def __init__(self, session_call: ExecutedCall, sort: Sort) -> None:
        super().__init__(session_call)
        self._chunk_of = sort.writer()
        self._last: Any = None

    def arrived(self, chunk: Any) -> None:
        """Keep a response as the chunk that it is."""
        super().arrived(self._chunk_of(chunk))
        self._last = chunk

    def ended(self, error: BaseException | None = None) -> Unrecorded | None:
        """Record the stream: it was read to its end, closed by its reader, or broken.

        `error` is the error that ended it.
        """
        return self.exhausted(self._last) if error is None else self.broken(error)


def call_of(session_call: ExecutedCall, instance: Any, method: str, kwargs: Mapping[str, Any]) -> ObservedCall:
    """Return the observed call that a call is, in the form of its kind.

    `method` is the leaf method; `kwargs` are the arguments that have names.
    """
    if method in LEAVES and "stream" in method:
        return ObservedResponses(session_call, CHATS if LEAVES[method] == "chat" else TEXTS)
    if session_call.boundary.kind == "embeddings":
        return ObservedEmbedding(session_call, method)
    if isinstance(instance, FunctionTool):
        return ObservedFunction(session_call, effects_of(kwargs.get(instance.ctx_param_name or "")))
    return ObservedCall(session_call)
