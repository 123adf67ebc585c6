"""Locks and hidden files of a cassette: one writer at a time, and the folder of its lock and journals.

They are beside the cassette, or in a local folder if the cassette is at a URL.
"""

from __future__ import annotations

import contextlib
import errno
import hashlib
import os
import stat
import sys
import threading
import weakref
from collections.abc import Iterator
from pathlib import Path

from agenttape_core.errors import CassetteLockedError, CassetteWriteError
from agenttape_core.lazy_patterns import Lazy
from agenttape_core.storage.atomic import make_folder, real_path
from agenttape_core.storage.location import Location, location_of

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
_OPEN = os.O_RDWR | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_CLOEXEC", 0)
"""A folder may be a stranger's: no link is followed, and no pipe waited for."""
_NOTE = Lazy(rb"(?:[0-9]+ [^\r\n]*)?")  # all that a lock of ours holds. Its first word is the process.
_LONGEST_NOTE = 4096
_ATTEMPTS, _PAUSE = 10, 0.01
"""The number of attempts, and the seconds between them, to take a lock that no one seems to hold."""
_LINE_BREAKS = Lazy(r"[\r\n]")
_held: weakref.WeakSet[WriterLock] = weakref.WeakSet()


def _forget_all() -> None:
    for lock in list(_held):
        lock.forget()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forget_all)


class WriterLock:
    """An exclusive lock on a file beside the cassette; the system frees it when the process dies.

    That of a cassette at a URL holds on this machine only. `target` has no symbolic links; `note` is the text for a
    refused writer: the process and its journal. Raises `CassetteLockedError` if another session holds it, and
    `CassetteWriteError` if the lock file cannot be made, written or locked.
    """

    def __init__(self, target: Location, note: str) -> None:
        self.path = lock_path(target)
        self._descriptor: int | None = _acquire(target, self.path)
        _held.add(self)
        try:
            if os.fstat(self._descriptor).st_size:  # ext4 writes a file to the disk at once that was emptied before
                os.ftruncate(self._descriptor, 0)
            os.lseek(self._descriptor, 0, os.SEEK_SET)
            os.write(self._descriptor, _LINE_BREAKS.sub("?", note).encode("utf-8", "backslashreplace"))
        except OSError as error:
            self.release()
            raise _cannot(target, self.path, error) from error

    @property
    def is_held(self) -> bool:
        """True if this process holds the lock: not after `release`, and not in a fork of the process that took it."""
        return self._descriptor is not None

    def forget(self) -> None:
        """Release a lock inherited by a fork, so that the lock lives and dies with the process that took it."""
        if self._descriptor is not None:
            os.close(self._descriptor)
            self._descriptor = None

    def release(self) -> None:
        """Release the lock and remove its file. Has no effect if it isn't held."""
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


@contextlib.contextmanager
def locked(target: Location, purpose: str) -> Iterator[None]:
    """Hold the lock of a cassette for a block. Its folder is made if need be. Raises as `WriterLock` does."""
    prepare_beside(target)
    lock = WriterLock(target, f"{os.getpid()} {purpose}")
    try:
        yield
    finally:
        lock.release()


def lock_path(target: Location) -> Path:
    """The lock file of a cassette."""
    return beside(target, f".{target.name}.lock")


def holder(target: Location) -> str | None:
    """The note of the session that is recording to a cassette now, or `None`."""
    path = lock_path(target)
    try:
        descriptor = os.open(path, _OPEN)
    except OSError:
        return None
    if not _is_ours(descriptor):
        os.close(descriptor)
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
            descriptor = os.open(path, _OPEN | os.O_CREAT, 0o666)
        except OSError as error:
            raise _cannot(target, path, error) from error
        if not _is_ours(descriptor):
            os.close(descriptor)
            raise _foreign(target, path)
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
    """Lock a file, waiting a little while its note is empty: then another process only reads its `holder`."""
    for _ in range(_ATTEMPTS):
        try:
            return _lock(descriptor)
        except OSError as error:
            if error.errno not in _TAKEN or _is_running(_note(descriptor)):
                raise
        threading.Event().wait(_PAUSE)
    return _lock(descriptor)


def _is_running(note: str) -> bool:
    """Return True if the process of a note is there."""
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
    return CassetteWriteError.of_system(target, problem, remedy=remedy)


def _foreign(target: Location, path: Path) -> CassetteWriteError:
    problem = f"{path.name}, which is where its lock belongs, isn't a lock of AgentTape"
    return CassetteWriteError(target, problem, remedy="look at it, and remove it; it was not touched")


