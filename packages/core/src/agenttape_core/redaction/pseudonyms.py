"""The pseudonyms that stand in the place of secrets.

A pseudonym is `[REDACTED:<kind>:<8 hex>]`. The hex digits are the first 32 bits of an HMAC-SHA256 (RFC 2104) of the
secret, so equal secrets stay equal within one key, and two tapes with two keys cannot be joined on them.
"""

from __future__ import annotations

import hashlib
import hmac
import re
import secrets
import threading

from agenttape_core.redaction.detection.encoded import has_pseudonym, sub_encoded
from agenttape_core.redaction.detection.kinds import NUMBER
from agenttape_core.redaction.detection.lazy import Lazy

MARK = "[REDACTED:"
PSEUDONYM = re.compile(r"\[REDACTED:(?P<kind>[a-z0-9_-]{1,32}):(?P<digest>[0-9a-f]{8})\]")
"""One pseudonym; the groups are `kind` and `digest`."""

_QUOTED_NUMBER = Lazy(r"""(?P<quote>\\{0,7}["'])(?P<name>\[REDACTED:number:[0-9a-f]{8}\])(?P=quote)""")


def new_key() -> str:
    """Make a key for the pseudonyms of one cassette: 32 random bytes as hex."""
    return secrets.token_hex(32)


class Pseudonyms:
    """Makes pseudonyms with one key, and remembers which secret each stands for. Thread-safe.

    Args:
        key: Any string; `new_key()` makes a good one.
    """

    def __init__(self, key: str) -> None:
        self._key = key.encode("utf-8", "surrogatepass")
        self._known: dict[str, str | None] = {}
        self._encoded: dict[str, str | None] = {}
        self._lock = threading.Lock()

    @property
    def any_known(self) -> bool:
        """True if any secret was seen at all."""
        return bool(self._known)

    @property
    def secrets(self) -> frozenset[str]:
        """All secrets that a pseudonym was made of, and that have it for themselves."""
        with self._lock:
            return frozenset(secret for secret in self._known.values() if secret is not None)

    def make(self, kind: str, secret: str, *, named: str | None = None) -> str:
        """Return the pseudonym of a secret, and remember the pair.

        Args:
            kind: Its kind.
            secret: The secret.
            named: The text that is hashed in its place, for one that is another in each run.
        """
        digest = hmac.new(
            self._key, (secret if named is None else named).encode("utf-8", "surrogatepass"), hashlib.sha256
        )
        name = f"{MARK}{kind}:{digest.hexdigest()[:8]}]"
        with self._lock:
            # Of two secrets with one pseudonym neither may be put back: a wrong secret is worse than none.
            if self._known.setdefault(name, secret) != secret:
                self._known[name] = None
        return name

    def note_encoded(self, redacted: str, original: str) -> None:
        """Remember what redacted base64 stands for, to the last padding."""
        with self._lock:
            if self._encoded.setdefault(redacted, original) != original:
                self._encoded[redacted] = None

    def restore(self, text: str) -> str:
        """Replace each known pseudonym in a text by its secret."""
        if not self._known:
            return text
        if has_pseudonym(text):
            text = self._restore_encoded(text)
        if MARK not in text:
            return text
        text = _QUOTED_NUMBER.sub(lambda found: self._secret(found["name"], found[0]), text)
        return PSEUDONYM.sub(lambda found: self._secret(found[0], found[0]), text)

    def number(self, text: str) -> int | float | None:
        """Return the number that a whole string stands for, if it is the pseudonym of one."""
        found = PSEUDONYM.fullmatch(text)
        secret = self._known.get(text) if found and found["kind"] == NUMBER else None
        if secret is None:
            return None
        return float(secret) if set(secret) & set(".eEn") else int(secret)

    def _restore_encoded(self, text: str) -> str:
        for redacted, original in list(self._encoded.items()):
            text = text if original is None else text.replace(redacted, original)
        return sub_encoded(text, self.restore)

    def _secret(self, name: str, otherwise: str) -> str:
        secret = self._known.get(name)
        return otherwise if secret is None else secret
