"""Spans while they are open: their calls, and what of them is recorded as a step."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import Any

from llama_index.core.base.base_retriever import BaseRetriever
from llama_index.core.base.llms.base import BaseLLM
from llama_index.core.tools import BaseTool, FunctionTool, ToolOutput
from workflows import Workflow
from workflows.events import Event

from agenttape_core.errors import AgentTapeError
from agenttape_core.integration import ExecutedCall, Leaf, Position, state_of
from agenttape_core.integration.answers import note_text
from agenttape_core.integration.codecs import packed
from agenttape_core.integration.observing import ObservedCall, ObservedStream, OpenRun, Unrecorded
from agenttape_llamaindex.codec import CHATS, TEXTS
from agenttape_llamaindex.codec.streams import Sort
from agenttape_llamaindex.delegation import MethodRun
from agenttape_llamaindex.effects import Effects, effects_of
from agenttape_llamaindex.run_tree import LEAVES
from agenttape_llamaindex.workflows import RunRecord

_KINDS: tuple[tuple[type, frozenset[str], str], ...] = (
    (BaseLLM, frozenset(LEAVES), "model"),
    (BaseRetriever, frozenset({"retrieve", "aretrieve"}), "retriever"),
    (BaseTool, frozenset({"__call__", "call", "acall"}), "tool"),
)
"""The methods whose spans are calls of a model, a retriever or a tool, and the kinds of their steps."""
_AGENTS = "llama_index.core.agent."
"""The package of the workflows that are agents, which are not imported to find out."""
_ONLY = "Agent"
"""The name of an agent that was given none."""
_OF_FRAMEWORK = ("llamaindex.",)
"""Prefixes of the tags that the framework itself puts on spans."""


SUBMITTER: ContextVar[str | None] = ContextVar("agenttape_llamaindex_submitter", default=None)
"""The id of the span whose code submitted the work of a pool of threads that runs."""


@dataclass(slots=True)
class HiddenLeaf:
    """The leaf method behind a public method of an embedding model, if it has no separate span."""

    name: str  # the leaf method
    leaf: Leaf
    texts: Any  # the argument of the public method
    embedded: int = 0  # the number of batches that have been embedded

    @property
    def is_batch(self) -> bool:
        """True if it's given several texts in one call."""
        return self.name.endswith("s")

    def failed_with(self, batch_size: int | None) -> Any:
        """Return its argument when the public method failed; `None` where that is not certain.

        `batch_size` is the number of texts in one call of the model.
        """
        if isinstance(self.texts, str):
            return self.texts
        is_one_by_one = self.is_batch and not self.name.startswith("_a")
        if not is_one_by_one or batch_size is None or not isinstance(self.texts, list):
            return None
        return self.texts[self.embedded * batch_size : (self.embedded + 1) * batch_size]


@dataclass(slots=True, kw_only=True)
class OpenSpan(OpenRun):
    """A span that continues, or whose stream is not read to its end."""

    instance: Any = None  # the object whose method it is
    tags: dict[str, Any] = field(default_factory=dict)  # the tags that the program gave it
    hidden: HiddenLeaf | None = None  # the leaf method behind it that has no span
    leaf: MethodRun | None = None  # the leaf method of an LLM that it is
    # The spans of the leaf methods of the same object that this one has called; see `delegation`.
    inside: list[OpenSpan] = field(default_factory=list)
    run: RunRecord | None = None  # the record of the workflow run that it is
    # The id of the span whose code submitted this one to a pool of threads, without its context.
    submitter: str | None = field(default_factory=SUBMITTER.get)
    agent: Mapping[str, str] = field(default_factory=dict)  # the agent of a workflow of several that acts
    has_ended: bool = False  # whether the method has returned; its stream may continue
    error: BaseException | None = None  # the error that it failed with

    @property
    def is_plain(self) -> bool:
        """True if it is not a call."""
        return self.call is None and self.lost == ""

    @property
    def is_shown_whole(self) -> bool:
        """True if its step has its output: it is outermost, or a tool that is part of the program."""
        return self.above is None or self.kind == "tool"

    @property
    def is_part(self) -> bool:
        """True if another leaf method of the same object has called it: only that one's end has the recorded data."""
        return self.leaf is not None and self.leaf.outer is not None

    @property
    def has_delegated(self) -> bool:
        """True if another span has the outcome of its call, which is known when it has ended."""
        return self.leaf is not None and self.leaf.delegate is not None

    def begin_part(self, method: str, call: Callable[[ExecutedCall], ObservedCall]) -> None:
        """Begin as a part of the leaf call directly around this one, if that is of the same object; see `delegation`.

        `method` is the leaf method of this span; `call` makes the call.
        """
        around = next((span for span in self.around() if span.call is not None), None)
        if around is None or around.leaf is None or around.leaf.session_call.owner is not state_of(self.instance):
            return
        part = around.leaf.session_call.part()
        self.leaf, self.call = MethodRun(part, method, around.leaf), call(part)
        around.inside.append(self)

    def unrecorded(self, *, is_recorded: bool = True) -> Iterator[OpenSpan]:
        """Yield the spans of its parts that are not recorded as its interaction, the innermost first."""
        for span in self.inside:
            is_it = is_recorded and self.leaf is not None and self.leaf.delegate is span.leaf
            yield from span.unrecorded(is_recorded=is_it)
            if not is_it or span.has_delegated:
                yield span

    @property
    def position_inside(self) -> Position:
        """The position for work below it: its own, or its call's, whichever is further inside."""
        session_call = self.call.session_call if self.call is not None else self.call_around
        around = session_call.position if session_call is not None else self.position
        return around if len(around.order) > len(self.position.order) else self.position

    @property
    def own_metadata(self) -> dict[str, Any]:
        """The agent that acts, and the instrumentation tags that were meant for this span."""
        inherited = self.above.tags if self.above is not None else {}
        return {
            **self.agent,
            **{
                key: value
                for key, value in self.tags.items()
                if not key.startswith(_OF_FRAMEWORK) and not (key in inherited and inherited[key] == value)
            },
        }


def kind_of(instance: Any, method: str, above: OpenSpan | None) -> str:
    """Return the kind of step that a span is."""
    if isinstance(instance, Workflow):
        return kind_of_workflow(instance)
    if instance is None and above is not None and isinstance(above.instance, Workflow):
        return "node"
    return next((kind for cls, methods, kind in _KINDS if isinstance(instance, cls) and method in methods), "chain")


def kind_of_workflow(workflow: Workflow) -> str:
    """Return the kind of step that the run of a workflow is."""
    is_agent = any(cls.__module__.startswith(_AGENTS) for cls in type(workflow).__mro__)
    return "agent" if is_agent else "chain"


def acting_agent(arguments: Mapping[str, Any]) -> dict[str, str]:
    """Return the name of the agent that a step function acts for, as metadata; empty if it has none.

    `arguments` are the step function's, one of which is its event.
    """
    names = (getattr(value, "current_agent_name", None) for value in arguments.values() if isinstance(value, Event))
    return next(({"agent": name} for name in names if isinstance(name, str) and name != _ONLY), {})


# -- Calls that reach outside, as an observer sees them: each holds the call that a session would have recorded.

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
