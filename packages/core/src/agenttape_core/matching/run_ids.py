"""Run-specific ids: finding them in requests, and putting this run's into recorded answers.

A model that echoes an id of its prompt answers with the recorded id; the current run only has its own. Ids that look
like no other word (UUIDs, 32 hex digits) are replaced anywhere in a text, others only where they are the whole of it.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import Any

from agenttape_core.lazy_patterns import Lazy
from agenttape_core.schema import Plain
from agenttape_core.schema.plain import Path, replaced, replaced_in_chunk

RUN_SPECIFIC_ID = Lazy(
    r"(?=[0-9a-fA-F]{8})(?:(?<![0-9A-Za-z])|(?<=\\[bfnrt])|(?<=\\u[0-9a-f]{4}))"
    r"(?:[0-9a-fA-F]{8}(?:-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}|[0-9a-f]{32})(?![0-9A-Za-z])"
)
"""A UUID, or a word of 32 hex digits. In JSON text the letter or digit before it may belong to an escape like `\\n`.

The look-ahead adds no condition; it makes the search three times as fast.
"""
_HEX = bytes(ord("0") if chr(byte) in "0123456789abcdefABCDEF" else ord(" ") for byte in range(256))
FIRST_GROUP = b"0" * 8  # the first group of an id, with `0` for any hex digit


def may_hold_id(text: bytes) -> bool:
    """Return True if a text may hold a run-specific id: so many hex digits in a row are rare, and cheap to find."""
    return FIRST_GROUP in text.translate(_HEX)


class IdMap:
    """The ids of a recorded request and of the live one, pair by pair.

    Args:
        recorded: The ids of the recorded request in order of first appearance; empty where no answer holds it.
        live: The ids of the live one.
    """

    def __init__(self, recorded: Sequence[str], live: Sequence[str]) -> None:
        self._live = {old: new for old, new in zip(recorded, live, strict=False) if old not in ("", new)}
        words = [re.escape(old) for old in self._live if RUN_SPECIFIC_ID.fullmatch(old)]
        self._words = re.compile("|".join(words)) if words else None

    def value(self, plain: Plain) -> Plain:
        """Return plain data with the live ids instead of the recorded ones."""
        return replaced(plain, self._leaf, self._text) if self._live else plain

    def chunks(self, chunks: Sequence[Plain]) -> Sequence[Plain]:
        """Return the chunks of a stream with the live ids in the same way; an id may be split between chunks."""
        if not self._live:
            return chunks
        pieces: dict[tuple[Any, ...], list[str]] = {}

        def note(path: tuple[Any, ...], text: str) -> str:
            pieces.setdefault(path, []).append(text)
            return text

        for chunk in chunks:
            replaced_in_chunk(chunk, note)
        pieces_of = {path: iter(self._pieces(texts)) for path, texts in pieces.items()}
        return [replaced_in_chunk(chunk, lambda path, _: next(pieces_of[path])) for chunk in chunks]

    def _leaf(self, value: Plain) -> Plain:
        return self._text(value) if isinstance(value, str) else value

    def _text(self, text: str) -> str:
        if text in self._live:
            return self._live[text]
        return self._words.sub(lambda match: self._live[match[0]], text) if self._words is not None else text

    def _pieces(self, pieces: list[str]) -> Iterator[str]:
        """Yield the pieces of a text; a replaced id is in the piece in which the recorded one started."""
        matches = list(self._words.finditer("".join(pieces))) if self._words is not None and len(pieces) > 1 else []
        start = 0
        for piece in pieces:
            end = start + len(piece)
            yield self._cut(piece, start, end, matches) if matches else self._text(piece)
            start = end

    def _cut(self, piece: str, start: int, end: int, matches: list[re.Match[str]]) -> str:
        kept, at = [], start
        for match in matches:
            if match.end() <= at or match.start() >= end:
                continue
            kept.append(piece[at - start : max(match.start(), at) - start])
            if match.start() >= start:
                kept.append(self._live[match[0]])
            at = min(match.end(), end)
        return "".join([*kept, piece[at - start :]])


def ids_held(ids: Sequence[str], values: Sequence[Plain], chunks: Sequence[Plain]) -> list[str]:
    """Return ids with an empty text for each run-specific one in no answer; chunks may split one."""
    made = [one for one in dict.fromkeys(ids) if RUN_SPECIFIC_ID.search(one)]
    if not made:
        return list(ids)
    marks = [f"\0{number}\0" for number in range(len(made))]
    marked = IdMap(made, marks)
    texts: list[str] = []

    def note(_: Path, text: str) -> str:
        texts.append(text)
        return text

    replaced_in_chunk([*map(marked.value, values), *marked.chunks(chunks)], note)
    text = "\n".join(texts)
    unheld = {one for one, mark in zip(made, marks, strict=True) if mark not in text}
    return ["" if one in unheld else one for one in ids]
