"""Handles that were opened before a call, and through which its code can change something outside the process.

Writing to a handle that is already open raises no audit event: a file, a pipe to another process, memory that is mapped
from a file, a bare descriptor. So the code of a call counts as having written to each such handle that it comes near
(`following`), whether or not it did: a replay must not write the line twice.

Not among them: handles that stay in this process (`StringIO`) or are only read, standard output and error, the
terminal, the null device, a temporary file without a name; sockets, whose sends are watched; and log handlers, since
your program logs again in a replay.
"""

from __future__ import annotations

import contextlib
import functools
import gc
import io
import mmap
import os
import stat
import sys
import tempfile
import types
from collections.abc import Iterator
from typing import Any

from agenttape_core.side_effects.words import named_file

_DESCRIPTOR_CALLS = (
    *("write", "pwrite", "writev", "pwritev", "sendfile", "splice", "copy_file_range", "posix_fallocate"),
    *("eventfd_write", "mkfifo", "mknod"),
)
DESCRIPTOR_FUNCTIONS = frozenset(getattr(os, name) for name in _DESCRIPTOR_CALLS if hasattr(os, name))
"""The functions of `os` that write to a number, which no name leads to, or change a folder, without an event."""

_STREAMS = frozenset(
    {
        *("_io", "io", "_pyio", "codecs", "encodings", "tempfile", "csv", "_csv", "pickle", "_pickle", "contextlib"),
        *("gzip", "bz2", "lzma", "_compression", "zipfile", "tarfile", "wave", "subprocess", "weakref", "queue"),
        *("asyncio.streams", "asyncio.subprocess", "asyncio.unix_events", "asyncio.base_subprocess"),
        "xml.sax.saxutils",
    }
)
"""The modules of the standard library whose objects write to a stream that they hold."""


class _SideEffectCount:
    """Counts the things that are done outside while a session records: one of them may open a handle."""

    number = 0


side_effect_count = _SideEffectCount()


class Handle(str):
    """The words for a handle that a call may have written to."""

    __slots__ = ()


def handle_of(value: Any) -> Handle | None:
    """Return the words for a value through which something can leave the process; `None` for any other value."""
    if isinstance(value, io.FileIO):
        return _file(value)
    if isinstance(value, mmap.mmap):
        return Handle("may change memory that was mapped from a file before") if _is_writable(value) else None
    if isinstance(value, types.BuiltinFunctionType) and value in DESCRIPTOR_FUNCTIONS:
        return Handle(f"may use os.{value.__name__} on what was open before")
    return None


@functools.lru_cache(maxsize=4096)
def may_be_handle(cls: type) -> bool:
    """Return whether objects of a class are worth a look of `handle_of` or `is_of_logs`: nearly all are not."""
    return issubclass(cls, io.FileIO | mmap.mmap | types.BuiltinFunctionType) or is_of_logs(cls)


def is_of_logs(cls: type) -> bool:
    """Return whether objects of a class write logs."""
    return cls.__module__.partition(".")[0] == "logging"


def standard_streams() -> tuple[Any, ...]:
    """Return where the program prints to, whatever that is at the moment."""
    return sys.stdout, sys.stderr, sys.__stdout__, sys.__stderr__


@functools.lru_cache(maxsize=4096)
def is_stream(cls: type) -> bool:
    """Return whether objects of a class of the standard library write to a stream that they hold."""
    home = cls.__module__
    return home in _STREAMS or home.partition(".")[0] in _STREAMS


def inside(value: Any) -> Iterator[Any]:
    """Return the content of a compiled object without attributes: the stream of a `csv.writer`, a buffer."""
    if isinstance(value, io.BytesIO | io.StringIO | mmap.mmap):
        return
    if isinstance(value, io.TextIOWrapper | io.BufferedWriter | io.BufferedRandom | io.BufferedReader):
        with contextlib.suppress(ValueError):  # it is detached
            yield value.buffer if isinstance(value, io.TextIOWrapper) else value.raw
    elif isinstance(value, memoryview):
        with contextlib.suppress(ValueError):  # it is released
            yield value.obj
    elif isinstance(value, types.GeneratorType):
        yield from _paused(value.gi_frame)
    elif isinstance(value, types.CoroutineType):
        yield from _paused(value.cr_frame)
    elif isinstance(value, types.AsyncGeneratorType):
        yield from _paused(value.ag_frame)
    elif type(value).__module__.partition(".")[0] == "numpy":
        yield from _bases(value)
    elif not type(value).__flags__ & _IS_HEAP_TYPE or type(value).__module__.startswith("_"):
        yield from (held for held in gc.get_referents(value) if not isinstance(held, type | types.ModuleType))


def _bases(array: Any) -> Iterator[Any]:
    """Yield what an array of numpy is a view of, such as memory that is mapped from a file."""
    with contextlib.suppress(ValueError):  # a view is released
        while array is not None:
            array = array.obj if isinstance(array, memoryview) else getattr(array, "base", None)
            yield array


_IS_HEAP_TYPE = 1 << 9


def _paused(frame: types.FrameType | None) -> Iterator[Any]:
    if frame is not None:  # it has not ended
        yield from frame.f_locals.values()  # with what it closes over
        code = frame.f_code
        yield types.FunctionType(code, frame.f_globals, closure=(types.CellType(),) * len(code.co_freevars) or None)


def _file(file: io.FileIO) -> Handle | None:
    if file.closed or not io.FileIO.writable(file):
        return None
    try:
        number = file.fileno()
        status = os.fstat(number)
    except (OSError, ValueError):
        return None  # it was closed under the object
    has_no_name = stat.S_ISREG(status.st_mode) and not status.st_nlink
    if number in (1, 2) or has_no_name or status.st_rdev in _harmless_devices():
        return None
    if stat.S_ISFIFO(status.st_mode):
        return Handle("may write to a pipe that was open before")
    return Handle(f"may write to {_named(file.name)}, which was open before")


def _named(name: Any) -> str:
    """Name a file as side effects do. Names of temporary files differ in each run: none is recorded."""
    if isinstance(name, str) and os.path.dirname(name) == tempfile.gettempdir():  # noqa: PTH120
        return "a temporary file"
    return named_file(name)


@functools.cache
def _harmless_devices() -> frozenset[int]:
    found = set()
    for path in (os.devnull, "/dev/tty"):
        with contextlib.suppress(OSError):
            found.add(os.stat(path).st_rdev)  # noqa: PTH116
    return frozenset(found - {0})


def _is_writable(memory: mmap.mmap) -> bool:
    try:
        with memoryview(memory) as view:
            return not view.readonly
    except ValueError:
        return False  # it is closed
