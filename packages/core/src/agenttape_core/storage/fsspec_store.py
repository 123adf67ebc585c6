"""A store behind a URL: an object store, a server, memory; whatever fsspec has a file system for."""

from __future__ import annotations

import contextlib
import importlib
import inspect
import secrets
from typing import TYPE_CHECKING, Any

from agenttape_core.errors import CassetteWriteError, ConfigurationError, how_to_recover
from agenttape_core.locks import Lock
from agenttape_core.redaction import Redactor, new_key
from agenttape_core.storage.location import Entry

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from pathlib import Path

    from agenttape_core.storage.location import CassetteUrl


_MEMORY = Lock()  # held while a file is created in the memory of this process
_ETAGS = ("ETag", "etag", "generation", "content_md5", "md5Hash")  # of S3, Azure and Google's storage
_TIMES = ("LastModified", "last_modified", "updated", "mtime", "created")


class FsspecStore:
    """A folder behind a URL. Nothing of it is cached: another machine may write to it.

    Raises `ConfigurationError` if fsspec, or a package it needs for this URL, isn't installed.
    """

    def __init__(self, folder: CassetteUrl) -> None:
        self._folder = folder
        self._system, self._root = _file_system(folder)
        self._is_memory = type(self._system).__name__ == "MemoryFileSystem"

    def fetch(self, key: str, limit: int) -> bytes:
        """See `Store`."""
        path = self._path(key)
        with _translated():
            try:  # in one request, where a store can answer a part of a file
                data: bytes = self._system.cat_file(path, 0, limit + 1)
            except FileNotFoundError:
                raise
            except Exception:  # noqa: BLE001 - S3 refuses to answer a part of an empty file
                with self._system.open(path, "rb") as file:
                    data = file.read(limit + 1)
        return data[: limit + 1]

    def save(self, key: str, data: bytes, *, kept_in: Path | None = None) -> None:
        """See `Store`. Whether a reader may see half of it is up to the server; an object store shows it whole."""
        path = self._path(key)
        try:
            with _translated():
                self._put(path, data)
        except OSError as error:
            problem = f"the cassette could not be written: {error}"
            remedy = "check the address and your rights, then record again"
            if kept_in is not None:
                problem += f"; what was recorded is kept in {kept_in}"
                remedy = f"then make a cassette of it:  {how_to_recover(kept_in)}"
            raise CassetteWriteError.of_system(self._folder.joined(key), problem, remedy=remedy) from error

    def create(self, key: str, data: bytes) -> bool:
        """See `Store`. S3 and Google's storage create an object only if there is none, and so does memory.

        In any other store it is written under a temporary name and renamed: of two writers who come in the same
        instant, the last one wins.
        """
        path = self._path(key)
        try:
            with _translated():
                self._create(path, data)
        except FileExistsError:
            return False
        except OSError as error:
            remedy = "check the address and your rights"
            problem = f"it could not be written: {error}"
            raise CassetteWriteError.of_system(self._folder.joined(key), problem, remedy=remedy) from error
        return True

    def _create(self, path: str, data: bytes) -> None:
        if self._is_memory:
            with _MEMORY:
                if self._system.isfile(path):
                    raise FileExistsError
                self._put(path, data)
        elif _creates(self._system):
            self._system.pipe_file(path, data, mode="create")
        else:
            temporary = f"{path}.{secrets.token_hex(4)}.tmp"
            self._put(temporary, data)
            if self._system.isfile(path):
                self._system.rm_file(temporary)
                raise FileExistsError
            self._system.mv(temporary, path)

    def remove(self, key: str) -> None:
        """See `Store`."""
        with _translated():
            self._system.rm_file(self._path(key))

    def files(self, depth: int | None) -> Iterator[Entry]:
        """See `Store`."""
        with _translated():
            self._system.invalidate_cache()
            found = self._system.find(self._root, maxdepth=depth, detail=True)
            if not found:
                self._system.ls(self._root, detail=False)  # some lists swallow the error of their folder
        start = self._root.rstrip("/") + "/"
        for name, info in found.items():
            etag = next((str(info[key]) for key in _ETAGS if info.get(key)), "").strip('"')
            modified = next((str(info[key]) for key in _TIMES if info.get(key)), "")
            key = "" if str(name) == start[:-1] else str(name).removeprefix(start)
            yield Entry(key, info.get("size"), etag, modified)

    def delete(self, folder: str, names: Iterable[str]) -> None:
        """See `Store`."""
        for name in names:
            with contextlib.suppress(OSError), _translated():
                self._system.rm_file(self._path(f"{folder}/{name}"))
        with contextlib.suppress(OSError), _translated():
            if not self.names(folder):
                self._system.rmdir(self._path(folder))

    def names(self, folder: str) -> list[str]:
        """See `Store`."""
        path = self._path(folder)
        try:
            with _translated():
                self._system.invalidate_cache(path)
                found = self._system.ls(path, detail=False)
        except FileNotFoundError:
            return []
        return [str(name).rstrip("/").rpartition("/")[2] for name in found]

    def exists(self, key: str) -> bool:
        """See `Store`."""
        with _translated():
            self._system.invalidate_cache(self._root)
            return bool(self._system.exists(self._path(key)))

    def _put(self, path: str, data: bytes) -> None:
        try:
            self._system.pipe_file(path, data)
        except FileNotFoundError:  # only then: to make a folder in an object store may need rights of its own
            self._system.makedirs(path.rpartition("/")[0], exist_ok=True)
            self._system.pipe_file(path, data)

    def _path(self, key: str) -> str:
        return f"{self._root.rstrip('/')}/{key}"


def _file_system(folder: CassetteUrl) -> tuple[Any, str]:
    try:
        fsspec = importlib.import_module("fsspec")
    except ImportError:
        raise ConfigurationError(
            f"{folder}: a cassette at a URL needs the module fsspec, which is not installed\n"
            '  pip install "agenttape-core[fsspec]", and what fsspec needs for this URL'
        ) from None
    try:
        system, root = fsspec.core.url_to_fs(str(folder))
    except (ImportError, ValueError) as error:
        raise ConfigurationError(f"{folder}: fsspec cannot use this URL: {error}") from error
    return system, root


def _creates(system: Any) -> bool:
    """Return True if a file system can create a file in one request that fails if there is one."""
    put = getattr(system, "_pipe_file", None)
    return put is not None and "mode" in inspect.signature(put).parameters


@contextlib.contextmanager
def _translated() -> Iterator[None]:
    """Convert any exception of a server's client to an `OSError`; its message may quote the arguments."""
    try:
        yield
    except (FileExistsError, FileNotFoundError):
        raise
    except Exception as error:  # noqa: BLE001 - each client has errors of its own
        said = Redactor(new_key()).text(str(error))
        raise OSError(f"{type(error).__name__}: {said}" if said else type(error).__name__) from None
