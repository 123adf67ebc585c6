"""The face of a form: it reads a value of its kind, makes another of the same form, and knows one again."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple, Protocol

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping


class Reading(NamedTuple):
    """A value as its form reads it.

    Args:
        essence: What the value is however it is written, such as the digits of a card; in a pseudonym it is the same
            for all ways of writing a secret.
        write: Writes the essence of a pseudonym as this value is written, with the same punctuation.
        exact: What is put back for a pseudonym of the same style.
        put_back: Writes what is put back as this value is written.
        style: What cannot be put back by `put_back` alone, such as the case of letters.
    """

    essence: str
    write: Callable[[str], str]
    exact: str
    put_back: Callable[[str], str]
    style: str = ""


class Form(Protocol):
    """One form of pseudonyms."""

    kind: str
    """The kind of secrets whose pseudonyms have this form."""

    def read(self, text: str) -> Reading | None:
        """Read a value; `None` if the text does not have this form."""

    def made(self, essence: str, digest: bytes) -> str:
        """Return the essence of a pseudonym.

        Args:
            essence: That of the secret.
            digest: 32 bytes that follow from it and from the key.
        """

    def is_pseudonym(self, essence: str) -> bool:
        """Return True for the essence of a pseudonym."""

    def is_example(self, essence: str) -> bool:
        """Return True for a value that is reserved, or documented as an example, and so no secret."""

    def styles(self, exact: str) -> Mapping[str, str]:
        """Return what is put back for pseudonyms of other styles, which programs make of the one that was seen."""


def of_digits(text: str, essence: str, before: str = "", after: str = "") -> Reading:
    """Return the reading of a number: its essence is digits, and they stand in the places of digits in the text.

    Args:
        text: The number as it is written.
        essence: Its digits, but for those of `before` and `after`.
        before: The digits of the text that stand before the essence and stay.
        after: Those that stand after it.
    """

    def write(digits: str) -> str:
        return filled(text, f"{before}{digits}{after}")

    return Reading(essence, write, essence, write)


def filled(text: str, digits: str) -> str:
    """Return a text with its digits replaced one by one."""
    rest = iter(digits)
    return "".join(next(rest) if "0" <= char <= "9" else char for char in text)


def digits_of(text: str) -> str:
    """Return the digits of a text."""
    return "".join(char for char in text if "0" <= char <= "9")


def drawn(digest: bytes, count: int, after: int = 0) -> str:
    """Return decimal digits that follow from a digest.

    Args:
        digest: 32 bytes.
        count: How many; beyond 70 they repeat.
        after: How many were drawn before.
    """
    digits = str(int.from_bytes(digest, "big")).zfill(77)[7:]
    return (digits * ((after + count) // len(digits) + 1))[after : after + count]
