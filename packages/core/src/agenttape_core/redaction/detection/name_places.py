"""The places of names in a text: of each word that may be one, and of two words such as `security code`."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from agenttape_core.redaction.detection import vocabulary
from agenttape_core.redaction.detection.lazy import Lazy
from agenttape_core.redaction.detection.names import Demand, demand_of
from agenttape_core.redaction.detection.normal import beyond_ascii
from agenttape_core.redaction.detection.views import VOCABULARY, places, places_among

if TYPE_CHECKING:
    from collections.abc import Iterator

    from agenttape_core.redaction.detection.names import Names
    from agenttape_core.redaction.detection.views import View, Window

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
_SECOND = {first: frozenset(last for one, last in _PAIRS if one == first) for first, _ in _PAIRS}


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


_NAMES = VOCABULARY.add(_sought)


def name_places(view: View, names: Names) -> list[int]:
    """Return where the names of a text are: where each has its stem or its first letter."""
    found: set[int] = set()
    for window in view.windows:
        parts = []
        for word, meanings in window.words:
            sought: _Sought | None = meanings[_NAMES]
            if sought and sought.part:
                parts.append(sought.part)
            if sought and sought.literal:
                found.update(at + sought.offset for at in _whole(view, word, sought.literal, window))
        for first in parts if len(parts) > 1 else ():
            for last in _SECOND.get(first, frozenset()).intersection(parts):
                pair, offset = f"{first} {last}".encode("latin-1"), len(first) + 1
                found.update(at + offset for at in places_among(view.low, pair, [window]))
    for own in names.own_words:
        found.update(places(view.low, own))
    if not view.text.isascii():
        found.update(_foreign(view.text))
    return sorted(found)


def _whole(view: View, word: bytes, literal: bytes, window: Window) -> Iterator[int]:
    """Yield where a literal is in a window with no more token characters behind its word."""
    for at in places(view.raw, literal, window.start, window.end + len(literal) - 1):
        end = at + len(word)
        if end == len(view.runs) or view.runs[end] != _TOKEN:
            yield at


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
