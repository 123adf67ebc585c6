"""Numbers: of cards, accounts and persons, with valid check digits, and those that only a name gives away; UUIDs, too.

They have the length and the punctuation of the original, and belong to no one.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from agenttape_core.redaction.detection.lazy import Lazy
from agenttape_core.redaction.detection.personal import passes_luhn
from agenttape_core.redaction.forms.form import Reading, digits_of, drawn, filled, of_digits

if TYPE_CHECKING:
    from collections.abc import Mapping


_NOBODY = "9999"
"""No issuer of cards has a number that begins like this: ISO/IEC 7812-1 leaves 9 to national bodies. Nor has a bank."""
_CARDS_WRITTEN = """
    4242424242424242 4000056655665556 4111111111111111 4012888888881881 4222222222222220 4000002500003155
    4000000000000002 4000000000009995 4000000000000069 4000000000000127 4000000000000077 4000002760003184
    5555555555554444 5105105105105100 5200828282828210 2223003122003222 2223000048400011 2222420000001113
    378282246310005 371449635398431 378734493671000 6011111111111117 6011000990139424 6011981111111113
    30569309025904 38520000023237 36227206271667 3056930009020004 3566002020360505 3530111333300000
"""
_CARDS = frozenset(_CARDS_WRITTEN.split())
"""Numbers that payment services document for tests: https://docs.stripe.com/testing, PayPal, Adyen."""
_IBANS_WRITTEN = """
    GB29NWBK60161331926819 GB82WEST12345698765432 GB33BUKB20201555555555 DE89370400440532013000
    DE75512108001245126199 FR1420041010050500013M02606 FR7630006000011234567890189 NL91ABNA0417164300
    ES9121000418450200051332 IT60X0542811101000000123456 CH9300762011623852957 AT611904300234573201
    BE68539007547034 IE29AIBK93115212345678 SE4550000000058398257466 NO9386011117947 DK5000400440116243
    FI2112345600000785 PL61109010140000071219812874 PT50000201231234567890154 LU280019400644750000
"""
_IBANS = frozenset(_IBANS_WRITTEN.split())
"""The examples of the SWIFT IBAN registry and of the documentation that copies them."""
_SSNS = frozenset({"078051120", "219099999", "123456789"})
"""Numbers that were printed in advertisements, which the Social Security Administration has withdrawn."""


class Cards:
    """A number that passes the check of ISO/IEC 7812-1 and begins with 9999."""

    kind = "card"

    def read(self, text: str) -> Reading | None:
        """Read a number of 12 to 19 digits."""
        digits = digits_of(text)
        return of_digits(text, digits) if 12 <= len(digits) <= 19 else None  # noqa: PLR2004 - ISO/IEC 7812-1

    def made(self, essence: str, digest: bytes) -> str:
        """Return a number of the same length."""
        body = _NOBODY + drawn(digest, len(essence) - len(_NOBODY) - 1)
        return next(body + check for check in "0123456789" if passes_luhn(body + check))

    def is_pseudonym(self, essence: str) -> bool:
        """Return True for a number that this form has made."""
        return essence.startswith(_NOBODY)

    def is_example(self, essence: str) -> bool:
        """Return True for a number that is documented for tests."""
        return essence in _CARDS

    def styles(self, exact: str) -> Mapping[str, str]:  # noqa: ARG002 - digits have none
        """Return nothing."""
        return {}


class Ssns(Cards):
    """A social security number of an area that is never assigned, and of a group that no taxpayer's number has."""

    kind = "ssn"

    def read(self, text: str) -> Reading | None:
        """Read a number of nine digits."""
        digits = digits_of(text)
        return of_digits(text, digits) if len(digits) == 9 else None  # noqa: PLR2004 - as it has

    def made(self, essence: str, digest: bytes) -> str:  # noqa: ARG002 - one length
        """Return a number."""
        area, group, serial = drawn(digest, 2), drawn(digest, 1, after=2), int(drawn(digest, 6, after=3))
        return f"9{area}{digest[31] % 4 + 1}{group}{serial % 9999 + 1:04}"

    def is_pseudonym(self, essence: str) -> bool:
        """Return True for a number that this form has made."""
        return essence[0] == "9" and essence[3] in "1234"

    def is_example(self, essence: str) -> bool:
        """Return True for a number that was printed as an example."""
        return essence in _SSNS


