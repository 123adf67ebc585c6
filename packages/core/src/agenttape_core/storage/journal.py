"""The journal: every finished interaction on disk at once, the cassette replaced at the end.

A journal is JSON lines beside the cassette: the header, then one line per interaction in the order in which they
ended. Its requests are continuations as well, so it grows as the cassette does and not with the square of the turns.
"""

from __future__ import annotations

import contextlib
import math
import os
import secrets
import threading
from typing import TYPE_CHECKING, Any

from agenttape_core.errors import CassetteWriteError, SessionStateError, UnrecordableValueError
from agenttape_core.storage.continuation import Compactor
from agenttape_core.storage.files import file_kind
from agenttape_core.storage.journal_text import assemble, read_journal
from agenttape_core.storage.json_text import dump_line
from agenttape_core.storage.lock import WriterLock
from agenttape_core.storage.plain import check_plain
from agenttape_core.storage.records import header_to_dict
from agenttape_core.storage.working import beside, prepare_beside, real_location
from agenttape_core.storage.writer import stored_record, write_cassette

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from agenttape_core.schema import Header, Interaction, Timing
    from agenttape_core.storage.location import Location


class Journal:
    """One recording in progress. It ends with `commit` or `abandon`; after either it is closed.

    Args:
        target: The cassette that `commit` will replace. Missing folders are created.
        header: What is known of the header now, for a recovery after a crash.

    Raises:
        CassetteLockedError: Another session records to the same cassette.
        CassetteWriteError: The folder cannot be written to.
        ConfigurationError: The suffix of the target is not known.
    """

    def __init__(self, target: Location, header: Header) -> None:
        file_kind(target)
        self.target = real_location(target)
        name = f".{self.target.name}.{os.getpid()}-{secrets.token_hex(4)}.journal"
        self.path = beside(self.target, name)
        self._mutex = threading.Lock()
        self._compactor = Compactor()
        self._count = 0
        self._size = 0
        stored = header_to_dict(header)
        check_plain(stored)
        prepare_beside(self.target)
        self._lock = WriterLock(self.target, f"{os.getpid()} {name}")
        self._descriptor: int | None = None
        try:
            self._descriptor = self._open()
            self._write(stored)
        except BaseException:
            self._close()
            with contextlib.suppress(OSError):
                self.path.unlink(missing_ok=True)
            raise

    def append(self, interaction: Interaction, timing: Timing, order: tuple[Any, ...]) -> None:
        """Keep one finished interaction. When this returns, it outlives the process.

        Thread-safe.

        Args:
            interaction: What happened. Its number is provisional: any number that is unique in this session, by
                which the `parent` of others may name it.
            timing: When it happened, in milliseconds.
            order: Where it belongs in the cassette: a tuple of integers, strings and such tuples. Interactions of
                equal order stay in the order in which they were appended.

        Raises:
            UnrecordableValueError: Something in it is not plain data; nothing was written.
            CassetteWriteError: It could not be written; earlier interactions are kept.
            SessionStateError: The journal is closed.
        """
        times = [timing.duration_ms, *timing.offsets_ms]
        if not all(math.isfinite(ms) for ms in times):
            raise UnrecordableValueError("timing", float, "a duration is a finite number of milliseconds")
        with self._mutex:
            if self._descriptor is None:
                raise SessionStateError(f"{self.path.name} is closed: nothing more can be recorded to it")
            record = stored_record(self._compactor, interaction, self._count + 1)
            self._write({"order": list(order), "timing": times, "record": record})
            self._compactor.confirm()
            self._count += 1

    def commit(self, header: Header, keep: Sequence[Interaction] = ()) -> None:
        """Replace the cassette by what was recorded, then remove the journal.

        The interactions are sorted by their order and numbered from 1; parents that were not recorded are dropped.

        Args:
            header: The header of the cassette. Its timings are those of `keep`, by their old numbers.
            keep: Interactions of an earlier cassette that stay, before all others and in this order.

        Raises:
            CassetteWriteError: The cassette could not be written; it is as it was, and the journal holds the
                recording for `recover`.
            SessionStateError: The journal is closed.
        """
        with self._mutex:
            if self._descriptor is None:
                raise SessionStateError(f"{self.path.name} is closed: it was committed or abandoned before")
            try:
                _, lines = read_journal(self.path)
                full_header, interactions = assemble(header, keep, lines)
                write_cassette(self.target, full_header, interactions, kept_in=self.path)
                with contextlib.suppress(OSError):
                    self.path.unlink()
            finally:
                self._close()

    def abandon(self, *, keep: bool) -> Path | None:
        """End without touching the cassette. Does nothing when the journal is closed already.

        Args:
            keep: Whether to leave the journal for `recover`; one without interactions is removed anyway.

        Returns:
            The journal that was left, if any.
        """
        with self._mutex:
            if self._descriptor is None:
                return self.path if self.path.exists() else None
            kept = self.path if keep and self._count else None
            if kept:
                os.fsync(self._descriptor)
            self._close(remove=not kept)
            return kept

    def _open(self) -> int:
        try:
            # O_BINARY exists where the system would translate the ends of lines.
            flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_APPEND | getattr(os, "O_BINARY", 0)
            # An append to the page cache does not block. The flag says so to tools such as blockbuster, which guard
            # the event loops that interactions are recorded in; on a regular file it has no other effect.
            flags |= getattr(os, "O_NONBLOCK", 0)
            return os.open(self.path, flags, 0o666)
        except OSError as error:
            raise self._failure(error) from error

    def _write(self, line: dict[str, Any]) -> None:
        """Write one line with one call; a line that could not be written whole is taken back."""
        assert self._descriptor is not None
        data = memoryview(dump_line(line).encode() + b"\n")
        size = len(data)
        try:
            while data:
                data = data[os.write(self._descriptor, data) :]
        except OSError as error:
            with contextlib.suppress(OSError):
                os.ftruncate(self._descriptor, self._size)
            raise self._failure(error) from error
        self._size += size

    def _failure(self, error: OSError) -> CassetteWriteError:
        problem = f"the journal could not be written: {error.strerror or error}"
        if self._count:
            problem += f"; {self._count} interactions are kept in {self.path}"
        return CassetteWriteError(self.target, problem, remedy="free space or fix the permissions of its folder")

    def _close(self, *, remove: bool = False) -> None:
        if self._descriptor is not None:
            os.close(self._descriptor)
            self._descriptor = None
        if remove:
            with contextlib.suppress(OSError):
                self.path.unlink()
        self._lock.release()
