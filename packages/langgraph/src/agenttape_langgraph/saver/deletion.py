"""Deleting, pruning and copying threads."""

from __future__ import annotations

import sqlite3
from collections.abc import Mapping, Sequence
from typing import Any

from agenttape_langgraph.saver.checkpoints import COLUMNS, VALUES, Row, forget, metadata_of
from agenttape_langgraph.saver.contents import Reader, release

_COPIED = "checkpoint_id, parent_id, run_id, pruned, pruned_parent, slots, body, metadata"
_Gone = tuple[int, str, bytes | None]
"""A checkpoint to be deleted: the number of its row, its id and its slots."""
COUNTERS = "counters_since_delta_snapshot"
"""LangGraph's key in the metadata for the delta channels that have writes since their last snapshot."""


def delete_thread(connection: sqlite3.Connection, thread_id: str) -> None:
    """Delete a thread."""
    namespaces = _namespaces(connection, thread_id)
    for number, _ in namespaces:
        rows = connection.execute("SELECT id, slots FROM checkpoints WHERE namespace = ?", (number,)).fetchall()
        held = forget(connection, rows)
        # All writes of the namespace, also for checkpoints that were never stored.
        release(connection, held | _forget_writes(connection, "namespace = ?", (number,)))
    connection.executemany("DELETE FROM namespaces WHERE id = ?", [(number,) for number, _ in namespaces])


def delete_runs(connection: sqlite3.Connection, run_ids: Sequence[str]) -> None:
    """Delete the checkpoints of runs, and their pending writes."""
    for run_id in run_ids:
        found = connection.execute(
            "SELECT namespace, id, checkpoint_id, slots FROM checkpoints WHERE run_id = ?", (str(run_id),)
        ).fetchall()
        for namespace in sorted({row[0] for row in found}):
            _delete(connection, namespace, [row[1:] for row in found if row[0] == namespace])


def keep_latest(connection: sqlite3.Connection, reader: Reader, thread_id: str) -> None:
    """Delete all but the latest checkpoint of each namespace, as LangGraph's saver for Postgres does.

    A kept checkpoint loses its parent. The namespace of a call of a subgraph is deleted with the checkpoint of the root
    graph that it started from; the namespace of a subgraph with its own memory is kept.

    The value of a delta channel of a kept checkpoint is built from older checkpoints and their writes. These stay, and
    are neither listed nor found: only the history of the channel reads them.
    """
    stored = {ns: (number, _rows(connection, number)) for number, ns in _namespaces(connection, thread_id)}
    roots = [row.checkpoint_id for row, pruned in stored.get("", (0, []))[1] if not pruned]
    for checkpoint_ns, (number, rows) in stored.items():
        head = next((row for row, pruned in rows if not pruned), None)
        kept: set[int] = set()
        if head is not None:
            metadata: Mapping[str, Any] = metadata_of(connection, reader, head)
            if not (":" in checkpoint_ns and (metadata.get("parents") or {}).get("") in roots[1:]):
                older = {row.checkpoint_id: row for row, _ in rows}
                kept = {head.id, *_hide(connection, head, _needed(connection, reader, head, older, metadata))}
        _delete(connection, number, [(row.id, row.checkpoint_id, row.slots) for row, _ in rows if row.id not in kept])


def _rows(connection: sqlite3.Connection, namespace: int) -> list[tuple[Row, bool]]:
    """Return the checkpoints of a namespace, the newest first, and whether each is pruned."""
    query = COLUMNS.replace("SELECT ", "SELECT c.pruned, ", 1)
    found = connection.execute(f"{query} WHERE c.namespace = ? ORDER BY c.checkpoint_id DESC", (namespace,))
    return [(Row.of(row[1:]), bool(row[0])) for row in found.fetchall()]


def _hide(connection: sqlite3.Connection, head: Row, needed: Sequence[Row]) -> list[int]:
    """Cut a checkpoint off from its parent, hide the ancestors that it needs, and return their numbers."""
    connection.execute(
        "UPDATE checkpoints SET pruned_parent = parent_id, parent_id = NULL WHERE id = ? AND parent_id IS NOT NULL",
        (head.id,),
    )
    connection.executemany("UPDATE checkpoints SET pruned = 1 WHERE id = ?", [(row.id,) for row in needed])
    return [row.id for row in needed]


