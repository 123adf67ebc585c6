"""The `.yaml` layout: a stream of documents, for people and git.

A line that begins with `---` or `...` can only be a document mark in YAML: text is always indented. So documents
are found by searching for bytes, and the fixed first keys of a record by one pattern; a record that was edited into
another shape is parsed instead.
"""

from __future__ import annotations

import contextlib
import re
from functools import lru_cache
from typing import TYPE_CHECKING, Any

from agenttape_core.format.layout import Span, address_from_dict, as_dict, row_from_dict
from agenttape_core.format.malformed import Malformed
from agenttape_core.format.records import HEAD, STEP_HEAD
from agenttape_core.format.written_steps import Stored, WrittenStep
from agenttape_core.format.yaml_fast import NotCanonical, load_canonical
from agenttape_core.format.yaml_text import dump_mapping, inline, quote
from agenttape_core.lazy_patterns import Lazy
from agenttape_core.schema import IndexRow

if TYPE_CHECKING:
    from collections.abc import Iterable

_PLAIN = rb'(?!(?:null|true|false)\n)[A-Za-z_$][ !"$-9;-~]*+(?:(?::(?![ \n])|(?<! )#)[ !"$-9;-~]*+)*+(?<! )(?=\n)'
_SIMPLE_QUOTED = rb'"[ !#-\[\]-~]*+"'
_TEXT = rb"(" + _PLAIN + rb"|" + _SIMPLE_QUOTED + rb")\n"
_match_head = re.compile(
    rb"interaction: ([1-9][0-9]{0,8})\n"
    rb"kind: %bname: %baddress: %bfingerprint: %b(?:parent: ([0-9]{1,9})\n)?(?!parent)" % (_TEXT, _TEXT, _TEXT, _TEXT)
).match
_STEP_HEAD = Lazy(rb"step: [0-9]{1,9}\nkind: %bname: %baddress: %b" % (_TEXT, _TEXT, _TEXT))
_QUOTE, _NEWLINE = b'"\n'
_find_marks = re.compile(rb"\n---(?=[ \t\n])").finditer
_STEP = b"step:"
_TIMINGS = b"\n  timings: |\n"
_TIMING_LINES = re.compile(rb"(?:    [0-9][0-9a-f.+@~, -]*\n)+")


