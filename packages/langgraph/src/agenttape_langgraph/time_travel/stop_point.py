"""Notice when a graph comes to a step, and stop it there if its state is to be changed.

A graph that is stopped by its saver is like one whose process died after that checkpoint: everything that it had done
is kept, and it goes on from there by its own means. Of its subgraphs in progress that holds, too.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING

from langgraph.checkpoint.memory import InMemorySaver
from langgraph.errors import GraphBubbleUp

from agenttape_core import Step
from agenttape_core.integration import class_name, current_session, here

if TYPE_CHECKING:
    from langchain_core.runnables import RunnableConfig
    from langgraph.checkpoint.base import ChannelVersions, Checkpoint, CheckpointMetadata

    from agenttape_langgraph.time_travel.plan import Edit


class Arrived(GraphBubbleUp):
    """Ends a graph that has come to the step where it is left. No node, retry or error handler may treat it."""


def is_broken_off(step: Step) -> bool:
    """Whether a step ended only because the graph was stopped."""
    return step.error is not None and step.error.type == class_name(Arrived)


class ArrivingSaver(InMemorySaver):
    """Keeps the checkpoints of a journey in memory, and knows to which run of a graph each belongs.

    Args:
        edits: The edits on the way, and the departure.
    """

    def __init__(self, edits: Iterable[Edit]) -> None:
        super().__init__()
        self.namespaces: dict[str, str] = {}
        """The checkpoint namespace of each run of a graph, by its address."""
        self.on_passed: Callable[[Edit], None] = lambda _: None
        """Called when the graph comes to a place where it need not stop."""
        self._edits = [edit for edit in edits if not edit.at_end]
        self._arrived: Edit | None = None
        self._is_preloading = False

    def preload(self, fill: Callable[[InMemorySaver], None]) -> None:
        """Take in checkpoints from before the journey."""
        self._is_preloading = True
        fill(self)
        self._is_preloading = False

    def put(
        self,
        config: RunnableConfig,
        checkpoint: Checkpoint,
        metadata: CheckpointMetadata,
        new_versions: ChannelVersions,
    ) -> RunnableConfig:
        """Keep a checkpoint; end the graph if it is left there, and all that still goes on beside it."""
        if self._is_preloading:
            return super().put(config, checkpoint, metadata, new_versions)
        if self._arrived is not None:
            raise Arrived
        graph = _graph()
        self.namespaces[graph] = config["configurable"].get("checkpoint_ns", "")
        saved = super().put(config, checkpoint, metadata, new_versions)
        place = graph, metadata.get("step")
        here_to = [edit for edit in self._edits if (edit.graph, edit.superstep) == place]
        for edit in here_to:
            self._edits.remove(edit)
            if not edit.edits_state:
                self.on_passed(edit)
            else:
                self._arrived = edit
                raise Arrived
        return saved

    @property
    def arrived(self) -> Edit:
        """Where the graph has been stopped."""
        assert self._arrived is not None
        return self._arrived

    @property
    def missing(self) -> list[Edit]:
        """The places that the graph did not come to."""
        return list(self._edits)

    def go_on(self) -> None:
        """Let the graph run again."""
        self._arrived = None

    def forget(self) -> list[Edit]:
        """Stop nowhere any more; return where it would have been."""
        left, self._edits = self._edits, []
        return left


def _graph() -> str:
    """Return the address of the run of the graph that is saving."""
    session = current_session()
    return here(session).address if session is not None else ""
