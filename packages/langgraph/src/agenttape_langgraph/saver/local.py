"""`LocalSaver`: a LangGraph checkpointer on one SQLite file."""

from __future__ import annotations

import asyncio
import os
import sqlite3
from collections.abc import AsyncIterator, Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from itertools import islice
from pathlib import Path
from types import TracebackType
from typing import Any, ParamSpec, Self, TypeVar

from langchain_core.runnables import RunnableConfig
from langgraph.checkpoint.base import (
    BaseCheckpointSaver,
    ChannelVersions,
    Checkpoint,
    CheckpointMetadata,
    CheckpointTuple,
    DeltaChannelHistory,
    PendingWrite,
    get_checkpoint_id,
    get_checkpoint_metadata,
)
from langgraph.checkpoint.serde.base import SerializerProtocol

from agenttape_core.errors import ConfigurationError
from agenttape_langgraph.saver import deletion
from agenttape_langgraph.saver.checkpoints import (
    COLUMNS,
    Row,
    checkpoint_of,
    namespace_of,
    save,
    save_write,
    serialised,
    serialised_writes,
    tuples_of,
    writes_of,
)
from agenttape_langgraph.saver.contents import Reader
from agenttape_langgraph.saver.database import Database
from agenttape_langgraph.saver.encoding import Codec
from agenttape_langgraph.saver.kept import Kept
from agenttape_langgraph.saver.listing import PAGE, listed
from agenttape_langgraph.saver.redacting import Redacted

# -- The key of digests of a file with encrypted values.

_LENGTH = 32


def digest_key(database: Database, codec: Codec) -> bytes:
    """Return the key of digests that the cipher of the user decrypts; a new one if it decrypts none.

    A file that was encrypted with several keys has a key of digests for each, and shares no values between them.
    """
    with database.reading() as connection:
        key = _known(connection, codec)
    if key is not None:
        return key
    if database.read_only:
        return bytes(_LENGTH)  # a file that is not written to is never searched by content
    with database.writing() as connection:
        key = _known(connection, codec)  # another process may have been first
        if key is None:
            key = os.urandom(_LENGTH)
            connection.execute("INSERT INTO digest_keys (key) VALUES (?)", (codec.close(key),))
    return key


def _known(connection: sqlite3.Connection, codec: Codec) -> bytes | None:
    for (closed,) in connection.execute("SELECT key FROM digest_keys ORDER BY id"):
        with suppress(Exception):  # each cipher has its own error for a foreign key
            key = codec.open(closed)
            if len(key) == _LENGTH:
                return key
    return None


# -- The history of a delta channel: the nearest stored value, and the writes since.


def delta_history(
    connection: sqlite3.Connection, reader: Reader, target: Row, channels: Sequence[str]
) -> dict[str, DeltaChannelHistory]:
    """Return the histories of channels: from the ancestors of a checkpoint, up to the nearest with a value of each.

    The writes of that ancestor belong to the history: they made its child. Those of the target do not: they make the
    next checkpoint.
    """
    found: dict[str, list[PendingWrite]] = {channel: [] for channel in channels}
    history: dict[str, DeltaChannelHistory] = {channel: {"writes": []} for channel in channels}
    waiting, row, seen = set(channels), parent_of(connection, target), {target.id}
    while row is not None and waiting and row.id not in seen:
        seen.add(row.id)
        writes = writes_of(connection, reader, (row.namespace, row.checkpoint_id), waiting)
        for channel, write in reversed(writes):
            found[channel].append(write)
        values = checkpoint_of(connection, reader, row, waiting).get("channel_values") or {}
        for channel in waiting & set(values):
            history[channel]["seed"] = values[channel]
            waiting.discard(channel)
        row = parent_of(connection, row)
    for channel, writes_found in found.items():
        history[channel]["writes"] = writes_found[::-1]
    return history


def parent_of(connection: sqlite3.Connection, row: Row) -> Row | None:
    """Return the parent of a checkpoint, even if it was pruned."""
    if row.ancestor_id is None:
        return None
    found = connection.execute(
        f"{COLUMNS} WHERE c.namespace = ? AND c.checkpoint_id = ?",
        (row.namespace, row.ancestor_id),
    ).fetchone()
    return None if found is None else Row.of(found)


