"""A store behind a URL: an object store, a server, memory; whatever fsspec has a file system for."""

from __future__ import annotations

import contextlib
import importlib
from typing import TYPE_CHECKING, Any

from agenttape_core.errors import CassetteWriteError, ConfigurationError, how_to_recover
from agenttape_core.redaction import Redactor, new_key

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from pathlib import Path

    from agenttape_core.storage.location import CassetteUrl


class FsspecStore:
    """A folder behind a URL. Nothing of it is cached: another machine may write to it.

    Raises `ConfigurationError` if fsspec, or a package it needs for this URL, isn't installed.
    """

    def __init__(self, folder: CassetteUrl) -> None:
        self._folder = folder
        self._system, self._root = _file_system(folder)

    def fetch(self, key: str, limit: int) -> bytes:
        """See `Store`."""
        with _translated(), self._system.open(self._path(key), "rb") as file:
            data: bytes = file.read(limit + 1)
            return data

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


@contextlib.contextmanager
def _translated() -> Iterator[None]:
    """Convert any exception of a server's client to an `OSError`; its message may quote the arguments."""
    try:
        yield
    except FileNotFoundError:
        raise
    except Exception as error:  # noqa: BLE001 - each client has errors of its own
        said = Redactor(new_key()).text(str(error))
        raise OSError(f"{type(error).__name__}: {said}" if said else type(error).__name__) from None