class Ibans(Cards):
    """An account of the same country and length with valid check digits, at a bank that does not exist."""

    kind = "iban"

    def read(self, text: str) -> Reading | None:
        """Read an account number, compact or in groups."""
        compact = text.replace(" ", "")

        def write(iban: str) -> str:
            rest = iter(iban)
            return "".join(char if char == " " else next(rest) for char in text)

        return Reading(compact, write, compact, write) if compact[:2].isalpha() else None

    def made(self, essence: str, digest: bytes) -> str:
        """Return an account with digits for digits and letters for letters."""
        bank = "".join("9" if char.isdigit() else "X" for char in essence[4:8])
        rest = essence[8:]
        digits = filled(rest, drawn(digest, len(rest)))
        letters = iter(digest * 2)
        body = bank + "".join(chr(65 + next(letters) % 26) if char.isalpha() else char for char in digits)
        number = int("".join(str(int(char, 36)) for char in f"{body}{essence[:2]}00"))
        return f"{essence[:2]}{98 - number % 97:02}{body}"

    def is_pseudonym(self, essence: str) -> bool:
        """Return True for an account that this form has made."""
        return len(essence) > 8 and set(essence[4:8]) <= {"9", "X"}  # noqa: PLR2004 - country, check, bank

    def is_example(self, essence: str) -> bool:
        """Return True for an account that is documented as an example."""
        return essence in _IBANS


_BEGINNING = "9090"
_WHOLE = Lazy(r"[0-9]{1,200}")
_NUMBER = Lazy(r"-?[0-9]{1,200}(?:\.[0-9]{1,200})?(?:[eE][+-]?[0-9]{1,4})?")
_FRACTION = Lazy(r"90[0-9]{4}\.[0-9]{2}[1-9]")
_UUID = Lazy(r"(?i)[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}")
_MADE_UUID = Lazy(r"00000000-0000-[1-9a-f]000-[89ab]000-[0-9a-f]{12}")


class Numbers:
    """A number that begins with as much of 9090 as leaves it half of its digits. A fraction is one of nine digits."""

    kind = "number"

    def read(self, text: str) -> Reading | None:
        """Read a whole number or a decimal fraction."""
        if not _NUMBER.fullmatch(text):
            return None
        sign = "-" if text.startswith("-") else ""
        digits = text.removeprefix("-")
        if _WHOLE.fullmatch(digits):
            return of_digits(text, digits)
        # A fraction has no length to keep: `repr` decides how many digits are written.
        return Reading(digits, lambda made: sign + made, digits, lambda exact: sign + exact)

    def made(self, essence: str, digest: bytes) -> str:
        """Return a number."""
        if not essence.isdigit():
            return f"90{drawn(digest, 4)}.{drawn(digest, 2, after=4)}{digest[31] % 9 + 1}"
        kept = _kept(len(essence))
        return _BEGINNING[:kept] + drawn(digest, len(essence) - kept)

    def is_pseudonym(self, essence: str) -> bool:
        """Return True for a number that this form may have made: one in hundred of any others looks so."""
        if not essence.isdigit():
            return bool(_FRACTION.fullmatch(essence))
        return essence.startswith(_BEGINNING[: _kept(len(essence))])

    def is_example(self, essence: str) -> bool:  # noqa: ARG002 - its name says that it is none
        """Return False."""
        return False

    def styles(self, exact: str) -> Mapping[str, str]:  # noqa: ARG002 - digits have none
        """Return nothing."""
        return {}


def _kept(length: int) -> int:
    return min(len(_BEGINNING), max(1, (length + (length == 3)) // 2))  # noqa: PLR2004 - 9dd would be one in nine


class Uuids(Numbers):
    """A UUID of the same version and variant, of zeros but for its last twelve digits."""

    kind = "uuid"

    def read(self, text: str) -> Reading | None:
        """Read a UUID with hyphens (RFC 9562)."""
        if not _UUID.fullmatch(text):
            return None
        small = text.lower()

        def write(uuid: str) -> str:
            return uuid if text == small else uuid.upper()

        return Reading(small, write, text, str, "small" if text == small else "capital")

    def made(self, essence: str, digest: bytes) -> str:
        """Return a UUID."""
        version = essence[14] if essence[14] != "0" else "4"
        variant = essence[19] if essence[19] in "89ab" else "8"
        return f"00000000-0000-{version}000-{variant}000-{digest[:6].hex()}"

    def is_pseudonym(self, essence: str) -> bool:
        """Return True for a UUID that this form has made."""
        return bool(_MADE_UUID.fullmatch(essence))

    def is_example(self, essence: str) -> bool:
        """Return True for the nil UUID and for the greatest."""
        return len(set(essence)) == 2  # noqa: PLR2004 - the digit and the hyphen
