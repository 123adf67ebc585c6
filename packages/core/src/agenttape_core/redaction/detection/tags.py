"""Secrets in the fields of a page: `<input value=x name=password>`, `<meta name="csrf-token" content="x">`."""

from __future__ import annotations

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

ANCHORS = (b"<input", b"<meta", b"<param")
_ATTRIBUTE = Lazy(
    r"""(?x) (?:[\s/]|\\{1,7}[nrt]){0,64}+ (?P<name>[A-Za-z][\w:.-]{0,40}+)
    (?:[ ]{0,4}=[ ]{0,4} (?:(?P<quote>\\{0,7}["'])(?P<quoted>[^"'<>\\]{0,4096}+)(?P=quote)
      |(?P<bare>[^\s"'<>=`\\]{1,4096}+)))?"""
)
"""An attribute of a tag (HTML, 13.1.2.3), also within a text of JSON."""
_NAMES = frozenset({"name", "id", "property", "autocomplete"})
_VALUES = frozenset({"value", "content"})
_MOST = 40


def find_tags(view: View, names: Names) -> Iterator[Finding]:
    """Find the values of fields of passwords, and of fields whose names are denied."""
    for anchor in ANCHORS:
        for at in places(view.low, anchor):
            yield from _of_tag(view, at + len(anchor), names)


def _of_tag(view: View, at: int, names: Names) -> Iterator[Finding]:
    text, values, called, is_password = view.text, [], [], False
    for _ in range(_MOST):
        attribute = _ATTRIBUTE.match(text, at)
        if attribute is None:
            break
        at = attribute.end()
        name = attribute["name"].lower()
        group = "quoted" if attribute["quote"] else "bare"
        if attribute[group] is None:
            continue
        if name in _VALUES:
            values.append(attribute.span(group))
        elif name in _NAMES:
            called.append(attribute[group])
        is_password |= name == "type" and attribute[group].lower() == "password"
    demands = [demand for demand in map(names.demand_of, called) if demand is not None]
    for start, end in values:
        value = text[start:end]
        if not is_placeholder(value) and (is_password or any(satisfies(value, demand) for demand in demands)):
            yield view.finding(start, end, SECRET)
