"""The places of secrets in a text, their kinds, and the text with them replaced."""

from __future__ import annotations

from typing import TYPE_CHECKING

from agenttape_core.named_tuples import NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence


SECRET = "secret"  # noqa: S105 - the name of a kind
"""The kind of all that only its surroundings give away, so that one secret has one pseudonym wherever it stands."""
NUMBER = "number"
"""The kind of a number under a denied name. In text it stands in quotes that the number did not have."""
BASE64 = "base64"
"""The kind of base64 that holds a secret. It stays base64: its content is redacted."""


class Finding(NamedTuple):
    """A secret in a text, its kind, and the `quote` around a pseudonym where a bare JSON number becomes a string."""

    start: int
    end: int
    kind: str
    quote: str = ""


def without_overlaps(findings: Iterable[Finding]) -> list[Finding]:
    """Return findings in order of position, none overlapping, that cover everything the given ones cover.

    A finding inside another is dropped; two that overlap in part become one, or half a secret would stay. Of two at
    the same place the first given wins.
    """
    kept: list[Finding] = []
    for found in sorted(findings, key=lambda found: (found.start, -found.end)):
        if not kept or found.start >= kept[-1].end:
            kept.append(found)
        elif found.end > kept[-1].end:
            kept[-1] = kept[-1]._replace(end=found.end)
    return kept


class Span(NamedTuple):
    """A part of a text and what stands in its place; positions are those of the original text."""

    start: int
    end: int
    replacement: str


def render(text: str, spans: Sequence[Span], start: int = 0, end: int | None = None) -> str:
    """Return a part of a text with its spans, in order and without overlaps, replaced where they start."""
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
