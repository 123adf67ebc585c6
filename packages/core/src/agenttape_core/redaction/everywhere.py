"""A secret that was found once in a run, replaced wherever else it is in that run.

`{"session_token": "k3x9pz"}` gives a secret away, and the sentence of a later prompt that holds it doesn't. Parallel
branches come in another order in each run, so nothing here depends on it: a recording is searched when it's over, and a
replay aligns a request that has no recording with those that have pseudonyms (decision 147).
"""

from __future__ import annotations

import itertools
import json
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Any, TypeVar, cast
from urllib.parse import quote

from agenttape_core.lazy_patterns import Lazy
from agenttape_core.redaction.detection.findings import NUMBER, SECRET, Span
from agenttape_core.redaction.forms import is_pseudonym
from agenttape_core.redaction.pseudonyms import FORMED, OF_SECRET, PSEUDONYM, WHOLE, with_commas
from agenttape_core.redaction.streams import redact_chunks
from agenttape_core.redaction.walk import Replacer, redact_value

if TYPE_CHECKING:
    from agenttape_core.schema import Plain

T = TypeVar("T")
Path = tuple[str | int, ...]
"""The place of a part in plain data."""
Replacement = Callable[[str, str], str]
"""Makes the pseudonym of a kind and a secret."""

_LONG, _MIXED, _LEAST_DIGITS, _LEAST_VARIED = 12, 6, 6, 4
_ANYWHERE = 16
"""So long a secret is replaced within a longer word, too."""
_NUMBER = Lazy(r"-?(?:\d+(?:\.\d+)?|\d{1,3}(?:,\d{3})+)")
_WORD = re.compile(rb"[A-Za-z0-9_]+")
_HELD = Lazy(re.sub(r"\(\?P<\w+>", "(?:", PSEUDONYM.pattern) + "|" + FORMED)
"""A pseudonym in a recorded request that the detectors may not have found the secret of."""
_MOST_PSEUDONYMS, _MOST_ENDS, _LONGEST = 200, 16, 4_096


def is_telling(secret: str) -> bool:
    """Return True if a text is too special to be anywhere by chance: `hunter2`, and not `Paris`, `true` or `20000`."""
    if _NUMBER.fullmatch(secret):
        return sum(map(str.isdigit, secret)) >= _LEAST_DIGITS and len({*secret} - {","}) >= _LEAST_VARIED
    has_digit, has_letter = any(map(str.isdigit, secret)), any(map(str.isalpha, secret))
    if any(map(str.isspace, secret)) and not has_digit:
        return False  # words of a sentence
    return len(secret) >= _LONG or (len(secret) >= _MIXED and has_digit and has_letter)


class Everywhere:
    """Replaces secrets wherever they are: in texts, keys and numbers, also as JSON and addresses write them."""

    def __init__(self, secrets: Mapping[str, str], pseudonym: Replacement) -> None:
        self._forms = {
            form: pseudonym(SECRET if kind == NUMBER and "," in form else kind, form)
            for secret, kind in secrets.items()
            for form in _written(secret)
            if is_telling(form)
        }
        longest_first = sorted(self._forms, key=lambda form: (-len(form), form))
        self._replacer = Replacer(self._spans, self._number, in_bytes=True)
        self._pattern = re.compile("|".join(map(_bordered, longest_first)) or r"(?!)")

    def __bool__(self) -> bool:
        return bool(self._forms)

    def are_in(self, lines: bytes) -> bool:
        """Return True if lines of JSON in ASCII may hold one of the secrets: as it is, or in the chunks of a stream."""
        if not self._forms or b'"chunks":' in lines:
            return bool(self._forms)
        words = set(_WORD.findall(lines))
        encoded = (json.dumps(form)[1:-1].encode() for form in self._forms)
        return any(words.issuperset(_WORD.findall(form)[1:-1]) and lines.find(form) >= 0 for form in encoded)

    def value(self, plain: T) -> T:
        """Return plain data with all of them replaced; the very same object where there is none."""
        return cast("T", redact_value(plain, self._replacer)) if self._forms else plain

    def chunks(self, chunks: list[Plain]) -> list[Plain]:
        """Return the chunks of a stream with all of them replaced, those that are split between chunks, too."""
        return redact_chunks(chunks, self._replacer) if self._forms else chunks

    def _spans(self, text: str) -> list[Span]:
        return [Span(*found.span(), self._forms[found[0]]) for found in self._pattern.finditer(text)]

    def _number(self, number: float) -> Any:
        text = repr(number)
        made = self._forms.get(text) or self._forms.get(text.removesuffix(WHOLE))
        if made is None or not _NUMBER.fullmatch(made):
            return made or number
        found = type(number)(made)
        return found if repr(found).startswith(made) else number  # a long fraction isn't exact


