"""The parts of the file of a cassette: its version, and where its header and its records stand. Nothing is parsed."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from agenttape_core.format import limits
from agenttape_core.format.malformed import Malformed
from agenttape_core.storage.files import CONFLICT, FOREIGN

if TYPE_CHECKING:
    from agenttape_core.format.layout import Layout, Span

_VERSION = re.compile(
    rb'(?:\xef\xbb\xbf)?(?:---[ \t]*\n)?(?:agenttape: ([0-9]{1,9})[ \t]*\n|\{"agenttape":([0-9]{1,9})[,}])'
)
"""The beginning of a cassette of any version."""
_CONFLICT = b"<<<<<<< "
_FOREIGN = re.compile(
    rb'(?:---[ \t]*\n)?(?:(?!agenttape:)[A-Za-z_"][^\n:]*:[ \t\n]|\{"(?!agenttape")[^"\n]*":|- |[<%\[]|#!)'
    rb"|[^\n]{0,999}\x00"
)
"""The beginning of a file of another kind: YAML or JSON with another first key, a script, a page, bytes of no text."""


def version_of(data: bytes) -> int | None:
    """Return the version of the format that a cassette is written in; `None` if the bytes do not begin as one.

    Args:
        data: The beginning of the file, or more of it.
    """
    match = _VERSION.match(data)
    return int(match[1] or match[2]) if match else None


def spans_of(data: bytes, layout: Layout) -> tuple[Span, list[Span]]:
    """Find the header of a cassette, and its records.

    Args:
        data: The whole file.
        layout: Its layout.

    Raises:
        Malformed: If it is empty, cut off, no cassette, or in a conflict of versions, or if a record is too large.
    """
    conflict = 0 if data.startswith(_CONFLICT) else data.find(b"\n" + _CONFLICT) + 1
    if data.startswith(_CONFLICT, conflict):
        raise Malformed(CONFLICT, data.count(b"\n", 0, conflict))
    if not data or data.isspace():
        raise Malformed("the file is empty")
    try:
        end = layout.check_end(data)
    except Malformed:
        if _FOREIGN.match(data):
            raise Malformed(FOREIGN) from None
        raise
    header, *records = layout.spans(data, end)
    large = [start for start, end in (header, *records) if end - start > limits.MAX_RECORD_BYTES]
    if large:
        problem = f"a record is larger than the limit of {limits.MAX_RECORD_BYTES} bytes"
        raise Malformed(problem, data.count(b"\n", 0, large[0]))
    return header, records
