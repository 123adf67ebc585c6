"""The signatures of URLs, and the secret keys of AWS."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from agenttape_core.redaction.detection.kinds import SECRET
from agenttape_core.redaction.detection.lazy import Lazy
from agenttape_core.redaction.detection.literals import matches_at
from agenttape_core.redaction.detection.values import is_random

if TYPE_CHECKING:
    from collections.abc import Iterator

    from agenttape_core.redaction.detection.findings import Finding
    from agenttape_core.redaction.detection.views import View

_SIGNATURE = Lazy(r"sig(?:nature)?=(?P<secret>(?=[^&\s]{0,64}\d)[\w%+/=.~-]{16,2048})", re.ASCII | re.IGNORECASE)
_IN_QUERY = Lazy(r"(?:[?&;]|u0026)(?:x-(?:amz|goog|ms)-)?\Z", re.IGNORECASE)
_AWS_SECRET = Lazy(r"(?<![A-Za-z0-9+/=])[A-Za-z0-9+/]{40}(?![A-Za-z0-9+/=])", re.ASCII)
_AWS_ID = Lazy(r"[^A]{0,2}A[KS]IA")
_ID_HEAD = 6
_NEAR_KEY = 300
_BEFORE_SIGNATURE = 16


def find_signatures(view: View) -> Iterator[Finding]:
    """Find the signatures of presigned URLs."""
    for anchor in (b"sig=", b"signature=") if b"=" in view.raw else ():
        for match in matches_at(view, anchor, _SIGNATURE):
            at = match.start()
            if _IN_QUERY.search(view.text, max(0, at - _BEFORE_SIGNATURE), at):
                yield view.finding(*match.span("secret"), SECRET)


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
