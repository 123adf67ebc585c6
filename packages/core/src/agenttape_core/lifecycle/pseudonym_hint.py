"""A hint for a program that fails: pseudonyms that a replay has served and could not put back."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from agenttape_core.errors import CassetteError
from agenttape_core.session import Session, Source

_ENOUGH = 1000
"""So many served calls are looked at: the note is a hint."""


def note_of_unrestored(session: Session, source: Source) -> str | None:
    """Return a note for an exception that leaves a replay; `None` if the program has seen no pseudonym.

    Args:
        session: The session of the replay.
        source: The recordings that it has served. Once it has written others, these have other numbers.
    """
    kinds: set[str] = set()
    for crossed in session.report.replayed[:_ENOUGH]:
        try:
            outcome = source.outcome(crossed.number)
        except CassetteError:
            continue  # of which the program has been told
        parts = [outcome.value, outcome.chunks, outcome.error and dict(outcome.error)]
        kinds.update(_kinds(session.redactor.rehydrate(parts), ""))
    if not kinds:
        return None
    return (
        f"this replay has served pseudonyms that it could not put back ({', '.join(sorted(kinds))}), since no request"
        " of this run held what they stand for; if the program fails on one of them, record with made-up data, or"
        f" keep secrets of that kind: redaction_off={sorted(kinds)}"
    )


def _kinds(value: Any, name: str) -> Iterator[str]:
    from agenttape_core.redaction.recognition import kind_of_formed, kinds_in

    if isinstance(value, dict):
        for key, item in value.items():
            yield from _kinds(item, key)
    elif isinstance(value, list):
        for item in value:
            yield from _kinds(item, name)
    elif formed := kind_of_formed(value, name):
        yield formed
    elif isinstance(value, str):
        yield from kinds_in(value)
