r"""A row of a table: a literal, the text around it, and the secret in that text.

To add a row, find the literal that each such text holds, write the pattern of what follows it, and give one example
with the secret in `⟦⟧` and one that looks like it and stays. The examples are the row's tests.

A text is split into words once, for all rows: a row is looked at only if one of its words is among them. Digits and
underscores are part of a word; `View.words` has them in small letters.

Patterns are linear: each repetition has a bound, and no two that may match the same characters stand side by side.
`\\{0,3}` before a quote is the escape of JSON within JSON.
"""

from __future__ import annotations

import re
from collections import Counter
from typing import TYPE_CHECKING, NamedTuple

from agenttape_core.redaction.detection.findings import SECRET
from agenttape_core.redaction.detection.lazy import Lazy
from agenttape_core.redaction.detection.values import is_alternating, is_placeholder, is_type_name
from agenttape_core.redaction.detection.views import Known, places

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

    from agenttape_core.redaction.detection.findings import Finding
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
_LEAST_SHARED = 6
"""A shorter word is in too many others to be looked for."""
_WORD = re.compile(rb"[A-Za-z0-9_]+")
_WHOLE_WORD = re.compile(rb"(?<![A-Za-z0-9_])[A-Za-z0-9_]+(?:\(|(?=[^A-Za-z0-9_(]))")
"""A word with something else behind it in a literal, so that it's a word of the text, too."""


class Row(NamedTuple):
    """One way in which text gives a secret away.

    Args:
        literals: Each such text holds one of them; in small letters, unless `exact`.
        after: What follows the literal. The secret is the group `secret` in it, or in `before`.
        before: What stands before the literal, up to its end, within 240 characters; nothing in particular by default.
        is_secret: Whether what was found is a secret. Placeholders never are.
        words: The literals to look for, by the words of which each such text has one.
        needs: The words that a text must have, all of them, by the literals that are made of more than one word.
        exact: Whether the literals are meant as they are written, in capitals.
        found: A text with the secret in `⟦⟧`.
        kept: A text that looks like it, and has none.
    """

    literals: tuple[bytes, ...]
    after: Lazy
    before: Lazy | None
    is_secret: Callable[[str], bool]
    words: Mapping[bytes, frozenset[bytes]]
    needs: Mapping[bytes, frozenset[bytes]]
    exact: bool
    found: str
    kept: str

    def find(self, view: View, literals: Iterable[bytes], at: Mapping[bytes, Sequence[int]] = {}) -> Iterator[Finding]:
        """Find the secrets of this row in a text.

        Args:
            view: The text.
            literals: Those of the row's literals that are looked for.
            at: Where they are, as far as that is known.
        """
        for literal in literals:
            done = 0
            found = at[literal] if literal in at else places(view.raw if self.exact else view.low, literal)
            for start in found:
                behind = self.after.match(view.text, start + len(literal)) if start >= done else None
                span = None if behind is None else self._secret(view.text, start, behind)
                if behind is None or span is None:
                    continue
                secret = view.text[slice(*span)]
                if not is_placeholder(secret) and self.is_secret(secret):
                    done = behind.end()
                    yield view.finding(*span, SECRET)

    def _secret(self, text: str, at: int, behind: re.Match[str]) -> tuple[int, int] | None:
        if self.before is None:
            return behind.span("secret")
        first = max(0, at - _REACH)
        ahead = self.before.search(text[first:at])
        if ahead is None:
            return None
        if "secret" in behind.re.groupindex:
            return behind.span("secret")
        return first + ahead.start("secret"), first + ahead.end("secret")


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
    """Return a row; see `Row`.

    Args:
        literals: As in `Row`.
        after: Likewise, as a regular expression.
        found: Likewise.
        kept: Likewise.
        before: Likewise, as a regular expression.
        is_secret: Likewise; whatever stands there by default.
        words: Words of which each such text has one, or signs, separated by blanks; by default the longest word of
            each literal.
        exact: As in `Row`.
    """
    literals = (literals,) if isinstance(literals, str) else literals
    encoded = tuple(literal.encode("latin-1") for literal in literals)
    given = [word.encode() for word in (words.upper() if exact else words).split()]
    of_word = {word: frozenset(lit for lit in encoded if _is_of(word, lit)) or frozenset(encoded) for word in given}
    for literal in () if words else encoded:
        word = max(_WORD.findall(literal), key=len)
        word += b"(" if literal.endswith(word + b"(") else b""
        of_word[word] = of_word.get(word, frozenset()) | {literal}
    needs = {
        literal: frozenset(
            found[0] for found in _WHOLE_WORD.finditer(literal) if found.start() or not _is_end(found[0], given)
        )
        for literal in encoded
    }
    before_it = Lazy(before + r"\Z") if before else None
    return Row(encoded, Lazy(after), before_it, is_secret or is_any, of_word, needs, exact, found, kept)


