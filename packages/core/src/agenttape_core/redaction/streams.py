"""Redaction of streams: a secret may be split between chunks.

The strings that stand at one path in many chunks are pieces of one text. That text is redacted as a whole, and what
comes out is mapped back to the chunks.
"""

from __future__ import annotations

import base64
import itertools
from typing import TYPE_CHECKING, Any

from agenttape_core.redaction.detection.encoded import BYTES, Data
from agenttape_core.redaction.detection.findings import Span, render
from agenttape_core.redaction.walk import (
    FIELDS,
    are_tokens,
    cut,
    denied_kind,
    kind_below,
    redact_denied,
    redact_value,
    token_of,
    with_tokens,
)
from agenttape_core.schema.plain import Path, place_below_tag, place_in_list

if TYPE_CHECKING:
    from collections.abc import Iterator

    from agenttape_core.redaction.walk import Replacer
    from agenttape_core.schema import Plain

_BYTES = "bytes"
_MIN_CUMULATIVE = 3
_MIN_REPEATED = 8


class _Texts:
    """The strings of all chunks by their path, in order; then what replaces them."""

    def __init__(self, redactor: Replacer) -> None:
        self._redactor = redactor
        self._pieces: dict[tuple[Path, str | None], list[str]] = {}
        self._replaced: dict[tuple[Path, str | None], Iterator[str]] = {}

    def note(self, path: Path, kind: str | None, text: str) -> str:
        self._pieces.setdefault((path, kind), []).append(text)
        return text

    def replaced(self, path: Path, kind: str | None, _: str) -> str:
        return next(self._replaced[path, kind])

    def redact(self) -> bool:
        """Redact all texts; whether any changed."""
        changed = False
        for (path, kind), pieces in self._pieces.items():
            result = _redact_pieces(pieces, kind, self._redactor)
            changed = changed or result != pieces
            self._replaced[path, kind] = iter(result)
        return changed


def redact_chunks(chunks: list[Plain], redactor: Replacer) -> list[Plain]:
    """Return redacted chunks; see `Redactor.chunks`."""
    texts = _Texts(redactor)
    walked = [_walk(chunk, (), None, texts.note, redactor) for chunk in chunks]
    # A walk alone redacts numbers and keys, so it may differ although no text did.
    if not texts.redact() and walked == chunks:
        return chunks
    return [_walk(chunk, (), None, texts.replaced, redactor) for chunk in chunks]


def _walk(plain: Plain, path: Path, kind: str | None, on_text: Any, redactor: Replacer) -> Plain:
    if isinstance(plain, str):
        return on_text(path, kind, plain)
    if isinstance(plain, list):
        return _walk_list(plain, path, kind, on_text, redactor)
    if not isinstance(plain, dict):
        return redact_denied(plain, kind, redactor) if kind else redact_value(plain, redactor)
    return _walk_dict(plain, path, kind, on_text, redactor)


def _walk_dict(plain: dict[str, Any], path: Path, kind: str | None, on_text: Any, redactor: Replacer) -> Plain:
    if len(plain) == 1:
        ((tag, body),) = plain.items()
        if tag in BYTES and isinstance(body, str) and Data.of(body) is not None:
            piece = base64.b64decode(body).decode("latin-1")
            return {tag: _base64(on_text((*path, tag), kind or _BYTES, piece))}
        if tag.startswith("$"):
            place = (*path, *place_below_tag(tag, body))
            if tag == "$namedtuple" and isinstance(body, list):
                return {tag: [*body[:1], *_walk_list(body[1:], place, kind, on_text, redactor)]}
            if not (kind and isinstance(body, dict)):
                return {tag: _walk(body, place, kind, on_text, redactor)}
            below = {part: kind if part in FIELDS.get(tag, ()) else None for part in body}
            return {
                tag: {part: _walk(item, (*place, part), below[part], on_text, redactor) for part, item in body.items()}
            }
    above = next((step for step in reversed(path) if isinstance(step, str) and not step.startswith("$")), "")
    kinds = {
        key: denied_kind(plain, key, redactor) or (kind_below(plain, key, kind, above) if kind else None)
        for key in plain
    }
    return {redactor.text(key): _walk(item, (*path, key), kinds[key], on_text, redactor) for key, item in plain.items()}


def _walk_list(plain: list[Any], path: Path, kind: str | None, on_text: Any, redactor: Replacer) -> list[Any]:
    if are_tokens(plain):  # pieces of one text, however many of them a chunk has
        return with_tokens(plain, [on_text((*path, "token"), None, token_of(place)) for place in plain], redactor)
    return [
        _walk(item, (*path, place_in_list(item, number)), kind, on_text, redactor) for number, item in enumerate(plain)
    ]


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


def _base64(text: str) -> str:
    return base64.b64encode(text.encode("latin-1")).decode("ascii")


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
