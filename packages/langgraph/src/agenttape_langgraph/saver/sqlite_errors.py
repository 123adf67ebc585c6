"""SQLite's errors as errors of ours."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from agenttape_core import CassetteError, CassetteFormatError, CassetteLockedError, CassetteWriteError

_SPACE = "the last step was not stored; make room, or choose another place, and try again"
_KINDS: dict[int, tuple[type[CassetteError], str, str]] = {
    sqlite3.SQLITE_BUSY: (CassetteLockedError, "another process is writing to it", "try again when it has finished"),
    sqlite3.SQLITE_LOCKED: (CassetteLockedError, "it is being written to", "try again when that has finished"),
    sqlite3.SQLITE_READONLY: (CassetteWriteError, "it may only be read", "make it writable, or copy it"),
    sqlite3.SQLITE_FULL: (CassetteWriteError, "the disk is full", _SPACE),
    sqlite3.SQLITE_IOERR: (CassetteWriteError, "the disk failed", _SPACE),
    sqlite3.SQLITE_CANTOPEN: (CassetteWriteError, "it cannot be opened", "check its folder and the permissions"),
    sqlite3.SQLITE_TOOBIG: (CassetteWriteError, "a value is larger than SQLite stores in one place", ""),
    sqlite3.SQLITE_NOTADB: (CassetteFormatError, "expected an SQLite database, found something else", ""),
    sqlite3.SQLITE_CORRUPT: (CassetteFormatError, "the database is damaged", ""),
    sqlite3.SQLITE_ERROR: (CassetteFormatError, "its tables are not those of TapeSaver", ""),
}
_PRIMARY = 0xFF


def as_cassette_error(path: Path | str, error: sqlite3.Error | UnicodeDecodeError) -> CassetteError:
    """Return an error of SQLite as one of ours."""
    if isinstance(error, UnicodeDecodeError):  # in a damaged text, or in SQLite's message about one
        return CassetteFormatError(path, f"the database is damaged ({error})")
    code = getattr(error, "sqlite_errorcode", None)
    if code is None:  # raised by the module itself: invalid text, a value too large to bind
        kind = CassetteFormatError if isinstance(error, sqlite3.OperationalError) else CassetteError
        return kind(path, f"{type(error).__name__}: {error}")
    kind, problem, remedy = _KINDS.get(code & _PRIMARY, (CassetteError, "SQLite failed", ""))
    return kind(path, f"{problem} ({error})", remedy=remedy)


@contextmanager
def translated(path: Path | str) -> Iterator[None]:
    """Raise what SQLite raises in the block as an error of ours."""
    try:
        yield
    except (sqlite3.Error, UnicodeDecodeError) as error:
        raise as_cassette_error(path, error) from error
