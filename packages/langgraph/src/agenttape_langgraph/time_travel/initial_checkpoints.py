"""What a thread held before its recording began: a cassette of production often begins in the middle of a thread."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from langchain_core.runnables import RunnableConfig
from langgraph.checkpoint.base import BaseCheckpointSaver, CheckpointTuple
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.pregel import Pregel

from agenttape_core import ConfigurationError
from agenttape_langgraph.time_travel.recorded_run import THREAD, RecordedRun

_INPUT_AND_START = 2
"""The supersteps that LangGraph takes to an input before the first node runs."""


class Before:
    """The checkpoints that a recorded thread starts from, if it does not start from nothing.

    Args:
        run: The recorded run.
        saver: The saver that has the thread, if the user names one.
        graph: The graph, whose own saver is asked otherwise.

    Raises:
        ConfigurationError: If it is no compiled graph.
    """

    def __init__(self, run: RecordedRun, saver: BaseCheckpointSaver[Any] | None, graph: Any) -> None:
        if not isinstance(graph, Pregel):
            hint = "; compile the builder first" if hasattr(graph, "compile") else ""
            raise ConfigurationError(f"graph: expected a compiled graph, found a {type(graph).__qualname__}{hint}")
        own = graph.checkpointer
        self.saver = saver if saver is not None else own if isinstance(own, BaseCheckpointSaver) else None
        self.config: RunnableConfig = {"configurable": {THREAD: run.plan.thread_id}}
        self._path = run.cassette.path
        self._superstep = _superstep_before(run)

    @property
    def is_needed(self) -> bool:
        """Whether the thread held anything before."""
        return self._superstep is not None

    def found(self) -> list[CheckpointTuple]:
        """Return the checkpoints that a saver has."""
        return list(self.saver.list(self.config)) if self.is_needed and self.saver is not None else []

    async def afound(self) -> list[CheckpointTuple]:
        """Return them likewise, from a saver that is asynchronous."""
        if not self.is_needed or self.saver is None:
            return []
        return [found async for found in self.saver.alist(self.config)]

    def fill(self, memory: InMemorySaver, found: Iterable[CheckpointTuple]) -> None:
        """Put what the thread held before into another saver.

        Raises:
            ConfigurationError: If it is not there.
        """
        if not self.is_needed:
            return
        known = sorted(found, key=lambda one: one.checkpoint["id"])
        heads = [one for one in known if _is_root(one) and one.metadata.get("step") == self._superstep]
        if not heads:
            raise ConfigurationError(
                f"{self._path} begins in the middle of thread {self.config['configurable'][THREAD]!r}, "
                f"after superstep {self._superstep}, and there is no saver that has it\n"
                "  hand in the saver that the thread is in, or was exported with: saver=..."
            )
        for one in known:
            if one.checkpoint["id"] <= heads[-1].checkpoint["id"]:
                copy_checkpoint(one, memory)


def copy_checkpoint(found: CheckpointTuple, saver: BaseCheckpointSaver[Any]) -> None:
    """Put a checkpoint of one saver into another one, with what is pending on it."""
    configurable = found.config["configurable"]
    place = {THREAD: configurable[THREAD], "checkpoint_ns": configurable.get("checkpoint_ns", "")}
    parent: RunnableConfig = found.parent_config or {"configurable": place}
    saved = saver.put(parent, found.checkpoint, found.metadata, found.checkpoint["channel_versions"])
    writes: dict[str, list[tuple[str, Any]]] = {}
    for task_id, channel, value in found.pending_writes or ():
        writes.setdefault(task_id, []).append((channel, value))
    for number, (task_id, written) in enumerate(writes.items()):
        # Savers do not tell the paths of tasks, but they give writes in their order.
        saver.put_writes(saved, written, task_id, task_path=f"{number:06}")


def _is_root(found: CheckpointTuple) -> bool:
    return not found.config["configurable"].get("checkpoint_ns")


def _superstep_before(run: RecordedRun) -> int | None:
    """Return the superstep after which the recording began; nothing if that is the beginning of the thread."""
    if run.plan.thread_id is None or not run.plan.invocations:
        return None
    first = run.plan.invocations[0]
    nodes = [step for step in run.steps if step.graph == first.address and step.nodes != ("__start__",)]
    if not nodes:
        return None
    before = nodes[0].superstep - 1 - (_INPUT_AND_START if first.is_fresh else 0)
    return before if before >= -1 else None
