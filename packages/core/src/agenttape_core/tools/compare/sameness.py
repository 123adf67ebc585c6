"""The differences of two records, up to ids and pseudonyms. Everything in them was redacted when it was recorded.

Two recordings of one run never have the same ids, and seldom the same pseudonyms. These count as equal if their places
correspond everywhere.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

from agenttape_core.errors import counted
from agenttape_core.matching import RUN_SPECIFIC_ID, Difference, Ignored, canonical_json, differing_leaves, spelled
from agenttape_core.redaction.pseudonyms import ANY_PSEUDONYM, kind_of_formed
from agenttape_core.schema import Interaction, Outcome, Plain, Step

_ID_PLACES = re.compile(
    r"(?:tool_calls(?:\[\d+\]|\.\$items\.#\d+\.\$in)\.id|tool_call_chunks\[\d+\]\.id|tool_call_id)$"
)
"""The places where providers put ids that may look like any other word."""

_PARTS = ("tags", "metadata", "fidelity", "fidelity_note")
_STEP_PARTS = ("status", "error", "input", "output", "data")


class Counterparts:
    """The corresponding ids of two cassettes, learnt while comparing.

    With `pseudonyms`, these correspond to each other as well: with two keys, they differ for the same secret.
    """

    def __init__(self, *, pseudonyms: bool) -> None:
        self._words = re.compile(f"{RUN_SPECIFIC_ID.pattern}|{ANY_PSEUDONYM.pattern}") if pseudonyms else None
        self._others: dict[str, str] = {}
        self._firsts: dict[str, str] = {}

    def match(self, path: str, first: Plain, other: Plain) -> bool:
        """Return True if two differing leaves differ only in ids that correspond to each other."""
        if not (isinstance(first, str) and isinstance(other, str)):
            return self._is_number_of(path, first, other)
        if _ID_PLACES.search(path) or self._others.get(first) == other:
            return self._pair([(first, other)])
        words = self._words or RUN_SPECIFIC_ID
        if words.split(first) != words.split(other):
            return self._is_number_of(path, first, other)
        return self._pair(list(zip(words.findall(first), words.findall(other), strict=True)))

    def _is_number_of(self, path: str, first: Plain, other: Plain) -> bool:
        """Return True if two values are pseudonyms that only the key of their place identifies."""
        name = path.rpartition(".")[2]
        if self._words is None or type(first) is not type(other):
            return False
        if not (kind_of_formed(first, name) and kind_of_formed(other, name)):
            return False
        return self._pair([(f"{name}={first}", f"{name}={other}")])

    def _pair(self, pairs: list[tuple[str, str]]) -> bool:
        fit = all(self._others.get(old, new) == new and self._firsts.get(new, old) == old for old, new in pairs)
        if fit:
            self._others.update(pairs)
            self._firsts.update((new, old) for old, new in pairs)
        return fit


def interaction_differences(
    first: Interaction, other: Interaction, ids: Counterparts, ignored: Ignored
) -> list[Difference]:
    """Return the differences of two interactions, first those between the requests."""

    def leaves() -> Iterator[tuple[str, Plain, Plain]]:
        if first.name != other.name:
            yield "name", first.name, other.name
        # Compare requests of equal fingerprints, too: they may differ in ids, which later records mention.
        yield from differing_leaves(ignored.stripped(first.request), ignored.stripped(other.request), "request")
        yield from _outcome_leaves(first.outcome, other.outcome, ignored)
        yield from _part_leaves(first, other, _PARTS)
        if first.acts is not None and other.acts is not None:  # the lines of code differ whenever it is edited
            yield from differing_leaves([one.what for one in first.acts], [one.what for one in other.acts], "acts")

    return _listed(leaves(), ids)


def step_differences(first: Step, other: Step, ids: Counterparts, ignored: Ignored) -> list[Difference]:
    """Return the differences of two steps."""
    name = [("name", first.name, other.name)] if first.name != other.name else []
    return _listed(iter([*name, *_part_leaves(first, other, (*_STEP_PARTS, *_PARTS), ignored)]), ids)


def plain_differences(path: str, first: Plain, other: Plain, ids: Counterparts, ignored: Ignored) -> list[Difference]:
    """Return the differences of two plain values."""
    return _listed(differing_leaves(ignored.stripped(first), ignored.stripped(other), path), ids)


def _listed(leaves: Iterator[tuple[str, Plain, Plain]], ids: Counterparts) -> list[Difference]:
    return [spelled(*leaf) for leaf in leaves if not ids.match(*leaf)]


def _part_leaves(
    first: Any, other: Any, parts: tuple[str, ...], ignored: Ignored | None = None
) -> Iterator[tuple[str, Plain, Plain]]:
    for part in parts:
        old, new = (_plain(getattr(record, part)) for record in (first, other))
        if ignored is not None:
            old, new = ignored.stripped(old), ignored.stripped(new)
        yield from differing_leaves(old, new, part)


def _plain(value: Any) -> Plain:
    return value.model_dump(exclude_defaults=True) if hasattr(value, "model_dump") else value


def _outcome_leaves(first: Outcome, other: Outcome, ignored: Ignored) -> Iterator[tuple[str, Plain, Plain]]:
    if first.status != other.status:
        yield "outcome", _summary(first), _summary(other)
        return
    for part in ("value", "ended", "error", "usage"):
        old, new = (ignored.stripped(_plain(getattr(outcome, part))) for outcome in (first, other))
        yield from differing_leaves(old, new, f"outcome.{part}")
    if first.chunks is not None and other.chunks is not None:
        yield from _stream_leaves(first.chunks, other.chunks, ignored)


def _stream_leaves(first: list[Plain], other: list[Plain], ignored: Ignored) -> Iterator[tuple[str, Plain, Plain]]:
    """Compare two streams as wholes: a reader wants the words, not the chunks that brought them."""
    if first == other:
        return
    old, new = (ignored.stripped(_together(chunks)) for chunks in (first, other))
    yield from differing_leaves(old, new, "outcome.chunks[*]")
    if len(first) != len(other):
        yield "outcome.chunks", counted(len(first), "chunk"), counted(len(other), "chunk")
    elif old == new:  # the same words, cut at other places
        yield from differing_leaves(ignored.stripped(first), ignored.stripped(other), "outcome.chunks")


def _together(chunks: list[Plain]) -> Plain:
    """Return chunks as one: concatenate the texts at each place, and list other values that differ, in order."""
    first = chunks[0] if chunks else None
    if all(isinstance(chunk, str) for chunk in chunks):
        return first if len({*chunks}) == 1 else "".join(chunks)
    if all(isinstance(chunk, dict) for chunk in chunks):
        keys = {key: None for chunk in chunks for key in chunk}
        return {key: _together([chunk[key] for chunk in chunks if key in chunk]) for key in keys}
    if all(isinstance(chunk, list) for chunk in chunks):
        longest = max(map(len, chunks))
        return [_together([chunk[n] for chunk in chunks if n < len(chunk)]) for n in range(longest)]
    different = {canonical_json(chunk): chunk for chunk in chunks}
    return first if len(different) == 1 else list(different.values())


def _summary(outcome: Outcome) -> Plain:
    """Return an outcome as one text: outcomes of different sorts cannot be compared piece by piece."""
    if outcome.error is not None and outcome.status == "raised":
        return f"raised {outcome.error.type}: {outcome.error.message}"
    if outcome.chunks is not None:
        return f"{outcome.status} {canonical_json(_together(outcome.chunks))}"
    if outcome.status == "cancelled":
        return "cancelled"
    if outcome.status == "refused":
        return f"refused {outcome.value}"
    return f"returned {canonical_json(outcome.value)}"
