"""One writer per cassette, across sessions and processes."""

from __future__ import annotations

import contextlib
import errno
import os
import sys
import threading
import weakref
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


_TAKEN = {errno.EAGAIN, errno.EACCES, errno.EDEADLK}
_ATTEMPTS, _PAUSE = 10, 0.01
"""How often, and after how many seconds, a lock is asked for again that nobody seems to hold."""
_held: weakref.WeakSet[WriterLock] = weakref.WeakSet()


def _forget_all() -> None:
    for lock in list(_held):
        lock.forget()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forget_all)


class WriterLock:
    """An exclusive lock on a file beside the cassette; the system frees it when the process dies.

    That of a cassette at a URL holds on this machine only.

    Args:
        target: The cassette, without symbolic links.
        note: What a refused writer is told: the process and its journal.

    Raises:
        CassetteLockedError: Another session holds it.
        CassetteWriteError: The lock file cannot be made, written or locked.
    """

    def __init__(self, target: Location, note: str) -> None:
        self.path = lock_path(target)
        self._descriptor: int | None = _acquire(target, self.path)
        _held.add(self)
        try:
            os.ftruncate(self._descriptor, 0)
            os.lseek(self._descriptor, 0, os.SEEK_SET)
            os.write(self._descriptor, note.encode())
        except OSError as error:
            self.release()
            raise _cannot(target, self.path, error) from error

    @property
    def is_held(self) -> bool:
        """Whether this process holds the lock: not after `release`, and not in a fork of the process that took it."""
        return self._descriptor is not None

    def forget(self) -> None:
        """Let go of what a fork has inherited, so that the lock lives and dies with the process that took it."""
        if self._descriptor is not None:
            os.close(self._descriptor)
            self._descriptor = None

    def release(self) -> None:
        """Give the lock back and remove its file. Does nothing when it is not held."""
        if self._descriptor is None:
            return
        # The file is removed while it is still locked: who opens it now finds it replaced, and tries again.
        with contextlib.suppress(OSError):
            self.path.unlink()
        _unlock(self._descriptor)
        self.forget()
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


def recording_process(target: Location) -> str | None:
    """The id of the process that is recording to a cassette now, or `None`."""
    note = holder(target)
    return note.partition(" ")[0] if note is not None else None


def _acquire(target: Location, path: Path) -> int:
    while True:
        try:
            descriptor = os.open(path, os.O_RDWR | os.O_CREAT, 0o666)
        except OSError as error:
            raise _cannot(target, path, error) from error
        try:
            _lock_soon(descriptor)
        except OSError as error:
            note = _note(descriptor)
            os.close(descriptor)
            if error.errno not in _TAKEN:
                raise _cannot(target, path, error) from error
            raise CassetteLockedError(
                target,
                f"another session{f' (process {note.split()[0]})' if note else ''} is recording to this cassette",
                remedy="wait until it has ended, or record to another path; there is one writer at a time",
            ) from None
        if _is_current(descriptor, path):
            return descriptor
        os.close(descriptor)  # its owner removed it between our two calls


def _lock_soon(descriptor: int) -> None:
    """Lock a file, with a little patience while its note is of nobody: then someone only asks for its `holder`."""
    for _ in range(_ATTEMPTS):
        try:
            return _lock(descriptor)
        except OSError as error:
            if error.errno not in _TAKEN or _is_running(_note(descriptor)):
                raise
        threading.Event().wait(_PAUSE)
    return _lock(descriptor)


def _is_running(note: str) -> bool:
    """Whether the process of a note is there."""
    process = note.partition(" ")[0]
    if not process.isdecimal():
        return False
    if sys.platform == "win32":  # where asking a process is ending it
        return True
    try:
        os.kill(int(process), 0)
    except (ProcessLookupError, OverflowError):
        return False
    except PermissionError:
        return True
    return True


def _cannot(target: Location, path: Path, error: OSError) -> CassetteWriteError:
    problem = f"its lock file {path.name} cannot be made: {error.strerror or error}"
    remedy = "record to a folder that you may write to, that has room and whose file system has locks"
    return CassetteWriteError(target, problem, remedy=remedy)


def _is_current(descriptor: int, path: Path) -> bool:
    try:
        return os.path.samestat(os.fstat(descriptor), path.stat())
    except FileNotFoundError:
        return False


def _note(descriptor: int) -> str:
    os.lseek(descriptor, 0, os.SEEK_SET)
    return os.read(descriptor, 4096).decode(errors="replace")
