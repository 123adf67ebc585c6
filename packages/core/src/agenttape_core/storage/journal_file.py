"""The file of a journal: it only grows, and what does not fit in goes elsewhere rather than being lost."""

from __future__ import annotations

import contextlib
import os
from typing import TYPE_CHECKING, NamedTuple

from agenttape_core.storage.lock import elsewhere, prepare_elsewhere, tidy_elsewhere

if TYPE_CHECKING:
    from pathlib import Path

    from agenttape_core.storage.location import Location

_CHUNK = 1 << 20


class _Held(NamedTuple):
    line: bytes
    is_numbered: bool


class _Written(NamedTuple):
    """The content of the file."""

    size: int
    lines: int
    numbered: int

    def plus(self, size: int, lines: list[_Held]) -> _Written:
        numbered = self.numbered
        for held in lines:
            numbered += held.is_numbered
        return _Written(self.size + size, self.lines + len(lines), numbered)


class JournalFile:
    """A file of lines.

    Args:
        path: The file. There is none yet.
        target: The cassette that it belongs to, which shows where to go when there's no room.
        first: The first line.

    Raises:
        OSError: The file cannot be made, or has no room for the first line.
    """

    def __init__(self, path: Path, target: Location, first: bytes) -> None:
        self.path = path
        self._target = target
        self._held: list[_Held] = []
        self._written = _Written(0, 0, 0)
        self._descriptor = _created(path)
        try:
            self._put([_Held(first, is_numbered=False)])
        except BaseException:
            self.close(remove=True)
            raise

    @property
    def lines(self) -> int:
        """The number of lines after the first, those in memory too."""
        return self._written.lines - 1 + len(self._held)

    @property
    def numbered(self) -> int:
        """The number of lines that have a number."""
        return self._written.numbered + sum(held.is_numbered for held in self._held)

    @property
    def held(self) -> int:
        """The number of lines that are in memory only, because there was no space on any disk."""
        return len(self._held)

    def append(self, line: bytes, *, is_numbered: bool) -> None:
        """Write a line, and before it those that had no room. It is there or not, whatever interrupts this.

        Raises:
            OSError: There's no room here. The line is kept: in a file elsewhere, where `path` is from now on, or in
                memory.
        """
        self._held.append(_Held(line, is_numbered))
        self._flush()

    def content(self) -> bytes:
        """All lines, those in memory too. The file is read even if someone has removed its name."""
        os.lseek(self._descriptor, 0, os.SEEK_SET)
        chunks = []
        while chunk := os.read(self._descriptor, _CHUNK):
            chunks.append(chunk)
        return b"".join([*chunks, *(held.line for held in self._held)])

    def settle(self) -> None:
        """Sync the file to disk, and write the lines held in memory if there is space now."""
        if self._held:
            with contextlib.suppress(OSError):
                self._flush()
        with contextlib.suppress(OSError):
            os.fsync(self._descriptor)

    def close(self, *, remove: bool = False) -> None:
        """Close the file, and perhaps remove it."""
        os.close(self._descriptor)
        if remove:
            _remove(self.path)

    def _flush(self) -> None:
        try:
            self._put(self._held)
        except OSError:
            self._move()
            raise

    def _put(self, lines: list[_Held]) -> None:
        """Write with one call. What could not be written whole is taken back, also when an interruption comes."""
        data = b"".join([held.line for held in lines])
        left = memoryview(data)
        written = self._written.plus(len(data), lines)
        try:
            while left:
                left = left[os.write(self._descriptor, left) :]
        except BaseException:
            with contextlib.suppress(OSError):
                os.ftruncate(self._descriptor, self._written.size)
            raise
        self._written, self._held = written, []  # nothing is called here, so nothing can come in between

    def _move(self) -> None:
        """Go to the first folder that has room for everything; stay if none has."""
        for folder in elsewhere(self._target):
            path = folder / self.path.name
            if path != self.path:
                try:
                    prepare_elsewhere(folder, self._target)
                    moved = JournalFile(path, self._target, self.content())
                except OSError:
                    tidy_elsewhere(folder)
                    continue  # no room or no right there either
                written = self._written.plus(moved._written.size - self._written.size, self._held)
                self.close(remove=True)
                self.path, self._descriptor, self._written, self._held = path, moved._descriptor, written, []
                return


def _created(path: Path) -> int:
    # O_BINARY exists where the system would translate the ends of lines.
    flags = os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_APPEND | getattr(os, "O_BINARY", 0)
    # An append to the page cache does not block. The flag says so to tools such as blockbuster, which guard
    # the event loops that interactions are recorded in; on a regular file it has no other effect.
    return os.open(path, flags | getattr(os, "O_NONBLOCK", 0), 0o666)


def _remove(path: Path) -> None:
    with contextlib.suppress(OSError):
        path.unlink()
