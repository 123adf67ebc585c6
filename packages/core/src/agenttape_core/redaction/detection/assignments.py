"""Secrets that only their name gives away, inside a text.

`password = "x"`, `{"api_key": "x"}` at any depth of JSON escapes, `Authorization: x`, `?token=x`, `DB_PASSWORD=x`,
`--password x`, `<secret>x</secret>`, `name: password, value: x`, `the password is x`. The name decides (see `names`);
what follows may still be no secret (see `assigned`).
"""

from __future__ import annotations

import re
import string
from typing import TYPE_CHECKING

from agenttape_core.redaction.detection.assigned import Assignment, find_value
from agenttape_core.redaction.detection.lazy import Lazy
from agenttape_core.redaction.detection.names import Names, is_suspicious, words_of

if TYPE_CHECKING:
    from collections.abc import Iterator

    from agenttape_core.redaction.detection.findings import Finding
    from agenttape_core.redaction.detection.views import View

_NAME = string.ascii_letters + string.digits + "_-."
_MAX_LEFT = 48
_TAIL = Lazy(
    r"""(?x)
    (?P<rest>[A-Za-z0-9_-]{0,48}+)
    (?P<close>\\{0,7}["'`])? \]? [ \t]{0,8}
    (?: (?P<typed>:[ \t]{0,4}(?:str|bytes|string|String|SecretStr|Optional\[str\]|str[ ]\|[ ]None)[ \t]{0,4}=(?!=))
      | (?P<sep>=>|:=|={1,2}|:|>) )
    (?P<gap>[ \t]{0,8})"""
)
_LOOSE = Lazy(
    r"""(?x)
    (?P<rest>[A-Za-z0-9_-]{0,48}+)
    (?: [ ](?P<said>is|was)(?:[ ]set[ ]to)?:?[ ]{1,4}
      | (?P<close>\\{0,7}["'])? ,?(?:[ \t\r\n]|\\n){1,32}
        (?P<pair>\\{0,7}["']?[Vv]alue\\{0,7}["']?[ \t]{0,4}[:=][ \t]{0,8})
      | (?P<listed>\\{0,7}["'],)[ \t\r\n]{0,8}(?=\\{0,7}["'][^-])
      | (?P<blank>[ ])(?!-) )"""
)
_LABEL = Lazy(r"""(?:name|key)\\{0,7}["']?[ \t]{0,4}[:=][ \t]{0,4}\\{0,7}["']?\Z""", re.IGNORECASE)
_LOGIN = Lazy(r"\blogin[ \t]+\S{1,64}\s+\Z")
_NEAR = 120


def find_assignments(view: View, names: Names) -> Iterator[Finding]:
    """Find values of denied names, and random-looking values of names such as `key`."""
    for stem in names.stems:
        at = view.low.find(stem)
        while at >= 0:
            found = _named(view.text, at, names)
            finding = find_value(view, found) if found else None
            if finding:
                yield finding
            # What is inside a secret needs no look of its own, and texts that nest names stay cheap.
            at = view.low.find(stem, max(at + len(stem), finding.end if finding else 0))


def _named(text: str, at: int, names: Names) -> Assignment | None:
    tail = _TAIL.match(text, at)
    match = tail or _LOOSE.match(text, at)
    if match is None:
        return None
    left = _left(text, at)
    name = (left + match["rest"]).rstrip(".")
    kind = names.kind_of(name)
    if not kind and not is_suspicious(name):
        return None
    if tail is None:
        return _loosely_named(text, Assignment(name, at - len(left), match.end(), kind), match)
    found = Assignment(name, at - len(left), match.end(), kind, tail["sep"] or "=", tail["close"], tail["gap"])
    return found if _is_assigned(text, found) else None


def _left(text: str, at: int) -> str:
    """Return the part of a name that stands before a stem."""
    window = text[max(0, at - _MAX_LEFT) : at]
    before = window.rstrip(_NAME)
    left = window[len(before) :]
    if before.endswith("\\") and left[:1] in tuple("nrt"):
        return left[1:]
    return "api_" if not left and before[-4:].lower() == "api " else left


def _is_assigned(text: str, found: Assignment) -> bool:
    if found.sep == ">":
        return text[found.start - 1 : found.start] == "<"
    if found.sep == "==":
        return words_of(found.name)[-1:] != ("token",)  # the lexer of a language
    # The parts of `arn:aws:secretsmanager:...:secret:name` are no names, nor is the user in `https://token:x@host`.
    is_part = text[max(0, found.start - 1) : found.start] in (":", "/")
    return not (found.sep == ":" and not found.gap and not found.close and is_part)


def _loosely_named(text: str, found: Assignment, loose: re.Match[str]) -> Assignment | None:
    """Return an assignment whose value follows its name in prose, in a command, or as a `value` of its own."""
    before = text[max(0, found.start - _NEAR) : found.start]
    if loose["said"]:
        return found._replace(sep=" is ")
    if loose["pair"]:
        return found._replace(sep=":", close=loose["close"], gap=" ") if _LABEL.search(before) else None
    is_flag = found.name.startswith("--")
    if loose["listed"]:
        return found if is_flag else None
    is_sql = found.name == "PASSWORD" and text[found.value : found.value + 1] == "'"
    return found if is_flag or is_sql or (found.name == "password" and _LOGIN.search(before)) else None
