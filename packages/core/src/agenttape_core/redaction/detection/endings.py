"""Names that no stem finds, such as `pin`, `jwt` or `DB_PW`: by the last word before a separator.

Each stem costs a search of the whole text. Prose has many words like these, so the places of the names are found
the other way round: all separators in one pass, and at each a look at the letters before it.
"""

from __future__ import annotations

import itertools
import operator
from typing import TYPE_CHECKING

from agenttape_core.redaction.detection.lazy import Lazy
from agenttape_core.redaction.detection.normal import beyond_ascii
from agenttape_core.redaction.detection.views import places
from agenttape_core.redaction.detection.vocabulary import FOREIGN, NO_PINS

if TYPE_CHECKING:
    from collections.abc import Iterator

    from agenttape_core.redaction.detection.views import View

_SEPARATORS = bytes(ord("=") if byte in b":=>" else byte for byte in range(256))
_CLOSING = b" \t\"'`\\])*_"
_SHORT = frozenset(
    b"pin otp cvv cvc csc jwt dsn psk pat mdp _iv -iv siv _pw -pw .pw bpw rpw tpw pw sid".split()
) | frozenset(b"%cpw" % before for before in b" \n\t\"'`?&{(,[<;|*")
"""The last three letters of such names."""
_LONG = frozenset(
    b"arer onic rase ring _str nstr _rsa _dsa onid n_id n-id ppid salt pper _url kurl -url "
    b"wort oord code odes enha nhas lave rola nord kode sana ifre eslo se\xf1a lsz\xf3 asse".split()
)
"""The last four letters of the others."""
_SAID = ((b"v", b"clave es "), (b"\xf1", b"contrase\xf1a es "), (b"\xe9", b"senha "), (b"K", b"kennwort "))
"""Names whose value is said in prose, so that no separator tells where they end, with a rare letter of theirs."""
_LAST = operator.itemgetter(slice(-6, None))
_LONGEST_END, _LOOKED_AT = 4, 12
_NAME_LENGTH = 64
_NUMBER_SAID = b" is 00"
_FOREIGN_LETTER = Lazy("[" + "".join(sorted({max(word) for word in FOREIGN})) + "]")
"""One letter of each word that is looked for in a pass of its own: one search tells that there is none."""
_TYPED = Lazy(r"(?P<name>[^\W\d_][\w-]{0,48}+)[ ]string[ ]{0,4}\Z")
"""A variable of Go with its type."""
_LAST_PART = Lazy(r"(?P<name>[^\W\d_][\w-]{0,48}+)[\s\"'`\\\])*_]{0,8}\Z")


def last_words(view: View) -> Iterator[int]:
    """Find where a name that ends in one of these words begins, after the last dot in it, in order."""
    if b":" in view.raw or b"=" in view.raw or b">" in view.raw:
        yield from _before_separators(view)
    if b"0" in view.shape:
        yield from _before_numbers(view)
        for letter, said in _SAID:
            if letter in view.raw:
                yield from places(view.low, said)
    if not view.text.isascii() and holds_foreign(view.text):
        for word in FOREIGN:
            at = view.text.find(word)
            while at >= 0:
                yield at
                at = view.text.find(word, at + len(word))


def holds_foreign(text: str) -> bool:
    """Return True if a text may hold one of the words that Latin-1 has no letters for."""
    return _FOREIGN_LETTER.search(beyond_ascii(text)) is not None


def _ends_name(tail: bytes) -> bool:
    return tail[-3:] in _SHORT or tail[-4:] in _LONG


def _before_numbers(view: View) -> Iterator[int]:
    """Yield where the names in `the verification code is 482913` begin."""
    for at in places(view.shape, _NUMBER_SAID):
        window = view.text[max(0, at - _NAME_LENGTH) : at]
        tail = view.low[max(0, at - _NAME_LENGTH) : at]
        if _ends_name(tail) and (name := _LAST_PART.search(window)):
            before = window[: name.start("name")].lower().split()
            if NO_PINS.isdisjoint(before[-1:]):
                yield at - len(window) + name.start("name")


def _before_separators(view: View) -> Iterator[int]:
    chunks = view.low.translate(_SEPARATORS).split(b"=")
    lasts = list(map(_LAST, chunks))
    # The names of a document are few: each end is looked at once, and what stands before it only if that may be one.
    named = {
        last
        for last in set(lasts)
        if (name := last.rstrip(_CLOSING))[-3:] in _SHORT
        or name[-4:] in _LONG
        or (len(name) < _LONGEST_END and len(name) < len(last))  # and more stands before, which was not looked at
    }
    if not named:
        return
    ends = map(operator.add, itertools.accumulate(map(len, chunks)), itertools.count())
    for end, chunk in itertools.compress(zip(ends, chunks, strict=True), map(named.__contains__, lasts)):
        window = view.text[max(0, end - _NAME_LENGTH) : end]
        if _ends_name(chunk[-_LOOKED_AT:].rstrip(_CLOSING)) and (found := _LAST_PART.search(window)):
            typed = _TYPED.search(window) if found["name"] == "string" else None
            yield end - len(window) + (typed or found).start("name")
