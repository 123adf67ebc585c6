"""Pseudonyms in what was recorded, told from other values by their form alone: without a key, and without secrets."""

from __future__ import annotations

import re
from functools import cache
from typing import TYPE_CHECKING

from agenttape_core.lazy_patterns import Lazy
from agenttape_core.redaction.detection.findings import NUMBER, SECRET
from agenttape_core.redaction.detection.names import is_denied
from agenttape_core.redaction.forms import is_pseudonym
from agenttape_core.redaction.pseudonyms import PSEUDONYM

if TYPE_CHECKING:
    from agenttape_core.redaction.scanner import Scanner

_FORMED = (
    r"(?<!\d)9999(?:[ -]?\d){8,15}(?!\d)"
    r"|(?<!\d)9\d\d-[1-4]\d-\d{4}(?!\d)"
    r"|(?<!\d)(?:\+?1[ .-]?)?\(?[2-9]\d\d\)?[ .-]?555[ .-]?01\d\d(?!\d)"
    r"|\+(?:999|99 9|9 99)[\d .()-]{4,20}\d"
    r"|(?<!\w)0{8}-0000-[1-9a-f]000-[89ab]000-[0-9a-f]{12}(?!\w)"
)
ANY_PSEUDONYM = Lazy(re.sub(r"\(\?P<\w+>", "(?:", PSEUDONYM.pattern) + "|" + _FORMED)
"""A pseudonym of any form that is seen without its name: all but numbers under a denied one. It has no groups."""


def kinds_in(text: str) -> list[str]:
    """Return the kinds of the pseudonyms in a text, but for those inside base64."""
    found = [match["kind"].lower() for match in PSEUDONYM.finditer(text)]
    rest = PSEUDONYM.sub(" ", text)
    spans = ((finding.kind, rest[finding.start : finding.end]) for finding in unsparing_scanner().find(rest))
    return found + [kind for kind, value in spans if is_pseudonym(kind, value)]


@cache
def unsparing_scanner() -> Scanner:
    """Return a scanner that finds all that the detectors know: pseudonyms with a form and examples, too."""
    from agenttape_core.redaction.scanner import Scanner

    return Scanner((), lambda _: False, lambda *_: False)


def holds_pseudonym(value: object, name: str = "") -> bool:
    """Return True if a recorded value stands for a secret, or tells with a pseudonym where one was.

    Args:
        value: A text or a number; anything else is none.
        name: What it is called. Only below a denied name a number can be a pseudonym.
    """
    told = isinstance(value, str) and PSEUDONYM.search(value) is not None
    return told or kind_of_formed(value, name) is not None


def kind_of_formed(value: object, name: str) -> str | None:
    """Return the kind of a value that as a whole is a pseudonym, which only its name tells. Takes the same."""
    if isinstance(value, bool) or not isinstance(value, str | int | float) or not is_denied(name):
        return None
    return kind_of_whole(value)


def kind_of_whole(value: str | float) -> str | None:
    """Return the kind of a value that can be a pseudonym below a denied name; `None` if it cannot."""
    if not isinstance(value, str):
        return NUMBER if is_pseudonym(NUMBER, repr(value)) else None
    return SECRET if is_pseudonym(SECRET, value) else None
