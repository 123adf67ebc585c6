"""The checkpoints that a thread had before its recording began: production is often recorded from the middle."""

from __future__ import annotations

from typing import Any

from langchain_core.runnables import RunnableConfig
from langgraph.checkpoint.base import BaseCheckpointSaver, CheckpointTuple

from agenttape_core.errors import ConfigurationError
from agenttape_langgraph.time_travel.recorded_run import INPUT_AND_START, THREAD, RecordedRun
from agenttape_langgraph.time_travel.request import ThreadRequest
from agenttape_langgraph.time_travel.script import ListCheckpoints, Script


def initial_checkpoints(run: RecordedRun, request: ThreadRequest) -> Script[list[CheckpointTuple]]:
    """Return the checkpoints that a recorded thread starts from, the oldest first.

    They come from the saver of the request, or else from the graph's own. It is read before a session is open, whose
    guard would refuse a connection. Raises `ConfigurationError` if neither saver has them.
    """
    superstep = _superstep_before(run)
    if superstep is None:
        return []
    own = request.graph.checkpointer
    saver = request.saver if request.saver is not None else own if isinstance(own, BaseCheckpointSaver) else None
    config: RunnableConfig = {"configurable": {THREAD: run.plan.thread_id}}
    found = (yield ListCheckpoints(saver, config)) if saver is not None else []
    known: list[CheckpointTuple] = sorted(found, key=_id)
    heads = [_id(one) for one in known if _is_root(one) and one.metadata.get("step") == superstep]
    if not heads:
        raise ConfigurationError(
            f"{run.cassette.path} begins in the middle of thread {run.plan.thread_id!r}, after superstep {superstep}, "
            "and no saver has the checkpoints before it\n"
            "  pass the saver that holds the thread, or that it was exported with: saver=..."
        )
    return [one for one in known if _id(one) <= heads[-1]]


def copy_checkpoint(found: CheckpointTuple, saver: BaseCheckpointSaver[Any]) -> None:
    """Put a checkpoint of one saver into another, with its pending writes."""
    configurable = found.config["configurable"]
    place = {THREAD: configurable[THREAD], "checkpoint_ns": configurable.get("checkpoint_ns", "")}
    parent: RunnableConfig = found.parent_config or {"configurable": place}
    saved = saver.put(parent, found.checkpoint, found.metadata, found.checkpoint["channel_versions"])
    writes: dict[str, list[tuple[str, Any]]] = {}
    for task_id, channel, value in found.pending_writes or ():
        writes.setdefault(task_id, []).append((channel, value))
    for number, (task_id, written) in enumerate(writes.items()):
        # Savers do not return the paths of tasks, but they return writes in the order of those paths.
        saver.put_writes(saved, written, task_id, task_path=f"{number:06}")


def _id(found: CheckpointTuple) -> str:
    return found.checkpoint["id"]


def _is_root(found: CheckpointTuple) -> bool:
    return not found.config["configurable"].get("checkpoint_ns")


def _superstep_before(run: RecordedRun) -> int | None:
    """Return the superstep after which the recording began; `None` if that is the beginning of the thread."""
    if run.plan.thread_id is None or not run.plan.invocations:
        return None
    first = run.plan.invocations[0]
    nodes = [step for step in run.steps if step.graph == first.address and step.nodes != ("__start__",)]
    if not nodes:
        return None
    # An edit takes a superstep, too.
    edits = sum(edit.graph == first.address and edit.superstep < nodes[0].superstep for edit in run.plan.edits)
    before = nodes[0].superstep - 1 - edits - (INPUT_AND_START if first.is_fresh else 0)
    return before if before >= -1 else None
