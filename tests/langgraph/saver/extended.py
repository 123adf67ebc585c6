"""A saver with every capability that is not ours: in memory."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from langgraph.checkpoint.memory import InMemorySaver


class FullSaver(InMemorySaver):
    """LangGraph's saver in memory, with the capabilities that it lacks. What it lets go of may stay in memory."""

    def copy_thread(self, source_thread_id: str, target_thread_id: str) -> None:
        for ns, checkpoints in list(self.storage[source_thread_id].items()):
            self.storage[target_thread_id][ns].update(checkpoints)
        for place, writes in list(self.writes.items()):
            if place[0] == source_thread_id:
                self.writes[target_thread_id, place[1], place[2]] = dict(writes)
        for key, value in list(self.blobs.items()):
            if key[0] == source_thread_id:
                self.blobs[target_thread_id, key[1], key[2], key[3]] = value

    def delete_for_runs(self, run_ids: Sequence[str]) -> None:
        for found in list(self.list(None)):
            if found.metadata.get("run_id") in run_ids:
                self._drop(found.config["configurable"])

    def prune(self, thread_ids: Sequence[str], *, strategy: str = "keep_latest") -> None:
        for thread_id in thread_ids:
            if strategy == "delete":
                self.delete_thread(thread_id)
                continue
            seen: set[str] = set()
            for found in list(self.list({"configurable": {"thread_id": thread_id}})):
                where = found.config["configurable"]
                if where["checkpoint_ns"] in seen:
                    self._drop(where)
                seen.add(where["checkpoint_ns"])

    def _drop(self, where: Any) -> None:
        key = where["thread_id"], where["checkpoint_ns"], where["checkpoint_id"]
        self.storage[key[0]][key[1]].pop(key[2], None)
        self.writes.pop(key, None)

    async def acopy_thread(self, source_thread_id: str, target_thread_id: str) -> None:
        self.copy_thread(source_thread_id, target_thread_id)

    async def adelete_for_runs(self, run_ids: Sequence[str]) -> None:
        self.delete_for_runs(run_ids)

    async def aprune(self, thread_ids: Sequence[str], *, strategy: str = "keep_latest") -> None:
        self.prune(thread_ids, strategy=strategy)
