"""A bounded memory of results, as cheap as a dict."""

from __future__ import annotations

from agenttape_core.locks import Lock

_PUTTING = Lock()
"""One lock for all: a new result takes far longer to compute than to keep."""


class Memo:
    """Remembers one string per string, in two generations.

    A hit takes no lock. When the young generation is full it becomes the old one, and the results in use move
    up again: at most twice `capacity` characters are kept, the least recently used ones go first.
    """

    def __init__(self, capacity: int = 16_000_000) -> None:
        self._capacity = capacity
        self.young: dict[str, str] = {}
        """The hot half, open to the one caller that must not pay for a call."""
        self._old: dict[str, str] = {}
        self._size = 0

    def get(self, text: str) -> str | None:
        """Return the result of a text."""
        kept = self.young.get(text)
        if kept is None and (kept := self._old.get(text)) is not None:
            self.put(text, kept)
        return kept

    def put(self, text: str, result: str) -> None:
        """Keep a result."""
        with _PUTTING:
            # A fixed share for each entry, or millions of empty strings would cost nothing.
            self._size += len(text) + 64
            if self._size > self._capacity:
                self._old, self.young, self._size = self.young, {}, len(text) + 64
            self.young[text] = result


PLAIN = Memo(capacity=2_000_000)
"""Texts in which the detectors met nothing. The prompts and tools of a program are the same in all of its sessions."""
