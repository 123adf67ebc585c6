"""The rows of checkpoints and of pending writes, to and from LangGraph's tuples."""

from __future__ import annotations

import sqlite3
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, cast

from langchain_core.runnables import RunnableConfig
from langgraph.checkpoint.base import WRITES_IDX_MAP, Checkpoint, CheckpointMetadata, CheckpointTuple, PendingWrite

from agenttape_core.errors import CassetteFormatError
from agenttape_langgraph.saver.contents import Reader, Value, prepared, release, store
from agenttape_langgraph.saver.encoding import Codec, Content, Typed
from agenttape_langgraph.saver.kept import Kept
from agenttape_langgraph.saver.slots import read_slots, write_slots

_SMALL_VALUE, _SMALL_WRITE = 128, 512
"""Values with fewer bytes are stored in the row. The next checkpoint repeats a channel's value, but not a write."""

_TEXTS, _LARGE = (str, bytes), 1 << 14
"""Values that cannot change, and the length from which on they are not prepared again at every step."""

VALUES = "channel_values"
PLACES = "FROM checkpoints c JOIN namespaces n ON n.id = c.namespace"
COLUMNS = (
    "SELECT c.id, n.thread_id, n.checkpoint_ns, c.checkpoint_id, c.parent_id, c.namespace,"
    f" coalesce(c.parent_id, c.pruned_parent), c.slots, c.body, c.metadata {PLACES}"
)


class Row(NamedTuple):
    """A checkpoint in its stored form."""

    id: int
    thread_id: str
    checkpoint_ns: str
    checkpoint_id: str
    parent_id: str | None
    namespace: int
    ancestor_id: str | None
    """The parent, even if that was pruned."""
    slots: bytes | None
    body: bytes
    metadata: bytes

    @classmethod
    def of(cls, found: Sequence[Any]) -> Row:
        """Return the row that `COLUMNS` selected."""
        return cls._make(found)

    def config(self, checkpoint_id: str) -> RunnableConfig:
        """Return the config of a checkpoint in the same place."""
        place = {"thread_id": self.thread_id, "checkpoint_ns": self.checkpoint_ns, "checkpoint_id": checkpoint_id}
        return {"configurable": place}


METADATA = Row._fields.index("metadata")
"""The place of the metadata in what `COLUMNS` selects."""


@dataclass(frozen=True, slots=True)
class Saved:
    """A checkpoint on its way into the file: serialised and cut, outside of any transaction."""

    checkpoint_id: str
    parent_id: str | None
    run_id: str | None
    body: Typed
    metadata: Typed
    values: tuple[Value, ...] | None


def serialised(
    codec: Codec, checkpoint: Mapping[str, Any], metadata: Mapping[str, Any], parent: str | None, kept: Kept
) -> Saved:
    """Serialise a checkpoint: its frame with the names of its channels, and each value on its own."""
    body, values = dict(checkpoint), None
    if isinstance(found := checkpoint.get(VALUES), Mapping):
        body[VALUES] = list(found)
        values = tuple(
            kept.prepared(value, lambda value: prepared(codec, codec.dumps(value), _SMALL_VALUE))
            if type(value) in _TEXTS and len(value) >= _LARGE and not codec.encrypts
            else prepared(codec, codec.dumps(value), _SMALL_VALUE)
            for value in found.values()
        )
    run_id = metadata.get("run_id")
    run = None if run_id is None else str(run_id)
    return Saved(checkpoint["id"], parent, run, codec.dumps(body), codec.dumps(dict(metadata)), values)


def namespace_of(
    connection: sqlite3.Connection, thread_id: str, checkpoint_ns: str, *, make: bool = False
) -> int | None:
    """Return the number of a namespace of a thread, or `None` if there is none."""
    find = "SELECT id FROM namespaces WHERE thread_id = ? AND checkpoint_ns = ?"
    row = connection.execute(find, (thread_id, checkpoint_ns)).fetchone()
    if row is None and make:
        insert = "INSERT INTO namespaces (thread_id, checkpoint_ns) VALUES (?, ?)"
        return connection.execute(insert, (thread_id, checkpoint_ns)).lastrowid
    return None if row is None else int(row[0])


def save(connection: sqlite3.Connection, codec: Codec, namespace: int, saved: Saved) -> list[tuple[int, Typed]]:
    """Store a checkpoint; one with the same id is replaced, and keeps its writes.

    Returns the contents that it has, by their numbers.
    """
    query = "SELECT id, slots FROM checkpoints WHERE namespace = ? AND checkpoint_id = ?"
    before = connection.execute(query, (namespace, saved.checkpoint_id)).fetchone()
    released = forget(connection, [before]) if before else set()
    slots = None if saved.values is None else [store(connection, codec, value) for value in saved.values]
    body, metadata = (write_slots([store(connection, codec, typed)]) for typed in (saved.body, saved.metadata))
    number = connection.execute(
        "INSERT INTO checkpoints (namespace, checkpoint_id, parent_id, run_id, body, metadata, slots)"
        " VALUES (?, ?, ?, ?, ?, ?, ?)",
        (
            namespace,
            saved.checkpoint_id,
            saved.parent_id,
            saved.run_id,
            body,
            metadata,
            None if slots is None else write_slots(slots),
        ),
    ).lastrowid
    uses = [(slot.content, number) for slot in slots or () if slot.content]
    connection.executemany("INSERT OR IGNORE INTO uses (content, checkpoint) VALUES (?, ?)", uses)
    release(connection, released)
    return [
        (slot.content, value.typed)
        for slot, value in zip(slots or (), saved.values or (), strict=True)
        if isinstance(value, Content)
    ]


