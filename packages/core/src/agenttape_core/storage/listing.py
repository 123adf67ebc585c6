"""Many files of a store: listed by a folder, a URL or a glob, and read ahead."""

from __future__ import annotations

import re
from collections import deque
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from agenttape_core.errors import CassetteError, CassetteNotFoundError
from agenttape_core.storage.files import packed_bytes
from agenttape_core.storage.location import CassetteUrl, Location, below, location_of, split_glob
from agenttape_core.storage.names import is_left_out, may_be_cassette
from agenttape_core.storage.stores import folder_store, store_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

_AHEAD, _BYTES_AHEAD = 8, 32 << 20  # the most files that are read ahead, and their bytes


@dataclass(frozen=True, slots=True)
class Stored:
    """A file in a store."""

    location: Location
    size: int | None = None  # its size in bytes, if the store lists that
    etag: str = ""  # the version that the store keeps of its bytes (S3, Google, Azure); empty if it keeps none
    modified: str = ""  # the moment of its last change as the store writes it; empty if it keeps none
    key: str = ""  # its path from the listed folder; its name if it was not listed

    @property
    def version(self) -> str:
        """A text that differs when the file has changed: by its bytes if the store has that, else by time and size."""
        return self.etag or f"{self.modified}-{self.size}"


def list_files(where: Path | str, accept: Callable[[str], bool] = may_be_cassette) -> list[Stored]:
    """Return the files that a folder, a URL or a glob means, with sizes and versions, sorted by folder and name.

    Hidden folders and folders of assets are left out. A glob may hold `*` for a part of a name, and `**` for folders.

    Args:
        where: The folder, or the glob. One file means itself.
        accept: Returns True for the names of files to list; by default those a cassette may have.

    Raises:
        CassetteError: The folder doesn't exist, or can't be listed.
        ConfigurationError: fsspec isn't installed, or the URL holds credentials.
    """
    location = location_of(where)
    if isinstance(location, Path) and location.is_file():
        status = location.stat()
        return [Stored(location, status.st_size, modified=str(status.st_mtime_ns), key=location.name)]
    is_there = isinstance(location, Path) and location.exists()  # even if its name holds a *
    folder, pattern = (location, "") if is_there else split_glob(location)
    depth = None if not pattern or "**" in pattern else pattern.count("/") + 1
    matches = _expression(pattern)
    try:
        entries = list(folder_store(folder).files(depth))
    except (FileNotFoundError, NotADirectoryError):
        raise CassetteNotFoundError(folder, "there is no such file or folder") from None
    except OSError as error:
        problem = f"the store can't be listed: {error.strerror or error}"
        raise CassetteError(folder, problem, remedy="check the address and your rights") from error
    found = []
    for key, size, etag, modified in entries:
        if not key:
            return [Stored(folder, size, etag, modified, folder.name)]
        *folders, name = key.split("/")
        if name and accept(name) and not any(map(is_left_out, folders)) and matches.fullmatch(key):
            found.append(((*folders, name), Stored(below(folder, key), size, etag, modified, key)))
    return [stored for _, stored in sorted(found, key=lambda each: each[0])]


def _expression(pattern: str) -> re.Pattern[str]:
    """Return the keys of a pattern: `**/` means any folders, `**` anything, `*` a part of a name. An empty one: all."""
    parts = re.split(r"(\*\*/|\*\*|\*)", pattern or "**")
    meant = {"**/": "(?:.*/)?", "**": ".*", "*": "[^/]*"}
    return re.compile("".join(meant.get(part) or re.escape(part) for part in parts), re.DOTALL)


def read_ahead(files: Iterable[Stored]) -> Iterator[tuple[Stored, Callable[[], bytes]]]:
    """Yield files in order, each with a function that returns its stored bytes or raises a `CassetteError`.

    From a URL, up to 8 files of 32 MB altogether are read ahead, by threads. Keep the bytes of one file at a time.

    Args:
        files: The files.
    """
    with ThreadPoolExecutor(_AHEAD, thread_name_prefix="agenttape-read") as pool:
        waiting: deque[tuple[Stored, Future[bytes] | None]] = deque()
        ahead = 0
        try:
            for file in files:
                is_remote = isinstance(file.location, CassetteUrl)
                waiting.append((file, pool.submit(packed_bytes, file.location) if is_remote else None))
                ahead += file.size or 0
                while waiting and (len(waiting) > _AHEAD or ahead > _BYTES_AHEAD):
                    ahead -= waiting[0][0].size or 0
                    yield _taken(*waiting.popleft())
            while waiting:
                yield _taken(*waiting.popleft())
        except BaseException:
            pool.shutdown(wait=False, cancel_futures=True)
            raise


def _taken(file: Stored, read: Future[bytes] | None) -> tuple[Stored, Callable[[], bytes]]:
    return file, read.result if read is not None else lambda: packed_bytes(file.location)


def create_once(location: Location, data: bytes) -> bool:
    """Write a file unless there is one, whole or not at all, and return True if it was written.

    Of several processes that write the same file, one does: on a disk, in S3, in Google's storage, and in memory. Any
    other store may let the last one win that comes in the same instant.

    Args:
        location: The file.
        data: Its bytes.

    Raises:
        CassetteWriteError: It can't be written.
    """
    store, key = store_of(location)
    return store.create(key, data)
