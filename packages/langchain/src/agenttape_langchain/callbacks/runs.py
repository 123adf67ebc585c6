"""Open runs, and the parts of their tags and metadata that are worth recording."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from agenttape_core import Rule
from agenttape_core.integration import Boundary, ExecutedCall
from agenttape_core.integration.observing import EventsOption, Observer, OpenRun, Payload, Unseen
from agenttape_langchain.address import index_of_call, own_tags
from agenttape_langchain.run_tree import Run, RunTree

if TYPE_CHECKING:
    from uuid import UUID

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


# -- Observation of runs: open runs and their calls, whatever callback they come from.

_UNSEEN = Unseen(
    "callbacks",
    ("embeddings", "memory", "http", "call"),
    "the run was recorded by a callback handler, and LangChain fires callbacks for chat models, text models, tools and "
    "retrievers only; record it with use_cassette instead",
)
_NOT_ENDED = "it was cancelled, or outlived the run that it belongs to: no callback reported its end"


class Observing(Observer[ObservedRun]):
    """Follows the runs that callbacks report, and records each when it has ended. Thread-safe.

    Args:
        path: The cassette.
        redact: Rules in addition to the built-in ones, or `False` to keep secrets unchanged.
        tags: Words for the header.
        payload: The part of calls that is recorded: `full`, or `none` for their shape alone.
        events: Receives an event for each call when it ends; `None` to follow the settings.
    """

    def __init__(
        self,
        path: str | Path,
        *,
        redact: bool | Sequence[Rule],
        tags: Sequence[str],
        payload: Payload,
        events: EventsOption | None,
    ) -> None:
        super().__init__("TapeCallbackHandler", path, _UNSEEN, redact=redact, tags=tags, payload=payload, events=events)
        self.tree = RunTree(self.root, is_observed=lambda: True, first_input=self.first_input, forks=False)
        """The tree that the runs are in. No session forks branches for it."""

    def forget(self, run: ObservedRun) -> None:
        """Remove a run, also from the tree."""
        self.tree.runs_by_id.pop(run.key, None)
        super().forget(run)

    def cut_off(self) -> None:
        """Give up the runs that are open."""
        self.abandon(self.open_runs.values(), _NOT_ENDED)

    # -- runs --------------------------------------------------------------------------------------------------

    def open(
        self,
        run_id: UUID,
        parent_run_id: UUID | None,
        name: str,
        facts: Mapping[str, Any],
        *,
        kind: str = "chain",
        tool_call_id: str | None = None,
        ids_around: tuple[str, ...] = (),
    ) -> ObservedRun:
        """Begin a run."""
        tags, metadata = facts.get("tags") or (), facts.get("metadata") or {}
        with self._gate:
            begun = self.tree.begin(
                run_id,
                parent_run_id,
                name,
                tags,
                metadata,
                tool_call_id=tool_call_id,
                ids_around=ids_around,
            )
            above = self.open_runs.get(parent_run_id) if parent_run_id is not None else None
            opened = ObservedRun(
                key=run_id,
                position=begun.position,
                name=name,
                kind=kind,
                above=above,
                run=begun,
                tags=tags,
                metadata=metadata,
            )
            self.open_runs[run_id] = opened
            return opened

    def end(self, run_id: UUID) -> None:
        """End a run, and every open run below it."""
        with self._gate:
            self.tree.end(run_id)
            opened = self.open_runs.get(run_id)
            if opened is not None:
                if opened.above is None:  # the framework forgot what is open below it, or cancelled it
                    below = (run for run in self.open_runs.values() if run.outermost is opened and run is not opened)
                    self.abandon(below, _NOT_ENDED)
                self.finished(opened)

    # -- recording ---------------------------------------------------------------------------------------------

    def session_call(self, run: ObservedRun, boundary: Boundary, name: str, body: Any) -> ExecutedCall:
        """Begin a call."""
        ids = (run.run.tool_call_id,) if run.run.tool_call_id is not None else ()
        session_call = self.session().cross(
            boundary,
            name,
            body,
            position=run.run.position,
            ids=ids,
            ids_around=run.run.ids_around,
            parent=run.call_around,
        )
        assert not session_call.is_replayed  # nothing is replayed to an observer
        session_call.tags, session_call.metadata = run.own_tags, run.own_metadata
        return session_call