def forget(connection: sqlite3.Connection, rows: Sequence[tuple[int, bytes | None]]) -> set[int]:
    """Delete rows of checkpoints, given with their slots, and return their contents, which the caller releases."""
    used = {(slot.content, row) for row, slots in rows for slot in (read_slots(slots) if slots else ()) if slot.content}
    connection.executemany("DELETE FROM checkpoints WHERE id = ?", [(row,) for row, _ in rows])
    connection.executemany("DELETE FROM uses WHERE content = ? AND checkpoint = ?", sorted(used))
    return {content for content, _ in used}


@dataclass(frozen=True, slots=True)
class Write:
    """A pending write on its way into the file."""

    idx: int
    channel: str
    value: Value


def serialised_writes(codec: Codec, writes: Sequence[tuple[str, Any]]) -> list[Write]:
    """Serialise pending writes, each with its index; special channels have fixed indices, which are negative."""
    return [
        Write(WRITES_IDX_MAP.get(channel, idx), channel, prepared(codec, codec.dumps(value), _SMALL_WRITE))
        for idx, (channel, value) in enumerate(writes)
    ]


def save_write(
    connection: sqlite3.Connection, codec: Codec, place: tuple[int, str, str], path: str, write: Write
) -> None:
    """Store a pending write: the first of its index stays, or the last for a special channel.

    `place` has the number of the namespace, the id of the checkpoint, and the id of the task; `path` is the path of the
    task. The connection is in a transaction that writes.
    """
    key = (*place, write.idx)
    where = "WHERE namespace = ? AND checkpoint_id = ? AND task_id = ? AND idx = ?"
    before = connection.execute(f"SELECT content FROM writes {where}", key).fetchone()  # noqa: S608 - a constant
    if before is not None and write.idx >= 0:
        return
    slot = store(connection, codec, write.value)
    connection.execute(
        "INSERT OR REPLACE INTO writes (namespace, checkpoint_id, task_id, idx, task_path, channel, slot, content)"
        " VALUES (?, ?, ?, ?, ?, ?, ?, ?)",
        (*key, path, write.channel, write_slots([slot]), slot.content or None),
    )
    if before is not None and before[0]:
        release(connection, before)


def tuples_of(connection: sqlite3.Connection, reader: Reader, rows: Sequence[Row]) -> list[CheckpointTuple]:
    """Return stored checkpoints as LangGraph's tuples."""
    if not rows:
        return []
    places = [(row.namespace, row.checkpoint_id) for row in rows]
    writes: dict[tuple[int, str], list[PendingWrite]] = {place: [] for place in places}
    for place, write in _writes(connection, reader, places):
        writes[place].append(write)
    return [
        CheckpointTuple(
            config=row.config(row.checkpoint_id),
            checkpoint=checkpoint_of(connection, reader, row),
            metadata=metadata_of(connection, reader, row),
            parent_config=row.config(row.parent_id) if row.parent_id else None,
            pending_writes=writes[place],
        )
        for row, place in zip(rows, places, strict=True)
    ]


def metadata_of(connection: sqlite3.Connection, reader: Reader, row: Row) -> CheckpointMetadata:
    """Return the metadata of a stored checkpoint."""
    found: CheckpointMetadata = reader.codec.loads(reader.only(connection, row.metadata))
    return found


def checkpoint_of(
    connection: sqlite3.Connection, reader: Reader, row: Row, only: Iterable[str] | None = None
) -> Checkpoint:
    """Return a stored checkpoint, with the values of all its channels or of some."""
    body: dict[str, Any] = reader.codec.loads(reader.only(connection, row.body))
    if row.slots is not None:
        names: list[str] = body[VALUES]
        values = reader.values(row.slots)
        if len(names) != len(values):
            problem = f"checkpoint {row.checkpoint_id} names {len(names)} channels, and has {len(values)} values"
            raise CassetteFormatError(reader.path, problem)
        wanted = names if only is None else set(only)
        body[VALUES] = {
            name: reader.codec.loads(reader.typed(connection, value))
            for name, value in zip(names, values, strict=True)
            if name in wanted
        }
    return cast("Checkpoint", body)


def writes_of(
    connection: sqlite3.Connection, reader: Reader, place: tuple[int, str], channels: Iterable[str] = ()
) -> list[tuple[str, PendingWrite]]:
    """Return the pending writes of a checkpoint with their channels, in the order in which they are applied.

    `place` has the number of the namespace, and the id of the checkpoint; without `channels`, the writes of all are
    returned. The connection is in a transaction.
    """
    return [(write[1], write) for _, write in _writes(connection, reader, [place], set(channels))]


def _writes(
    connection: sqlite3.Connection, reader: Reader, places: Sequence[tuple[int, str]], channels: Collection[str] = ()
) -> Iterator[tuple[tuple[int, str], PendingWrite]]:
    """Yield the pending writes of checkpoints, in the order in which each checkpoint applies its own."""
    columns, order = "namespace, checkpoint_id, task_id, channel, slot", "ORDER BY task_path, task_id, idx"
    if len(places) == 1:
        query = f"SELECT {columns} FROM writes WHERE namespace = ? AND checkpoint_id = ? {order}"  # noqa: S608
    else:
        marks = ",".join(["(?,?)"] * len(places))
        query = (
            f"SELECT {columns} FROM (VALUES {marks}) AS places"  # noqa: S608 - our own words
            f" CROSS JOIN writes ON namespace = places.column1 AND checkpoint_id = places.column2 {order}"
        )
    rows = connection.execute(query, [part for place in places for part in place])
    for namespace, checkpoint_id, task_id, channel, slot in rows.fetchall():
        if not channels or channel in channels:
            yield (namespace, checkpoint_id), (task_id, channel, reader.codec.loads(reader.only(connection, slot)))
