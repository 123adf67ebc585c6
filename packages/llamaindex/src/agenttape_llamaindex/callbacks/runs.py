"""What is known of a span while it is open, and what of it is worth keeping."""

from __future__ import annotations

import marshal
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from time import perf_counter
from typing import Any

from llama_index.core.base.base_retriever import BaseRetriever
from llama_index.core.base.llms.base import BaseLLM
from llama_index.core.tools import BaseTool
from workflows import Workflow
from workflows.events import Event

from agenttape_core.integration import Crossing, Leaf, Position, plain_value, state_of
from agenttape_llamaindex.callbacks.calls import ObservedCall
from agenttape_llamaindex.delegation import DELEGATED_BY
from agenttape_llamaindex.run_tree import LEAVES
from agenttape_llamaindex.workflows import RunRecord

_LARGE = 64 * 1024
"""An output of more bytes is left out."""
_SORTS: tuple[tuple[type, frozenset[str], str], ...] = (
    (BaseLLM, frozenset(LEAVES), "model"),
    (BaseRetriever, frozenset({"retrieve", "aretrieve"}), "retriever"),
    (BaseTool, frozenset({"__call__", "call", "acall"}), "tool"),
)
"""The methods whose spans are calls of a model, a retriever or a tool."""
_AGENTS = "llama_index.core.agent."
"""Where the workflows are that are agents; they are not imported to find out."""
_OF_FRAMEWORK = ("llamaindex.",)
"""Beginnings of the tags that the framework itself puts on spans."""


def readable(value: Any) -> Any:
    """Return a value as a step has it: an event by its class and what it says."""
    if not isinstance(value, Event):
        return value
    fields = value.model_dump()
    return {"event": type(value).__name__, **fields.pop("_data", {}), **fields}


def output_facts(output: Any) -> dict[str, Any]:
    """Return what a step says of the output of a span; of a large one only its size, as a replay makes it again."""
    plain = plain_value(readable(output))
    size = len(marshal.dumps(plain, 2))
    return {"output": plain} if size <= _LARGE else {"data": {"left_out": "output", "bytes": size}}


@dataclass(slots=True)
class Hidden:
    """The leaf method behind a public method of an embedding model, where it has no span of its own.

    Args:
        name: The leaf method.
        leaf: The leaf.
        texts: What the public method was given.
        ended: How many batches were embedded.
    """

    name: str
    leaf: Leaf
    texts: Any
    ended: int = 0

    @property
    def is_batch(self) -> bool:
        """Whether it is given several texts at once."""
        return self.name.endswith("s")

    def failed_with(self, batch_size: int | None) -> Any:
        """Return what it was asked when the public method failed; nothing where that is not certain.

        Args:
            batch_size: How many texts the model is given at once.
        """
        if isinstance(self.texts, str):
            return self.texts
        is_one_by_one = self.is_batch and not self.name.startswith("_a")
        if not is_one_by_one or batch_size is None or not isinstance(self.texts, list):
            return None
        return self.texts[self.ended * batch_size : (self.ended + 1) * batch_size]


@dataclass(slots=True)
class OpenSpan:
    """A span that goes on, or whose stream is not read to its end.

    Args:
        span_id: Its id.
        position: Where it stands in the tree.
        name: What the framework calls it.
        kind: What sort of step it is.
        above: The span it belongs to, if that is observed.
        instance: The object whose method it is.
        tags: The tags that the program gave it.
        call: What it does outside, if it is a call.
        hidden: The leaf method behind it that has no span.
        methods: The leaf methods of an LLM that its call has come through, with its own.
        has_delegated: Whether another leaf method of the same object has taken its call over.
        lost: Why its call could not be begun to be recorded.
        input: What it was given, as plain data, if it is outermost.
        run: What is recorded of the workflow run that it is.
        has_ended: Whether the method has returned; its stream may go on.
        error: What it failed with.
    """

    span_id: str
    position: Position
    name: str
    kind: str
    above: OpenSpan | None
    instance: Any = None
    tags: dict[str, Any] = field(default_factory=dict)
    call: ObservedCall | None = None
    hidden: Hidden | None = None
    methods: tuple[str, ...] = ()
    has_delegated: bool = False
    lost: str = ""
    input: Any = None
    run: RunRecord | None = None
    has_ended: bool = False
    error: BaseException | None = None
    began: float = field(default_factory=perf_counter)

    @property
    def outermost(self) -> OpenSpan:
        """The span around it that belongs to no other."""
        return self if self.above is None else self.above.outermost

    @property
    def is_plain(self) -> bool:
        """Whether no call is to be recorded of it: there is none, or another span has taken it over."""
        return self.has_delegated or (self.call is None and self.lost == "")

    def take_over(self, method: str, call: Callable[[Crossing], ObservedCall]) -> None:
        """Take over the leaf call directly around this one, if it is of the same object; see `delegation`.

        Args:
            method: The leaf method of this span.
            call: Makes the call of a crossing.
        """
        around = next((span for span in self.around() if span.call is not None), None)
        if around is None or around.call is None or around.has_delegated:
            return
        crossing = around.call.crossing
        if crossing.owner is not state_of(self.instance):
            return
        around.has_delegated = True
        crossing.metadata = {**around.own_metadata, DELEGATED_BY: list(around.methods)}
        self.methods = (*around.methods, method)
        self.call = call(crossing)

    @property
    def inside(self) -> Position:
        """What begins below it stands below this: it, or the call that it is part of, whichever is further inside."""
        crossing = self.call.crossing if self.call is not None else self.crossing_around
        around = crossing.position if crossing is not None else self.position
        return around if len(around.order) > len(self.position.order) else self.position

    @property
    def crossing_around(self) -> Crossing | None:
        """The innermost call that this span is part of."""
        return next((span.call.crossing for span in self.around() if span.call is not None), None)

    @property
    def own_metadata(self) -> dict[str, Any]:
        """The instrumentation tags that were meant for this span."""
        inherited = self.above.tags if self.above is not None else {}
        return {
            key: value
            for key, value in self.tags.items()
            if not key.startswith(_OF_FRAMEWORK) and not (key in inherited and inherited[key] == value)
        }

    def around(self) -> Iterator[OpenSpan]:
        """Yield the spans around it, the innermost first."""
        span = self.above
        while span is not None:
            yield span
            span = span.above


def kind_of(instance: Any, method: str, above: OpenSpan | None) -> str:
    """Return what sort of step a span is."""
    if isinstance(instance, Workflow):
        return sort_of_workflow(instance)
    if instance is None and above is not None and isinstance(above.instance, Workflow):
        return "node"
    return next((kind for cls, methods, kind in _SORTS if isinstance(instance, cls) and method in methods), "chain")


def sort_of_workflow(workflow: Workflow) -> str:
    """Return what sort of step the run of a workflow is."""
    is_agent = any(cls.__module__.startswith(_AGENTS) for cls in type(workflow).__mro__)
    return "agent" if is_agent else "chain"
