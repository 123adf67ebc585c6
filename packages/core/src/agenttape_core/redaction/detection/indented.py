"""Secrets in a mapping or a list of YAML, on the lines below a denied name in a text.

What is on a line is judged as if it stood right after the name: `password:` and `  old: x` below it, as `password: x`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from agenttape_core.redaction.detection.assigned import find_value
from agenttape_core.redaction.detection.described import is_description, is_keyword, is_told, reaches_down
from agenttape_core.redaction.detection.lazy import Lazy
from agenttape_core.redaction.detection.names import Demand

if TYPE_CHECKING:
    from collections.abc import Iterator

    from agenttape_core.redaction.detection.assigned import Assignment
    from agenttape_core.redaction.detection.findings import Finding
    from agenttape_core.redaction.detection.names import Names
    from agenttape_core.redaction.detection.views import View

_LINE = Lazy(
    r"""(?x) [ \t]{0,8}(?:\#[^\r\n\\]{0,200})? (?:\r?\n|\\n) (?P<indent>[ ]{0,40})(?P<items>(?:-[ ]{1,4}){0,4})
    (?:(?P<key>["']?[\w.-]{1,64}["']?):(?=[ \r\n\\]|\Z)[ ]{0,4})? (?P<value>[^\r\n\\]{0,512})"""
)
"""The rest of a line and the next one: its indentation, the marks of items of lists, a key, and a value."""
_MARGIN = Lazy(r"(?:\A|\n|\\n)(?P<margin>[ ]{0,40}(?:-[ ]{1,4}){0,4}[\"']?)\Z")
_BACK = 60
_MOST = 60


class _Line(NamedTuple):
    """A line of a block."""

    key: str
    value: int
    """The start of its value."""
    is_empty: bool


def find_indented(view: View, found: Assignment, names: Names) -> Iterator[Finding]:
    """Find the secrets on the lines below a name.

    Args:
        view: The text.
        found: The name, after which its line is over.
        names: The names that are denied.
    """
    text = view.text
    if found.sep != ":" or found.demand not in (Demand.NOTHING, Demand.TEXT, Demand.DIGITS):
        return
    if not reaches_down(found.name, found.demand) or not _LINE.match(text, found.value):
        return
    margin = _MARGIN.search(text, max(0, found.start - _BACK), found.start)
    lines = list(_lines(text, found.value, len(margin["margin"].rstrip("\"'")))) if margin else []
    keys = {line.key for line in lines if line.key}
    if is_description(keys, next((_value(text, line) for line in lines if line.key == "type"), None)):
        lines = [line for line in lines if not is_keyword(line.key)]
    for line in lines:
        if line.is_empty or (line.key and is_told(line.key, _value(text, line))):
            continue
        own = names.demand_of(line.key) if line.key else None
        if own is None or own is Demand.NOTHING:
            below = found._replace(value=line.value, gap=" ", close=None, demand=found.demand if own is None else own)
            if finding := find_value(view, below):
                yield finding


def _lines(text: str, at: int, margin: int) -> Iterator[_Line]:
    """Yield the lines of the block that begins behind a position; a list may stand at the margin itself."""
    for _ in range(_MOST):
        line = _LINE.match(text, at)
        if line is None:
            return
        is_below = len(line["indent"]) > margin or (len(line["indent"]) == margin and bool(line["items"]))
        if not is_below or not (line["key"] or line["items"]):
            return
        value = line["value"].strip()
        yield _Line((line["key"] or "").strip("\"'"), line.start("value"), not value or value[0] in "#&*|>{[")
        at = line.start("value") if not value else line.end("value")


def _value(text: str, line: _Line) -> str:
    end = text.find("\n", line.value)
    return text[line.value : end if end >= 0 else len(text)].strip().strip("\"'")
