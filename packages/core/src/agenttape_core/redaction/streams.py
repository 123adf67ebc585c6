"""Redaction of streams: a secret may be split between chunks.

The strings that stand at one path in many chunks are pieces of one text. That text is redacted as a whole, and what
comes out is mapped back to the chunks.
"""

from __future__ import annotations

import base64
import itertools
from typing import TYPE_CHECKING, Any

from agenttape_core.redaction.detection.encoded import Data
from agenttape_core.redaction.detection.findings import Span, render
from agenttape_core.redaction.walk import Replacer, cut, redact_value
from agenttape_core.schema.plain import Path, replaced, replaced_in_chunk

if TYPE_CHECKING:
    from collections.abc import Iterator

    from agenttape_core.schema import Plain

_BYTES, _TOKEN = "bytes", "token"
_MIN_CUMULATIVE, _MIN_REPEATED = 3, 8


class _Piece(str):
    """A string of a chunk, with the path that all pieces of its text have."""

    __slots__ = ("path",)
    path: Path

    @classmethod
    def at(cls, path: Path, text: str) -> str:
        if path and path[-1] is None:
            return text  # a key
        piece = cls(text)
        piece.path = path
        return piece


class _Pieces(Replacer):
    """Collects the strings of all chunks by their path, in order; then gives what replaces them."""

    def __init__(self, redactor: Replacer) -> None:
        self._redactor = redactor
        self._pieces: dict[tuple[Path, str | None], list[str]] = {}
        self._redacted: dict[tuple[Path, str | None], Iterator[str]] = {}
        self.looks_at_numbers, self.harmless_keys = redactor.looks_at_numbers, redactor.harmless_keys

    def redact(self) -> bool:
        """Redact all texts; whether any changed."""
        changed = False
        for (path, kind), pieces in self._pieces.items():
            result = _redact_pieces(pieces, kind, self._redactor)
            changed = changed or result != pieces
            self._redacted[path, kind] = iter(result)
        return changed

    def _piece(self, path: Path, kind: str | None, text: str) -> Any:
        if not self._redacted:
            self._pieces.setdefault((path, kind), []).append(str(text))
            return text
        new = next(self._redacted[path, kind])
        return text if new == text else new

    def text(self, text: str) -> Any:
        return self._piece(text.path, None, text) if isinstance(text, _Piece) else self._redactor.text(text)

    def texts(self, texts: list[str]) -> list[str]:
        path = next((text.path for text in texts if isinstance(text, _Piece)), ())
        steps = list(itertools.dropwhile(lambda step: not isinstance(step, str), reversed(path[:-1])))
        return [self._piece((*reversed(steps), _TOKEN), None, text) for text in texts]

    def alone(self) -> Replacer:
        return self._redactor

    def kind_of(self, name: str) -> str | None:
        return self._redactor.kind_of(name)

    def whole(self, text: str, kind: str) -> Any:
        return self._piece(text.path, kind, text) if isinstance(text, _Piece) else self._redactor.whole(text, kind)

    def number(self, number: float) -> Any:
        return self._redactor.number(number)

    def base64(self, body: str, kind: str | None = None) -> str:
        if not isinstance(body, _Piece) or Data.of(body) is None:
            return body
        text = base64.b64decode(body).decode("latin-1")
        new = self._piece(body.path, kind or _BYTES, text)
        return body if new is text else base64.b64encode(new.encode("latin-1")).decode("ascii")


def redact_chunks(chunks: list[Plain], redactor: Replacer) -> list[Plain]:
    """Return redacted chunks; see `Redactor.chunks`."""
    pieces = _Pieces(redactor)
    marked = [replaced_in_chunk(chunk, _Piece.at) for chunk in chunks]
    walked = [redact_value(chunk, pieces) for chunk in marked]
    # A walk alone redacts numbers and keys, so it may differ although no text did.
    if not pieces.redact() and walked == chunks:
        return chunks
    return [replaced(redact_value(chunk, pieces), _without_path) for chunk in marked]


def _without_path(leaf: Any) -> Any:
    return str(leaf) if isinstance(leaf, _Piece) else leaf


def _redact_pieces(pieces: list[str], kind: str | None, redactor: Replacer) -> list[str]:
    if kind == _BYTES:
        return _redact_bytes(pieces, redactor)
    if kind:
        return _redact_denied_pieces(pieces, kind, redactor)
    if len(pieces) == 1 or (len(set(pieces)) == 1 and redactor.contains_secret(pieces[0])):
        return [redactor.text(piece) for piece in pieces]
    if _is_cumulative(pieces):
        spans = redactor.spans(pieces[-1])
        return [render(pieces[-1], spans, 0, len(piece)) for piece in pieces]
    whole = "".join(pieces)
    spans = redactor.spans(whole)
    return list(cut(whole, spans, pieces)) if spans else pieces


def _redact_bytes(pieces: list[str], redactor: Replacer) -> list[str]:
    """Redact bytes, given as one character per byte: a border may be inside a character."""
    whole = "".join(pieces)
    data = Data.of_bytes(whole.encode("latin-1"))
    spans = redactor.spans(data.text, strict=not data.is_text)
    if data.is_text:
        at = [(len(data.text[: span.start].encode()), len(data.text[: span.end].encode())) for span in spans]
        spans = [Span(start, end, span.replacement) for (start, end), span in zip(at, spans, strict=True)]
    return list(cut(whole, spans, pieces)) if spans else pieces


def _redact_denied_pieces(pieces: list[str], kind: str, redactor: Replacer) -> list[str]:
    if len(set(pieces)) == 1:
        return [redactor.whole(piece, kind) for piece in pieces]
    whole = "".join(pieces)
    redacted = redactor.whole(whole, kind)
    if redacted == whole:
        return pieces
    first = next(number for number, piece in enumerate(pieces) if piece)
    return [redacted if number == first else "" for number in range(len(pieces))]


def _is_cumulative(pieces: list[str]) -> bool:
    """Return True if each chunk repeats all text so far, as LlamaIndex' do, or the same constant."""
    texts = [piece for piece in pieces if piece]
    if len(texts) < 2 or not all(new.startswith(old) for old, new in itertools.pairwise(texts)):  # noqa: PLR2004
        return False
    return len(texts[0]) >= _MIN_REPEATED or (len(texts) >= _MIN_CUMULATIVE and len(texts[-1]) > len(texts[0]))
