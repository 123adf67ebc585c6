"""Values that were written or read lately, so that the latest state of a thread is not unpacked each time it is read.

A value is kept by the number of its content. SQLite never reuses a number, so its meaning never changes once its
transaction is committed. Small values are kept by the very bytes that their row has in the file, which say all of them.
So the cache doesn't depend on the writes of other threads and processes. Nothing is kept of a file whose values are
encrypted.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable
from typing import Any

from agenttape_core.integration.threads import Lock
from agenttape_langgraph.saver.encoding import Typed

_MOST = 16 << 20
"""Bytes that are kept for a saver."""
_TEXTS = 4
_ROWS, _ROW = 2048, 2048
"""Rows of small values that are kept by their bytes, and the most bytes of one."""


class Kept:
    """The values that are kept for one saver. Thread-safe: a caller that would have to wait does without.

    So a process that was forked while a thread of its parent held the lock does not wait for ever.
    """

    def __init__(self) -> None:
        self._values: OrderedDict[int, Typed] = OrderedDict()
        self._size = 0
        self._prepared: dict[int, tuple[str | bytes, Any]] = {}
        self._rows: dict[bytes, tuple[Typed | int, ...]] = {}
        self._lock = Lock()

    def of_row(self, data: bytes) -> tuple[Typed | int, ...] | None:
        """Return the values encoded in the bytes of a row, or the numbers of their contents, if they are cached."""
        return self._rows.get(data)

    def add_row(self, data: bytes, values: tuple[Typed | int, ...]) -> None:
        """Cache the small values encoded in the bytes of a row."""
        if len(data) + sum(len(value.data) for value in values if isinstance(value, Typed)) > _ROW:
            return
        if len(self._rows) >= _ROWS:
            self._rows = {}
        self._rows[data] = values

    def prepared(self, text: str | bytes, prepare: Callable[[Any], Any]) -> Any:
        """Return the preparation of a large text, if it is the very same object; else prepare it.

        The text is held, so that no other object gets its identity.
        """
        found = self._prepared.get(id(text))
        if found is None:
            found = text, prepare(text)
            if len(self._prepared) >= _TEXTS:
                self._prepared = {}
            self._prepared[id(text)] = found
        return found[1]

    def get(self, number: int) -> Typed | None:
        """Return a value, if it is kept."""
        if not self._lock.acquire(blocking=False):
            return None
        try:
            found = self._values.get(number)
            if found is not None:
                self._values.move_to_end(number)
            return found
        finally:
            self._lock.release()

    def add(self, number: int, value: Typed) -> None:
        """Keep a value; the least recently used ones make room for it."""
        if len(value.data) > _MOST or not self._lock.acquire(blocking=False):
            return
        try:
            if number not in self._values:
                self._values[number] = value
                self._size += len(value.data)
            while self._size > _MOST:
                _, gone = self._values.popitem(last=False)
                self._size -= len(gone.data)
        finally:
            self._lock.release()
