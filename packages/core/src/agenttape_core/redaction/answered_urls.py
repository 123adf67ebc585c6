"""Pseudonyms in the URLs of answers, so that a program can take such a URL apart as it did when it was recorded.

In a cassette, a pseudonym is the same text wherever it stands. In the authority of a URL (RFC 3986, 3.2) brackets are
those of an address of IPv6, and a colon ends the user: `urllib.parse.urlsplit` of several versions refuses other ones.
What stays in an answer, because nothing says which secret it stands for, is percent-encoded there; decoded, it is the
same.
"""

from __future__ import annotations

from typing import TYPE_CHECKING
from urllib.parse import quote

from agenttape_core.redaction.detection.findings import Span
from agenttape_core.redaction.detection.lazy import Lazy
from agenttape_core.redaction.pseudonyms import MARK

if TYPE_CHECKING:
    import re

_IN_BRACKETS = Lazy(r"\[REDACTED:[a-z0-9_-]{1,32}:[0-9a-f]{8}\]")
_AUTHORITY = Lazy(r""":(?:\\{0,4}/){2}[^\s/?#"'<>\\]{0,256}\Z""")
_LONGEST_AUTHORITY = 280
_WITH_HOST = ("http://", "https://", "ws://", "wss://")
_IN_AUTHORITY = ("@", ":")


def urls_in(text: str) -> list[Span]:
    """Return the pseudonyms in the authority of URLs, percent-encoded."""
    if MARK not in text or "/" not in text:
        return []
    found = (match for match in _IN_BRACKETS.finditer(text) if _is_in_authority(match))
    return [Span(*match.span(), quote(match[0], safe="")) for match in found]


def _is_in_authority(found: re.Match[str]) -> bool:
    before = found.string, max(0, found.start() - _LONGEST_AUTHORITY), found.start()
    return _AUTHORITY.search(*before) is not None and not _may_be_folder(found)


def _may_be_folder(found: re.Match[str]) -> bool:
    """Return True for what stands where `sqlite:///srv/a` has its path: folders have pseudonyms, too."""
    is_first = found.string.endswith("/", 0, found.start()) and not found.string.endswith(_WITH_HOST, 0, found.start())
    return is_first and found.string[found.end() : found.end() + 1] not in _IN_AUTHORITY
