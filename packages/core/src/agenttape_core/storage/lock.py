"""One writer per cassette, across sessions and processes."""

from __future__ import annotations

import contextlib
import os
import sys
from typing import TYPE_CHECKING

from agenttape_core.errors import CassetteLockedError, CassetteWriteError
from agenttape_core.storage.working import beside

if TYPE_CHECKING:
    from pathlib import Path

    from agenttape_core.storage.location import Location

if sys.platform == "win32":
    import msvcrt

    _LOCKED_BYTE = 1 << 20  # beyond the text, which stays readable while the byte is locked

    def _lock(descriptor: int) -> None:
        os.lseek(descriptor, _LOCKED_BYTE, os.SEEK_SET)
        msvcrt.locking(descriptor, msvcrt.LK_NBLCK, 1)

    def _unlock(descriptor: int) -> None:
        os.lseek(descriptor, _LOCKED_BYTE, os.SEEK_SET)
        msvcrt.locking(descriptor, msvcrt.LK_UNLCK, 1)
else:
    import fcntl

    def _lock(descriptor: int) -> None:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)

    def _unlock(descriptor: int) -> None:
        fcntl.flock(descriptor, fcntl.LOCK_UN)


class WriterLock:
    """An exclusive lock on a file beside the cassette; the system frees it when the process dies.

    That of a cassette at a URL holds on this machine only.

    Args:
        target: The cassette, without symbolic links.
        note: What a refused writer is told: the process and its journal.

    Raises:
        CassetteLockedError: Another session holds it.
        CassetteWriteError: The lock file cannot be made.
    """

    def __init__(self, target: Location, note: str) -> None:
        self.path = lock_path(target)
        self._descriptor = _acquire(target, self.path)
        os.ftruncate(self._descriptor, 0)
        os.lseek(self._descriptor, 0, os.SEEK_SET)
        os.write(self._descriptor, note.encode())

    def release(self) -> None:
        """Give the lock back and remove its file."""
        # The file is removed while it is still locked: who opens it now finds it replaced, and tries again.
        with contextlib.suppress(OSError):
            self.path.unlink()
        _unlock(self._descriptor)
        os.close(self._descriptor)
        if sys.platform == "win32":  # where an open file cannot be removed
            with contextlib.suppress(OSError):
                self.path.unlink()


def lock_path(target: Location) -> Path:
    """The lock file of a cassette."""
    return beside(target, f".{target.name}.lock")


def holder(target: Location) -> str | None:
    """The note of the session that is recording to a cassette now, or `None`."""
    path = lock_path(target)
    try:
        descriptor = os.open(path, os.O_RDWR)
    except OSError:
        return None
    try:
        _lock(descriptor)
    except OSError:
        return _note(descriptor)
    else:
        _unlock(descriptor)
        return None
    finally:
        os.close(descriptor)


def _acquire(target: Location, path: Path) -> int:
    while True:
        try:
            descriptor = os.open(path, os.O_RDWR | os.O_CREAT, 0o666)
        except OSError as error:
            problem = f"its lock file {path.name} cannot be made: {error.strerror or error}"
            raise CassetteWriteError(target, problem, remedy="record to a folder you may write to") from error
        try:
            _lock(descriptor)
        except OSError:
            note = _note(descriptor)
            os.close(descriptor)
            raise CassetteLockedError(
                target,
                f"another session{f' (process {note.split()[0]})' if note else ''} is recording to this cassette",
                remedy="wait until it has ended, or record to another path; there is one writer at a time",
            ) from None
        if _is_current(descriptor, path):
            return descriptor
        os.close(descriptor)  # its owner removed it between our two calls


def _is_current(descriptor: int, path: Path) -> bool:
    try:
        return os.path.samestat(os.fstat(descriptor), path.stat())
    except FileNotFoundError:
        return False


def _note(descriptor: int) -> str:
    os.lseek(descriptor, 0, os.SEEK_SET)
    return os.read(descriptor, 4096).decode(errors="replace")
