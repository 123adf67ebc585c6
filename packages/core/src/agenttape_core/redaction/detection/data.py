"""Bytes, as they stand in plain data: base64 under a tag."""

from __future__ import annotations

import base64
import binascii
from typing import NamedTuple

BYTES = frozenset({"$bytes", "$bytearray"})
"""Tags whose body is base64; see `agenttape_core.schema.values`."""


class Data(NamedTuple):
    """Bytes as a string that can be searched.

    Args:
        text: The bytes as UTF-8, or else as one character per byte.
        is_text: Whether they are UTF-8.
    """

    text: str
    is_text: bool

    @classmethod
    def of(cls, body: str) -> Data | None:
        """Decode base64; return `None` for any other text."""
        try:
            return cls.of_bytes(base64.b64decode(body, validate=True))
        except (binascii.Error, ValueError):
            return None

    @classmethod
    def of_bytes(cls, data: bytes) -> Data:
        """Decode bytes."""
        try:
            return cls(data.decode(), is_text=True)
        except UnicodeDecodeError:
            return cls(data.decode("latin-1"), is_text=False)

    def encoded(self, text: str) -> str:
        """Return a changed text as base64."""
        try:
            data = text.encode("utf-8" if self.is_text else "latin-1")
        except UnicodeEncodeError:
            # A pseudonym was planted in binary data: its secret does not fit there.
            data = self.text.encode("latin-1", "replace")
        return base64.b64encode(data).decode("ascii")
