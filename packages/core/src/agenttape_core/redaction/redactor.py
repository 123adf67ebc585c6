"""`Redactor`: puts pseudonyms in the place of secrets in text and plain data, and puts the secrets back."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from agenttape_core.redaction.answered_urls import urls_in
from agenttape_core.redaction.memo import PLAIN
from agenttape_core.redaction.rehydration import tells_pseudonym
from agenttape_core.redaction.streams import redact_chunks
from agenttape_core.redaction.text_redactor import UNCHANGED, TextRedactor
from agenttape_core.redaction.walk import InTexts, redact_value

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from agenttape_core.redaction.rules import Rule
    from agenttape_core.schema import Plain


_URLS = InTexts(urls_in)
_PAIR = 2
"""A dict with fewer items may be a tagged value."""
_MANY = 8
"""So many items and more are searched together, before they are redacted one by one."""


class Redactor(TextRedactor):
    """Puts pseudonyms in the place of secrets, and the secrets back.

    Pure and deterministic: equal data always becomes equal data, whatever was seen before it. Thread-safe.

    Args:
        key: The key of the cassette's pseudonyms; see `new_key`.
        rules: The user's own rules, in addition to the built-in detectors.
        enabled: Whether anything is redacted at all.
        places: Paths that are others in each run, by name.
        off: Kinds that the detectors do not look for.
        forms: Whether pseudonyms have the form of what they stand for; those of older cassettes are all in brackets.
    """

    def value(self, plain: Plain) -> Plain:
        """Return plain data with all values and keys redacted; the very same object when nothing changed."""
        if not self.enabled:
            return plain
        if _holds_many(plain):
            self.foresee((plain,))
        return redact_value(plain, self)

    def is_plain(self, value: Any) -> bool:
        """Return True if a value is a dict of ASCII texts of which it is known that nothing in them is replaced.

        It costs a look-up for each text, and needs neither an encoding nor a redaction: most messages are like that.
        """
        if type(value) is not dict or len(value) < _PAIR:
            return False
        names, known, plain = self.harmless_keys, self._memo.young, {} if self._has_own else PLAIN.young
        for name, text in value.items():
            if type(name) is not str or type(text) is not str or name not in names or not text.isascii():
                return False
            if known.get(text) != UNCHANGED and (text not in plain or "/" in text or "%" in text):
                return False
        return True

    def chunks(self, chunks: list[Plain]) -> list[Plain]:
        """Return the chunks of one stream redacted, secrets that are split between chunks included.

        The pseudonym goes where the secret starts, the rest of it is removed from the later chunks. Number and
        shapes of the chunks stay.
        """
        return redact_chunks(chunks, self) if self.enabled else chunks

    def rehydrate(self, plain: Plain) -> Plain:
        """Return plain data with the secret in the place of each pseudonym that this redactor made.

        A pseudonym that it has not made stays, percent-encoded in a URL; see `answered_urls`. The very same object is
        returned when there is none.
        """
        if not self._pseudonyms.any_secret and not tells_pseudonym(plain):
            return plain
        restored = self.restored(plain)
        return redact_value(restored, _URLS) if self.forms and tells_pseudonym(restored) else restored

    def restored(self, plain: Plain) -> Plain:
        """Return plain data with the secrets that this redactor knows, and all other pseudonyms as they are."""
        known = self._pseudonyms
        if not known.any_known or not (known.any_secret or tells_pseudonym(plain)):
            return plain
        return redact_value(plain, self._rehydrator)

    def rehydrate_chunks(self, chunks: Sequence[Plain]) -> Iterator[Plain]:
        """Yield the chunks of a stream with their secrets, each when its reader comes to it."""
        if self._pseudonyms.any_formed and len(chunks) > 1:
            chunks = redact_chunks(list(chunks), self._rehydrator)  # what is a secret may be said in an earlier chunk
        if not tells_pseudonym(list(chunks)):  # one that tells its kind comes of no secret
            return map(self.restored, chunks) if self._pseudonyms.any_formed else iter(chunks)
        if self.forms and len(chunks) > 1:
            chunks = redact_chunks(list(chunks), _URLS)  # a URL may have begun in an earlier one
        return map(self.rehydrate, chunks)

    def with_rules(self, rules: Sequence[Rule]) -> Redactor:
        """Return a redactor that has seen nothing yet, with other rules and the same key."""
        return Redactor(self.key, rules=rules, enabled=self.enabled, places=self.places, off=self.off, forms=self.forms)

    def with_places(self, plain: Plain) -> Plain:
        """Return plain data with the paths of this run in the place of their pseudonyms, and all secrets replaced."""
        if not (plain and self.enabled and self.places.paths):
            return plain
        return Redactor(self.key, places=self.places).restored(plain)


def _holds_many(plain: Plain) -> bool:
    """Return True if data has a list of some length that no other list is around, such as the messages of a state."""
    if type(plain) is not dict:
        return type(plain) is list and len(plain) >= _MANY
    for item in plain.values():
        kind = type(item)
        if (kind is dict and _holds_many(item)) or (kind is list and len(item) >= _MANY):
            return True
    return False
