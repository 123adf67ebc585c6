"""One file with a whole production thread: its checkpoints, and the cassette of its runs.

It holds no secrets: a value that has a pseudonym in the cassette has the same one in the checkpoints. So the states of
the file and the requests of its cassette still fit each other, and the thread can be replayed and forked without the
store and the models.
"""

from __future__ import annotations

import re
from collections.abc import AsyncIterator, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from types import TracebackType
from typing import Any, Self

from langchain_core.runnables import RunnableConfig
from langgraph.checkpoint.base import BaseCheckpointSaver, CheckpointTuple

from agenttape_core import Interaction, Rule, Step
from agenttape_core.errors import CassetteFormatError, ConfigurationError
from agenttape_core.integration.cassettes import (
    Cassette,
    Location,
    project_settings,
    redactor_for,
    write_cassette,
)
from agenttape_core.tools.compare import named_cassette
from agenttape_langgraph.saver import Database, TapeSaver
from agenttape_langgraph.saver.redacting import Redacted
from agenttape_langgraph.time_travel.initial_checkpoints import copy_checkpoint
from agenttape_langgraph.time_travel.recorded_run import THREAD, RecordedRun

PART = "export"
"""The name of the tables that an export adds to the file of a saver."""

_TABLES = (
    """CREATE TABLE export_files (name TEXT PRIMARY KEY, data BLOB NOT NULL) WITHOUT ROWID;
CREATE TABLE export_thread (thread_id TEXT NOT NULL);
""",
)
_CASSETTE = "cassette.jsonl"
_SAFE_NAME = re.compile(r"[A-Za-z0-9_-][A-Za-z0-9._-]*(?:/[A-Za-z0-9_-][A-Za-z0-9._-]*)?")


@dataclass(frozen=True, slots=True)
class ThreadExport(AbstractContextManager["ThreadExport"]):
    """An opened export. Use it in a `with` block, or close it.

    Args:
        cassette: The cassette of the thread, for `replay_thread` and `time_travel`.
        saver: The checkpoints of the thread, read-only.
        config: The config of the thread, for example for `graph.get_state_history`.
    """

    cassette: Path
    saver: TapeSaver
    config: RunnableConfig
    _folder: TemporaryDirectory[str] | None = None

    def close(self) -> None:
        """Close the file, and remove the cassette if it is in a temporary folder."""
        self.saver.close()
        if self._folder is not None:
            self._folder.cleanup()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, exc_type: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close()


def export_thread(
    saver: BaseCheckpointSaver[Any],
    config: RunnableConfig,
    cassette: str | Location | Cassette,
    path: str | Path,
    *,
    redact: bool | Sequence[Rule] = True,
) -> Path:
    """Write a thread into one file: all its checkpoints, and its part of the cassette.

    Secrets in the checkpoints are replaced as in the cassette. Values that no codec can write are replaced by opaque
    values. The saver and the cassette are only read.

    Args:
        saver: The saver that holds the thread.
        config: The config of the thread; only its `thread_id` is used.
        cassette: The cassette of its runs. Other threads in it are not exported.
        path: The file to write. It must not exist.
        redact: The rules that the cassette was recorded with, as in `use_cassette`.

    Returns:
        The path of the file.

    Raises:
        ConfigurationError: If the saver or the cassette does not hold the thread, or the file exists.
        CassetteError: If the cassette cannot be read, or the file cannot be written.
    """
    _check(saver)
    export = _Export(config, cassette, path, redact)
    return export.write(saver.list(export.config))


async def aexport_thread(
    saver: BaseCheckpointSaver[Any],
    config: RunnableConfig,
    cassette: str | Location | Cassette,
    path: str | Path,
    *,
    redact: bool | Sequence[Rule] = True,
) -> Path:
    """Do what `export_thread` does, with the asynchronous methods of the saver."""
    _check(saver)
    export = _Export(config, cassette, path, redact)
    return export.write([found async for found in _alist(saver, export.config)])


def open_export(path: str | Path, *, folder: str | Path | None = None) -> ThreadExport:
    """Open an exported thread.

    Args:
        path: The file.
        folder: The folder to put its cassette into; by default a temporary one, removed when the export is closed.

    Raises:
        CassetteError: If there's no such file, or it is not an export.
    """
    saver = TapeSaver(path, read_only=True)
    temporary = TemporaryDirectory(prefix="agenttape-export-") if folder is None else None
    try:
        target = Path(temporary.name if temporary is not None else folder or ".")
        thread_id = _extract(saver.database, target)
    except BaseException:
        saver.close()
        if temporary is not None:
            temporary.cleanup()
        raise
    return ThreadExport(target / _CASSETTE, saver, {"configurable": {THREAD: thread_id}}, temporary)