def _written(secret: str) -> Iterator[str]:
    """Yield a secret as texts, JSON, addresses and, if it's a whole number, people write it."""
    quoted = (quote(secret, safe=safe, errors="surrogatepass") for safe in ("", "/"))
    yield from dict.fromkeys((secret, json.dumps(secret)[1:-1], *quoted, with_commas(secret)))


def _bordered(form: str) -> str:
    if len(form) >= _ANYWHERE:
        return re.escape(form)
    return rf"(?<![A-Za-z0-9]){re.escape(form)}(?![A-Za-z0-9])"


def places_of(recorded: Any, path: Path = ()) -> Iterator[tuple[Path, Any]]:
    """Yield the parts of recorded data that may hold the pseudonym of a secret that only a name gave away."""
    if isinstance(recorded, dict):
        if any(map(OF_SECRET.search, recorded)):
            yield path, recorded
            return
        for key, item in recorded.items():
            yield from places_of(item, (*path, key))
    elif isinstance(recorded, list):
        for number, item in enumerate(recorded):
            yield from places_of(item, (*path, number))
    elif isinstance(recorded, str | int | float) and OF_SECRET.search(str(recorded)):
        yield path, recorded


def told(recorded: Iterable[tuple[Path, Any]], asked: Any, pseudonym: Replacement) -> dict[str, str]:
    """Return the secrets, with their kinds, that a request has where a recorded one has their pseudonyms.

    It's a secret only if its pseudonym is that very one, so that nothing is taken for a secret by chance.
    """
    return dict(found for path, part in recorded for found in _told(part, _at(asked, path), pseudonym))


def _at(plain: Any, path: Path) -> Any:
    try:
        for step in path:
            plain = plain[step]
    except (LookupError, TypeError):
        return None
    return plain


def _told(recorded: Any, asked: Any, pseudonym: Replacement) -> Iterator[tuple[str, str]]:
    if recorded is asked or recorded == asked:
        return
    if isinstance(recorded, str) and isinstance(asked, str):
        yield from _of_text(recorded, asked, pseudonym)
    elif isinstance(recorded, dict) and isinstance(asked, dict):
        for key in recorded.keys() & asked.keys():
            yield from _told(recorded[key], asked[key], pseudonym)
        others = ([key for key in one if key not in other] for one, other in ((recorded, asked), (asked, recorded)))
        for old, new in zip(*others, strict=False):
            yield from _of_text(old, new, pseudonym)
            yield from _told(recorded[old], asked[new], pseudonym)
    elif isinstance(recorded, list) and isinstance(asked, list):
        for old, new in zip(recorded, asked, strict=False):
            yield from _told(old, new, pseudonym)
    elif _is_number(recorded) and _is_number(asked):
        pairs = ((repr(asked).removesuffix(end), repr(recorded).removesuffix(end)) for end in ("", WHOLE))
        yield from ((secret, NUMBER) for secret, made in pairs if pseudonym(NUMBER, secret) == made)


def _of_text(recorded: str, asked: str, pseudonym: Replacement) -> Iterator[tuple[str, str]]:
    held = list(itertools.islice(_HELD.finditer(recorded), _MOST_PSEUDONYMS))
    found, at, last = [], 0, 0
    for number, mark in enumerate(held):
        before = recorded[last : mark.start()]
        if not asked.startswith(before, at):
            return
        at, last = at + len(before), mark.end()
        follows = recorded[last : held[number + 1].start()] if number + 1 < len(held) else None
        kind = _kind(mark[0])
        for end in _ends(asked, at, follows if follows is not None else recorded[last:], is_last=follows is None):
            part = asked[at:end]
            if part == mark[0] or pseudonym(kind, part) == mark[0]:
                found += [(part, kind)] if part != mark[0] else []
                at = end
                break
        else:
            return
    if asked[at:] == recorded[last:]:
        yield from found


def _ends(text: str, at: int, follows: str, *, is_last: bool) -> Iterator[int]:
    """Yield where a secret may end in a text: before what follows it."""
    if is_last:
        if text.endswith(follows) and at < len(text) - len(follows) <= at + _LONGEST:
            yield len(text) - len(follows)
        return
    for _ in range(_MOST_ENDS if follows else 0):
        end = text.find(follows, at + 1, at + _LONGEST)
        if end < 0:
            return
        yield end
        at = end


def _kind(pseudonym: str) -> str:
    found = PSEUDONYM.fullmatch(pseudonym)
    if found:
        return found["kind"].lower()
    return NUMBER if is_pseudonym(NUMBER, pseudonym) else SECRET


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)
