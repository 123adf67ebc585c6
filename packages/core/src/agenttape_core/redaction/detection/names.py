"""Names that promise a secret: `password`, `X-Api-Key`, `clientSecret`, `aws_secret_access_key`, `DB_PASS`, `pin`.

A name is split into words at punctuation and camel case, and its *last* words decide: `session_token` names a token,
`token_count` names a count. Some promise more than they keep: `sort_key`, `pass: true`. What such a name demands of its
value is a `Demand`.
"""

from __future__ import annotations

import enum
from functools import lru_cache
from typing import TYPE_CHECKING

from agenttape_core.lazy_patterns import Lazy
from agenttape_core.redaction.detection import vocabulary
from agenttape_core.redaction.detection.findings import SECRET
from agenttape_core.redaction.detection.vocabulary import MARKS

if TYPE_CHECKING:
    from collections.abc import Mapping

MAX_NAME = 96
"""Longer strings are texts that happen to be keys."""
_RUN_TOGETHER = Lazy(
    r"(?:(?:password|passwd|passphrase|apikey|accesskey|secretkey|privatekey|clientsecret|setcookie)s?"
    r"|(?:auth|access|refresh|session|bearer|api|id|identity|registry|csrf|xsrf)token)\Z"
)
_SMALL = rf"(?:[^\W\d_A-Z]|[{MARKS}])"
_WORD = Lazy(rf"[A-Z]+(?!{_SMALL})|[A-Z]?{_SMALL}+|[0-9]+")
_FOLDERS = frozenset({"PWD", "OLDPWD"})
_PUBLIC = ("public", "key")
_OF_RAILS = ("secret", "key", "base")
_BLOB = Lazy(rf"[^\w.\- {MARKS}]")


class Demand(enum.Enum):
    """A condition on the value under a name that makes it a secret."""

    NOTHING = enum.auto()
    """It is one, whatever it looks like."""
    TEXT = enum.auto()
    """No number and no state such as `true` or `failed`."""
    DIGITS = enum.auto()
    """No state, and not shorter than three digits."""
    OPAQUE = enum.auto()
    """It looks like a key, also one of hex digits or of one case."""
    RANDOM = enum.auto()
    """It looks random: letters of both cases and digits, mixed."""
    MIXED = enum.auto()
    """Letters and digits alternate: the id of a login, not the id that an agent gives to its conversation."""
    CONNECTION = enum.auto()
    """It is no URL with a password, in which the password alone is replaced."""
    NO_PATH = enum.auto()
    """It is no path: a shell calls the folder that it is in `PWD`."""
    MADE_UP = enum.auto()
    """It is one word with a letter and a digit in it."""
    UUID = enum.auto()
    """It is a UUID."""
    QUERIED = enum.auto()
    """It looks like a key and stands among the pairs of a query or a form."""


_PAIRS = {
    **dict.fromkeys(vocabulary.WHATEVER_PAIRS, Demand.NOTHING),
    **dict.fromkeys(vocabulary.CONNECTIONS, Demand.CONNECTION),
    **dict.fromkeys(vocabulary.IDS, Demand.MIXED),
    ("secret", "id"): Demand.UUID,
}
_LASTS = {
    "dsn": Demand.CONNECTION,
    "psk": Demand.TEXT,
    "mdp": Demand.MADE_UP,  # French for a password, and a process of Markov's
    **dict.fromkeys(vocabulary.OPAQUE, Demand.OPAQUE),
    **dict.fromkeys(vocabulary.QUERIED, Demand.QUERIED),
}


@lru_cache(maxsize=4096)
def words_of(name: str) -> tuple[str, ...]:
    """Return the words of a name in lower case, without trailing numbers: `userPassword2` → `user`, `password`."""
    words = [word.lower() for word in _WORD.findall(name)]
    while words and words[-1].isdigit():
        words.pop()
    return tuple(words)


@lru_cache(maxsize=4096)
def demand_of(name: str) -> Demand | None:
    """Return what a value under this name must be to be a secret, or `None` if the name promises none."""
    if len(name) > MAX_NAME or _BLOB.search(name):
        return None
    if name in _FOLDERS:
        return Demand.NO_PATH
    words = words_of(name)
    if len(words) > 1 and words[-1] in vocabulary.QUALIFIERS:
        demand = _demand(words[:-1])
        return Demand.TEXT if demand in (Demand.NOTHING, Demand.DIGITS) else demand
    return _demand(words) if words else None


def _demand(words: tuple[str, ...]) -> Demand | None:
    last, before = words[-1], words[-2] if len(words) > 1 else ""
    if last == "token":
        return None if before in vocabulary.NO_CREDENTIAL or words[-3:-1] == _PUBLIC else Demand.NOTHING
    if last in ("key", "keys"):
        return _demand_of_key(before)
    if last.endswith("pass"):
        return None if before in vocabulary.PASSES or last in vocabulary.NO_PASSWORD else Demand.TEXT
    if last in vocabulary.PINS or (last in ("code", "codes") and before in vocabulary.CODES):
        return None if before in vocabulary.NO_PINS else Demand.DIGITS
    if last in vocabulary.WHATEVER or words[-3:] == _OF_RAILS or _RUN_TOGETHER.search(last):
        return Demand.NOTHING
    return _PAIRS.get((before, last)) or (Demand.OPAQUE if last in ("pat", "pats") and before else _LASTS.get(last))


def _demand_of_key(before: str) -> Demand:
    if before in vocabulary.KEYS:
        return Demand.NOTHING
    return Demand.OPAQUE if before and before not in vocabulary.KEYS_OF_DATA else Demand.RANDOM


@lru_cache(maxsize=4096)
def is_denied(name: str) -> bool:
    """Return True if the value under this name is a secret whatever it looks like."""
    return demand_of(name) is Demand.NOTHING


class Names:
    """The names that are denied for one redactor: ours, and those of the user's rules.

    Args:
        own: The kind by the words of a name, for the user's rules.
    """

    def __init__(self, own: Mapping[tuple[str, ...], str]) -> None:
        self._own = own
        self.own_words = tuple(dict.fromkeys(words[-1].encode() for words in own))
        """Literals, one of which is in each name that the user has denied; in lower case."""

    @property
    def has_own(self) -> bool:
        """True if the user has denied names, too."""
        return bool(self._own)

    def kind_of(self, name: str) -> str | None:
        """Return the kind of the values under a name, or `None` if the name is not denied."""
        if self._own and (kind := self._own.get(words_of(name))):
            return kind
        return SECRET if is_denied(name) else None

    def demand_of(self, name: str) -> Demand | None:
        """Return what a value under this name must be to be a secret; any value is one under the user's own names."""
        return Demand.NOTHING if self._own and words_of(name) in self._own else demand_of(name)
