"""Threads of checkpoints, made without a graph, ways to look at a file, and savers."""

from __future__ import annotations

import sqlite3
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager, closing
from pathlib import Path
from typing import Any

from langchain_core.messages import AIMessage, AnyMessage, HumanMessage
from langchain_core.runnables import RunnableConfig
from langgraph.checkpoint.base import BaseCheckpointSaver, Checkpoint
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.checkpoint.postgres.aio import AsyncPostgresSaver
from langgraph.checkpoint.sqlite.aio import AsyncSqliteSaver

from agenttape_langgraph import TapeSaver

CONTENT = ("contents", "links", "pieces", "uses")
"""The tables of values that are stored once."""


def place(thread_id: str = "1", checkpoint_id: str | None = None, ns: str = "") -> RunnableConfig:
    """Return the config of a thread, or of a checkpoint."""
    where = {"thread_id": thread_id, "checkpoint_ns": ns}
    return {"configurable": where if checkpoint_id is None else {**where, "checkpoint_id": checkpoint_id}}


def checkpoint(number: int, values: dict[str, Any], versions: dict[str, Any] | None = None) -> Checkpoint:
    """Return the n-th checkpoint of a thread."""
    return Checkpoint(
        v=4,
        id=f"1f000000-0000-6000-8000-{number:012}",
        ts="2026-11-21T12:00:00+00:00",
        channel_values=values,
        channel_versions=dict.fromkeys(values, f"{number:032}.{0:016}") if versions is None else versions,
        versions_seen={"__input__": {}},
        updated_channels=sorted(values),
    )


def put_thread(
    saver: BaseCheckpointSaver[Any], states: Sequence[dict[str, Any]], thread_id: str = "1"
) -> list[RunnableConfig]:
    """Store a checkpoint for each state, each the child of the one before, with one write on top."""
    configs, config = [], place(thread_id)
    for number, values in enumerate(states):
        saved = checkpoint(number, values)
        metadata = {"source": "loop", "step": number, "parents": {}, "run_id": f"run-{number % 3}"}
        config = saver.put(config, saved, metadata, saved["channel_versions"])  # type: ignore[arg-type]
        saver.put_writes(config, [("messages", values.get("messages"))], f"task-{number}", "~pull, node")
        configs.append(config)
    return configs


def growing(
    steps: int, words: str = "what is said in turn {} of this conversation, which goes on and on"
) -> list[dict[str, Any]]:
    """Return the states of a thread whose messages grow by two at each step."""
    messages: list[AnyMessage] = []
    states = []
    for step in range(steps):
        question = HumanMessage(f"{step}: " + words.format(step), id=f"human-{step}")
        answer = AIMessage(
            words.format(-step) * 4, id=f"ai-{step}", response_metadata={"model_name": "fake", "turn": step}
        )
        messages = [*messages, question, answer]
        states.append({"messages": messages, "step": step, "notes": {"unchanged": ["all the same"] * 30}})
    return states


def counts(path: Path | str, *tables: str) -> dict[str, int]:
    """Return how many rows tables have."""
    with closing(sqlite3.connect(path)) as connection:
        return {table: connection.execute(f"SELECT count(*) FROM {table}").fetchone()[0] for table in tables}


def bytes_of(path: Path) -> bytes:
    """Return every byte that lies in the file and beside it."""
    return b"".join(file.read_bytes() for file in sorted(path.parent.glob(path.name + "*")))


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


INNERS = ["memory", "sqlite", "postgres"]


@asynccontextmanager
async def inner_saver(kind: str, address: str = "") -> AsyncIterator[BaseCheckpointSaver[Any]]:
    """One of LangGraph's savers, ready to be used."""
    in_memory = {"memory": InMemorySaver, "full": FullSaver, "bare": BaseCheckpointSaver}
    if kind in in_memory:
        yield in_memory[kind]()
    elif kind == "sqlite":
        async with AsyncSqliteSaver.from_conn_string(":memory:") as sqlite:
            yield sqlite
    else:
        async with AsyncPostgresSaver.from_conn_string(address) as postgres:
            await postgres.setup()
            yield postgres


@asynccontextmanager
async def any_saver(kind: str, path: Path, address: str = "") -> AsyncIterator[TapeSaver]:
    """A saver of ours, alone or around another one."""
    if kind == "alone":
        async with TapeSaver(path) as saver:
            yield saver
    else:
        async with inner_saver(kind, address) as inner, TapeSaver(path, inner=inner) as saver:
            yield saver