def _is_ours(descriptor: int) -> bool:
    """Return True for a file that may be emptied: a regular one, of one name, with a note of ours or none."""
    found = os.fstat(descriptor)
    if not stat.S_ISREG(found.st_mode) or found.st_nlink > 1 or found.st_size > _LONGEST_NOTE:
        return False
    os.lseek(descriptor, 0, os.SEEK_SET)
    return bool(_NOTE.fullmatch(os.read(descriptor, _LONGEST_NOTE)))


def _is_current(descriptor: int, path: Path) -> bool:
    try:
        return os.path.samestat(os.fstat(descriptor), path.stat())
    except FileNotFoundError:
        return False


def _note(descriptor: int) -> str:
    os.lseek(descriptor, 0, os.SEEK_SET)
    return os.read(descriptor, 4096).decode(errors="replace")


_URL_FILE = "url"


def real_location(location: Location) -> Location:
    """The location behind symbolic links, so that two names of one cassette have one lock."""
    return real_path(location) if isinstance(location, Path) else location


def beside(location: Location, name: str) -> Path:
    """The local file of this name that belongs to a real location."""
    return location.with_name(name) if isinstance(location, Path) else _folder_of(location) / name


def prepare_beside(location: Location) -> None:
    """Make the folder of what `beside` names. Raises `CassetteWriteError` if it cannot be made."""
    if isinstance(location, Path):
        make_folder(location)
        return
    folder = _folder_of(location)
    try:
        folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        (folder / _URL_FILE).write_text(location, encoding="utf-8")
    except OSError as error:
        problem = f"its lock and journal belong into {folder}, which cannot be made: {error.strerror or error}"
        remedy = "set XDG_STATE_HOME to a folder that you may write to"
        raise CassetteWriteError.of_system(location, problem, remedy=remedy) from error


def location_beside(file: Path, name: str) -> Location:
    """The cassette of this name that a file, which `beside` or `elsewhere` named, belongs to."""
    if file.absolute().parent.parent in _roots() and _is_private(file.parent.parent):
        try:
            return location_of((file.parent / _URL_FILE).read_text(encoding="utf-8")).with_name(name)
        except (OSError, UnicodeDecodeError):
            return real_path(file.with_name(name))
    return real_path(file.with_name(name))


def elsewhere(location: Location) -> list[Path]:
    """The folders for files that have no room next to a real location: the user's state folder, and a temporary one."""
    return [_folder_of(location, root) for root in _roots()]


def prepare_elsewhere(folder: Path, location: Location) -> None:
    """Make one of the folders of `elsewhere`. Raises `OSError` if it cannot be made, or is another user's."""
    folder.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    if not _is_private(folder.parent):
        raise PermissionError(errno.EACCES, "the folder is not this user's alone")
    folder.mkdir(exist_ok=True, mode=0o700)
    (folder / _URL_FILE).write_text(_url_of(location), encoding="utf-8")


def tidy_elsewhere(folder: Path) -> None:
    """Remove an empty folder of `elsewhere`; any other folder is left alone."""
    with contextlib.suppress(OSError):
        if folder.absolute().parent in _roots() and [path.name for path in folder.iterdir()] == [_URL_FILE]:
            (folder / _URL_FILE).unlink()
            folder.rmdir()


def _folder_of(location: Location, root: Path | None = None) -> Path:
    return (root or _state_folder()) / hashlib.sha256(_url_of(location).encode()).hexdigest()[:16]


def _url_of(location: Location) -> str:
    return location.as_uri() if isinstance(location, Path) else location


def _is_private(folder: Path) -> bool:
    """Return True if a folder belongs to this user, and isn't a link: others may have made one of that name."""
    if sys.platform == "win32":  # where each user has temporary files of their own
        return True
    found = folder.lstat()
    return stat.S_ISDIR(found.st_mode) and found.st_uid == os.getuid() and not found.st_mode & 0o002


def _roots() -> list[Path]:
    """The two folders that there may be, without those that cannot be named: a user has no home, the disk no room."""
    roots = []
    for root in (_state_folder, _temporary_folder):
        with contextlib.suppress(OSError, RuntimeError):
            roots.append(root())
    return roots


def _temporary_folder() -> Path:
    import tempfile  # which is needed this once

    user = f"-{os.getuid()}" if sys.platform != "win32" else ""
    return Path(tempfile.gettempdir()).absolute() / f"agenttape{user}"


def _state_folder() -> Path:
    """The user's folder for what outlives a restart: XDG Base Directory Specification 0.8, or Windows' own."""
    state = os.environ.get("XDG_STATE_HOME") or (os.environ.get("LOCALAPPDATA") if sys.platform == "win32" else None)
    return (Path(state) if state else Path.home() / ".local" / "state").absolute() / "agenttape"
