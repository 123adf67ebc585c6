"""The place where the files of a cassette are kept: a folder, behind a few methods. This one is on the local disk."""

from __future__ import annotations

import contextlib
import errno
import stat
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from agenttape_core.errors import CassetteFormatError, CassetteWriteError
from agenttape_core.storage.atomic import create_file, real_path, replace_file
from agenttape_core.storage.location import Entry
from agenttape_core.storage.names import files_below

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from agenttape_core.storage.location import Location

_CHUNK = 1 << 20


class Store(Protocol):
    """A folder of cassettes. A key is the name of a file in it, or `FOLDER/NAME` for one in a folder of assets."""

    def fetch(self, key: str, limit: int) -> bytes:
        """The bytes of a file; no more than `limit` + 1 of them, so that a larger one is recognized.

        Raises `FileNotFoundError` if there is none, and `OSError` if it cannot be read.
        """

    def save(self, key: str, data: bytes, *, kept_in: Path | None = None) -> None:
        """Write a file, replacing an existing one.

        `kept_in` is the journal that holds the same recording, named in the error. Raises `CassetteWriteError` if it
        could not be written.
        """

    def create(self, key: str, data: bytes) -> bool:
        """Write a file unless there is one, and return True if it was written. A reader never sees a part of it.

        Raises `CassetteWriteError` if it could not be written.
        """

    def remove(self, key: str) -> None:
        """Remove a file. Raises `FileNotFoundError` if there is none, and `OSError` if it cannot be removed."""

    def files(self, depth: int | None) -> Iterable[Entry]:
        """The files here and in `depth` - 1 floors of folders below; in all of them for `None`. Raises `OSError`."""

    def delete(self, folder: str, names: Iterable[str]) -> None:
        """Remove files of a folder, and the folder if it is empty then. What cannot be removed is left."""

    def names(self, folder: str) -> list[str]:
        """The names in a folder; none if there's no such folder. Raises `OSError` if it cannot be read."""

    def exists(self, key: str) -> bool:
        """Return True if there is such a file. Raises `OSError` if that cannot be found out."""


class LocalStore:
    """A folder on the local disk. No symbolic link is in its `root`, or leads out of a folder of assets."""

    def __init__(self, root: Path) -> None:
        self._root = root

    def fetch(self, key: str, limit: int) -> bytes:
        """See `Store`."""
        path = self._root / key
        if path.parent != self._root:
            _refuse_link(path)
        if not stat.S_ISREG(path.stat().st_mode) and not path.is_dir():  # which says so by itself
            raise OSError(errno.EINVAL, "it isn't a regular file")
        with path.open("rb") as file:
            chunks: list[bytes] = []
            left = limit + 1
            while left and (chunk := file.read(min(left, _CHUNK))):  # a large `read` reserves all it may need
                chunks.append(chunk)
                left -= len(chunk)
            return b"".join(chunks)

    def save(self, key: str, data: bytes, *, kept_in: Path | None = None) -> None:
        """See `Store`. The old file is there until the new one is complete and on the disk."""
        path = self._root / key
        if path.parent != self._root and path.parent.is_symlink():
            problem = "it is a symbolic link, and a folder of assets must be a real one"
            raise CassetteWriteError(path.parent, problem, remedy="remove the link")
        replace_file(path, data, kept_in=kept_in)

    def create(self, key: str, data: bytes) -> bool:
        """See `Store`. It is written under another name, which is then linked to this one."""
        return create_file(self._root / key, data)

    def remove(self, key: str) -> None:
        """See `Store`."""
        (self._root / key).unlink()

    def files(self, depth: int | None) -> Iterator[Entry]:
        """See `Store`."""
        list(self._root.iterdir())  # a folder that can't be read is an error, and not an empty one
        for path in files_below(self._root):
            key = path.relative_to(self._root).as_posix()
            if depth is None or key.count("/") < depth:
                with contextlib.suppress(OSError):  # it is gone
                    status = path.stat()
                    if stat.S_ISREG(status.st_mode):
                        yield Entry(key, status.st_size, "", str(status.st_mtime_ns))

    def delete(self, folder: str, names: Iterable[str]) -> None:
        """See `Store`."""
        place = self._root / folder
        if not place.is_symlink():
            for name in names:
                with contextlib.suppress(OSError):
                    (place / name).unlink()
            with contextlib.suppress(OSError):
                place.rmdir()

    def names(self, folder: str) -> list[str]:
        """See `Store`."""
        try:
            return [path.name for path in (self._root / folder).iterdir()]
        except FileNotFoundError:
            return []

    def exists(self, key: str) -> bool:
        """See `Store`."""
        return (self._root / key).exists()


def _refuse_link(path: Path) -> None:
    """Refuse a file in a folder of assets that isn't really where it seems to be: a link, a pipe or a device.

    Raises `OSError` if it's none of the folder's own.
    """
    if path.parent.is_symlink() or not stat.S_ISREG(path.lstat().st_mode):
        raise OSError(errno.ELOOP, "it is a symbolic link or no regular file")


def store_of(location: Location) -> tuple[Store, str]:
    """The store of a cassette, and the key of the cassette in it; a symbolic link is followed first.

    Raises `ConfigurationError` if it's a URL, and fsspec or another package it needs isn't installed.
    """
    if isinstance(location, Path):
        path = real_path(location)
        return LocalStore(path.parent), path.name
    from agenttape_core.storage.fsspec_store import FsspecStore

    return FsspecStore(location.folder), location.name


def folder_store(folder: Location) -> Store:
    """The store of a folder. Raises as `store_of`."""
    if isinstance(folder, Path):
        return LocalStore(folder)
    from agenttape_core.storage.fsspec_store import FsspecStore

    return FsspecStore(folder)


def exists(location: Location) -> bool:
    """Return True if there is a cassette. Raises `CassetteFormatError` if that's unknown, and as `store_of` does."""
    store, key = store_of(location)
    try:
        return store.exists(key)
    except OSError as error:
        problem = f"it cannot be found out whether there is a cassette: {error.strerror or error}"
        raise CassetteFormatError(location, problem, remedy="check the address and your rights") from error
