"""Steps in a journal: their text goes into the cassette unchanged, unless a part of it must change."""

from __future__ import annotations

import json
from typing import Any

from agenttape_core.lazy_patterns import Lazy
from agenttape_core.named_tuples import NamedTuple

CARRIED = ("input", "output", "data")  # the large values that a step may carry
_BEGIN = b',"step":{"step":0,'
"""The place of a step in its line. No string has this in it, since quotes in strings are escaped."""
_ADDRESS = Lazy(r'"kind":"(?:[^"\\]|\\.)*","name":"(?:[^"\\]|\\.)*","address":("(?:[^"\\]|\\.)*")')
_OPEN = '"status":"open"'


class WrittenStep(NamedTuple):
    """A step that was written by this process and is not parsed again."""

    number: int  # its number among the steps
    address: str
    text: str  # its JSON, from behind its number

    @property
    def status(self) -> str:
        """Its state at the end of the recording, as in a `Step`."""
        return str(self.as_dict().get("status", "ended")) if _OPEN in self.text else "ended"

    @property
    def line(self) -> str:
        """The step as one line of JSON."""
        return f'{{"step":{self.number},{self.text}'

    def as_dict(self) -> dict[str, Any]:
        """Return the step in its stored form."""
        stored: dict[str, Any] = json.loads(self.line)
        return stored

    def numbered(self, number: int) -> WrittenStep:
        """Return the same step with another number."""
        return self._replace(number=number)


Stored = dict[str, Any] | WrittenStep
"""A record in its stored form."""


def written_step(row: bytes) -> tuple[Any, WrittenStep] | None:
    """Return the other fields of a line of a journal, and the step; `None` if the line has none that is read so."""
    at = row.find(_BEGIN)
    if at == -1 or not row.endswith(b"}}"):
        return None
    text = row[at + len(_BEGIN) : -1].decode("ascii")
    address = _ADDRESS.match(text)
    if address is None:
        return None
    return json.loads(row[:at] + b"}"), WrittenStep(0, json.loads(address[1]), text)
