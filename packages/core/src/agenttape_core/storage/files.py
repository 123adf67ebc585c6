"""Bytes of a cassette on disk: what its suffix means, reading with limits, packing.

Compression is deterministic: the same bytes give the same file.
"""

from __future__ import annotations

import functools
import importlib
import io
import shlex
import zlib
from contextlib import suppress
from pathlib import PurePath
from typing import TYPE_CHECKING, Any, Literal, Protocol

from agenttape_core.errors import CassetteFormatError, CassetteNotFoundError, ConfigurationError, shown_path
from agenttape_core.format import limits
from agenttape_core.named_tuples import NamedTuple
from agenttape_core.storage.stores import store_of

if TYPE_CHECKING:
    from agenttape_core.storage.location import Location

_LAYOUTS: dict[str, Literal["yaml", "jsonl"]] = {".yaml": "yaml", ".yml": "yaml", ".jsonl": "jsonl"}
_PACKINGS: dict[str, Literal["gz", "zst"]] = {".gz": "gz", ".zst": "zst"}
_CHUNK = 1 << 20
BROKEN = "restore the file from version control, or record it again with AGENTTAPE_MODE=record"
"""The advice about a file that isn't a readable cassette."""

NO_CASSETTE = "name a cassette; to record one here, move the file away"
"""The advice about a file that was never a cassette."""

FOREIGN = "not of AgentTape: a cassette begins with the format version, `agenttape:`"
"""The problem of a file that was never one."""

CONFLICT = "the file has an unresolved merge conflict"  # the problem of a file in which git has left both sides


def choose_side(path: Location) -> str:
    """Return the advice about a file with both sides of a merge: take one, and record the missing calls."""
    shown = shlex.quote(shown_path(path))
    return f"take one side:  git checkout --ours {shown}\n  and record what it lacks:  pytest --rerecord=changed"


class FileKind(NamedTuple):
    """The facts in the suffix of a file: the layout of its text, and its compression."""

    layout: Literal["yaml", "jsonl"]
    packing: Literal["gz", "zst"] | None


class Stream(Protocol):
    """The suffixes that can be read."""

    def read(self, size: int, /) -> bytes: ...  # noqa: D102


@functools.lru_cache(maxsize=128)
def file_kind(path: Location) -> FileKind:
    """Read the suffix of a path or URL. Raises `ConfigurationError` if it's unknown, or needs a missing module."""
    if "\0" in str(path):
        raise ConfigurationError(f"{str(path)!r}: the name of a file holds no NUL character")
    suffixes = [suffix.lower() for suffix in PurePath(path.name).suffixes]
    packing = packing_of(path)
    name = suffixes[-2:-1] if packing else suffixes[-1:]
    if not name or name[0] not in _LAYOUTS:
        raise ConfigurationError(
            f"{shown_path(path)}: the suffix says how a cassette is written, and this one is not known\n"
            "  use .yaml, .yml or .jsonl, each also with .gz or .zst after it"
        )
    if packing == "zst":
        _zstd(path)
    return FileKind(_LAYOUTS[name[0]], packing)


def packing_of(path: Location) -> Literal["gz", "zst"] | None:
    """Return the compression in the suffix of a path, whatever the file contains."""
    return _PACKINGS.get(PurePath(path.name).suffix.lower())


def read_bytes(path: Location) -> bytes:
    """The unpacked bytes of a cassette file.

    The bytes are read whole, not mapped: a mapped file that another program cuts short kills the process, and on
    Windows it could not be replaced. Raises `CassetteNotFoundError` if there's no file, and `CassetteFormatError` if it
    cannot be read or unpacked, or is larger than the limit.
    """
    file_kind(path)  # a name that can't be a cassette's isn't read
    return unpacked_bytes(path, packed_bytes(path))


def unpacked_bytes(path: Location, data: bytes) -> bytes:
    """Return the unpacked bytes of stored ones. Raises as `read_bytes`."""
    packing = file_kind(path).packing
    if packing is None:
        return data
    limit = limits.unpacked_limit(len(data))
    try:
        found = read_at_most(unpacked(path, io.BytesIO(data), packing), limit)
    except (EOFError, OSError, zlib.error, ValueError) as error:
        problem = f"the file cannot be unpacked: {error}"
        raise CassetteFormatError(path, problem, remedy=BROKEN) from error
    if len(found) > limit:
        raise _too_large(path, limit)
    return found


def packed_bytes(path: Location) -> bytes:
    """The stored bytes of a cassette file. Raises as `read_bytes`, and doesn't check their contents."""
    store, key = store_of(path)
    try:
        data = store.fetch(key, limits.MAX_FILE_BYTES)
    except (FileNotFoundError, NotADirectoryError):
        raise CassetteNotFoundError(
            path,
            "there is no such cassette",
            remedy=f"record it once:  agenttape record --cassette {shlex.quote(shown_path(path))} -- COMMAND\n"
            "  or in Python:    use_cassette(..., mode='once')",
        ) from None
    except OSError as error:
        problem = f"the file cannot be read: {error.strerror or error}"
        raise CassetteFormatError(path, problem, remedy="check the path and its permissions") from error
    if len(data) > limits.MAX_FILE_BYTES:
        raise _too_large(path, limits.MAX_FILE_BYTES)
    return data


def _too_large(path: Location, limit: int) -> CassetteFormatError:
    problem = f"the cassette is larger than the limit of {limit} bytes"
    return CassetteFormatError(path, problem, remedy="split the recording into several cassettes")


def pack(path: Location, data: bytes) -> bytes:
    """The bytes as they go to disk, by the suffix of the path."""
    packing = packing_of(path)
    if packing == "gz":
        import gzip

        buffer = io.BytesIO()
        with gzip.GzipFile(filename="", mode="wb", fileobj=buffer, mtime=0, compresslevel=6) as file:
            file.write(data)
        return buffer.getvalue()
    if packing == "zst":
        packed: bytes = _zstd(path).compress(data, 10)
        return packed
    return data


def read_at_most(file: Stream, limit: int) -> bytes:
    """Return the contents of a stream, or a little more than its limit; the bytes are in memory once."""
    found = io.BytesIO()
    while found.tell() <= limit and (chunk := file.read(_CHUNK)):
        found.write(chunk)
    return found.getvalue()


def unpacked(path: Location, file: io.BytesIO, packing: str) -> Stream:
    """The decompressed bytes of compressed ones, on demand. Damaged data raises when it's read."""
    if packing == "gz":
        import gzip

        return gzip.GzipFile(fileobj=file, mode="rb")
    module = _zstd(path)
    return _TranslatedErrors(module.open(file), module.ZstdError)


class _TranslatedErrors:
    """A stream whose unpacking errors are `ValueError`s, as the module's own type may not be loaded."""

    def __init__(self, stream: Stream, error: type[Exception]) -> None:
        self._stream = stream
        self._error = error

    def read(self, size: int, /) -> bytes:
        try:
            return self._stream.read(size)
        except self._error as error:
            raise ValueError(str(error)) from error


def _zstd(path: Location) -> Any:
    """Return the module of Python 3.14, or else the package; what we call of them is the same."""
    for name in ("compression.zstd", "zstandard"):
        with suppress(ImportError):
            return importlib.import_module(name)
    raise ConfigurationError(
        f"{path}: reading and writing .zst needs the module zstandard, which is not installed\n"
        "  pip install zstandard, or use .gz"
    )
