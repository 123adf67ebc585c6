r"""A row of a table: a literal, the text around it, and the secret in that text.

To add a row, find the literal that each such text holds, write the pattern of what follows it, and give one example
with the secret in `⟦⟧` and one that looks like it and stays. The examples are the row's tests.

A text is split into parts and words once, for all rows: a literal is looked for only in the parts that have one of its
words; see `View.met`.

Patterns are linear: each repetition has a bound, and no two that may match the same characters stand side by side.
`\\{0,3}` before a quote is the escape of JSON within JSON.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from agenttape_core.lazy_patterns import Lazy
from agenttape_core.named_tuples import NamedTuple
from agenttape_core.redaction.detection.findings import SECRET
from agenttape_core.redaction.detection.values import is_alternating, is_placeholder, is_type_name, satisfies
from agenttape_core.redaction.detection.views import VOCABULARY, holds, places

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Iterator, Sequence

    from agenttape_core.redaction.detection.findings import Finding
    from agenttape_core.redaction.detection.names import Names
    from agenttape_core.redaction.detection.views import View

QUOTED = r"""\\{0,3}(?P<quote>["'`])(?P<secret>(?:(?!(?P=quote))[^\\\n]){1,256}+)\\{0,3}(?P=quote)"""
"""A secret in quotes."""
TEXT = r"""\\{0,3}(?:"[^"\n]{0,200}+"|'[^'\n]{0,200}+')"""
"""Another text in quotes."""
WORD = r"""(?P<quote>\\{0,3}["'])?(?P<secret>(?(quote)[^"'\\\n]{1,256}|(?!-)[^\s"'\\;|&<>()`]{3,256}))"""
"""A secret as a word of a command, in quotes or not."""
SPACE = r"(?:\s|\\n){0,40}"
"""Blanks and line breaks in code, which JSON may have escaped."""

_REACH = 240
"""The number of characters that `before` sees."""
_SIGN, _DIGIT_OR_SIGN = Lazy("[!@#$%^&*?]"), Lazy("[0-9!@#$%^&*?]")
_STANDARD = Lazy(r"[A-Z]{2,8}-?\d{1,5}|\d{1,4}[-/.]\d{1,2}[-/.]\d{1,4}\S*|\S*(?:://|\.\w{2,4}/)\S*")
"""`RFC-4226`, a date, or an address."""
_LEAST_DIGITS = 3
_NAME = re.compile(r"[^\W\d][\w-]*")
_WORD = re.compile(rb"[A-Za-z0-9_]+")
_COMMON = frozenset(b"a as at by code for from in is key my new of or secret secrets target the to with your".split())
"""Words that are in more texts than others of their literals."""


_OF_PARTS = bytes(byte if _WORD.match(bytes([byte])) else ord(" ") for byte in range(256))
_NO_PARTS = frozenset[bytes]()


class Row(NamedTuple):
    """One way in which text gives a secret away.

    Args:
        literals: Each such text holds one of them; in small letters, unless `exact`.
        after: What follows the literal. The secret is the group `secret` in it, or in `before`. If there's a group
            `name`, it must be denied.
        before: What stands before the literal, up to its end, within 240 characters; nothing in particular by default.
        is_secret: Whether a finding is a secret. Placeholders never are.
        words: The words of which each such text has one, each with a literal to look for there.
        exact: Whether the literals are meant as they are written, in capitals.
        found: A text with the secret in `⟦⟧`.
        kept: A text that looks like it, and has none.
    """

    literals: tuple[bytes, ...]
    after: Lazy[str]
    before: Lazy[str] | None
    is_secret: Callable[[str], bool]
    words: frozenset[tuple[bytes, bytes]]
    exact: bool
    found: str
    kept: str

    def find(self, view: View, names: Names, literal: bytes, starts: Iterable[int]) -> Iterator[Finding]:
        """Find the secrets of this row in a text, at the places of one of its literals."""
        done, text = 0, view.text
        for start in starts:
            behind = self.after.match(text, start + len(literal)) if start >= done else None
            if behind is None:
                continue
            first = max(0, start - _REACH)
            part = text[first:start]
            ahead = self.before.search(part) if self.before else None
            if self.before and ahead is None and "\\" in part:  # a line in JSON begins behind its line break or tab
                ahead = self.before.search(part.replace("\\n", " \n").replace("\\r", " \r").replace("\\t", " \t"))
            if self.before and ahead is None:
                continue
            found = {**_groups(ahead, first), **_groups(behind, 0)}
            secret = text[slice(*found["secret"])]
            if is_placeholder(secret) or not self.is_secret(secret):
                continue
            if "name" not in found or _is_denied(text[slice(*found["name"])], secret, names):
                done = behind.end()
                yield view.finding(*found["secret"], SECRET)


def _groups(match: re.Match[str] | None, at: int) -> dict[str, tuple[int, int]]:
    """Return the spans of the groups of a match in a text, in which the searched part begins at a position."""
    return {name: (match.start(name) + at, match.end(name) + at) for name in match.re.groupindex} if match else {}


def _is_denied(place: str, value: str, names: Names) -> bool:
    """Return True if a value is a secret in a field, which is named by its place: `login.passwords.0`."""
    demand = names.demand_of(next(iter(reversed(_NAME.findall(place))), ""))
    return demand is not None and satisfies(value, demand)


def row(
    literals: str | tuple[str, ...],
    after: str,
    found: str,
    kept: str,
    *,
    before: str = "",
    is_secret: Callable[[str], bool] | None = None,
    words: str = "",
    exact: bool = False,
) -> Row:
    """Return a `Row`: by default its words are the longest of its literals, and whatever is found is a secret."""
    literals = (literals,) if isinstance(literals, str) else literals
    encoded = tuple(literal.encode("latin-1") for literal in literals)
    given = [word.encode() for word in (words.upper() if exact else words).split()]
    others = [one for one in given if not any(_is_of(one, literal) for literal in encoded)] or given
    of_word = {
        (word, literal)
        for literal in encoded
        for word in [one for one in given if _is_of(one, literal)] or others or [_longest_word(literal)]
    }
    before_it = Lazy(before + r"\Z") if before else None
    return Row(encoded, Lazy(after), before_it, is_secret or is_any, frozenset(of_word), exact, found, kept)


def _is_of(word: bytes, literal: bytes) -> bool:
    """Return True if a word that a row names is one for this of its literals."""
    return word in literal or any(part in word for part in _WORD.findall(literal))


def _longest_word(literal: bytes) -> bytes:
    return max(_WORD.findall(literal), key=lambda word: (word not in _COMMON, len(word)), default=literal)


def _shared(part: bytes, literals: Collection[bytes]) -> bytes:
    """Return the longest text around a part that all of some literals hold, in small letters."""
    if len(literals) == 1:
        return next(iter(literals)).lower()
    sides = [literal.lower().partition(part) for literal in literals]
    return _common([left[::-1] for left, _, _ in sides])[::-1] + part + _common([right for _, _, right in sides])


def _common(texts: Sequence[bytes]) -> bytes:
    """Return the longest beginning of all of some texts."""
    first, last = min(texts), max(texts)
    return next((first[:at] for at in range(len(first)) if first[at : at + 1] != last[at : at + 1]), first)


class Tables:
    """Rows, by the words of which their texts have one."""

    def __init__(self, rows: Iterable[Row]) -> None:
        self.rows = tuple(rows)
        self._rows: dict[bytes, list[Row]] = {}
        of_word: dict[bytes, set[bytes]] = {}
        of_part: dict[bytes, set[bytes]] = {}
        for each in self.rows:
            for literal in each.literals:
                self._rows.setdefault(literal, []).append(each)
            for word, literal in each.words:
                part = (word if word in literal else _longest_word(literal)).lower()
                of_word.setdefault(word, set()).add(part)
                of_part.setdefault(part, set()).add(literal)
        shared = {part: _shared(part, literals) for part, literals in of_part.items()}
        self._parts = {word: frozenset(shared[part] for part in parts) for word, parts in of_word.items()}
        """The parts of literals to look for where a word is: often the word, and the text around it that they share."""
        self._literals: dict[bytes, tuple[tuple[bytes, ...], list[tuple[bytes, int, bool]]]] = {}
        """The ends of the literals that hold a part; and each literal, where the part is in it, and if it's `exact`."""
        for part, literals in of_part.items():
            known = self._literals.get(shared[part], ((), []))[1]
            backs = [(one, one.lower().find(shared[part]), one != one.lower()) for one in sorted(literals)]
            known += [each for each in backs if each not in known]
            self._literals[shared[part]] = tuple({one.lower()[back:] for one, back, _ in known}), known
        self._signs = [word for word in self._parts if not _WORD.match(word)]
        self._reader = VOCABULARY.add(self._meant, self._parts)

    def near(self, view: View) -> Iterator[tuple[Row, bytes, Sequence[int]]]:
        """Yield the rows of which a text has a literal, with each of their literals and its places."""
        found: dict[bytes, set[int]] = {}
        met = [(each.start, each.end, each.meaning) for each in view.met[self._reader]]
        met += [(0, len(view.raw), self._parts[sign]) for sign in self._signs if holds(view.raw, sign)]
        for start, end, part in {(start, end, part) for start, end, parts in met for part in parts}:
            ends, literals = self._literals[part]
            for at in places(view.low, part, max(0, start - _REACH), end + _REACH):  # of words that are in `before`
                if not view.low.startswith(ends, at):
                    continue
                for literal, back, is_exact in literals:
                    if at >= back and (view.raw if is_exact else view.low).startswith(literal, at - back):
                        found.setdefault(literal, set()).add(at - back)
        for literal, starts in found.items():
            for each in self._rows[literal]:
                yield each, literal, sorted(starts)

    def _meant(self, word: bytes) -> frozenset[bytes]:
        """Return the parts of literals to look for where a word of a text is one, or has one between hyphens."""
        words = word.lower().translate(_OF_PARTS).split()
        if word.isupper():
            words += word.translate(_OF_PARTS).split()
        parts = self._parts.keys() & words
        return frozenset[bytes]().union(*[self._parts[part] for part in parts]) if parts else _NO_PARTS

    def find(self, view: View, names: Names) -> Iterator[Finding]:
        """Find the secrets of all rows in a text; the names that are denied decide about those that have one."""
        for each, literal, at in self.near(view):
            yield from each.find(view, names, literal, at)


def is_any(_: str) -> bool:
    """Return True: whatever stands there is a secret."""
    return True


def has_digit_or_sign(secret: str) -> bool:
    """Return True if there is a digit or a sign, as no word has."""
    return _DIGIT_OR_SIGN.search(secret) is not None


def is_credential(secret: str) -> bool:
    """Return True if there is a letter, and a digit or a sign."""
    return has_digit_or_sign(secret) and any(map(str.isalpha, secret))


def is_community(secret: str) -> bool:
    """Return True for a community of SNMP, unless it's one of those that devices come with."""
    return secret not in ("public", "private")


def is_no_number(secret: str) -> bool:
    """Return True if there is more than digits: a port, a date, a count."""
    return not secret.isdigit()


def is_made_up(secret: str) -> bool:
    """Return True if letters and digits alternate, or if there is a digit and a sign."""
    return is_alternating(secret) or (has_digit_or_sign(secret) and _SIGN.search(secret) is not None)


def is_said(secret: str) -> bool:
    """Return True if a word of a sentence is no English: `Zebra-4471`, but not `SHA-256`, `v2.1` or a date."""
    bare = secret.rstrip(".!?)")
    if any(map(is_type_name, bare.split("-"))) or _STANDARD.fullmatch(bare) or not any(map(str.isalpha, bare)):
        return False
    return is_made_up(bare) or sum(map(str.isdigit, bare)) >= _LEAST_DIGITS
