"""One SQLite file, for all threads of all processes that use it."""

from __future__ import annotations

import asyncio
import contextvars
import os
import sqlite3
import time
import weakref
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, closing, contextmanager, suppress
from pathlib import Path
from typing import ParamSpec, TypeVar

from agenttape_core.errors import (
    CassetteError,
    CassetteFormatError,
    CassetteLockedError,
    CassetteNotFoundError,
    CassetteWriteError,
    SessionStateError,
)
from agenttape_core.integration.threads import Lock, RLock
from agenttape_langgraph.saver.schema import VERSION, add_part, bring_up_to_date, found_version

# -- SQLite's errors as errors of ours.

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


_P = ParamSpec("_P")
_R = TypeVar("_R")

MEMORY = ":memory:"
_MAGIC = b"SQLite format 3\0"
_THREADS = 4
_NAP = 0.01
_SMALL_LOG = 1 << 20
"""Bytes of a log that has each page of a transaction once: SQLite gathers two million before it writes any."""
_AT_ONCE, _SERIES = 3, 1.0
"""Deletions that follow each other within this time, in seconds, are a series; the first ones are waited for."""


class Database:
    """The file of a saver, which other parts of this library may keep tables in.

    A part with its own tables calls `add_part` once, and then uses `reading` and `writing` like the saver. Tables of a
    part begin with its name and an underscore, and hold no reference to the saver's, whose rows come and go. The saver
    leaves them alone.

    The journal is SQLite's write-ahead log: readers and the writer do not wait for each other, every finished
    transaction survives a killed process, and a commit costs no flush of the disk (`synchronous=NORMAL`: after a power
    failure the last transactions may be missing, and the file is valid). While it is open there are two more files
    beside it, `-wal` and `-shm`; the last connection to be closed merges them into the one file. It must be on a local
    disk.

    Args:
        path: The file; its folder is made. `:memory:` is a database that ends with this object.
        read_only: Never write, and do not make the file.
        patience: Seconds to wait for another process that is writing.

    Raises:
        CassetteNotFoundError: There's no file, with `read_only`.
        CassetteFormatError: The file is not a database, or a foreign one.
        CassetteVersionError: It is of a newer version of this library.
        CassetteLockedError: Another process kept it locked for longer than the patience.
        CassetteWriteError: It cannot be made or opened.
    """

    def __init__(self, path: Path | str, *, read_only: bool = False, patience: float = 30.0) -> None:
        self.path: Path | str = MEMORY if str(path) == MEMORY else Path(path).absolute()
        self.read_only = read_only
        self._patience = patience
        self._lock = RLock()
        self._pool_lock = Lock()
        self._connection: sqlite3.Connection | None = None
        self._pool: ThreadPoolExecutor | None = None
        self._is_tidying = False
        self._tidied: deque[float] = deque(maxlen=_AT_ONCE)
        self._process = os.getpid()
        self._finalizer: weakref.finalize[..., Database] | None = None
        self.open()

    def open(self) -> None:
        """Open the file, unless it is open."""
        self._after_fork()
        with self._lock:
            if self._connection is not None:
                return
            with translated(self.path):
                connection = self._connect()
                try:
                    self._prepare(connection)
                except BaseException:
                    connection.close()
                    raise
            self._connection = connection
            self._finalizer = weakref.finalize(self, _abandon, connection, os.getpid())

    def close(self) -> None:
        """Close the file; all data is then in this one file, unless another process has it open."""
        self._after_fork()
        pool, self._pool = self._pool, None
        if pool is not None:
            pool.shutdown()
        with self._lock:
            connection, self._connection = self._connection, None
            if self._finalizer is not None:
                self._finalizer.detach()
            if connection is not None:
                with translated(self.path):
                    connection.close()

    def reading(self) -> AbstractContextManager[sqlite3.Connection]:
        """Open a transaction on a snapshot of the file, unaffected by concurrent writers."""
        return self._transaction("BEGIN")

    def writing(self) -> AbstractContextManager[sqlite3.Connection]:
        """Open a transaction that writes all, and leaves no trace if the block raises or the process is killed."""
        if self.read_only:
            raise CassetteWriteError(
                self.path, "it was opened for reading only", remedy="copy it, and write to the copy"
            )
        return self._transaction("BEGIN IMMEDIATE")

    def add_part(self, name: str, steps: Sequence[str]) -> None:
        """Make or update the tables of another part of the library in this file.

        `steps` has, for each version of its tables from 1 on, the statements that migrate the version before; each ends
        a line with `;`. Raises `CassetteVersionError` if the file holds a newer version of the part.
        """
        with self.reading() if self.read_only else self.writing() as connection:
            add_part(self.path, connection, name, steps)

    @contextmanager
    def deleting(self) -> Iterator[sqlite3.Connection]:
        """Open a transaction that writes, and then overwrite the deleted data; see `tidy_soon`."""
        with self.writing() as connection:
            was_empty = self._log_size() == 0
            yield connection
        self.tidy_soon(empty_log=not was_empty)

    def tidy(self, *, empty_log: bool = True) -> None:
        """Release the space of deleted data, unless another process is using the file.

        With `empty_log`, it also empties the log, in which older versions of pages may hold deleted data.
        """
        with self._lock, translated(self.path):
            connection = self._opened()
            if connection.in_transaction:
                return
            connection.execute("PRAGMA busy_timeout = 0")
            try:
                connection.executescript("PRAGMA incremental_vacuum")  # `execute` would give back one page
                mode = "TRUNCATE" if empty_log or self._log_size() > _SMALL_LOG else "PASSIVE"
                connection.execute(f"PRAGMA wal_checkpoint({mode})").fetchall()
            except sqlite3.OperationalError as error:
                if error.sqlite_errorcode & 0xFF not in {sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED}:
                    raise
            finally:
                connection.execute(f"PRAGMA busy_timeout = {self._patience * 1000:.0f}")

    def tidy_soon(self, *, empty_log: bool = True) -> None:
        """Release the space of deleted data right away, or, after many deletions in a row, while the program continues.

        To overwrite data on the disk, the disk is flushed, which takes longer than the deletion. So the first deletions
        of a series wait for that, and the others leave it to a thread of this database. `close` waits for the thread.
        """
        now = time.monotonic()
        is_first = len(self._tidied) < _AT_ONCE or now - self._tidied[0] > _SERIES
        self._tidied.append(now)
        if is_first or isinstance(self.path, str):
            self.tidy(empty_log=empty_log)
            return
        with self._lock, translated(self.path):
            connection = self._opened()
            if not connection.in_transaction:
                connection.executescript("PRAGMA incremental_vacuum")
        with self._pool_lock:
            if self._is_tidying:
                return  # it has not begun yet
            self._is_tidying = True
            self._threads().submit(self._tidy_beside)

    def _log_size(self) -> int:
        """Return the bytes of the log; 0 if all of it was merged into the file, and for a database in memory."""
        if isinstance(self.path, str):
            return 0
        try:
            return self.path.with_name(f"{self.path.name}-wal").stat().st_size
        except FileNotFoundError:
            return 0

    def _tidy_beside(self) -> None:
        """Merge the log into the file by its own connection, which no one waits for."""
        with self._pool_lock:
            self._is_tidying = False
        assert isinstance(self.path, Path)
        with closing(self._connect_to(f"{self.path.as_uri()}?mode=rw", uri=True)) as connection:
            connection.execute("PRAGMA wal_checkpoint(PASSIVE)").fetchall()
            connection.execute("PRAGMA busy_timeout = 0")
            with suppress(sqlite3.OperationalError):  # somebody else is busy with the file
                connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()

    async def run(self, call: Callable[_P, _R], *args: _P.args, **kwargs: _P.kwargs) -> _R:
        """Call a function in a thread of this database, so that the event loop continues.

        The threads don't belong to the loop's pool, which may be full of nodes that wait for the saver.
        """
        self._after_fork()
        with self._pool_lock:  # never held for long, unlike the lock of the connection
            pool = self._threads()
        context = contextvars.copy_context()
        return await asyncio.get_running_loop().run_in_executor(pool, lambda: context.run(call, *args, **kwargs))

    def _threads(self) -> ThreadPoolExecutor:
        if self._pool is None:
            self._pool = ThreadPoolExecutor(_THREADS, thread_name_prefix="agenttape-saver")
        return self._pool

    @contextmanager
    def _transaction(self, begin: str) -> Iterator[sqlite3.Connection]:
        self._after_fork()
        with self._lock:
            try:
                connection = self._opened()
                if connection.in_transaction:  # a block within a block is part of it
                    yield connection
                    return
                connection.execute(begin)
                try:
                    yield connection
                    connection.execute("COMMIT")
                except BaseException:
                    connection.rollback()  # does nothing if SQLite did so by itself
                    raise
            except (sqlite3.Error, UnicodeDecodeError) as error:  # `translated`, without its price
                raise as_cassette_error(self.path, error) from error

    def _opened(self) -> sqlite3.Connection:
        if self._connection is None:
            raise SessionStateError(
                f"{self.path}: the saver is closed; open it again with `with saver:`, or make a new one"
            )
        return self._connection

    def _after_fork(self) -> None:
        """Forget the connection of the parent of a fork: SQLite forbids to use or close it in the child."""
        if self._process == os.getpid():
            return
        was_open = self._connection is not None
        if self._finalizer is not None:
            self._finalizer.detach()
        _of_parent.append(self._connection)
        self._process, self._connection, self._pool = os.getpid(), None, None
        self._lock, self._pool_lock, self._is_tidying = RLock(), Lock(), False
        if was_open:
            self.open()

    def _connect(self) -> sqlite3.Connection:
        if isinstance(self.path, str):
            return self._connect_to(self.path)
        _check_magic(self.path)
        if not self.read_only and self.path.exists() and not _may_write(self.path):
            self.read_only = True
        if self.read_only:
            if not self.path.exists():
                raise CassetteNotFoundError(self.path, "there is no such file", remedy="check the path")
            return self._connect_to(f"{self.path.as_uri()}?{_read_mode(self.path)}", uri=True)
        try:
            self.path.parent.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise CassetteWriteError(self.path, f"its folder cannot be made ({error})") from error
        return self._connect_to(self.path)

    def _connect_to(self, target: Path | str, *, uri: bool = False) -> sqlite3.Connection:
        return sqlite3.connect(target, timeout=self._patience, isolation_level=None, check_same_thread=False, uri=uri)

    def _prepare(self, connection: sqlite3.Connection) -> None:
        """Check that the file is ours before anything is changed, and migrate it."""
        version = found_version(self.path, connection)
        connection.execute("PRAGMA cell_size_check = ON")
        connection.execute("PRAGMA trusted_schema = OFF")
        if self.read_only:
            if version == 0:
                raise CassetteNotFoundError(self.path, "the file is empty, and was opened for reading only")
            return
        if version == 0:
            connection.execute("PRAGMA auto_vacuum = INCREMENTAL")
        self._use_log(connection)
        connection.execute("PRAGMA synchronous = NORMAL")
        connection.execute("PRAGMA secure_delete = ON")
        if version < VERSION:
            connection.execute("BEGIN IMMEDIATE")
            bring_up_to_date(connection, found_version(self.path, connection))  # another process may have been first
            connection.execute("COMMIT")

    def _use_log(self, connection: sqlite3.Connection) -> None:
        """Switch to the write-ahead log. SQLite does not wait for others here, so we do."""
        deadline = time.monotonic() + self._patience
        while True:
            try:
                connection.execute("PRAGMA journal_mode = WAL").fetchone()
            except sqlite3.OperationalError as error:
                if error.sqlite_errorcode != sqlite3.SQLITE_BUSY or time.monotonic() > deadline:
                    raise
                time.sleep(_NAP)
            else:
                return


_of_parent: list[sqlite3.Connection | None] = []
"""Connections of the process that this one was forked from: garbage collection would close them."""


def _abandon(connection: sqlite3.Connection, process: int) -> None:
    """Close a connection that no one closed."""
    if process == os.getpid():
        connection.close()


def _check_magic(path: Path) -> None:
    """Refuse a file that is not a database: SQLite would take a short one for an empty database, and write to it."""
    try:
        with path.open("rb") as file:
            found = file.read(len(_MAGIC))
    except OSError:
        return  # there is none yet, or SQLite raises the reason
    if found and found != _MAGIC:
        raise CassetteFormatError(path, "expected an SQLite database, found something else")


def _may_write(path: Path) -> bool:
    return os.access(path, os.W_OK, effective_ids=os.access in os.supports_effective_ids)


def _read_mode(path: Path) -> str:
    """Return SQLite's parameters to read a file: with its log, or without one if its folder cannot be written to."""
    log = path.with_name(path.name + "-wal")
    has_log = log.exists() and log.stat().st_size > 0
    return "mode=ro" if has_log or _may_write(path.parent) else "mode=ro&immutable=1"
