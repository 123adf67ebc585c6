"""The common parts of the two layouts of a cassette file: spans of bytes, and the first keys of records."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol

from agenttape_core.format.malformed import Malformed
from agenttape_core.schema import IndexRow

if TYPE_CHECKING:
    from collections.abc import Iterable

    from agenttape_core.format.written_steps import Stored


Span = tuple[int, int]
"""A piece of the file: the offsets in bytes where it starts and ends."""


class Layout(Protocol):
    """The layout of records in the bytes of a file. Its methods raise `Malformed`; lines count from the piece."""

    def check_end(self, data: bytes) -> int:
        """Find the end mark, and give the offset where the records end."""

    def spans(self, data: bytes, end: int) -> list[Span]:
        """The pieces up to `end`: the header, then one per record."""

    def steps(self, data: bytes, spans: list[Span]) -> list[Span]:
        """Those of the pieces that are steps, and not interactions."""

    def step_address(self, data: bytes, span: Span) -> str:
        """The address of a step; the rest of a canonically written step isn't parsed."""

    def may_be_marked(self, data: bytes, span: Span) -> bool:
        """Return False if a record can't have the key `fidelity`, and True if it may."""

    def row(self, data: bytes, span: Span) -> IndexRow:
        """Read the first keys of a record."""

    def after_head(self, data: bytes, span: Span) -> int:
        """The offset after the first keys of a record; its start if they aren't in canonical form."""

    def header(self, piece: bytes) -> tuple[dict[str, Any], str]:
        """Parse the header, its timings left as text and apart."""

    def record(self, piece: bytes) -> dict[str, Any]:
        """Parse a whole record."""

    def outcome(self, data: bytes, span: Span) -> Any:
        """Parse the outcome of a record, and as little else as possible."""

    def ids(self, data: bytes, span: Span) -> Any:
        """Parse the ids of a record, and as little else as possible."""

    def dump(self, header: dict[str, Any], records: Iterable[Stored]) -> Iterable[bytes]:
        """The bytes of a file, piece by piece: the header, the records, the end mark."""


def row_from_dict(record: dict[str, Any]) -> IndexRow:
    """The index row of a record that had to be parsed."""
    number, parent = record.get("interaction"), record.get("parent")
    if type(number) is not int or number < 1:
        raise Malformed("`interaction` must be the number of the record, from 1")
    if parent is not None and type(parent) is not int:
        raise Malformed("`parent` must be the number of a record")
    texts = [record.get(key) for key in ("kind", "name", "address", "fingerprint")]
    kind, name, address, fingerprint = (text if isinstance(text, str) else None for text in texts)
    if kind is None or name is None or address is None or fingerprint is None:
        raise Malformed("a record needs `kind`, `name`, `address` and `fingerprint`, each a string")
    return IndexRow(number, kind, name, address, fingerprint, parent)


def address_from_dict(record: dict[str, Any]) -> str:
    """Return the address of a step. Raises `Malformed` if it has none."""
    address = record.get("address")
    if not isinstance(address, str):
        raise Malformed("a step needs an `address`, a string")
    return address


def as_dict(value: Any, what: str) -> dict[str, Any]:
    """Refuse a piece that isn't a dict."""
    if not isinstance(value, dict):
        raise Malformed(f"{what} must be a mapping of keys to values")
    return value
