"""The history of a delta channel: the nearest stored value, and the writes since."""

from __future__ import annotations

import sqlite3
from collections.abc import Sequence

from langgraph.checkpoint.base import DeltaChannelHistory, PendingWrite

from agenttape_langgraph.saver.checkpoints import COLUMNS, Row, checkpoint_of, writes_of
from agenttape_langgraph.saver.contents import Reader


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
    """Return the parent of a checkpoint, also if it was pruned."""
    if row.ancestor_id is None:
        return None
    found = connection.execute(
        f"{COLUMNS} WHERE c.namespace = ? AND c.checkpoint_id = ?",
        (row.namespace, row.ancestor_id),
    ).fetchone()
    return None if found is None else Row.of(found)
