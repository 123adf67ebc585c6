"""Names that promise a secret: `password`, `X-Api-Key`, `clientSecret`, `aws_secret_access_key`, `Set-Cookie`.

A name is split into words at punctuation and camel case, and its *last* words decide: `session_token` names a token,
`token_count` names a count. Names of model tokens and of paging cursors are not credentials.
"""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING

from agenttape_core.redaction.detection.kinds import SECRET
from agenttape_core.redaction.detection.lazy import Lazy

if TYPE_CHECKING:
    from collections.abc import Mapping

MAX_NAME = 96
"""Longer strings are texts that happen to be keys."""

STEMS = (b"pass", b"pwd", b"secret", b"token", b"key", b"auth", b"cookie", b"cred")
"""In each denied or suspicious name is one of these."""
PASSWORDS = frozenset({"password", "passwords", "passwd", "pwd", "passphrase", "passcode", "passwort"})
"""Last words whose value is chosen by people, so it may be short or all digits."""
HEADERS = frozenset({"authorization", "cookie", "cookies"})
"""Last words of headers whose value goes on to the end of the line."""

_LAST = PASSWORDS | HEADERS | {"secret", "secrets", "token", "apikey", "apikeys"}
_RUN_TOGETHER = Lazy(
    r"(?:(?:password|passwd|passphrase|apikey|accesskey|secretkey|privatekey|clientsecret|setcookie)s?"
    r"|(?:auth|access|refresh|session|bearer|api|id|csrf|xsrf)token)\Z"
)
_KEYS = frozenset(
    [
        "api",
        "access",
        "private",
        "secret",
        "signing",
        "encryption",
        "account",
        "subscription",
        "master",
        "auth",
        "service",
        "session",
        "shared",
        "hmac",
        "jwt",
        "webhook",
        "ssh",
        "admin",
    ]
)
# Counts and special tokens of language models, and cursors of paged answers.
_NO_CREDENTIAL = frozenset(
    [
        "max",
        "min",
        "num",
        "per",
        "prompt",
        "input",
        "output",
        "completion",
        "total",
        "cached",
        "reasoning",
        "audio",
        "image",
        "text",
        "pad",
        "eos",
        "bos",
        "unk",
        "sep",
        "cls",
        "mask",
        "stop",
        "special",
        "new",
        "first",
        "last",
        "start",
        "end",
        "next",
        "prev",
        "previous",
        "page",
        "paging",
        "continuation",
        "sync",
        "cursor",
        "cancellation",
        "generated",
        "predicted",
        "draft",
        "think",
    ]
)
_ENTROPY = frozenset({"key", "keys", "auth", "credential", "credentials", "cred", "creds"})
_WORD = Lazy(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|[0-9]+")
_BLOB = Lazy(r"[^A-Za-z0-9_.\- ]")


@lru_cache(maxsize=4096)
def words_of(name: str) -> tuple[str, ...]:
    """Return the words of a name in lower case, without trailing numbers: `userPassword2` → `user`, `password`."""
    words = [word.lower() for word in _WORD.findall(name)]
    while words and words[-1].isdigit():
        words.pop()
    return tuple(words)


@lru_cache(maxsize=4096)
def is_denied(name: str) -> bool:
    """Return True if the value under this name is a secret whatever it looks like."""
    if len(name) > MAX_NAME or _BLOB.search(name):
        return False
    words = words_of(name)
    if not words:
        return False
    last, before = words[-1], words[-2] if len(words) > 1 else ""
    if last == "token":
        return before not in _NO_CREDENTIAL
    if last in ("key", "keys"):
        return before in _KEYS
    return last in _LAST or bool(_RUN_TOGETHER.search(last))


@lru_cache(maxsize=4096)
def is_suspicious(name: str) -> bool:
    """Return True if a value under this name is a secret if it looks random, such as `key` or `credentials`."""
    words = words_of(name) if len(name) <= MAX_NAME else ()
    return bool(words) and words[-1] in _ENTROPY


class Names:
    """The names that are denied for one redactor: ours, and those of the user's rules.

    Args:
        own: The kind by the words of a name, for the user's rules.
    """

    def __init__(self, own: Mapping[tuple[str, ...], str]) -> None:
        self._own = own
        self.stems = tuple(dict.fromkeys(STEMS + tuple(words[-1].encode() for words in own)))
        """Literals, one of which is in each name that could be denied; in lower case."""

    def kind_of(self, name: str) -> str | None:
        """Return the kind of the values under a name, or `None` if the name is not denied."""
        if self._own and (kind := self._own.get(words_of(name))):
            return kind
        return SECRET if is_denied(name) else None
