"""What is known of a run while it goes on, and what of it is worth keeping."""

from __future__ import annotations

import marshal
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from time import perf_counter
from typing import TYPE_CHECKING, Any

from agenttape_core.integration import Crossing, plain_value
from agenttape_langchain.address import index_of_call
from agenttape_langchain.callbacks.calls import ObservedCall
from agenttape_langchain.run_tree import Run

if TYPE_CHECKING:
    from uuid import UUID

_STRUCTURAL_TAGS = ("graph:step:", "map:key:", "seq:step:", "langsmith:")
"""Tags of the framework itself: where a run stands is in its address."""
_STRUCTURAL_KEYS = (
    "ls_",
    "lc_",
    "langgraph_",
    "langsmith_",
    "LANGSMITH_",
    "LANGCHAIN_",
    "checkpoint_",
    "__",
    "revision_id",
)
"""Beginnings of the keys under which frameworks keep their own notes in the metadata, such as `lc_versions`."""
_LARGE = 64 * 1024
"""An output of more bytes is left out."""
_OF_AGENTS = ("lc_agent_name", "ls_integration")
"""What `create_agent` notes in the metadata of its outermost chain, and every run below inherits."""


def output_facts(output: Any) -> dict[str, Any]:
    """Return what a step says of the output of a run; of a large one only its size, as a replay makes it again.

    The last state of an agent is its whole conversation, which its calls hold already.
    """
    plain = plain_value(output)
    size = len(marshal.dumps(plain, 2))
    return {"output": plain} if size <= _LARGE else {"data": {"left_out": "output", "bytes": size}}


@dataclass(slots=True)
class OpenRun:
    """A run that goes on.

    Args:
        run_id: Its id.
        run: Its place in the tree.
        name: What the framework calls it.
        above: The run it belongs to, if that is observed.
        tags: All its tags, with those it inherited.
        metadata: All its metadata, likewise.
        kind: What sort of step it is.
        call: What it does outside, if it is a call.
        lost: Why its call could not be begun to be recorded.
        input: What it was given, as plain data, if it is outermost.
    """

    run_id: UUID
    run: Run
    name: str
    above: OpenRun | None
    tags: Sequence[str]
    metadata: Mapping[str, Any]
    kind: str = "chain"
    call: ObservedCall | None = None
    lost: str = ""
    input: Any = None
    began: float = field(default_factory=perf_counter)

    @property
    def outermost(self) -> OpenRun:
        """The run around it that belongs to no other."""
        return self if self.above is None else self.above.outermost

    @property
    def own_tags(self) -> list[str]:
        """The tags that were meant for this run."""
        inherited = self.above.tags if self.above is not None else ()
        return [tag for tag in self.tags if tag not in inherited and not tag.startswith(_STRUCTURAL_TAGS)]

    @property
    def own_metadata(self) -> dict[str, Any]:
        """The metadata that were meant for this run."""
        inherited = self.above.metadata if self.above is not None else {}
        return {
            key: value
            for key, value in self.metadata.items()
            if not str(key).startswith(_STRUCTURAL_KEYS) and not (key in inherited and inherited[key] is value)
        }

    @property
    def crossing_around(self) -> Crossing | None:
        """The innermost call that this run is part of."""
        calls = (run.call for run in self._runs_around())
        return next((call.crossing for call in calls if call is not None), None)

    def _runs_around(self) -> Iterator[OpenRun]:
        run = self.above
        while run is not None:
            yield run
            run = run.above

    def chain_kind(self) -> str:
        """Return what sort of chain it is: a node of a graph or a function that is a task, an agent, or any other."""
        is_called = index_of_call(self.name, self.metadata) is not None
        if is_called or any(tag.startswith("graph:step:") for tag in self.tags):
            return "node"
        inherited = self.above.metadata if self.above is not None else {}
        is_agent = any(key in self.metadata and self.metadata[key] != inherited.get(key) for key in _OF_AGENTS)
        return "agent" if is_agent or self.name == "AgentExecutor" else "chain"
