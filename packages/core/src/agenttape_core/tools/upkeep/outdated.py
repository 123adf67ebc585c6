"""Cassettes with an older system prompt, or an older tool, than others of the same program.

A command does not run the program, so it does not know its prompt of today. What it can see is that cassettes disagree:
somebody changed the prompt, and recorded only some of them anew.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import datetime, timedelta
from difflib import SequenceMatcher
from typing import Literal, NamedTuple

from agenttape_core.matching.difference import differing_words
from agenttape_core.tools.upkeep.facts import Facts, Subject

_APART = timedelta(hours=1)
"""Recordings closer together than this come from one state of the program: their texts differ by design."""
_ALIKE = 0.6
"""The equal part of two prompts (`difflib`'s ratio) from which one is a later version of the other."""
_COMPARED = 500
"""Words of a prompt that are compared for that; it takes their square."""
_VERSIONS = 20
"""The limit above which texts are no versions of each other: some part of them is different each time."""


class Outdated(NamedTuple):
    """Something in a cassette that a later one has otherwise.

    Args:
        path: What the cassette is called.
        check: What is older.
        what: How it differs, for people.
    """

    path: str
    check: Literal["prompt", "tool"]
    what: str


def outdated_in(facts: Sequence[Facts]) -> Iterator[Outdated]:
    """Yield what cassettes hold of an older program than the newest recording that can be compared with them.

    A text is older than another one if it was last recorded more than an hour before the other one first was. So what
    differs by design, such as the name of a user, is no change as long as both forms are recorded together.

    Args:
        facts: What the cassettes say; one that does not say when it was recorded takes no part.
    """
    for (_, *tools), texts in _texts(facts, lambda each: each.prompts).items():
        where = f" with the tools {', '.join(tools)}" if tools else ""
        for old, new in _older(texts, _are_alike):
            yield Outdated(
                old.path, "prompt", f"older than the system prompt{where} in {new.path}: {_changed(old, new)}"
            )
    for (tool,), texts in _texts(facts, lambda each: each.tools).items():
        for old, new in _older(texts, lambda *_: True):
            yield Outdated(old.path, "tool", f"{tool} is older than in {new.path}: {_changed(old, new)}")


class _Use(NamedTuple):
    text: str
    created: datetime
    path: str


def _texts(
    facts: Sequence[Facts], held: Callable[[Facts], Mapping[Subject, set[str]]]
) -> Mapping[Subject, Mapping[str, list[_Use]]]:
    """Return the texts of all cassettes with who uses them, by their subject."""
    found: dict[Subject, dict[str, list[_Use]]] = {}
    for each in facts:
        if each.created is None:
            continue
        for subject, texts in held(each).items():
            for text in texts:
                found.setdefault(subject, {}).setdefault(text, []).append(_Use(text, each.created, each.path))
    return found


def _older(texts: Mapping[str, list[_Use]], is_version: Callable[[str, str], bool]) -> Iterator[tuple[_Use, _Use]]:
    """Yield each use of an older text with the latest use of the newest one that it is a version of."""
    if not 1 < len(texts) <= _VERSIONS:
        return
    latest = sorted((max(uses, key=_created) for uses in texts.values()), key=_created, reverse=True)
    for last in latest:
        for new in latest:
            first = min(texts[new.text], key=_created)
            if first.created - last.created > _APART and is_version(last.text, new.text):
                yield from ((use, new) for use in texts[last.text])
                break


def _created(use: _Use) -> datetime:
    return use.created


def _changed(old: _Use, new: _Use) -> str:
    return " / ".join(differing_words(old.text, new.text))


def _are_alike(old: str, new: str) -> bool:
    return SequenceMatcher(None, old.split()[:_COMPARED], new.split()[:_COMPARED], autojunk=False).ratio() >= _ALIKE
