"""The parts of a text that are replaced, and the text with them replaced."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Sequence


class Span(NamedTuple):
    """A part of a text and what stands in its place; positions are those of the original text."""

    start: int
    end: int
    replacement: str


def render(text: str, spans: Sequence[Span], start: int = 0, end: int | None = None) -> str:
    """Return a part of a text with its spans replaced; a replacement belongs to where its span starts.

    Args:
        text: The whole original text.
        spans: In order, without overlaps.
        start: Where the part starts.
        end: Where it ends; the end of the text if not given.
    """
    end = len(text) if end is None else end
    pieces: list[str] = []
    at = start
    for span in spans:
        if span.end <= start or span.start >= end:
            continue
        if span.start >= start:
            pieces += (text[at : span.start], span.replacement)
        at = min(span.end, end)
    pieces.append(text[at:end])
    return "".join(pieces)