def _is_of(word: bytes, literal: bytes) -> bool:
    """Return True if a word that a row names is one for this of its literals."""
    return word in literal or any(part in word for part in _WORD.findall(literal))


def _is_end(part: bytes, words: Sequence[bytes]) -> bool:
    """Return True if the first part of a literal may be the end of a word, by the words that its row names."""
    return part.endswith(b"(") or any(word.endswith(part) and word != part for word in words)


class Tables:
    """Rows, by the words of which their texts have one.

    Args:
        rows: The rows.
    """

    def __init__(self, rows: Iterable[Row]) -> None:
        self.rows = tuple(rows)
        self._words_of = {lit: _WORD.findall(lit.lower()) for each in self.rows for lit in each.literals}
        self._shared = _shared_words(self._words_of)
        self._of_word: dict[bytes, list[tuple[Row, bytes, frozenset[bytes]]]] = {}
        for each in self.rows:
            for word, literals in each.words.items():
                looked_for = ((each, literal, each.needs[literal]) for literal in each.literals if literal in literals)
                self._of_word.setdefault(word, []).extend(looked_for)
        self._words = frozenset(self._of_word).union(*(need for each in self.rows for need in each.needs.values()))
        self._signs = [word for word in self._words if not word[:1].isalnum()]
        self._known = Known(self._meant)

    def near(self, view: View) -> Iterator[tuple[Row, list[bytes]]]:
        """Yield the rows of which a text has a word, with the literals that it may have."""
        known = frozenset[bytes]().union(*(meant for _, meant in self._known.among(view.words)))
        known = known.union(sign for sign in self._signs if sign in view.raw)
        found: dict[int, tuple[Row, dict[bytes, None]]] = {}
        for word in known:
            for each, literal, needs in self._of_word.get(word, ()):
                if needs <= known:
                    found.setdefault(id(each), (each, {}))[1][literal] = None
        return ((each, list(literals)) for each, literals in found.values())

    def _meant(self, word: bytes) -> frozenset[bytes] | None:
        """Return the words of rows that a word of a text is, or has between hyphens."""
        parts = _WORD.findall(word) + _WORD.findall(word.lower())
        called = (parts[-1] + b"(",) if parts and word.endswith(b"(") else ()
        return self._words.intersection((*parts, *called)) or None

    def literals(self, view: View) -> Iterator[bytes]:
        """Yield the literals of all rows that a text may have."""
        for _, literals in self.near(view):
            yield from literals

    def find(self, view: View) -> Iterator[Finding]:
        """Find the secrets of all rows in a text."""
        of_literal: dict[bytes, Sequence[int]] = {}
        for each, literals in self.near(view):
            at = {literal: self._places(view, literal, each, of_literal) for literal in literals}
            yield from each.find(view, literals, at)

    def _places(self, view: View, literal: bytes, row: Row, found: dict[bytes, Sequence[int]]) -> Sequence[int]:
        """Return where a literal is in a text: where a word of it is that was, or will be, looked for anyway."""
        if literal in found:
            return found[literal]
        searched = view.raw if row.exact else view.low
        word = next((word for word in self._words_of[literal] if word in view.found), self._shared.get(literal))
        if word is None:
            at = places(searched, literal)
        else:
            offset = literal.lower().index(word)
            first = (at - offset for at in view.places(word) if at >= offset)
            at = [at for at in first if searched.startswith(literal, at)]
        found[literal] = at
        return at


def _shared_words(words_of: Mapping[bytes, Sequence[bytes]]) -> dict[bytes, bytes]:
    """Return a word of each literal that so many others have, too, that it's better looked for once."""
    counts = Counter(word for found in words_of.values() for word in {*found} if len(word) >= _LEAST_SHARED)
    best = {literal: max(found, key=lambda word: (counts[word], word)) for literal, found in words_of.items() if found}
    return {literal: word for literal, word in best.items() if counts[word] > 1}


def is_any(_: str) -> bool:
    """Return True: whatever stands there is a secret."""
    return True


def has_digit_or_sign(secret: str) -> bool:
    """Return True if there is a digit or a sign, as no word has."""
    return _DIGIT_OR_SIGN.search(secret) is not None


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
