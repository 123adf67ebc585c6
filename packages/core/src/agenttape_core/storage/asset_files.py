"""The folder of a cassette's assets: read, written and swept."""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING

from agenttape_core.format import limits
from agenttape_core.format.assets import is_file_name
from agenttape_core.format.malformed import Malformed
from agenttape_core.lazy_patterns import Lazy
from agenttape_core.storage.location import CassetteUrl
from agenttape_core.storage.names import ASSETS
from agenttape_core.storage.stores import store_of

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping
    from pathlib import Path

    from agenttape_core.storage.location import Location
    from agenttape_core.storage.stores import Store

_LEFTOVER = Lazy(r"\.(?P<name>.+)\.[0-9]+-[0-9a-f]{8}\.tmp")
"""The leftovers of `atomic.replace_file` after a crash."""


def assets_of(path: Path) -> Path:
    """Return the folder that holds the assets of a cassette, whether or not there is one."""
    return path.with_name(f"{path.name}{ASSETS}")


class AssetFolder:
    """The folder next to a cassette that holds only its assets.

    It has the whole name of the cassette, its suffix included, so that `weather.yaml` and `weather.jsonl` do not
    share one.
    """

    def __init__(self, location: Location) -> None:
        self._store, key = store_of(location)
        self._folder = f"{key}{ASSETS}"
        self._held: dict[str, bytes] | None = None

    def hold(self) -> None:
        """Read all assets into memory while there's a way. Raises `Malformed` if they're unreadable or too many."""
        held: dict[str, bytes] = {}
        left = limits.MAX_FILE_BYTES
        for name in filter(is_file_name, self._names()):
            held[name] = self._fetch(name, left)
            left -= len(held[name])
            if left < 0:
                raise Malformed(f"its assets are larger than the limit of {limits.MAX_FILE_BYTES} bytes")
        self._held = held

    def read(self, name: str, size: int) -> bytes:
        """Return the unverified content of an asset, `size` bytes. Raises `Malformed` if it's missing or unreadable."""
        if self._held is None:
            return self._fetch(name, size)
        if name not in self._held:
            raise self._missing(name)
        return self._held[name]

    def save(self, assets: Mapping[str, bytes], *, kept_in: Path | None) -> None:
        """Write new assets, before the cassette that needs them. Raises `CassetteWriteError` if one can't be saved."""
        for name, data in assets.items():
            if not _is_there(self._store, f"{self._folder}/{name}", data):
                self._store.save(f"{self._folder}/{name}", data, kept_in=kept_in)

    def content(self) -> dict[str, bytes]:
        """All assets that can be read, by their names."""
        names: list[str] = []
        found: dict[str, bytes] = {}
        with contextlib.suppress(OSError):
            names = self._store.names(self._folder)
        for name in filter(is_file_name, names):
            with contextlib.suppress(OSError):
                found[name] = self._store.fetch(f"{self._folder}/{name}", limits.MAX_FILE_BYTES)
        return found

    def sweep(self, keep: Collection[str]) -> None:
        """Remove the assets that the cassette does not refer to any more, and the folder with the last one."""
        with contextlib.suppress(OSError):  # what stays hurts nobody, and the next recording tries again
            unused = [name for name in self._store.names(self._folder) if name not in keep and _is_ours(name)]
            if unused or not keep:
                self._store.delete(self._folder, unused)

    def _names(self) -> list[str]:
        try:
            return self._store.names(self._folder)
        except OSError as error:
            raise Malformed(f"the folder of its assets, {self._folder}, cannot be read: {_said(error)}") from error

    def _fetch(self, name: str, limit: int) -> bytes:
        try:
            return self._store.fetch(f"{self._folder}/{name}", limit)
        except (FileNotFoundError, NotADirectoryError):
            raise self._missing(name) from None
        except OSError as error:
            raise Malformed(f"the asset {self._folder}/{name} cannot be read: {_said(error)}") from error

    def _missing(self, name: str) -> Malformed:
        return Malformed(f"the asset {self._folder}/{name} is missing: the folder belongs beside the cassette")


def _is_there(store: Store, key: str, data: bytes) -> bool:
    try:
        return store.fetch(key, len(data)) == data
    except OSError:
        return False


def _is_ours(name: str) -> bool:
    leftover = _LEFTOVER.fullmatch(name)
    return is_file_name(leftover["name"] if leftover else name)


def _said(error: OSError) -> str:
    return error.strerror or str(error)


def reader_of_assets(location: Location) -> AssetFolder:
    """Return a cassette's assets to read, a remote one's now. Raises `Malformed` if they're unreadable or too many."""
    assets = AssetFolder(location)
    if isinstance(location, CassetteUrl):
        assets.hold()
    return assets