class YamlLayout:
    """See the module docstring."""

    def check_end(self, data: bytes) -> int:
        """Find the `...` line that ends the file."""
        tail = data[-256:].rstrip()
        if not tail.endswith(b"\n..."):
            raise Malformed("the file is cut off: its last line must be `...`", data.count(b"\n"))
        return len(data) - len(data[-256:]) + len(tail) - 3

    def spans(self, data: bytes, end: int) -> list[Span]:
        """Split at the `---` lines; a `---` line at the very beginning is allowed."""
        start = 3 if data.startswith(b"\xef\xbb\xbf") else 0
        if data.startswith(b"---\n", start):
            start += 4
        found = []
        for mark in _find_marks(data, start, end):
            at, after = mark.span()
            found.append((start, at + 1))
            # What stands on the line of the mark belongs to the document.
            start = after + 1 if data[after] == _NEWLINE else after
        found.append((start, end))
        return found

    def steps(self, data: bytes, spans: list[Span]) -> list[Span]:
        """Look at the first keys, if there can be any."""
        return [span for span in spans if data.startswith(_STEP, span[0])] if b"\n" + _STEP in data else []

    def step_address(self, data: bytes, span: Span) -> str:
        """Read the first keys, by a pattern if they are in canonical form."""
        match = _STEP_HEAD.match(data, *span)
        if match is None:
            return address_from_dict(self.record(data[slice(*span)]))
        address = match[3]
        return (address[1:-1] if address[0] == _QUOTE else address).decode()

    def may_be_marked(self, data: bytes, span: Span) -> bool:
        """Look for the key; text is always indented."""
        return data.find(b"\nfidelity:", *span) != -1

    def row(self, data: bytes, span: Span) -> IndexRow:
        """Read the first keys, by a pattern if they are in canonical form."""
        match = _match_head(data, *span)
        if match is None:
            return row_from_dict(self._head(data, span))
        number, kind, name, address, fingerprint, parent = match.groups()
        return IndexRow(
            int(number),
            _repeated_text(kind),
            _repeated_text(name),
            (address[1:-1] if address[0] == _QUOTE else address).decode(),
            (fingerprint[1:-1] if fingerprint[0] == _QUOTE else fingerprint).decode(),
            int(parent) if parent else None,
        )

    def after_head(self, data: bytes, span: Span) -> int:
        """Find the end of the first keys by pattern."""
        match = _match_head(data, *span)
        return match.end() if match is not None else span[0]

    def header(self, piece: bytes) -> tuple[dict[str, Any], str]:
        """Parse the header; the timings are the last lines of its volatile block."""
        at = piece.rfind(_TIMINGS)
        if at != -1 and _TIMING_LINES.fullmatch(piece, at + len(_TIMINGS)):
            header = as_dict(_load(piece[: at + 1]), "the header")
            if list(header)[-1:] == ["volatile"] and isinstance(header["volatile"], dict | None):
                lines = piece[at + len(_TIMINGS) :].decode()
                return {**header, "volatile": header["volatile"] or {}}, lines.replace("    ", "")
        header = as_dict(_load(piece), "the header")
        volatile = header.get("volatile")
        if not isinstance(volatile, dict) or not isinstance(volatile.get("timings"), str):
            return header, ""
        timings = volatile.pop("timings")
        return header, timings

    def record(self, piece: bytes) -> dict[str, Any]:
        """Parse a whole record."""
        return as_dict(_load(piece), "a record")

    def outcome(self, data: bytes, span: Span) -> Any:
        """Parse from the `outcome:` line on, the last key of a record in canonical form."""
        at = data.find(b"\noutcome:\n", *span)
        if at != -1:
            try:
                found = load_canonical(data[at + 1 : span[1]])
            except NotCanonical:
                found = {}
            if len(found) == 1:
                return found["outcome"]
        return self.record(data[span[0] : span[1]]).get("outcome")

    def ids(self, data: bytes, span: Span) -> Any:
        """Parse what stands between the first keys and the request."""
        match = _match_head(data, *span)
        at = data.find(b"\nrequest:", *span) + 1
        if match and at == match.end():
            return []
        if match and at > match.end():
            try:
                return load_canonical(data[match.end() : at]).get("ids", [])
            except NotCanonical:
                pass  # as in `_head`
        return self.record(data[span[0] : span[1]]).get("ids", [])

    def dump(self, header: dict[str, Any], records: Iterable[Stored]) -> Iterable[bytes]:
        """The documents, then the end mark."""
        yield dump_mapping(header).encode()
        for stored in records:
            record = stored.as_dict() if isinstance(stored, WrittenStep) else stored
            first = STEP_HEAD if "step" in record else HEAD
            head = "".join(f"{key}: {_one_line(record[key])}\n" for key in first)
            rest = {key: value for key, value in record.items() if key not in first}
            yield f"---\n{head}{dump_mapping(rest) if rest else ''}".encode()
        yield b"...\n"

    def _head(self, data: bytes, span: Span) -> dict[str, Any]:
        """The keys before the request, or all of them when the record has another shape."""
        at = data.find(b"\nrequest:", *span)
        if at != -1:
            try:
                return as_dict(load_canonical(data[span[0] : at + 1]), "a record")
            except NotCanonical:
                pass  # the whole record is parsed below, which also says what is wrong with it
        return self.record(data[span[0] : span[1]])


def _load(piece: bytes) -> Any:
    with contextlib.suppress(NotCanonical):  # with all that was tried, which an `except` would hold in memory
        return load_canonical(piece)
    # PyYAML is only imported for files that were written by hand.
    from agenttape_core.format.yaml_load import load_yaml

    return load_yaml(piece)


def _one_line(value: Any) -> str:
    return quote(value) if isinstance(value, str) and "\n" in value else inline(value)


@lru_cache(maxsize=256)
def _repeated_text(raw: bytes) -> str:
    """A kind or a name: thousands of records share a few of them."""
    return (raw[1:-1] if raw[0] == _QUOTE else raw).decode()
