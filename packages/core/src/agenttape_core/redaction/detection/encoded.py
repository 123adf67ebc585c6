"""Text inside base64, and bytes as plain data has them.

Agents read files and messages through interfaces that encode them. The base64 of ASCII text has an unmistakable form:
each fourth place holds a letter from I to f, or C or D for a line break. Most keys, hashes and images fail that test at
once, so looking for it costs next to nothing.
"""

from __future__ import annotations

import base64
import binascii
import re
from typing import TYPE_CHECKING

from agenttape_core.lazy_patterns import Lazy
from agenttape_core.named_tuples import NamedTuple

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from agenttape_core.redaction.detection.views import View
    from agenttape_core.schema import Plain


_MARKS = (
    "JFREFDVEVE",
    "SRURBQ1RFR",
    "UkVEQUNURU",
    "cmVkYWN0ZWQtZW1haWwt",
    "ZGFjdGVkLWVtYWlsL",
    "ZWRhY3RlZC1lbWFpbC",
)
"""The start of a pseudonym that tells its kind in base64, by its place in a group of three bytes."""
HELD = "REDACTED"
"""The part of a pseudonym in brackets that it has in a URL, too."""
_SHORTEST_ENCODED = 28
"""Base64 of a pseudonym is longer."""
_FIRST = frozenset(b"CDIJKLMNOPQRSTUVWXYZabcdef")
_LOOKED_AT = 17
"""The number of characters of a run that decide whether it is decoded; every fourth is looked at."""
_BREAK = r"(?:\r?\n|\\r\\n|\\n)"
_RUN = Lazy(
    rf"[A-Za-z0-9+/_-]{{20,}}+(?:{_BREAK}[A-Za-z0-9+/_-]{{20,}}+)*+(?:{_BREAK}[A-Za-z0-9+/_-]{{2,19}}+)?={{0,2}}"
)
_LINE_BREAK = Lazy(_BREAK)
_STANDARD = str.maketrans("-_", "+/")
_URL_SAFE = str.maketrans("+/", "-_")


def has_pseudonym(text: str) -> bool:
    """Return True if base64 in this text may hold a pseudonym."""
    for mark in _MARKS:  # noqa: SIM110 - a generator takes twice as long, and each text of an answer is looked at
        if mark in text:
            return True
    return False


def tells_pseudonym(plain: Plain) -> bool:
    """Return True if plain data may hold a pseudonym in brackets: a quick look, as most answers hold none."""
    left = [plain]
    while left:
        item = left.pop()
        kind = type(item)
        if kind is str:
            if HELD in item or (len(item) >= _SHORTEST_ENCODED and has_pseudonym(item)):
                return True
        elif kind is dict:
            left.extend(item)
            left.extend(item.values())
        elif kind is list:
            left.extend(item)
    return False


def find_encoded(view: View) -> Iterator[tuple[int, int, str]]:
    """Find base64 that holds text: where it starts and ends, and the text."""
    end = 0
    for at in view.long_runs:
        start = _start(view.raw, at) if at >= end else None
        run = _RUN.match(view.text, start) if start is not None else None
        if run:
            end = run.end()  # also when it is no text: a blob is looked at once, not at each of its runs
            if text := decode(run[0]):
                yield run.start(), end, text


def sub_encoded(text: str, change: Callable[[str], str]) -> str:
    """Return a text with what its base64 holds changed."""

    def changed(run: re.Match[str]) -> str:
        inner = decode(run[0]) if has_pseudonym(run[0]) else None
        return run[0] if inner is None or (new := change(inner)) == inner else encode_like(run[0], new)

    return _RUN.sub(changed, text)


def decode(body: str) -> str | None:
    """Return the text in base64 of either alphabet, padded or not, in one line or many; `None` if it is no text."""
    compact = _LINE_BREAK.sub("", body).rstrip("=").translate(_STANDARD)
    try:
        return base64.b64decode(compact + "=" * (-len(compact) % 4), validate=True).decode()
    except (binascii.Error, ValueError):
        return None


def encode_like(original: str, text: str) -> str:
    """Return the base64 of a text in the alphabet, with the padding and the line length of an original."""
    body = base64.b64encode(text.encode("utf-8", "surrogatepass")).decode("ascii")
    if "-" in original or "_" in original:
        body = body.translate(_URL_SAFE)
    line_break = _LINE_BREAK.search(original)
    if len(_LINE_BREAK.sub("", original)) % 4:
        body = body.rstrip("=")
    if line_break is None:
        return body
    width = line_break.start()
    return line_break[0].join(body[at : at + width] for at in range(0, len(body), width))


def _start(raw: bytes, at: int) -> int | None:
    """Return where the base64 of ASCII text may start: at a run, or after the letter of an escape before it."""
    if at and raw[at - 1 : at] in (b"+", b"/"):
        return None
    if at and raw[at - 1 : at] == b"\\" and _FIRST.issuperset(raw[at + 1 : at + 1 + _LOOKED_AT : 4]):
        return at + 1
    return at if raw[at] in _FIRST and _FIRST.issuperset(raw[at : at + _LOOKED_AT : 4]) else None


BYTES = frozenset({"$bytes", "$bytearray"})
"""Tags whose body is base64; see `agenttape_core.schema.values`."""


class Data(NamedTuple):
    """Bytes as a string to search: as UTF-8, or else, if they are no text, with one character for each byte."""

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
