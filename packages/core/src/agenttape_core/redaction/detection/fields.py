"""Secrets in a field of a form (`form-data; name="password"`), of a model that pydantic quotes, or of a page.

`<input value=x name=password>`, `<meta name="csrf-token" content="x">`.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from agenttape_core.redaction.detection.kinds import SECRET
from agenttape_core.redaction.detection.lazy import Lazy
from agenttape_core.redaction.detection.values import is_placeholder, satisfies
from agenttape_core.redaction.detection.views import places

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
_MULTIPART, _INPUT = b"form-data; name=", b"input_value="
TAGS = (b"<input", b"<meta", b"<param")
_NAMES_OF_TAGS = frozenset(name for tag in TAGS for name in (tag[1:], tag[1:].upper(), tag[1:].capitalize()))
_ATTRIBUTE = Lazy(
    r"""(?x) (?:[\s/]|\\{1,7}[nrt]){0,64}+ (?P<name>[A-Za-z][\w:.-]{0,40}+)
    (?:[ ]{0,4}=[ ]{0,4} (?:(?P<quote>\\{0,7}["'])(?P<quoted>[^"'<>\\]{0,4096}+)(?P=quote)
      |(?P<bare>[^\s"'<>=`\\]{1,4096}+)))?"""
)
"""An attribute of a tag (HTML, 13.1.2.3), also within a text of JSON."""
_CALLED = frozenset({"name", "id", "property", "autocomplete"})
_GIVEN = frozenset({"value", "content"})
_MOST_ATTRIBUTES = 40


def find_fields(view: View, names: Names) -> Iterator[Finding]:
    """Find the values of fields whose names are denied."""
    if _MULTIPART.partition(b";")[0] in view.words:
        yield from _find(view, names, _MULTIPART, _PART)
    if _INPUT.rstrip(b"=") in view.words:
        yield from _find(view, names, _INPUT, _INVALID)


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


def find_tags(view: View, names: Names) -> Iterator[Finding]:
    """Find the values of fields of passwords, and of fields whose names are denied."""
    for anchor in () if _NAMES_OF_TAGS.isdisjoint(view.words) else TAGS:
        for at in places(view.low, anchor):
            yield from _of_tag(view, at + len(anchor), names)


def _of_tag(view: View, at: int, names: Names) -> Iterator[Finding]:
    text, values, called, is_password = view.text, [], [], False
    for _ in range(_MOST_ATTRIBUTES):
        attribute = _ATTRIBUTE.match(text, at)
        if attribute is None:
            break
        at = attribute.end()
        name = attribute["name"].lower()
        group = "quoted" if attribute["quote"] else "bare"
        if attribute[group] is None:
            continue
        if name in _GIVEN:
            values.append(attribute.span(group))
        elif name in _CALLED:
            called.append(attribute[group])
        is_password |= name == "type" and attribute[group].lower() == "password"
    demands = [demand for demand in map(names.demand_of, called) if demand is not None]
    for start, end in values:
        value = text[start:end]
        if not is_placeholder(value) and (is_password or any(satisfies(value, demand) for demand in demands)):
            yield view.finding(start, end, SECRET)
