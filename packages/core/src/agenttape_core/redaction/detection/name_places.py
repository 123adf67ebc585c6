"""The places of names in a text: of each word that may be one, and of two words such as `security code`."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from agenttape_core.redaction.detection import vocabulary
from agenttape_core.redaction.detection.lazy import Lazy
from agenttape_core.redaction.detection.names import Demand, demand_of
from agenttape_core.redaction.detection.normal import beyond_ascii
from agenttape_core.redaction.detection.views import Known, places

if TYPE_CHECKING:
    from collections.abc import Iterator

    from agenttape_core.redaction.detection.names import Names
    from agenttape_core.redaction.detection.views import View

_LONGEST = 64
_TOKEN = ord("a")
"""A token character in `View.runs`."""
_LETTER = Lazy(r"[^\W\d_]")
_FOREIGN_LETTER = Lazy("[" + "".join(sorted({max(word) for word in vocabulary.FOREIGN})) + "]")
"""One letter of each word that Latin-1 cannot hold: one search tells that there is none."""
_FOREIGN = [(word, beyond_ascii(word)) for word in vocabulary.FOREIGN]
"""These words, and their letters beyond ASCII: a text without those need not be searched."""
_ENDS = frozenset(word[-3:] for word in vocabulary.LAST_WORDS)
_PAIRS = frozenset(
    (first, last)
    for last, demand in ((last, demand_of(last)) for last in vocabulary.SECOND_WORDS if last.isascii())
    for first in vocabulary.FIRST_WORDS
    if first.isascii() and demand_of(f"{first} {last}") is not demand
)
_OF_PAIRS = frozenset(word for pair in _PAIRS for word in pair)


class _Sought(NamedTuple):
    """A literal that is looked for where a word may be a name.

    Args:
        literal: What is written there; empty if the word is none.
        offset: Where in it the name has its stem, or its first letter.
        part: The word in small letters, if it may be one of two that are a name.
    """

    literal: bytes
    offset: int
    part: str


def _sought(word: bytes) -> _Sought | None:
    if len(word) > _LONGEST:
        return None
    written = word.decode("latin-1").rstrip("(")
    small = written.lower()
    part = small if small in _OF_PAIRS else ""
    name = written.strip("_-").rstrip("0123456789")
    letter, demand = None, None
    if name[-3:].lower() in _ENDS or name[-2:].lower() in _ENDS:
        letter, demand = _LETTER.search(written), demand_of(name)
    if demand is None or letter is None:
        return _Sought(b"", 0, part) if part else None
    stems = [at for stem in vocabulary.STEMS if (at := small.find(stem.decode())) >= 0]
    return _Sought(word + b"=" if demand is Demand.QUERIED else word, min(stems, default=letter.start()), part)


_SOUGHT = Known(_sought)


def name_places(view: View, names: Names) -> list[int]:
    """Return where the names of a text are: where each has its stem or its first letter."""
    found: set[int] = set()
    parts, runs, size = set(), view.runs, len(view.runs)
    for word, sought in _SOUGHT.among(view.words):
        parts.add(sought.part)
        for at in view.places(word.lower()) if sought.literal else ():
            end = at + len(word)
            if (end == size or runs[end] != _TOKEN) and view.raw.startswith(sought.literal, at):
                found.add(at + sought.offset)
    for first, last in _PAIRS if len(parts) > 1 else ():
        if first in parts and last in parts:
            pair, offset = f"{first} {last}".encode("latin-1"), len(first) + 1
            found.update(at + offset for at in view.places(first.encode("latin-1")) if view.low.startswith(pair, at))
    for own in names.own_words:
        found.update(places(view.low, own))
    if not view.text.isascii():
        found.update(_foreign(view.text))
    return sorted(found)


def holds_foreign(text: str) -> bool:
    """Return True if a text may hold one of the words that Latin-1 has no letters for."""
    return _FOREIGN_LETTER.search(beyond_ascii(text)) is not None


def _foreign(text: str) -> Iterator[int]:
    beyond = beyond_ascii(text)
    for word, letters in _FOREIGN if _FOREIGN_LETTER.search(beyond) else ():
        at = text.find(word) if letters in beyond else -1
        while at >= 0:
            yield at
            at = text.find(word, at + len(word))