_P = ParamSpec("_P")
_R = TypeVar("_R")


class LocalSaver(BaseCheckpointSaver[str]):
    """Keeps the checkpoints of threads in one SQLite file; see `TapeSaver`, its public subclass.

    Args:
        database: The file.
        serde: The serialiser of values; LangGraph's default if it is `None`.
        redacted: Replaces the secrets in values; `None` stores them in plain text.
    """

    def __init__(
        self, database: Database, *, serde: SerializerProtocol | None = None, redacted: Redacted | None = None
    ) -> None:
        super().__init__(serde=serde)
        self.database = database
        self._redacted = redacted
        self._plain: Codec | None = None
        self._key: tuple[SerializerProtocol, bytes] | None = None
        self._kept = Kept()

    def __enter__(self) -> Self:
        self.database.open()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._leave(error)

    async def __aenter__(self) -> Self:
        await asyncio.to_thread(self.database.open)
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        await asyncio.to_thread(self._leave, error)

    def _leave(self, error: BaseException | None) -> None:
        self.close()

    def close(self) -> None:
        """Close the file. `with saver:` opens it again."""
        self._kept = Kept()
        self.database.close()

    @property
    def path(self) -> Path | str:
        """The file, or `:memory:`."""
        return self.database.path

    def get_tuple(self, config: RunnableConfig) -> CheckpointTuple | None:
        """Return the checkpoint that a config names, or the latest of its thread and namespace."""
        codec = self._codec()
        with self.database.reading() as connection:
            found = connection.execute(*_one(config)).fetchone()
            if found is None:
                return None
            return tuples_of(connection, Reader(self.path, codec, self._kept, most=0), [Row.of(found)])[0]

    def list(
        self,
        config: RunnableConfig | None,
        *,
        filter: dict[str, Any] | None = None,  # noqa: A002 - LangGraph's name
        before: RunnableConfig | None = None,
        limit: int | None = None,
    ) -> Iterator[CheckpointTuple]:
        """Yield checkpoints, the newest first.

        The list is fixed when the first one is read. The file is not locked in between, and checkpoints that are
        deleted meanwhile are left out.

        Args:
            config: The thread, and optionally the namespace and the checkpoint; `None` for all threads.
            filter: Values that the metadata must have; a key with dots may name a value inside a dictionary.
            before: The checkpoint that all must be older than.
            limit: The most checkpoints to yield.
        """
        yield from listed(self.database, self._reader(), _many(config, before), filter or {}, limit)

    def put(
        self,
        config: RunnableConfig,
        checkpoint: Checkpoint,
        metadata: CheckpointMetadata,
        new_versions: ChannelVersions,
    ) -> RunnableConfig:
        """Store a checkpoint, whose parent is the one that the config names."""
        place = config["configurable"]
        thread_id, checkpoint_ns = str(place["thread_id"]), place.get("checkpoint_ns") or ""
        codec = self._codec()
        own: Mapping[str, Any] = get_checkpoint_metadata(config, metadata)
        if self._redacted is not None:
            own = self._redacted.values(own)
            values = self._redacted.values(checkpoint["channel_values"])
            checkpoint = {**checkpoint, "channel_values": values}
        saved = serialised(codec, checkpoint, own, place.get("checkpoint_id"), self._kept)
        with self.database.writing() as connection:
            namespace = namespace_of(connection, thread_id, checkpoint_ns, make=True)
            assert namespace is not None
            contents = save(connection, codec, namespace, saved)
        if not codec.encrypts:  # and only now that they are committed
            for number, value in contents:
                self._kept.add(number, value)
        where = {"thread_id": place["thread_id"], "checkpoint_ns": checkpoint_ns, "checkpoint_id": checkpoint["id"]}
        return {"configurable": where}

    def put_writes(
        self, config: RunnableConfig, writes: Sequence[tuple[str, Any]], task_id: str, task_path: str = ""
    ) -> None:
        """Store the writes of a task on a checkpoint. A write that is stored already doesn't change."""
        place = config["configurable"]
        codec = self._codec()
        if self._redacted is not None:
            writes = [pair for write in writes for pair in self._redacted.values(dict([write])).items()]
        waiting = serialised_writes(codec, writes)
        with self.database.writing() as connection:
            namespace = namespace_of(connection, str(place["thread_id"]), place.get("checkpoint_ns") or "", make=True)
            assert namespace is not None
            for write in waiting:
                save_write(connection, codec, (namespace, str(place["checkpoint_id"]), task_id), task_path, write)

    def delete_thread(self, thread_id: str) -> None:
        """Delete a thread, also from the disk."""
        with self._deleting() as connection:
            deletion.delete_thread(connection, str(thread_id))

    def delete_for_runs(self, run_ids: Sequence[str]) -> None:
        """Delete the checkpoints of runs, also from the disk."""
        _are_ids(run_ids)
        with self._deleting() as connection:
            deletion.delete_runs(connection, run_ids)

    def copy_thread(self, source_thread_id: str, target_thread_id: str, *, merge: bool = False) -> None:
        """Copy a thread to another; values are stored once for both. Copying it again brings the copy up to date.

        Args:
            source_thread_id: The thread.
            target_thread_id: The other one, which is made.
            merge: Also add to a thread that already has checkpoints.

        Raises:
            ConfigurationError: If the other thread already has checkpoints, and they aren't to be merged.
        """
        source, target = str(source_thread_id), str(target_thread_id)
        with self.database.writing() as connection:
            own = 0 if merge else deletion.own_checkpoints(connection, target, source)
            if own:
                raise ConfigurationError(
                    f"copy_thread({source!r}, {target!r}): expected a new thread, found {target!r} with {own} "
                    f"checkpoints that {source!r} does not have\n"
                    "  copy to another thread id, delete that thread first, or mix the two: merge=True"
                )
            deletion.copy_thread(connection, source, target)

    def prune(self, thread_ids: Sequence[str], *, strategy: str = "keep_latest") -> None:
        """Delete all but the latest checkpoint of each namespace of threads (`keep_latest`), or all (`delete`).

        The same checkpoints are kept as by LangGraph's `PostgresSaver.prune`. Threads with delta channels are pruned as
        well: the checkpoints that these are built from are kept, and neither listed nor found.

        Raises:
            ConfigurationError: There's no such strategy, or `thread_ids` is a single id.
        """
        _are_ids(thread_ids)
        if strategy not in {"keep_latest", "delete"}:
            raise ConfigurationError(f"strategy={strategy!r}: expected 'keep_latest' or 'delete'")
        reader = Reader(self.path, self._codec())
        with self._deleting() as connection:
            for thread_id in thread_ids:
                if strategy == "delete":
                    deletion.delete_thread(connection, str(thread_id))
                else:
                    deletion.keep_latest(connection, reader, str(thread_id))

    def get_delta_channel_history(
        self, *, config: RunnableConfig, channels: Sequence[str]
    ) -> Mapping[str, DeltaChannelHistory]:
        """Return the history of delta channels of a checkpoint; see LangGraph's `DeltaChannelHistory`."""
        reader = self._reader()
        with self.database.reading() as connection:
            found = connection.execute(*_one(config)).fetchone()
            if found is None or not channels:
                return {channel: {"writes": []} for channel in channels}
            return delta_history(connection, reader, Row.of(found), channels)

    def get_next_version(self, current: str | float | None, channel: None) -> Any:
        """Return the next version: always the same, in the form of LangGraph's other savers.

        Those add a random number, because they store values by version. Here values are stored by content, and equal
        recordings have equal versions. Numbers stay numbers.
        """
        if isinstance(current, int | float):
            return current + 1
        number = 0 if current is None else int(current.partition(".")[0])
        return f"{number + 1:032}.{0:016}"

    async def aget_tuple(self, config: RunnableConfig) -> CheckpointTuple | None:
        """See `get_tuple`."""
        return await self._run(self.get_tuple, config)

    async def alist(
        self,
        config: RunnableConfig | None,
        *,
        filter: dict[str, Any] | None = None,  # noqa: A002 - LangGraph's name
        before: RunnableConfig | None = None,
        limit: int | None = None,
    ) -> AsyncIterator[CheckpointTuple]:
        """See `list`."""
        found = self.list(config, filter=filter, before=before, limit=limit)
        while page := await self._run(lambda: [*islice(found, PAGE)]):
            for checkpoint in page:
                yield checkpoint

    async def aput(
        self,
        config: RunnableConfig,
        checkpoint: Checkpoint,
        metadata: CheckpointMetadata,
        new_versions: ChannelVersions,
    ) -> RunnableConfig:
        """See `put`."""
        return await self._run(self.put, config, checkpoint, metadata, new_versions)

    async def aput_writes(
        self, config: RunnableConfig, writes: Sequence[tuple[str, Any]], task_id: str, task_path: str = ""
    ) -> None:
        """See `put_writes`."""
        await self._run(self.put_writes, config, writes, task_id, task_path)

    async def adelete_thread(self, thread_id: str) -> None:
        """See `delete_thread`."""
        await self._run(self.delete_thread, thread_id)

    async def adelete_for_runs(self, run_ids: Sequence[str]) -> None:
        """See `delete_for_runs`."""
        await self._run(self.delete_for_runs, run_ids)

    async def acopy_thread(self, source_thread_id: str, target_thread_id: str, *, merge: bool = False) -> None:
        """See `copy_thread`."""
        await self._run(self.copy_thread, source_thread_id, target_thread_id, merge=merge)

    async def aprune(self, thread_ids: Sequence[str], *, strategy: str = "keep_latest") -> None:
        """See `prune`."""
        await self._run(self.prune, thread_ids, strategy=strategy)

    async def aget_delta_channel_history(
        self, *, config: RunnableConfig, channels: Sequence[str]
    ) -> Mapping[str, DeltaChannelHistory]:
        """See `get_delta_channel_history`."""
        return await self._run(self.get_delta_channel_history, config=config, channels=channels)

    async def _run(self, call: Callable[_P, _R], *args: _P.args, **kwargs: _P.kwargs) -> _R:
        return await self.database.run(call, *args, **kwargs)

    def _reader(self) -> Reader:
        return Reader(self.path, self._codec(), self._kept)

    @contextmanager
    def _deleting(self) -> Iterator[sqlite3.Connection]:
        """Open a transaction, and remove the data that it deletes from memory and disk as well."""
        try:
            with self.database.deleting() as connection:
                yield connection
        finally:
            self._kept = Kept()

    def _codec(self) -> Codec:
        """Return the codec of the current serialiser; LangGraph replaces it in clones (`with_allowlist`)."""
        if self._plain is not None and self._plain.serde is self.serde:
            return self._plain
        plain = Codec(self.serde)
        if not plain.encrypts:
            self._plain = plain
            return plain
        if self._key is None or self._key[0] is not self.serde:
            self._key = (self.serde, digest_key(self.database, plain))
        return Codec(self.serde, self._key[1])


