"""Listings of checkpoints: a page at a time, without a lock in between."""

from __future__ import annotations

import sqlite3
import sys
from collections.abc import Iterator, Mapping, Sequence
from itertools import islice
from typing import Any

from langgraph.checkpoint.base import CheckpointTuple

from agenttape_langgraph.saver.checkpoints import COLUMNS, METADATA, PLACES, Row, tuples_of
from agenttape_langgraph.saver.contents import Reader
from agenttape_langgraph.saver.database import Database

PAGE = 16
"""The number of checkpoints that are read together."""
_LOOKED_AT = 256
"""The number of checkpoints whose metadata are compared together."""


def listed(
    database: Database,
    reader: Reader,
    which: tuple[str, Sequence[Any]],
    wanted: Mapping[str, Any],
    limit: int | None,
) -> Iterator[CheckpointTuple]:
    """Yield checkpoints. The list is fixed when the first one is read; checkpoints deleted since are left out.

    `which` has the condition and the order of the query, with its values; the metadata must have the values `wanted`,
    where a key with dots may name a value inside a dictionary.
    """
    if limit is not None and limit <= 0:
        return
    fits = _Fits(reader, wanted)
    query, values = which
    most = PAGE if wanted or limit is None else min(PAGE, limit)
    with database.reading() as connection:  # the first page, which is often the whole, by one query
        found = connection.execute(f"{COLUMNS} {query} LIMIT ?", (*values, most)).fetchall()
        chosen = [row for row in found if fits(connection, row[METADATA])] if wanted else found
        page = tuples_of(connection, reader, [Row.of(row) for row in chosen[:limit]])
        left = sys.maxsize if limit is None else limit - len(page)
        numbers: Sequence[int] = ()
        if len(found) == PAGE and left:
            rest = f"SELECT c.id {PLACES} {query} LIMIT -1 OFFSET ?"
            numbers = [row[0] for row in connection.execute(rest, (*values, PAGE))]
    yield from page
    waiting = _fitting(database, fits, numbers) if wanted else iter(numbers)
    while rows := [*islice(waiting, min(left, PAGE))]:
        page = _page(database, reader, rows)
        left -= len(page)
        yield from page


def _fitting(database: Database, fits: _Fits, rows: Sequence[int]) -> Iterator[int]:
    """Yield the numbers of the checkpoints whose metadata fit."""
    for start in range(0, len(rows), _LOOKED_AT):
        looked_at = rows[start : start + _LOOKED_AT]
        with database.reading() as connection:
            query = f"SELECT id, metadata FROM checkpoints {_in(looked_at)}"  # noqa: S608 - our own words
            stored = connection.execute(query, looked_at).fetchall()
            found = {number for number, data in stored if fits(connection, data)}
        yield from (number for number in looked_at if number in found)


def _page(database: Database, reader: Reader, rows: Sequence[int]) -> list[CheckpointTuple]:
    """Return the checkpoints of these numbers that are still there, in this order."""
    with database.reading() as connection:
        stored = {row[0]: row for row in connection.execute(f"{COLUMNS} {_in(rows, 'c.')} AND c.pruned = 0", rows)}
        return tuples_of(connection, reader, [Row.of(stored[number]) for number in rows if number in stored])


class _Fits:
    """Compares stored metadata with the required values; those of a step are often the same in many threads."""

    def __init__(self, reader: Reader, wanted: Mapping[str, Any]) -> None:
        self._reader = reader
        self._wanted = wanted
        self._known: dict[bytes, bool] = {}

    def __call__(self, connection: sqlite3.Connection, data: bytes) -> bool:
        known = self._known.get(data)
        if known is None:
            found = self._reader.codec.loads(self._reader.only(connection, data))
            known = all(_value_at(found, key) == value for key, value in self._wanted.items())
            self._known[data] = known
        return known


def _value_at(metadata: Mapping[str, Any], key: str) -> Any:
    """Return the value of a key, or of a path such as `user.name`: LangGraph's saver for SQLite reads both."""
    if key in metadata or "." not in key:
        return metadata.get(key)
    name, _, rest = key.partition(".")
    inside = metadata.get(name)
    return _value_at(inside, rest) if isinstance(inside, Mapping) else None


def _in(rows: Sequence[int], prefix: str = "") -> str:
    """Return the condition for the rows of these numbers."""
    return f"WHERE {prefix}id IN ({','.join('?' * len(rows))})"
