"""The differences between the outputs of two replays, and the way to show them."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import islice, zip_longest

from agenttape_core.experiments.verify.cause import Noise
from agenttape_core.experiments.verify.output import Output
from agenttape_core.matching import ABSENT, differing_key_orders, differing_leaves, is_identical
from agenttape_core.matching.difference import differing_words
from agenttape_core.redaction import Redactor
from agenttape_core.schema import Plain

_ADDRESS = re.compile(r"\b0x[0-9a-fA-F]{4,}\b")
_ID = re.compile(r"\b[0-9a-fA-F]{8}-?[0-9a-fA-F]{4}-?[0-9a-fA-F]{4}-?[0-9a-fA-F]{4}-?[0-9a-fA-F]{12}\b")
TAG = re.compile(r"\.\$(?!\$)\w+")
"""A tag of a value, such as `$tuple`: no step of the path that a reader would take."""
_MAX_PLACES = 20
_MAX_SHOWN = 2000
_MAX_VALUE = 300
_NOTHING = "(nothing)"
_HIDDEN = "(differs only in what is redacted)"


@dataclass(frozen=True, slots=True)
class Place:
    """One place where two replays differ.

    Args:
        aspect: What of the replay it is in, such as `stdout`.
        what: The place, such as `stdout, line 3` or `return value at $.items[3]`.
        first: What the first replay has there, redacted and shortened.
        other: What the other has there.
        noise: What the only difference of two texts is: a memory address, an id, or something else.
    """

    aspect: str
    what: str
    first: str
    other: str
    noise: Noise = ""


Pair = tuple[str, str, str, Noise]
"""The place, both values, and the noise."""


def places(first: Output, other: Output, redactor: Redactor) -> list[Place]:
    """Return the places where two replays differ, the ones that come first in a run first: at most a few per aspect.

    To those of the other one itself come those of the replays before it in its process.
    """
    found = _places(first, other, redactor)
    known = {place.what for place in found}
    for earlier in other.earlier:
        shown = replace(earlier, stdout=first.stdout, stderr=first.stderr, files=first.files)
        more = [place for place in _places(first, shown, redactor) if place.what not in known]
        known |= {place.what for place in more}
        found += more
    return found


def departures(one: Output, redactor: Redactor) -> list[Place]:
    """Return the places where a replay, or one before it in its process, departs from the recording."""
    if one.failed:  # which says more
        return []
    found = {what: pair for each in (one, *one.earlier) if not each.failed for what, pair in each.departures.items()}
    texts = ((what, *(redactor.text(printable(side)) for side in pair)) for what, pair in found.items())
    return [Place("recording", *_texts(what, recorded, now)) for what, recorded, now in texts]


def _places(first: Output, other: Output, redactor: Redactor) -> list[Place]:
    found: list[Place] = []
    for aspect, values, spell in _ASPECTS:
        pair = values(first), values(other)
        if not is_identical(*pair):
            hidden = (redactor.value(printable(side)) for side in pair)
            spelled = islice(spell(aspect, *hidden), _MAX_PLACES)
            found += [Place(aspect, *parts) for parts in spelled] or [Place(aspect, aspect, _HIDDEN, _HIDDEN)]
    return found


def printable(plain: Plain) -> Plain:
    """Return plain data whose strings can be printed: bytes that were no UTF-8 are escaped."""
    if isinstance(plain, str):
        return plain if plain.isascii() else plain.encode("utf-8", "backslashreplace").decode()
    if isinstance(plain, list):
        return [printable(item) for item in plain]
    return {printable(key): printable(item) for key, item in plain.items()} if isinstance(plain, dict) else plain


# -- what is shown of each aspect ------------------------------------------------------------------------------


def _outcomes(aspect: str, first: str, other: str) -> Iterator[Pair]:
    one_line = "\n" not in first + other
    if one_line and first.partition(":")[0] == other.partition(":")[0]:
        yield _texts(aspect, first, other)
    else:  # a miss explains itself, and one that raised stands beside one that returned
        yield aspect, first[:_MAX_SHOWN], other[:_MAX_SHOWN], ""


def _values(aspect: str, first: Plain, other: Plain) -> Iterator[Pair]:
    return _leaves(first, other, f"{aspect} at $")


def _calls(aspect: str, first: dict[str, list[str]], other: dict[str, list[str]]) -> Iterator[Pair]:
    for at in [*first, *(at for at in other if at not in first)]:
        old, new = first.get(at, [""]), other.get(at, [""])
        if old != new:  # the fingerprint is shown only if nothing else tells them apart
            shown = 2 if old[0] == new[0] else 1
            yield _texts(f"{aspect} at {at}", ", fingerprint ".join(old[:shown]), ", fingerprint ".join(new[:shown]))


def _named(_: str, first: dict[str, str], other: dict[str, str]) -> Iterator[Pair]:
    for name in [*first, *(name for name in other if name not in first)]:
        if first.get(name) != other.get(name):
            yield _texts(name, first.get(name), other.get(name))


def _orders(aspect: str, first: list[list[str]], other: list[list[str]]) -> Iterator[Pair]:
    none: list[str] = []
    for old, new in zip_longest(first, other, fillvalue=none):
        if old != new:
            yield _texts(aspect, " → ".join(old), " → ".join(new))


def _lines(aspect: str, first: str, other: str) -> Iterator[Pair]:
    """Only the first differing line: those after it mostly differ because of it."""
    pairs = zip_longest(first.splitlines(keepends=True), other.splitlines(keepends=True))
    for number, (old, new) in enumerate(pairs, start=1):
        if old != new:
            yield _texts(f"{aspect}, line {number}", old, new)
            return


def _files(_: str, first: dict[str, str], other: dict[str, str]) -> Iterator[Pair]:
    for name in sorted({*first, *other}):
        old, new = first.get(name), other.get(name)
        if old is None or new is None:
            yield f"file {name}", _presence(old), _presence(new), ""
        else:
            yield from _lines(f"file {name}", old, new)


def _presence(text: str | None) -> str:
    return "(absent)" if text is None else "(written)"


_Spell = Callable[..., Iterator[Pair]]
_ASPECTS: Sequence[tuple[str, Callable[[Output], Plain], _Spell]] = (
    ("outcome", lambda produced: produced.outcome, _outcomes),
    ("call", lambda produced: produced.calls, _calls),
    ("order of calls", lambda produced: produced.order, _orders),
    ("return value", lambda produced: produced.value, _values),
    ("stdout", lambda produced: produced.stdout, _lines),
    ("stderr", lambda produced: produced.stderr, _lines),
    ("file", lambda produced: produced.files, _files),
    ("report", lambda produced: produced.sessions, _named),
)
"""The aspects that are compared, in the order in which a run comes to them."""


def _leaves(first: Plain, other: Plain, path: str) -> Iterator[Pair]:
    """Yield the differing leaves of two plain values, then the mappings whose keys are in another order."""
    for at, old, new in differing_leaves(first, other, path):
        what = TAG.sub("", at)
        if isinstance(old, str) and isinstance(new, str):
            yield _texts(what, old, new)
        else:
            yield what, _shown(old), _shown(new), ""
    for at, old, new in differing_key_orders(first, other, path):
        what = f"order of keys in the {TAG.sub('', at)}"
        yield what, ", ".join(old)[:_MAX_VALUE], ", ".join(new)[:_MAX_VALUE], ""


def _texts(what: str, first: str | None, other: str | None) -> Pair:
    if not first or not other:
        return what, _shown(first or ABSENT), _shown(other or ABSENT), ""
    noise: Noise = ""
    if _ADDRESS.sub("", first) == _ADDRESS.sub("", other):
        noise = "address"
    elif _ID.sub("", first) == _ID.sub("", other):
        noise = "id"
    return what, *differing_words(first, other), noise


def _shown(value: Plain) -> str:
    if value is ABSENT:
        return _NOTHING
    text = value.replace("\n", "⏎") if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
    return text if len(text) <= _MAX_VALUE else f"{text[: _MAX_VALUE - 1]}…"
