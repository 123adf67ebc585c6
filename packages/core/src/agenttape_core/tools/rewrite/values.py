"""Values that somebody names as secret, in every form in which text, JSON, URLs and base64 have them."""

from __future__ import annotations

import base64
import json
from collections.abc import Callable, Iterable
from typing import TypeVar
from urllib.parse import quote, quote_plus

from agenttape_core.redaction import Redactor
from agenttape_core.redaction.detection.kinds import SECRET
from agenttape_core.tools.rewrite.places import changed_strings, split_binary

T = TypeVar("T")

SHORTEST_BASE64 = 24
"""A text of fewer characters is not tried as base64."""
_TELLING_BASE64 = 8
"""So many characters of base64 stand nowhere by chance."""
_NESTED = 3
"""The depth to which JSON may stand inside a text of JSON."""


def written_forms(value: str) -> list[str]:
    """Return a value as it is and as JSON, URLs and hex write it, the longest first."""
    forms = {value, quote(value, safe=""), quote_plus(value), quote(value)}
    for escaped in (value, *forms):
        for ascii_only in (True, False):
            text = escaped
            for _ in range(_NESTED):
                text = json.dumps(text, ensure_ascii=ascii_only)[1:-1]
                forms.add(text)
    data = value.encode("utf-8", "surrogatepass")
    forms |= {data.hex(), data.hex().upper()}
    return sorted(forms, key=lambda form: (-len(form), form))


def byte_forms(value: str) -> list[bytes]:
    """Return all that shows in bytes that they hold a value: its written forms, and base64 at any place of a group."""
    data = value.encode("utf-8", "surrogatepass")
    encoded: set[bytes] = set()
    for lead in range(3):
        whole = base64.b64encode(b"\0" * lead + data)
        # The first and the last group may hold bits of what stands around the value.
        inner = whole[4 if lead else 0 : len(whole) - (4 if (lead + len(data)) % 3 else 0)]
        encoded |= {inner, inner.replace(b"+", b"-").replace(b"/", b"_")}
    plain = {form.encode("utf-8", "surrogatepass") for form in written_forms(value)}
    return sorted(plain | {form for form in encoded if len(form) >= _TELLING_BASE64})


def binary_redacted(text: str, change: Callable[[str], str]) -> str:
    """Return a text that is base64, or a `data:` URL of it, with its data changed; any other text as it is.

    Args:
        text: The text.
        change: Makes new base64 of base64.
    """
    if len(text) < SHORTEST_BASE64:
        return text
    before, payload = split_binary(text)
    return before + change(payload)


class Values:
    """Takes values out of plain data, wherever they stand and however they are written.

    Args:
        values: The values.
        redactor: Makes their pseudonyms, and has a rule for each.
    """

    def __init__(self, values: Iterable[str], redactor: Redactor) -> None:
        pairs = {form: redactor.pseudonym(SECRET, value) for value in values for form in written_forms(value)}
        self._forms = sorted(pairs.items(), key=lambda pair: -len(pair[0]))

    def gone(self, plain: T) -> T:
        """Return plain data without the values; what holds none as it is."""
        if not self._forms:
            return plain
        changed: T = changed_strings(plain, self._text)
        return plain if changed == plain else changed

    def _text(self, text: str) -> str:
        for form, pseudonym in self._forms:
            text = text.replace(form, pseudonym)
        return binary_redacted(text, self._base64)

    def _base64(self, payload: str) -> str:
        try:
            data = base64.b64decode(payload, validate=True)
        except ValueError:
            return payload
        rest = data
        for form, pseudonym in self._forms:
            rest = rest.replace(form.encode("utf-8", "surrogatepass"), pseudonym.encode())
        return payload if rest == data else base64.b64encode(rest).decode("ascii")
