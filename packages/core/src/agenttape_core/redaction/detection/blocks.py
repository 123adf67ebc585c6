"""Secrets that are more than one token: PEM blocks, the tokens of Discord, credentials in a URL or after a scheme."""

from __future__ import annotations

import base64
import binascii
import re
from typing import TYPE_CHECKING

from agenttape_core.redaction.detection.detector import BEFORE
from agenttape_core.redaction.detection.kinds import SECRET
from agenttape_core.redaction.detection.lazy import Lazy
from agenttape_core.redaction.detection.values import is_placeholder
from agenttape_core.redaction.detection.views import matches_at, places

if TYPE_CHECKING:
    from collections.abc import Iterator

    from agenttape_core.redaction.detection.findings import Finding
    from agenttape_core.redaction.detection.views import View

_PEM = Lazy(r"-----BEGIN (?:[A-Z0-9]{1,12} ){0,3}PRIVATE KEY(?: BLOCK)?-----")
_PEM_END = Lazy(r"-----END [A-Z0-9 ]{0,40}-----")
_PEM_BODY = Lazy(r"(?:[A-Za-z0-9+/=:,\s]|\\[nrt])*+")
_CONTENT = Lazy(r"(?<!\\)[A-Za-z0-9+/=]")
_MAX_PEM = 16_384


def find_pem(view: View) -> Iterator[Finding]:
    r"""Find private keys in PEM armour (RFC 7468), also with `\\n` for line breaks and also cut off."""
    after = 0
    for at in places(view.raw, b"-----BEGIN "):
        if at < after:
            continue
        begin = _PEM.match(view.text, at)
        after = at + 1
        if begin:
            end = _PEM_END.search(view.text, begin.end(), begin.end() + _MAX_PEM)
            body = _PEM_BODY.match(view.text, begin.end())
            after = end.end() if end else body.end() if body else begin.end()
            if end or (body and _CONTENT.search(body[0])):  # what stands alone is the armour around a pseudonym
                yield view.finding(at, after, "pem")


_DISCORD = Lazy(BEFORE + r"[MNO][\w-]{23,27}\.[\w-]{6}\.[\w-]{27,38}", re.ASCII)
_DISCORD_HEAD, _DISCORD_TAIL, _MIDDLE = 40, 40, 8


def find_discord(view: View) -> Iterator[Finding]:
    """Find the tokens of Discord's bots: three parts, of which the second has six characters."""
    for at in view.long_runs:
        if not may_be_discord(view.raw, at):
            continue
        match = _DISCORD.search(view.text, max(0, at - _DISCORD_HEAD), at + _DISCORD_TAIL)
        if match:
            yield view.finding(*match.span(), "discord")


def may_be_discord(raw: bytes, at: int) -> bool:
    """Return True if two dots stand before a run as they do before the last part of such a token."""
    return raw[max(0, at - _MIDDLE) : at : _MIDDLE - 1] == b".."


_URL = Lazy(r"""://[^\s/:@"'<>\\]{0,128}:(?P<secret>[^\s/"'<>\\]{1,256})@(?=[\w.\[%{$-])""")


def find_url_passwords(view: View) -> Iterator[Finding]:
    """Find passwords in URLs: `scheme://user:password@host` (RFC 3986, 3.2.1)."""
    for at in places(view.raw, b"://") if b"@" in view.raw else ():
        match = _URL.match(view.text, at)
        if match and not is_placeholder(match["secret"]):
            yield view.finding(*match.span("secret"), SECRET)


_BEARER = Lazy(r"[Bb](?:earer|EARER)(?:[ \t]{1,4}|%20|\+)(?P<secret>[\w.~+/-]{16,4096}={0,2})", re.ASCII)
_BASIC = Lazy(r"[Bb](?:asic|ASIC) (?P<secret>[A-Za-z0-9+/]{8,1024}={0,2})(?![\w+/=-])", re.ASCII)
_NOT_BASIC = Lazy(r"[A-Za-z]?[a-z]+|[A-Za-z/]+")
"""A word after "basic" is English unless it mixes cases, has digits or is padded."""


def find_schemes(view: View) -> Iterator[Finding]:
    """Find credentials after the schemes Bearer (RFC 6750) and Basic (RFC 7617)."""
    for anchor, signs, pattern in ((b"bearer", b"0", _BEARER), (b"basic", b"0+=", _BASIC)):
        for match in matches_at(view, anchor, pattern) if any(sign in view.shape for sign in signs) else ():
            if _is_credential(match["secret"], basic=pattern is _BASIC):
                yield view.finding(*match.span("secret"), SECRET)


_WORDS = Lazy(r"(?:[A-Za-z]+[-/.]+)*(?:[A-Za-z]+|\d+)")
"""English after "bearer": words joined by hyphens, perhaps a year."""


def _is_credential(secret: str, *, basic: bool) -> bool:
    if not basic and _WORDS.fullmatch(secret):
        return False
    if basic and not (len(secret) % 4 == 0 and _is_decodable(secret)):
        return False
    return any(char.isdigit() for char in secret) or (basic and not _NOT_BASIC.fullmatch(secret))


def _is_decodable(secret: str) -> bool:
    """Return True if base64 text holds `user:password`."""
    try:
        return b":" in base64.b64decode(secret, validate=True)
    except (binascii.Error, ValueError):
        return False
