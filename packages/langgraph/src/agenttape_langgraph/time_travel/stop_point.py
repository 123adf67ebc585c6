"""A saver that stops a graph at a superstep, so that the graph's state can be edited there.

A graph that its saver stops is like one whose process died after that checkpoint: all that it had done is kept, and it
goes on from there by its own means. The same holds for its subgraphs in progress.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING

from langgraph.checkpoint.memory import InMemorySaver
from langgraph.errors import GraphBubbleUp

from agenttape_core import Step
from agenttape_core.integration import class_name, current_session, here
from agenttape_langgraph.time_travel.running_graphs import running_graph

if TYPE_CHECKING:
    from langchain_core.runnables import RunnableConfig
    from langgraph.checkpoint.base import ChannelVersions, Checkpoint, CheckpointMetadata

    from agenttape_langgraph.time_travel.plan import Edit
    from agenttape_langgraph.time_travel.script import Graph


class Stopped(GraphBubbleUp):
    """Ends a graph that has come to the place of an edit. No node, retry or error handler may treat it."""


def was_stopped(step: Step) -> bool:
    """Return true for a step that ended only because the graph was stopped."""
    return step.error is not None and step.error.type == class_name(Stopped)


class StoppingSaver(InMemorySaver):
    """Keeps the checkpoints of a run in memory, with the run of a graph that each belongs to.

    Args:
        edits: The places to stop at or to report.
        on_passed: Called with a place where nothing is edited, when a graph comes to it: the graph does not stop.
    """

    def __init__(self, edits: Iterable[Edit], on_passed: Callable[[Edit], None]) -> None:
        super().__init__()
        self.namespaces: dict[str, str] = {}
        """The checkpoint namespace of each run of a graph, by its address."""
        self.graphs: dict[str, Graph] = {}
        """The graph of each run that a checkpoint was kept of, by its address."""
        self._edits = [edit for edit in edits if not edit.at_end]
        self._on_passed = on_passed
        self._stopped_at: Edit | None = None

    def put(
        self,
        config: RunnableConfig,
        checkpoint: Checkpoint,
        metadata: CheckpointMetadata,
        new_versions: ChannelVersions,
    ) -> RunnableConfig:
        """Keep a checkpoint; stop the graph if it is the place of an edit, and then all that goes on beside it."""
        if self._stopped_at is not None:
            raise Stopped
        graph = _graph()
        self.namespaces[graph] = config["configurable"].get("checkpoint_ns", "")
        if (running := running_graph()) is not None:
            self.graphs.setdefault(graph, running)  # the first one is of its input, before anything runs inside it
        saved = super().put(config, checkpoint, metadata, new_versions)
        place = graph, metadata.get("step")
        for edit in [edit for edit in self._edits if (edit.graph, edit.superstep) == place]:
            if edit not in self._edits:  # the run departs from its recording here
                break
            self._edits.remove(edit)
            if edit.edits_state or edit.ends_run:
                self._stopped_at = edit
                raise Stopped
            self._on_passed(edit)
        return saved

    @property
    def stopped_at(self) -> Edit:
        """The edit at whose place the graph was stopped."""
        assert self._stopped_at is not None
        return self._stopped_at

    def release(self) -> None:
        """Let the graph run again."""
        self._stopped_at = None

    def cancel(self) -> list[Edit]:
        """Stop at no further place; return those that are left."""
        left, self._edits = self._edits, []
        return left


def _graph() -> str:
    """Return the address of the run of the graph that is saving."""
    session = current_session()
    return here(session).address if session is not None else ""
