"""Secrets that are more than one token: PEM blocks, and the tokens of Discord."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from agenttape_core.redaction.detection.detector import BEFORE
from agenttape_core.redaction.detection.lazy import Lazy
from agenttape_core.redaction.detection.views import places

if TYPE_CHECKING:
    from collections.abc import Iterator

    from agenttape_core.redaction.detection.findings import Finding
    from agenttape_core.redaction.detection.views import View

_PEM = Lazy(r"-----BEGIN (?:[A-Z0-9]{1,12} ){0,3}PRIVATE KEY(?: BLOCK)?-----")
_PEM_END = Lazy(r"-----END [A-Z0-9 ]{0,40}-----")
_PEM_BODY = Lazy(r"(?:[A-Za-z0-9+/=:,\s]|\\[nrt])*+")
_ENCODED = Lazy(r"[A-Za-z0-9+/=]{16}")
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
            if end and not _ENCODED.search(view.text, begin.end(), end.start()):
                continue  # an example, or code that looks for keys
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
