"""Cassettes whose name isn't enough: those in a folder of other files, and those without a name."""

from __future__ import annotations

import io
import zlib
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO

from agenttape_core.errors import CassetteFormatError, ConfigurationError
from agenttape_core.format import limits
from agenttape_core.storage.cassette import Cassette, version_of
from agenttape_core.storage.files import FileKind, file_kind, read_at_most, unpacked

if TYPE_CHECKING:
    from agenttape_core.storage.location import Location

_HEAD = 64
_MAGIC = {b"\x1f\x8b": ".gz", b"\x28\xb5\x2f\xfd": ".zst"}


def is_cassette(path: Location, data: bytes | None = None) -> bool:
    """Return True if a file with the suffix of a cassette begins as one; so may a packed one that cannot be unpacked.

    Args:
        path: The file.
        data: Its stored bytes, if they were read already, as a URL's must have been.
    """
    try:
        kind = file_kind(path)
        head = data if data is not None else _head_of(path)
    except (OSError, ConfigurationError):
        return False
    if kind.packing is not None:
        try:
            head = unpacked(path, io.BytesIO(head), kind.packing).read(_HEAD)
        except (EOFError, OSError, zlib.error, ValueError):
            return True
    return version_of(head) is not None


def _head_of(path: Location) -> bytes:
    with Path(path).open("rb") as file:
        return file.read(1 << 16)


def read_cassette(stream: BinaryIO, *, name: str = "standard input", attached: bool = True) -> Cassette:
    """Read a cassette that has no name, such as that on standard input: in either layout, plain or packed.

    Args:
        stream: Its bytes.
        name: What it is called in errors.
        attached: Whether the assets are inserted; else the record holds the references to them.

    Raises:
        CassetteError: As `open_cassette` does.
    """
    data = stream.read(limits.MAX_FILE_BYTES + 1)
    shown, limit = Path(name), limits.MAX_FILE_BYTES
    packing = next((suffix for magic, suffix in _MAGIC.items() if data.startswith(magic)), "")
    if packing:
        kind: FileKind = file_kind(Path(f"-.yaml{packing}"))
        assert kind.packing is not None
        try:
            limit = limits.unpacked_limit(len(data))
            data = read_at_most(unpacked(shown, io.BytesIO(data), kind.packing), limit)
        except (EOFError, OSError, zlib.error, ValueError) as error:
            raise CassetteFormatError(shown, f"it cannot be unpacked: {error}") from error
    if len(data) > limit:
        raise CassetteFormatError(shown, f"it is larger than the limit of {limit} bytes")
    layout = ".jsonl" if data.lstrip(b"\xef\xbb\xbf \n").startswith(b"{") else ".yaml"
    says_so = name.lower().endswith((layout, f"{layout}.gz", f"{layout}.zst"))
    return Cassette(shown if says_so else Path(f"{name}{layout}"), data, attached=attached)