def _extract(database: Database, folder: Path) -> str:
    with database.reading() as connection:
        if not connection.execute("SELECT 1 FROM parts WHERE name = ?", (PART,)).fetchone():
            problem = "it holds checkpoints but no cassette, so it is not an export of a thread"
            raise CassetteFormatError(database.path, problem, remedy="write one with export_thread(...)")
        for name, data in connection.execute("SELECT name, data FROM export_files"):
            if not _SAFE_NAME.fullmatch(name):
                raise CassetteFormatError(database.path, f"it names a file {name!r} outside its folder")
            target = folder / name
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_bytes(data)
        row = connection.execute("SELECT thread_id FROM export_thread").fetchone()
    return str(row[0])


def _check(saver: Any) -> None:
    if not isinstance(saver, BaseCheckpointSaver):
        raise ConfigurationError(f"saver={saver!r}: expected a checkpointer, an instance of BaseCheckpointSaver")


class _Export:
    """An export in progress."""

    def __init__(
        self,
        config: RunnableConfig,
        cassette: str | Location | Cassette,
        path: str | Path,
        redact: bool | Sequence[Rule],
    ) -> None:
        thread = config.get("configurable", {}).get(THREAD)
        if thread is None:
            raise ConfigurationError(f"config={config!r}: expected one with a thread_id under 'configurable'")
        self._thread_id = str(thread)
        self.config: RunnableConfig = {"configurable": {THREAD: self._thread_id}}
        self._cassette = named_cassette(cassette)
        self._path = Path(path)
        if self._path.exists():
            raise ConfigurationError(f"{self._path} exists already: an export is a new file")
        self._run = RecordedRun(self._cassette, self._thread_id)
        preface = self._cassette.preface
        self._redacted = Redacted(redactor_for(self._cassette.path, preface, redact, project_settings()))

    def write(self, checkpoints: Iterable[CheckpointTuple]) -> Path:
        """Write the file, or leave none if that fails."""
        found = list(checkpoints)[::-1]
        if not found:
            raise ConfigurationError(f"the saver has no thread {self._thread_id!r}")
        try:
            with TapeSaver(self._path) as saver:
                for checkpoint in found:
                    self._copy(checkpoint, saver)
                self._add_cassette(saver.database)
        except BaseException:
            for suffix in ("", "-wal", "-shm"):
                self._path.with_name(self._path.name + suffix).unlink(missing_ok=True)
            raise
        return self._path

    def _copy(self, found: CheckpointTuple, saver: TapeSaver) -> None:
        checkpoint = {**found.checkpoint, "channel_values": self._redacted(found.checkpoint["channel_values"])}
        redacted = found._replace(
            checkpoint=checkpoint,  # type: ignore[arg-type]  # the same keys
            metadata=self._redacted(dict(found.metadata)),
            pending_writes=[
                (task, channel, self._redacted(value)) for task, channel, value in found.pending_writes or ()
            ],
        )
        copy_checkpoint(redacted, saver)

    def _add_cassette(self, database: Database) -> None:
        database.add_part(PART, _TABLES)
        with TemporaryDirectory(prefix="agenttape-export-") as folder:
            write_cassette(Path(folder) / _CASSETTE, self._cassette.header, list(self._records()))
            files = [file for file in sorted(Path(folder).rglob("*")) if file.is_file()]
            rows = [(file.relative_to(folder).as_posix(), file.read_bytes()) for file in files]
        with database.writing() as connection:
            connection.executemany("INSERT INTO export_files VALUES (?, ?)", rows)
            connection.execute("INSERT INTO export_thread VALUES (?)", (self._thread_id,))

    def _records(self) -> Iterator[Interaction | Step]:
        """Yield the records of this thread in the cassette, and those that belong to no invocation."""
        roots = self._run.plan.roots
        for record in self._cassette.records():
            if record.address == "" or record.address.partition("/")[0] in roots:
                yield record


async def _alist(saver: BaseCheckpointSaver[Any], config: RunnableConfig) -> AsyncIterator[CheckpointTuple]:
    async for found in saver.alist(config):
        yield found
