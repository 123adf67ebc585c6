"""The `.jsonl` layout: one record per line, for production and bulk."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from agenttape_core.format.json_text import dump_line, load_line, load_prefix
from agenttape_core.format.layout import Span, address_from_dict, as_dict, row_from_dict
from agenttape_core.format.malformed import Malformed
from agenttape_core.format.written_steps import Stored, WrittenStep
from agenttape_core.schema import IndexRow

if TYPE_CHECKING:
    from collections.abc import Iterable

_TEXT = rb'"([ !#-\[\]-~]*)"'
_match_head = re.compile(
    rb'\{"interaction":([1-9][0-9]{0,8}),"kind":%b,"name":%b,"address":%b,"fingerprint":%b(?:,"parent":([0-9]{1,9}))?,(?!"parent)'
    % (_TEXT, _TEXT, _TEXT, _TEXT)
).match
_match_step_head = re.compile(rb'\{"step":[0-9]{1,9},"kind":%b,"name":%b,"address":%b' % (_TEXT, _TEXT, _TEXT)).match
_END = b'{"end":true}'
_match_end = re.compile(rb'\s*\{\s*"end"\s*:\s*true\s*\}').fullmatch
_OUTCOME = b',"outcome":'
_NO_IDS = tuple(f'"{key}":'.encode() for key in ("request", "continues", "tags", "metadata", "fidelity", "acts"))
"""The keys that may follow the first keys of a record without ids."""
_match_step = re.compile(rb'\s*\{\s*"step"\s*:').match


class JsonlLayout:
    """See the module docstring."""

    def check_end(self, data: bytes) -> int:
        """Find the line that ends the file."""
        tail = data[-256:].rstrip()
        before, line_feed, last = tail.rpartition(b"\n")
        if not line_feed or _match_end(last) is None:
            raise Malformed(f"the file is cut off: its last line must be {_END.decode()}", data.count(b"\n"))
        return len(data) - len(data[-256:]) + len(before) + 1

    def spans(self, data: bytes, end: int) -> list[Span]:
        """One per line, its end included; blank lines are passed over."""
        found = []
        start = 3 if data.startswith(b"\xef\xbb\xbf") else 0
        while start < end:
            after = data.index(b"\n", start, end) + 1
            if after - start > 1:
                found.append((start, after))
            start = after
        return found

    def steps(self, data: bytes, spans: list[Span]) -> list[Span]:
        """Look at the first keys, if there can be any."""
        return [span for span in spans if _match_step(data, *span)] if b'"step"' in data else []

    def step_address(self, data: bytes, span: Span) -> str:
        """Read the first keys, by a pattern if they are in canonical form."""
        match = _match_step_head(data, *span)
        return match[3].decode() if match is not None else address_from_dict(self.record(data[slice(*span)]))

    def may_be_marked(self, data: bytes, span: Span) -> bool:
        """Look for the key, at whatever level."""
        return data.find(b'"fidelity"', *span) != -1

    def row(self, data: bytes, span: Span) -> IndexRow:
        """Read the first keys, by a pattern if they are in canonical form."""
        match = _match_head(data, *span)
        if match is None:
            return row_from_dict(self.record(data[span[0] : span[1]]))
        number, kind, name, address, fingerprint, parent = match.groups()
        return IndexRow(
            int(number),
            kind.decode(),
            name.decode(),
            address.decode(),
            fingerprint.decode(),
            int(parent) if parent else None,
        )

    def after_head(self, data: bytes, span: Span) -> int:
        """Find the end of the first keys by pattern."""
        match = _match_head(data, *span)
        return match.end() if match is not None else span[0]

    def header(self, piece: bytes) -> tuple[dict[str, Any], str]:
        """Parse the header."""
        header = as_dict(load_line(piece), "the header")
        volatile = header.get("volatile")
        if not isinstance(volatile, dict) or not isinstance(volatile.get("timings"), str):
            return header, ""
        return header, volatile.pop("timings")

    def record(self, piece: bytes) -> dict[str, Any]:
        """Parse a whole record."""
        return as_dict(load_line(piece), "a record")

    def outcome(self, data: bytes, span: Span) -> Any:
        """Parse the outcome alone, when it is the last key of the record.

        Quotes inside strings are escaped, so the bytes that are looked for can only be a key; and if exactly one
        brace is left after its value, it is a key of the record itself.
        """
        at = data.rfind(_OUTCOME, *span)
        if at != -1:
            try:
                value, rest = load_prefix(data[at + len(_OUTCOME) : span[1]])
            except Malformed:
                rest = ""  # the whole line is parsed below, which says where it is wrong
            if rest == "}\n":
                return value
        return self.record(data[span[0] : span[1]]).get("outcome")

    def ids(self, data: bytes, span: Span) -> Any:
        """Parse only the ids, if they are at their canonical position."""
        match = _match_head(data, *span)
        if match and data.startswith(_NO_IDS, match.end()):
            return []
        if match and data.startswith(b'"ids":', match.end()):
            return load_prefix(data[match.end() + 6 : span[1]])[0]
        return self.record(data[span[0] : span[1]]).get("ids", [])

    def dump(self, header: dict[str, Any], records: Iterable[Stored]) -> Iterable[bytes]:
        """The lines, then the end mark."""
        yield dump_line(header).encode() + b"\n"
        for record in records:
            line = record.line if isinstance(record, WrittenStep) else dump_line(record)
            yield line.encode() + b"\n"
        yield _END + b"\n"
