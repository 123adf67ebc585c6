"""The tables of a file, the migration of older files, and the detection of foreign ones.

The version is SQLite's `user_version`. A step of the list is never changed once it was published; a new one is added,
and migrates older files when they are opened for writing.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Sequence
from pathlib import Path

from agenttape_core.errors import CassetteFormatError, CassetteVersionError

APPLICATION = 0x41545356
"""SQLite's `application_id` of our files: ATSV."""

_FIRST = """
CREATE TABLE parts (name TEXT PRIMARY KEY, version INTEGER NOT NULL) WITHOUT ROWID;
CREATE TABLE digest_keys (id INTEGER PRIMARY KEY, key BLOB NOT NULL);

CREATE TABLE namespaces (
    id INTEGER PRIMARY KEY, thread_id TEXT NOT NULL, checkpoint_ns TEXT NOT NULL, UNIQUE (thread_id, checkpoint_ns)
);
-- `body` is the checkpoint with the names of its channels; `slots` says where the value of each is.
-- What is `pruned` is there for delta channels only, and `pruned_parent` was the parent of a checkpoint that was kept.
CREATE TABLE checkpoints (
    id INTEGER PRIMARY KEY AUTOINCREMENT, namespace INTEGER NOT NULL, checkpoint_id TEXT NOT NULL, parent_id TEXT,
    run_id TEXT, pruned INTEGER NOT NULL DEFAULT 0, pruned_parent TEXT, body BLOB NOT NULL,
    metadata BLOB NOT NULL, slots BLOB, UNIQUE (namespace, checkpoint_id)
);
CREATE INDEX checkpoints_of_run ON checkpoints (run_id) WHERE run_id IS NOT NULL;
CREATE TABLE writes (
    namespace INTEGER NOT NULL, checkpoint_id TEXT NOT NULL, task_id TEXT NOT NULL, idx INTEGER NOT NULL,
    task_path TEXT NOT NULL, channel TEXT NOT NULL, slot BLOB NOT NULL, content INTEGER,
    PRIMARY KEY (namespace, checkpoint_id, task_id, idx)
) WITHOUT ROWID;
CREATE INDEX writes_of_content ON writes (content) WHERE content IS NOT NULL;

-- A content is head + the chain of pieces that ends in `last` + tail. Chains share their beginnings.
CREATE TABLE contents (
    id INTEGER PRIMARY KEY AUTOINCREMENT, digest BLOB NOT NULL UNIQUE, kind TEXT NOT NULL, head BLOB NOT NULL,
    last INTEGER NOT NULL, length INTEGER NOT NULL, tail BLOB NOT NULL
);
CREATE INDEX contents_of_last ON contents (last);
CREATE TABLE links (
    id INTEGER PRIMARY KEY AUTOINCREMENT, digest BLOB NOT NULL UNIQUE, previous INTEGER, piece INTEGER NOT NULL
);
CREATE INDEX links_of_previous ON links (previous) WHERE previous IS NOT NULL;
CREATE INDEX links_of_piece ON links (piece);
CREATE TABLE pieces (id INTEGER PRIMARY KEY AUTOINCREMENT, digest BLOB NOT NULL UNIQUE, data BLOB NOT NULL);
CREATE TABLE uses (content INTEGER NOT NULL, checkpoint INTEGER NOT NULL, PRIMARY KEY (content, checkpoint))
WITHOUT ROWID;
"""

_BOUND_PIECES = ""
"""New pieces are bound to their digests (`Codec.close_piece`); existing ones are read without that."""

STEPS: tuple[str, ...] = (_FIRST, _BOUND_PIECES)
"""For each version of the tables, from 1 on, the statements that migrate the one before; `;` ends their lines."""

VERSION = len(STEPS)


def found_version(path: Path | str, connection: sqlite3.Connection) -> int:
    """Return the version of the tables of a file; 0 for an empty file.

    Raises `CassetteFormatError` if it is a database of something else, and `CassetteVersionError` if it is newer than
    this library.
    """
    connection.execute("SAVEPOINT look")  # one snapshot: another process may be making the tables just now
    try:
        version = int(connection.execute("PRAGMA user_version").fetchone()[0])
        application = int(connection.execute("PRAGMA application_id").fetchone()[0])
        tables = {row[0] for row in connection.execute("SELECT name FROM sqlite_master WHERE type = 'table'")}
    finally:
        connection.execute("RELEASE look")
    if application != APPLICATION:
        if not tables and not version and not application:
            return 0
        raise CassetteFormatError(path, *_foreign(tables))
    if version > VERSION:
        raise CassetteVersionError(
            path,
            f"its tables have version {version}, and this agenttape-langgraph reads versions up to {VERSION}",
            remedy="upgrade it: pip install --upgrade agenttape-langgraph",
        )
    return version


def _foreign(tables: set[str]) -> tuple[str]:
    if {"checkpoints", "writes"} <= tables:
        return ("expected a database of TapeSaver, found one of another saver (LangGraph's SqliteSaver?)",)
    return ("expected a database of TapeSaver, found one of something else",)


def bring_up_to_date(connection: sqlite3.Connection, version: int) -> None:
    """Migrate the tables of a file of an older version, within a transaction."""
    for step in STEPS[version:]:
        _execute(connection, step)
    connection.execute(f"PRAGMA user_version = {VERSION}")
    connection.execute(f"PRAGMA application_id = {APPLICATION}")


def add_part(path: Path | str, connection: sqlite3.Connection, name: str, steps: Sequence[str]) -> None:
    """Make or migrate the tables of a part, within a transaction; see `Database.add_part`.

    Raises `CassetteVersionError` if the file holds a newer version of the part.
    """
    row = connection.execute("SELECT version FROM parts WHERE name = ?", (name,)).fetchone()
    version = int(row[0]) if row else 0
    if version > len(steps):
        raise CassetteVersionError(
            path,
            f"its part {name!r} has version {version}, and this agenttape-langgraph reads versions up to {len(steps)}",
            remedy="upgrade it: pip install --upgrade agenttape-langgraph",
        )
    if version < len(steps):
        for step in steps[version:]:
            _execute(connection, step)
        connection.execute("INSERT OR REPLACE INTO parts VALUES (?, ?)", (name, len(steps)))


def _execute(connection: sqlite3.Connection, statements: str) -> None:
    """Execute statements one by one: `executescript` would end the transaction."""
    for statement in statements.split(";\n"):
        if statement.strip():
            connection.execute(statement)
