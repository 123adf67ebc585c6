"""Values that are stored once, however many checkpoints and writes have them.

A content is a chain of pieces. Two contents with the same beginning share the links of their chains up to the first
difference, so a list of messages that grows at every step costs one link and one piece per step. A piece is stored once
as well, at any place of any chain: a list that loses its beginning keeps its pieces.

Contents have no reference counts. A content is in use while a checkpoint or a write has it, a link while a content ends
at it or another link follows it, a piece while a link has it. A released content is looked up, and deleted if it is not
in use.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable
from pathlib import Path

from agenttape_core.errors import CassetteFormatError
from agenttape_langgraph.saver.encoding import Codec, Content, Typed
from agenttape_langgraph.saver.kept import Kept
from agenttape_langgraph.saver.slots import Slot, read_slots

_CHAIN = """
WITH RECURSIVE chain (id, previous, piece) AS (
    SELECT id, previous, piece FROM links WHERE id = ?
    UNION ALL
    SELECT links.id, links.previous, links.piece FROM links JOIN chain ON links.id = chain.previous
    WHERE links.id < chain.id
)
SELECT chain.id, pieces.id, pieces.digest, pieces.data FROM chain CROSS JOIN pieces ON pieces.id = chain.piece
"""
"""Without `ORDER BY`, for which SQLite would copy all data; the first column is what to sort by."""
_UNUSED_CONTENT = (
    "SELECT last FROM contents WHERE id = :it AND NOT EXISTS (SELECT 1 FROM uses WHERE content = :it)"
    " AND NOT EXISTS (SELECT 1 FROM writes WHERE content = :it)"
)
_UNUSED_LINKS = """
WITH RECURSIVE chain (id, previous, piece) AS (
    SELECT id, previous, piece FROM links WHERE id = :it AND NOT EXISTS (SELECT 1 FROM contents WHERE last = :it)
    AND NOT EXISTS (SELECT 1 FROM links WHERE previous = :it)
    UNION ALL
    SELECT links.id, links.previous, links.piece FROM chain CROSS JOIN links ON links.id = chain.previous
    WHERE links.id < chain.id AND NOT EXISTS (SELECT 1 FROM contents WHERE last = links.id)
    AND NOT EXISTS (SELECT 1 FROM links others WHERE others.previous = links.id AND others.id <> chain.id)
)
SELECT id, piece FROM chain
"""
"""The end of a chain, up to the first link that anything else has."""
_DELETE_UNUSED_PIECE = "DELETE FROM pieces WHERE id = :it AND NOT EXISTS (SELECT 1 FROM links WHERE piece = :it)"
_DAMAGE = (IndexError, TypeError, ValueError)
"""Errors of damaged bytes; where damage makes other types of them too."""

Value = Typed | Content
"""A serialised value on its way into the file: small, or to be stored by content."""


def prepared(codec: Codec, typed: Typed, small: int) -> Value:
    """Return a serialized value in its stored form: small ones as bytes for its row, large ones as a content."""
    return typed if len(typed.data) < small else codec.content(typed)


def store(connection: sqlite3.Connection, codec: Codec, value: Value) -> Slot:
    """Store a value, unless the file has it already; return its slot."""
    if isinstance(value, Typed):
        return Slot(0, value.kind, codec.close(value.data))
    row = connection.execute("SELECT id FROM contents WHERE digest = ?", (value.digest,)).fetchone()
    if row:
        return Slot(int(row[0]))
    last = _extend_chain(connection, codec, value)
    cursor = connection.execute(
        "INSERT INTO contents (digest, kind, head, last, length, tail) VALUES (?, ?, ?, ?, ?, ?)",
        (value.digest, value.kind, codec.close(value.head), last, len(value.pieces), codec.close(value.tail)),
    )
    return Slot(_new_id(cursor))


def _extend_chain(connection: sqlite3.Connection, codec: Codec, value: Content) -> int:
    """Extend the longest stored chain that the value begins with, and return the last link."""
    known, previous = _longest_known(connection, codec, value)
    for at, chain in enumerate(codec.chains(value, known), known):
        row = connection.execute("SELECT id FROM pieces WHERE digest = ?", (value.digests[at],)).fetchone()
        if row is None:
            statement = "INSERT INTO pieces (digest, data) VALUES (?, ?)"
            number = _new_id(
                connection.execute(
                    statement, (value.digests[at], codec.close_piece(value.pieces[at], value.digests[at]))
                )
            )
        else:
            number = int(row[0])
        statement = "INSERT INTO links (digest, previous, piece) VALUES (?, ?, ?)"
        previous = _new_id(connection.execute(statement, (chain, previous, number)))
    assert previous is not None  # a content has a piece
    return previous


def _longest_known(connection: sqlite3.Connection, codec: Codec, value: Content) -> tuple[int, int | None]:
    """Return the number of links of a chain that are stored, and the last of them; all links before it are stored too.

    Usually a list grew by one or two items, so the search begins at the end and continues by halves.
    """
    found: int | None = None
    low, high, step = 0, len(value.pieces), 1
    while low < high:
        middle = max(high - step, (low + high) // 2)
        row = connection.execute("SELECT id FROM links WHERE digest = ?", (codec.chain(value, middle + 1),)).fetchone()
        if row:
            low, found = middle + 1, int(row[0])
        else:
            high, step = middle, step << 1
    return low, found


def _new_id(cursor: sqlite3.Cursor) -> int:
    assert cursor.lastrowid is not None
    return cursor.lastrowid


class Reader:
    """Reads values within one transaction or one listing, and keeps the pieces that it has read.

    `path` is for errors; `kept` are values that were written or read lately, `None` within a transaction that writes;
    `most` bytes of pieces are kept for the next values, none for a single checkpoint, whose values share none.
    """

    def __init__(self, path: Path | str, codec: Codec, kept: Kept | None = None, most: int = 16 << 20) -> None:
        self.path = path
        self.codec = codec
        self._kept = kept if not codec.encrypts else None
        self._pieces: dict[int, bytes] = {}
        self._held = 0
        self._most = most

    def typed(self, connection: sqlite3.Connection, value: Typed | int) -> Typed:
        """Return a serialised value, which `values` may have given by the number of its content.

        Raises `CassetteFormatError` if it is damaged or missing, and `UnreadableValueError` if it is encrypted or
        packed in a way that cannot be read here.
        """
        if isinstance(value, Typed):
            return value
        try:
            return self._whole(connection, value)
        except _DAMAGE as error:
            if self.codec.encrypts:
                raise  # by the cipher, which has another key
            raise CassetteFormatError(self.path, f"a stored value is damaged: {error}") from error

    def only(self, connection: sqlite3.Connection, data: bytes) -> Typed:
        """Return the serialised value of the only slot of a row."""
        values = self.values(data)
        if len(values) != 1:
            raise CassetteFormatError(self.path, f"a stored row is damaged: expected one value, found {len(values)}")
        return self.typed(connection, values[0])

    def values(self, data: bytes) -> tuple[Typed | int, ...]:
        """Return the serialised values of the slots of a row: those among the contents by their numbers.

        Raises `CassetteFormatError` if they are damaged, and `UnreadableValueError` if one is encrypted or packed in a
        way that cannot be read here.
        """
        found = None if self._kept is None else self._kept.of_row(data)
        if found is None:
            try:
                slots = read_slots(data)
            except _DAMAGE as error:
                raise CassetteFormatError(self.path, f"a stored row is damaged: {error}") from error
            try:
                found = tuple(slot.content or Typed(slot.kind, self.codec.open(slot.data)) for slot in slots)
            except _DAMAGE as error:
                if self.codec.encrypts:
                    raise  # by the cipher, which has another key
                raise CassetteFormatError(self.path, f"a stored value is damaged: {error}") from error
            if self._kept is not None:
                self._kept.add_row(data, found)
        return found

    def _whole(self, connection: sqlite3.Connection, number: int) -> Typed:
        found = self._kept.get(number) if self._kept is not None else None
        if found is None:
            found = self._read(connection, number)
            if self._kept is not None:
                self._kept.add(number, found)
        return found

    def _read(self, connection: sqlite3.Connection, number: int) -> Typed:
        row = connection.execute(
            "SELECT digest, kind, head, last, length, tail FROM contents WHERE id = ?", (number,)
        ).fetchone()
        if row is None:
            raise ValueError(f"content {number} is missing")
        digest, kind, head, last, length, tail = row
        head, tail = self.codec.open(head), self.codec.open(tail)
        links: list[int] = []
        digests: list[bytes] = []
        pieces: list[bytes] = []
        known = self._pieces
        # Three lists, of what Python's collector of garbage does not count: a tuple for each piece would wake it up.
        for link, piece, found, data in connection.execute(_CHAIN, (last,)):
            links.append(link)
            digests.append(found)
            pieces.append(known.get(piece) or self._piece(piece, found, data))
        order = sorted(range(len(links)), key=links.__getitem__)
        if len(order) != length or not self.codec.is_whole(digest, kind, head, [digests[at] for at in order], tail):
            raise ValueError(f"the digest of content {number} does not fit")
        return Typed(kind, b"".join((head, *(pieces[at] for at in order), tail)))

    def _piece(self, number: int, digest: bytes, data: bytes) -> bytes:
        piece = self.codec.open_piece(data, digest)
        if self._held + len(piece) < self._most:
            self._pieces[number] = piece
            self._held += len(piece)
        return piece


def release(connection: sqlite3.Connection, contents: Iterable[int]) -> None:
    """Delete the contents that are no longer in use, with the links and pieces that only they had."""
    unused: list[tuple[int]] = []
    ends: set[int] = set()
    for number in set(contents):
        row = connection.execute(_UNUSED_CONTENT, {"it": number}).fetchone()
        if row:
            unused.append((number,))
            ends.add(row[0])
    connection.executemany("DELETE FROM contents WHERE id = ?", unused)
    gone: set[int] = set()
    pieces: set[int] = set()
    for end in sorted(ends, reverse=True):  # the longest chains first: they contain the others of a list that grew
        if end in gone:
            continue
        chain = connection.execute(_UNUSED_LINKS, {"it": end}).fetchall()
        connection.executemany("DELETE FROM links WHERE id = ?", [(link,) for link, _ in chain])
        gone.update(link for link, _ in chain)
        pieces.update(piece for _, piece in chain)
    connection.executemany(_DELETE_UNUSED_PIECE, [{"it": piece} for piece in sorted(pieces)])