def _are_ids(ids: Sequence[str]) -> None:
    if isinstance(ids, str):
        raise ConfigurationError(f"{ids!r}: expected a list of ids, found one")


_HERE = f"{COLUMNS} WHERE n.thread_id = ? AND n.checkpoint_ns = ? AND c.pruned = 0"
_NAMED, _LATEST = f"{_HERE} AND c.checkpoint_id = ?", f"{_HERE} ORDER BY c.checkpoint_id DESC LIMIT 1"


def _one(config: RunnableConfig) -> tuple[str, tuple[Any, ...]]:
    """Return the query for the checkpoint of a config."""
    place = config["configurable"]
    values = (str(place["thread_id"]), place.get("checkpoint_ns") or "")
    if checkpoint_id := get_checkpoint_id(config):
        return _NAMED, (*values, str(checkpoint_id))
    return _LATEST, values


def _many(config: RunnableConfig | None, before: RunnableConfig | None) -> tuple[str, tuple[Any, ...]]:
    """Return the condition and the order of a listing, with its values."""
    place = {} if config is None else config["configurable"]
    last = None if before is None else get_checkpoint_id(before)
    conditions = {
        "n.thread_id =": None if config is None else str(place["thread_id"]),
        "n.checkpoint_ns =": place.get("checkpoint_ns"),
        "c.checkpoint_id =": place.get("checkpoint_id") or None,
        "c.checkpoint_id <": last or None,
    }
    given = {words: value for words, value in conditions.items() if value is not None}
    where = " AND ".join(["c.pruned = 0", *(f"{words} ?" for words in given)])
    order = "c.checkpoint_id DESC, n.checkpoint_ns, n.thread_id"
    return f"WHERE {where} ORDER BY {order}", tuple(given.values())
