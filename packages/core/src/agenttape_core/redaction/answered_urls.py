"""Pseudonyms in the URLs of answers, so that a program can take such a URL apart as it did when it was recorded.

In a cassette, a pseudonym is the same text wherever it stands. In the authority of a URL (RFC 3986, 3.2) brackets are
those of an address of IPv6, and a colon ends the user: `urllib.parse.urlsplit` of several versions refuses other ones.
What stays in an answer, because nothing says which secret it stands for, is percent-encoded there; decoded, it is the
same.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any
from urllib.parse import quote

from agenttape_core.redaction.detection.findings import Span, render
from agenttape_core.redaction.detection.lazy import Lazy
from agenttape_core.redaction.pseudonyms import MARK

if TYPE_CHECKING:
    import re

_IN_BRACKETS = Lazy(r"\[REDACTED:[a-z0-9_-]{1,32}:[0-9a-f]{8}\]")
_AUTHORITY = Lazy(r""":(?:\\{0,4}/){2}[^\s/?#"'<>\\]{0,256}\Z""")
_LONGEST_AUTHORITY = 280
_WITH_HOST = ("http://", "https://", "ws://", "wss://")
_IN_AUTHORITY = ("@", ":")


class UrlWriter:
    """Percent-encodes the pseudonyms in the authority of URLs; it goes through data as the redactor does."""

    looks_at_numbers = False

    def __init__(self) -> None:
        self.harmless_keys: set[str] = set()

    def kind_of(self, name: str) -> None:
        """Return `None`: names say nothing about URLs."""

    def text(self, text: str) -> str:
        """Return a text with its URLs changed; the same object when there are none."""
        spans = self.spans(text)
        return render(text, spans) if spans else text

    def whole(self, text: str, kind: str) -> str:  # noqa: ARG002 - see `kind_of`
        """Return the same."""
        return self.text(text)

    def number(self, number: float) -> Any:
        """Return a number as it is."""
        return number

    def scalar(self, tag: str, body: str, kind: str) -> Any:  # noqa: ARG002 - see `kind_of`
        """Return a typed value as it is."""
        return {tag: body}

    def base64(self, body: str) -> str:
        """Return bytes as they are: what is in them has a length of its own."""
        return body

    def spans(self, text: str, *, strict: bool = False) -> list[Span]:  # noqa: ARG002 - of the protocol
        """Return the pseudonyms of a text that are percent-encoded."""
        if MARK not in text or "/" not in text:
            return []
        found = (match for match in _IN_BRACKETS.finditer(text) if _is_in_authority(match))
        return [Span(*match.span(), quote(match[0], safe="")) for match in found]

    def contains_secret(self, text: str) -> bool:
        """Return True if there is one."""
        return bool(self.spans(text))


def _is_in_authority(found: re.Match[str]) -> bool:
    before = found.string, max(0, found.start() - _LONGEST_AUTHORITY), found.start()
    return _AUTHORITY.search(*before) is not None and not _may_be_folder(found)


def _may_be_folder(found: re.Match[str]) -> bool:
    """Return True for what stands where `sqlite:///srv/a` has its path: folders have pseudonyms, too."""
    is_first = found.string.endswith("/", 0, found.start()) and not found.string.endswith(_WITH_HOST, 0, found.start())
    return is_first and found.string[found.end() : found.end() + 1] not in _IN_AUTHORITY
