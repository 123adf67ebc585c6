"""Secrets in the field of a form, `form-data; name="password"`, or of a model: pydantic quotes what is not valid."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from agenttape_core.redaction.detection.kinds import SECRET
from agenttape_core.redaction.detection.lazy import Lazy
from agenttape_core.redaction.detection.literals import places
from agenttape_core.redaction.detection.values import is_placeholder, satisfies

if TYPE_CHECKING:
    from collections.abc import Iterator

    from agenttape_core.redaction.detection.findings import Finding
    from agenttape_core.redaction.detection.names import Names
    from agenttape_core.redaction.detection.views import View

_BREAK = r"(?:\r?\n|(?:\\{1,3}r)?\\{1,3}n)"
_PART = Lazy(
    r"""form-data;[ ]name=\\{0,3}"(?P<name>[\w.\[\]-]{1,96})\\{0,3}\""""
    rf"""(?:{_BREAK}[\w-]{{1,40}}:[^\r\n\\]{{0,200}}){{0,4}}{_BREAK}{_BREAK}(?P<secret>[^\r\n\\]{{1,4096}})"""
)
"""A part of a form (RFC 7578), its headers, an empty line, and its value."""
_INVALID = Lazy(r"""input_value=(?P<quote>\\{0,3}['"])(?P<secret>[^\n]{1,512}?)(?P=quote),[ ]input_type=""")
_ABOVE = Lazy(rf"(?:\A|{_BREAK})(?P<name>[\w.\[\]-]{{1,128}}){_BREAK}[ ]{{2}}[^\n]{{0,300}}?\[type=\w{{1,64}},[ ]\Z")
_REACH = 512
_NAME = re.compile(r"[^\W\d][\w-]*")


def find_fields(view: View, names: Names) -> Iterator[Finding]:
    """Find the values of fields whose names are denied."""
    yield from _find(view, names, b"form-data; name=", _PART)
    yield from _find(view, names, b"input_value=", _INVALID)


def _find(view: View, names: Names, anchor: bytes, pattern: Lazy) -> Iterator[Finding]:
    end = 0
    for at in places(view.raw, anchor):
        match = pattern.match(view.text, at) if at >= end and _may_match(view, at, pattern) else None
        end = match.end() if match else end
        above = match if match is None or pattern is _PART else _ABOVE.search(view.text[max(0, at - _REACH) : at])
        if match and above and _is_secret(match["secret"], above["name"], names):
            yield view.finding(*match.span("secret"), SECRET)


def _may_match(view: View, at: int, pattern: Lazy) -> bool:
    return pattern is _PART or view.raw.find(b", input_type=", at, at + _REACH) >= 0


def _is_secret(value: str, place: str, names: Names) -> bool:
    """Return True if a value is a secret in a field, which is named by its place: `login.passwords.0`."""
    name = next(iter(reversed(_NAME.findall(place))), "")
    demand = names.demand_of(name)
    return demand is not None and not is_placeholder(value) and satisfies(value, demand)
