"""The key of digests of a file with encrypted values."""

from __future__ import annotations

import os
import sqlite3
from contextlib import suppress

from agenttape_langgraph.saver.database import Database
from agenttape_langgraph.saver.sealing import Seal

_LENGTH = 32


def digest_key(database: Database, seal: Seal) -> bytes:
    """Return the key of digests that the cipher of the user decrypts; a new one if it decrypts none.

    A file that was encrypted with several keys has a key of digests for each, and shares no values between them.
    """
    with database.reading() as connection:
        key = _known(connection, seal)
    if key is not None:
        return key
    if database.read_only:
        return bytes(_LENGTH)  # a file that is not written to is never searched by content
    with database.writing() as connection:
        key = _known(connection, seal)  # another process may have been first
        if key is None:
            key = os.urandom(_LENGTH)
            connection.execute("INSERT INTO digest_keys (key) VALUES (?)", (seal.close(key),))
    return key


def _known(connection: sqlite3.Connection, seal: Seal) -> bytes | None:
    for (closed,) in connection.execute("SELECT key FROM digest_keys ORDER BY id"):
        with suppress(Exception):  # each cipher has its own error for a foreign key
            key = seal.open(closed)
            if len(key) == _LENGTH:
                return key
    return None