def _needed(
    connection: sqlite3.Connection,
    reader: Reader,
    head: Row,
    older: dict[str, Row],
    metadata: Mapping[str, Any],
) -> list[Row]:
    """Return the ancestors of a checkpoint that its delta channels are built from."""
    waiting = set(metadata.get(COUNTERS) or ()) - _named(connection, reader, head)
    needed: list[Row] = []
    row = older.get(head.ancestor_id or "")
    while waiting and row is not None and row not in needed:
        needed.append(row)
        waiting -= _named(connection, reader, row)
        row = older.get(row.ancestor_id or "")
    return needed


def _named(connection: sqlite3.Connection, reader: Reader, row: Row) -> set[str]:
    """Return the channels that have a value in a checkpoint."""
    return set(reader.codec.loads(reader.only(connection, row.body)).get(VALUES) or ())


def own_checkpoints(connection: sqlite3.Connection, thread_id: str, other: str) -> int:
    """Return how many checkpoints a thread has that another one does not have in the same namespace."""
    query = (
        "SELECT count(*) FROM checkpoints c JOIN namespaces n ON n.id = c.namespace"
        " WHERE n.thread_id = :it AND NOT EXISTS"
        " (SELECT 1 FROM checkpoints o JOIN namespaces m ON m.id = o.namespace"
        " WHERE m.thread_id = :other AND m.checkpoint_ns = n.checkpoint_ns AND o.checkpoint_id = c.checkpoint_id)"
    )
    return int(connection.execute(query, {"it": thread_id, "other": other}).fetchone()[0])


def copy_thread(connection: sqlite3.Connection, source: str, target: str) -> None:
    """Copy a thread to another; contents are shared. Checkpoints of the target with the same ids are replaced."""
    if source == target:
        return
    for number, checkpoint_ns in _namespaces(connection, source):
        insert = "INSERT OR IGNORE INTO namespaces (thread_id, checkpoint_ns) VALUES (?, ?)"
        connection.execute(insert, (target, checkpoint_ns))
        find = "SELECT id FROM namespaces WHERE thread_id = ? AND checkpoint_ns = ?"
        copy = connection.execute(find, (target, checkpoint_ns)).fetchone()[0]
        _delete(connection, copy, _also_in(connection, copy, number))
        connection.execute(
            f"INSERT INTO checkpoints (namespace, {_COPIED}) SELECT ?, {_COPIED} FROM checkpoints"  # noqa: S608
            " WHERE namespace = ? ORDER BY id",
            (copy, number),
        )
        connection.execute(
            "INSERT INTO uses (content, checkpoint) SELECT uses.content, copies.id FROM checkpoints originals"
            " JOIN checkpoints copies ON copies.namespace = ? AND copies.checkpoint_id = originals.checkpoint_id"
            " JOIN uses ON uses.checkpoint = originals.id WHERE originals.namespace = ?",
            (copy, number),
        )
        connection.execute(
            "INSERT OR REPLACE INTO writes (namespace, checkpoint_id, task_id, idx, task_path, channel, slot, content)"
            " SELECT ?, checkpoint_id, task_id, idx, task_path, channel, slot, content FROM writes WHERE namespace = ?",
            (copy, number),
        )


def _also_in(connection: sqlite3.Connection, namespace: int, other: int) -> list[_Gone]:
    """Return the checkpoints of a namespace that another one has too."""
    return connection.execute(
        "SELECT id, checkpoint_id, slots FROM checkpoints WHERE namespace = ? AND checkpoint_id IN"
        " (SELECT checkpoint_id FROM checkpoints WHERE namespace = ?)",
        (namespace, other),
    ).fetchall()


def _namespaces(connection: sqlite3.Connection, thread_id: str) -> list[tuple[int, str]]:
    query = "SELECT id, checkpoint_ns FROM namespaces WHERE thread_id = ? ORDER BY id"
    return connection.execute(query, (thread_id,)).fetchall()


def _delete(connection: sqlite3.Connection, namespace: int, rows: Sequence[_Gone]) -> None:
    """Delete checkpoints of a namespace with their writes, and contents that are no longer in use."""
    held = forget(connection, [(row, slots) for row, _, slots in rows])
    for _, checkpoint_id, _ in rows:
        held |= _forget_writes(connection, "namespace = ? AND checkpoint_id = ?", (namespace, checkpoint_id))
    release(connection, held)


def _forget_writes(connection: sqlite3.Connection, where: str, values: Sequence[object]) -> set[int]:
    """Delete pending writes, and return their contents, which the caller releases."""
    used = connection.execute(f"SELECT content FROM writes WHERE {where} AND content IS NOT NULL", values).fetchall()  # noqa: S608 - our own words
    connection.execute(f"DELETE FROM writes WHERE {where}", values)  # noqa: S608 - our own words
    return {row[0] for row in used}
