"""Secrets that one can tell by their own form: a literal that few other texts hold, and a pattern around it."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Literal, NamedTuple

from agenttape_core.redaction.detection.lazy import Lazy

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from agenttape_core.redaction.detection.findings import Finding
    from agenttape_core.redaction.detection.views import View

BEFORE = r"(?:(?<![A-Za-z0-9_+-])|(?<=\\[abfnrtv0])|(?<=%[0-9A-Fa-f]{2})|(?<=\\u[0-9A-Fa-f]{4})"
BEFORE += r"|(?<=\A[+-])|(?<=\n[+-])|(?<=\\n[+-])|(?<=(?<![A-Za-z0-9_+-])_))"
"""A token starts here: not inside another one, but right after an escape of JSON or of a URL, the mark of a diff or of
italics.

It also keeps the scan linear: a run of token characters is entered once, however often it repeats a prefix.
"""
AFTER = r"(?![A-Za-z0-9]|_\w)"
"""A token of fixed length ends here."""
_GLUED_AFTER = r"(?![A-Za-z0-9])"
_LEAST_GLUED = 3
"""The characters of an anchor that is looked for behind other letters, too."""

_DUMMY = 12
"""So many equal characters at its end do not happen to a random key."""

Near = Literal["head", "lead", "around", "base64"]


class Detector(NamedTuple):
    """One kind of secret.

    Args:
        kind: Its name in pseudonyms.
        anchors: Literals of which each such secret holds one; ASCII.
        pattern: The secret; tried at each anchor. Group `secret` is the secret, or the whole match.
        back: How many characters before the anchor the pattern starts.
        check: A last test of the secret.
        near: Where an anchor is: at the `head` of a long run of token characters, in the `lead` right before one, or
            `around` one, or at the head of a run that is `base64`: `+` and `/` may break it.
        bare: The secret alone, for one that may be glued to letters or to `_` in front of it.
    """

    kind: str
    anchors: tuple[bytes, ...]
    pattern: Lazy
    back: int = 0
    check: Callable[[str], bool] | None = None
    near: Near = "head"
    bare: Lazy | None = None

    def accepts(self, secret: str) -> bool:
        """Return True if what matches is a secret, and not an example that somebody filled in."""
        return not is_dummy(secret) and (self.check is None or self.check(secret))

    def find(self, view: View, first: int = 0, last: int | None = None) -> Iterator[Finding]:
        """Find these secrets in a text, or those whose literal stands between two positions of it."""
        for anchor in self.anchors:
            at = view.raw.find(anchor, first, last)
            while at >= 0:
                match = self.pattern.match(view.text, at - self.back) if at >= self.back else None
                if match is not None and self.accepts(match[0]):
                    start, end = match.span("secret" if "secret" in match.re.groupindex else 0)
                    yield view.finding(start, end, self.kind)
                    at = view.raw.find(anchor, max(end, at + 1), last)
                else:
                    at = view.raw.find(anchor, at + 1, last)


def token(
    kind: str,
    anchors: str,
    pattern: str,
    *,
    back: int = 0,
    check: Callable[[str], bool] | None = None,
    near: Near = "head",
) -> Detector:
    """Return a detector of a token that starts outside any other token; anchors are separated by blanks."""
    literals = tuple(anchor.encode() for anchor in anchors.split())
    is_glued = near == "head" and not back and min(map(len, literals)) >= _LEAST_GLUED
    bare = Lazy(pattern.replace(AFTER, _GLUED_AFTER), re.ASCII) if is_glued else None
    return Detector(kind, literals, Lazy(BEFORE + pattern, re.ASCII), back, check, near, bare)


def is_dummy(secret: str) -> bool:
    """Return True if somebody filled in the form for an example: `ghp_xxxxxxxxxxxx`."""
    return len(set(secret[-_DUMMY:])) == 1


def has_digit(secret: str) -> bool:
    """Return True if there is a digit: words joined by hyphens have none, keys practically always do."""
    return any(char.isdigit() for char in secret)
