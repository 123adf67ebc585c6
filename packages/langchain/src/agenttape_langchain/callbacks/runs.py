"""Open runs, and the parts of their tags and metadata that are worth recording."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from agenttape_core.integration.observing import OpenRun
from agenttape_langchain.address import index_of_call, own_tags
from agenttape_langchain.run_tree import Run

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
"""Prefixes of the keys under which frameworks keep their own notes in the metadata, such as `lc_versions`."""
_OF_AGENTS = ("lc_agent_name", "ls_integration")
"""Keys that `create_agent` sets in the metadata of its outermost chain, and every run below inherits."""

RAISED = "raised"
"""The key in the data of a graph's step for the node whose error it raised, if several of its nodes had failed."""


@dataclass(slots=True, kw_only=True)
class ObservedRun(OpenRun):
    """An open run.

    Args:
        run: The run in the tree.
        tags: All its tags, including inherited ones.
        metadata: All its metadata, including inherited ones.
    """

    run: Run
    tags: Sequence[str]
    metadata: Mapping[str, Any]
    failures: list[tuple[BaseException, str]] = field(default_factory=list)
    """The errors of its nodes, each with the label of its node."""

    @property
    def own_tags(self) -> list[str]:
        """The tags that were meant for this run."""
        return own_tags(self.tags, self.above.tags if self.above is not None else ())

    @property
    def own_metadata(self) -> dict[str, Any]:
        """The metadata that were meant for this run."""
        inherited = self.above.metadata if self.above is not None else {}
        return {
            key: value
            for key, value in self.metadata.items()
            if not str(key).startswith(_STRUCTURAL_KEYS) and not (key in inherited and inherited[key] is value)
        }

    def failed(self, error: BaseException) -> dict[str, Any]:
        """Note that it has failed, and return the facts of its step about the node that raised this error.

        LangGraph raises the error of one of the failed tasks, and only this shows which one it takes.

        Args:
            error: Its error.
        """
        above, labels = self.above, [label for own, label in self.failures if own is error]
        if self.kind == "node" and above is not None:
            above.failures.append((error, self.position.address.removeprefix(f"{above.position.address}/")))
        return {"data": {RAISED: labels[0]}} if labels and len(self.failures) > 1 else {}

    def chain_kind(self) -> str:
        """Return the kind of its step: `node` (also of a function that is a task), `agent`, or `chain`."""
        is_called = index_of_call(self.name, self.metadata) is not None
        if is_called or any(tag.startswith("graph:step:") for tag in self.tags):
            return "node"
        inherited = self.above.metadata if self.above is not None else {}
        is_agent = any(key in self.metadata and self.metadata[key] != inherited.get(key) for key in _OF_AGENTS)
        return "agent" if is_agent or self.name == "AgentExecutor" else "chain"
