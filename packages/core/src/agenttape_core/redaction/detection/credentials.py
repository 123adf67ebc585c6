"""Credentials that only the way they are handed over gives away: a signed URL, `curl -u`, SQL."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from agenttape_core.redaction.detection.kinds import SECRET
from agenttape_core.redaction.detection.lazy import Lazy
from agenttape_core.redaction.detection.literals import matches_at
from agenttape_core.redaction.detection.values import is_placeholder, is_random

if TYPE_CHECKING:
    from collections.abc import Iterator

    from agenttape_core.redaction.detection.findings import Finding
    from agenttape_core.redaction.detection.views import View

_SIGNATURE = Lazy(r"sig(?:nature)?=(?P<secret>(?=[^&\s]{0,64}\d)[\w%+/=.~-]{16,2048})", re.ASCII | re.IGNORECASE)
_IN_QUERY = Lazy(r"(?:[?&;]|u0026)(?:x-(?:amz|goog|ms)-)?\Z", re.IGNORECASE)
_CURL = Lazy(
    r"""curl\b[^\n]{0,400}?\s(?:-u|--user|-U|--proxy-user)[ =]?(?P<quote>\\{0,3}["'])?[^\s:"'\\]{1,128}:"""
    r"""(?P<secret>(?(quote)[^"'\\\n]|[^\s"'\\]){1,256})"""
)
_IDENTIFIED = Lazy(
    r"""(?x) identified[ ] (?:with[ ][\w"'`]{1,64}[ ])? (?:by|as)[ ]
    (?: (?P<quote>\\{0,3}["']) | (?=[\w$\#]{0,64}[0-9]) (?=[\w$\#]{6,64}(?:;|\s*\Z)) )
    (?P<secret>(?(quote)[^"'\\\n]|[\w$\#]){1,256}) (?(quote)(?P=quote))""",
    re.IGNORECASE,
)
_ORACLE = Lazy(
    r"""(?:sqlplus(?: -\w{1,8}){0,3} |oracle:thin:)[\w.$#-]{1,64}/(?P<secret>[^\s@"'/\\]{3,128})@""", re.IGNORECASE
)
_MASKED = Lazy(r"""::add-mask::(?P<secret>[^\s"'\\]{1,256})""")
"""A value that a workflow of GitHub hides from then on."""
_NET_USE = Lazy(
    r"""net[ ]use[ ](?:[a-z*]:?[ ])?["']?\\{2,8}[^\s"']{1,200}["']?[ ]"""
    r"""(?:/user:[^\s]{1,128}[ ])?(?![/*])(?P<secret>[^\s"'/]{3,256})""",
    re.IGNORECASE,
)
"""A share of Windows that is mounted, with the password before or behind the user."""
_SECURE_STRING = Lazy(
    r"""securestring[ ]{1,4}(?:-string[ ]{1,4})?(?P<quote>\\{0,3}["'])(?P<secret>[^"'\\\n$]{3,256})(?P=quote)""",
    re.IGNORECASE,
)
"""A password that PowerShell is given in clear."""
_WIFI = Lazy(r"wifi:(?:[tshr]:[^;\n]{0,64};){0,4}p:(?P<secret>(?:[^;\\\n]|\\.){4,63});", re.IGNORECASE)
"""The code that joins a wireless network."""
_AWS_SECRET = Lazy(r"(?<![A-Za-z0-9+/=])[A-Za-z0-9+/]{40}(?![A-Za-z0-9+/=])", re.ASCII)
_AWS_ID = Lazy(r"[^A]{0,2}A[KS]IA")
_ID_HEAD = 6
_NEAR_KEY = 300
_BEFORE_SIGNATURE = 16


def find_handed_over(view: View) -> Iterator[Finding]:
    """Find the signatures of presigned URLs, and passwords given to curl, to Windows or to SQL."""
    if b"=" in view.raw:
        for anchor in (b"sig=", b"signature="):
            yield from _find_signatures(view, anchor)
    if b":" in view.raw:
        if b"-" in view.raw:
            yield from _find(view, b"curl", _CURL)
        yield from _find(view, b"::add-mask::", _MASKED)
    if b"\\" in view.raw:
        yield from _find(view, b"net use ", _NET_USE)
    if b"-" in view.raw:
        yield from _find(view, b"securestring ", _SECURE_STRING)
    if b";" in view.raw:
        yield from _find(view, b"wifi:", _WIFI)
    yield from _find(view, b"identified ", _IDENTIFIED)
    if b"@" in view.raw and b"/" in view.raw:
        for anchor in (b"sqlplus ", b"oracle:thin:"):
            yield from _find(view, anchor, _ORACLE)


def find_aws_secrets(view: View) -> Iterator[Finding]:
    """Find secret access keys of AWS near the id of one: forty characters of base64 are no form of their own."""
    done = 0
    for at in view.long_runs:
        if at < done or not may_be_aws_id(view, at):
            continue
        first, done = max(0, at - _NEAR_KEY), at + _NEAR_KEY
        for secret in _AWS_SECRET.finditer(view.text[first:done]):
            if is_random(secret[0]):
                yield view.finding(first + secret.start(), first + secret.end(), SECRET)


def may_be_aws_id(view: View, at: int) -> bool:
    """Return True if the id of a key of AWS may start at a long run, or right behind its start."""
    return view.raw.find(b"IA", at, at + _ID_HEAD) >= 0 and _AWS_ID.match(view.text, at) is not None


def _find_signatures(view: View, anchor: bytes) -> Iterator[Finding]:
    for match in matches_at(view, anchor, _SIGNATURE):
        at = match.start()
        if _IN_QUERY.search(view.text, max(0, at - _BEFORE_SIGNATURE), at):
            yield view.finding(*match.span("secret"), SECRET)


def _find(view: View, anchor: bytes, pattern: Lazy) -> Iterator[Finding]:
    for match in matches_at(view, anchor, pattern):
        if not is_placeholder(match["secret"]) and not match["secret"].isdigit():
            yield view.finding(*match.span("secret"), SECRET)
