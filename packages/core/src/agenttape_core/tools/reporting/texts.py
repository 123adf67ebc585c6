"""Texts of strangers inside Markdown and XML: what stands in a recording may be anything."""

from __future__ import annotations

import re
from collections.abc import Sequence

_CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u200b-\u200f\u2028-\u202e\u2066-\u2069]")
_NO_XML = re.compile("[^\t\n\r\x20-\x7e\x85\xa0-\ud7ff\ue000-\ufdcf\ufdf0-\ufffd\U00010000-\U0010ffff]")


def fenced(lines: Sequence[str], language: str = "") -> list[str]:
    """Return lines as a block of code, fenced by more backticks than they hold.

    Args:
        lines: The lines.
        language: The language of the block.
    """
    clean = [_CONTROL.sub("�", line).replace("\n", "⏎") for line in lines]
    longest = max((len(found) for line in clean for found in re.findall("`+", line)), default=0)
    fence = "`" * max(3, longest + 1)
    return [f"{fence}{language}", *clean, fence]


def code(text: str) -> str:
    """Return a text as code inside a line, without what a forge would act on."""
    return f"`{_CONTROL.sub('�', text).replace('`', chr(39)).replace('|', '/')}`"


def cell(text: str) -> str:
    """Return a text as code inside a cell of a table."""
    return code(text.replace("\n", "⏎"))


def escaped(text: str) -> str:
    """Return a text for HTML inside Markdown."""
    clean = _CONTROL.sub("�", text).replace("\n", "⏎")
    return clean.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;").replace("@", "&#64;")


def xml_text(text: str) -> str:
    """Return a text without the characters that no XML may hold, which parsers refuse a whole file for."""
    return _NO_XML.sub("�", text)
