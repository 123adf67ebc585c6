"""E-mail addresses: an address at a domain that nobody can have (RFC 2606)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from agenttape_core.redaction.detection.lazy import Lazy
from agenttape_core.redaction.forms.form import Reading

if TYPE_CHECKING:
    from collections.abc import Mapping

MAIL_MARK = "redacted-email-"
"""The pseudonym of an address in small letters begins like this."""
_DOMAIN = "example.com"
_SIGN = Lazy(r"@|%40|\\{1,4}u0040")
_PSEUDONYM = Lazy(rf"{MAIL_MARK}[0-9a-f]{{8}}@example\.com")
_RESERVED = Lazy(r"(?:[^@]+\.)?(?:example\.(?:com|net|org|edu)|example|invalid|test|localhost)")
_DIGEST = 4
_SMALL, _CAPITAL, _MIXED = "small", "capital", "mixed"


class Emails:
    """`redacted-email-7f3a09bc@example.com`, in the case of the original: small letters, capitals, or both.

    Programs compare addresses in small letters, so two spellings of one address have one pseudonym but for its case.
    """

    kind = "email"

    def read(self, text: str) -> Reading | None:
        """Read an address; its sign may be written as URLs and JSON write it."""
        sign = _SIGN.search(text)
        if sign is None:
            return None
        exact = f"{text[: sign.start()]}@{text[sign.end() :]}"
        small = exact.lower()
        style = _SMALL if exact == small else _CAPITAL if exact == exact.upper() else _MIXED

        def put_back(address: str) -> str:
            return address.replace("@", sign[0])

        def write(address: str) -> str:
            return put_back(address if style == _SMALL else address.upper() if style == _CAPITAL else address.title())

        return Reading(small, write, exact, put_back, style)

    def made(self, essence: str, digest: bytes) -> str:  # noqa: ARG002 - one form for all addresses
        """Return the address of a digest."""
        return f"{MAIL_MARK}{digest[:_DIGEST].hex()}@{_DOMAIN}"

    def is_pseudonym(self, essence: str) -> bool:
        """Return True for an address that this form has made."""
        return bool(_PSEUDONYM.fullmatch(essence))

    def is_example(self, essence: str) -> bool:
        """Return True for an address at a reserved domain (RFC 2606, RFC 6761)."""
        return bool(_RESERVED.fullmatch(essence.rpartition("@")[2]))

    def styles(self, exact: str) -> Mapping[str, str]:
        """Return an address in small letters and in capitals."""
        return {_SMALL: exact.lower(), _CAPITAL: exact.upper()}
