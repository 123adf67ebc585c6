"""The places of secrets in a text."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterable


class Finding(NamedTuple):
    """A secret in a text.

    Args:
        start: Its first character.
        end: One past its last character.
        kind: What it is; becomes part of the pseudonym.
        quote: What the pseudonym is put between, for a bare JSON number that becomes a string.
    """

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
