"""Values under a name that says they are secret: a number stays a number of as many digits, and a UUID a UUID."""

from __future__ import annotations

from typing import TYPE_CHECKING

from agenttape_core.redaction.detection.lazy import Lazy
from agenttape_core.redaction.forms.form import Reading, drawn, of_digits

if TYPE_CHECKING:
    from collections.abc import Mapping

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
