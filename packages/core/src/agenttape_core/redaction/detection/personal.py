"""Data about people: e-mail, phone, payment card, bank account, social security number.

A number is only taken for one of these when its form *and* its check digits or ranges fit: agents talk in numbers.
"""

from __future__ import annotations

import re
import string
from typing import TYPE_CHECKING

from agenttape_core.lazy_patterns import Lazy
from agenttape_core.redaction.detection.findings import SECRET
from agenttape_core.redaction.detection.views import places

if TYPE_CHECKING:
    from collections.abc import Iterator

    from agenttape_core.redaction.detection.findings import Finding
    from agenttape_core.redaction.detection.views import View

_LOCAL = string.ascii_letters + string.digits + "._%+-"
_MAX_LOCAL = 64
_DOMAIN = Lazy(
    r"(?:@|%40|\\u0040)(?:[A-Za-z0-9](?:[A-Za-z0-9-]{0,61}[A-Za-z0-9])?\.){1,8}(?P<top>[A-Za-z]{2,24})(?![A-Za-z0-9(]|_\w|-\w)",
    re.ASCII,
)
_USER_INFO = Lazy(r"://[^\s/@]{0,200}\Z")
_FILE = Lazy("(?i)png|jpe?g|gif|svg|webp|ico|py|[jt]sx?|mjs|css|json|ya?ml|toml|md|txt|html|lock")
"""The ends of names of files."""
_NO_PERSON = frozenset({"git", "noreply", "no-reply"})


def find_emails(view: View) -> Iterator[Finding]:
    """Find e-mail addresses, except `git@host` remotes, the user part of a URL, and names such as `icon@2x.png`."""
    for sign in (b"@", b"%40", rb"\u0040"):
        if sign[:1] in view.raw:
            yield from _find_emails(view, sign)


def _find_emails(view: View, sign: bytes) -> Iterator[Finding]:
    characters = _LOCAL if sign == b"@" else _LOCAL.replace("%", "")
    for at in places(view.raw, sign):
        domain = _DOMAIN.match(view.text, at)
        window = view.text[max(0, at - _MAX_LOCAL) : at].rstrip("\\")  # of a sign that JSON has escaped more than once
        local = _local(window, characters)
        if domain and view.raw[domain.end() : domain.end() + 1] == b"_":
            local = local.lstrip("_")  # in italics of Markdown
        if domain and local and local not in _NO_PERSON and not _FILE.fullmatch(domain["top"]):
            start = max(0, at - _MAX_LOCAL) + len(window) - len(local)
            if not _USER_INFO.search(view.text, max(0, start - 210), start):
                yield view.finding(start, domain.end(), "email")


def _local(window: str, characters: str) -> str:
    r"""Return the local part that ends a window, without the letter of an escape such as `\\n`."""
    before = window.rstrip(characters)
    local = window[len(before) :]
    if before.endswith("\\") and local[:1] in tuple("nrt"):
        local = local[1:]
    if local and before[-2:].lower() == "o'" and not before[-3:-2].isalnum():
        local = before[-2:] + local  # O'Brien
    return local.lstrip(".-%")


_START = r"(?:(?<![\w.+/$-])|(?<=\\[nrt])|(?<=[\s(\"':]1[-.])|(?<=\A1[-.]))"
# Of cards and of social security numbers, pseudonyms are found too: see `forms`.
_CARD = Lazy(
    _START + r"(?:"
    r"(?:4\d{3}|5[1-5]\d\d|2[2-7]\d\d|6(?:011|5\d\d)|35\d\d|9999)(?P<a>[ -]?)\d{4}(?P=a)\d{4}(?P=a)\d{4}"
    r"|(?:3[47]\d\d|9999)(?P<b>[ -]?)\d{6}(?P=b)\d{5}"
    r"|(?:3(?:0[0-5]|[68]\d)\d|9999)(?P<c>[ -]?)\d{6}(?P=c)\d{4})(?![\w/-])(?!\.\d)",
    re.ASCII,
)
_PHONE = Lazy(
    _START + r"(?:"
    r"\+[1-9]\d{9,14}"
    r"|\+[1-9]\d{0,2}(?:[ .-]?\(\d{1,4}\)\d{0,8}(?:[ .-]\d{1,8}){1,6}|(?:[ .-]\d{1,8}){2,6}|[ -]\d{7,12})"
    r"|\([2-9]\d\d\) ?[2-9]\d\d[ .-]\d{4}"
    r"|[2-9]\d\d(?P<s>[.-])[2-9]\d\d(?P=s)\d{4}"
    r")(?![\w/-])(?!\.\d)",
    re.ASCII,
)
_SSN = Lazy(_START + r"(?:(?!000|666|9)\d{3}-(?!00)\d\d|9\d\d-[1-4]\d)-(?!0000)\d{4}(?![\w/-])(?!\.\d)", re.ASCII)
_IBAN = Lazy(_START + r"[A-Z]{2}\d\d(?:[A-Z0-9]{11,30}|(?: [A-Z0-9]{4}){2,7}(?: [A-Z0-9]{1,4})?)(?![A-Za-z0-9])")

_CODE_BEHIND = Lazy(
    r"\b(?:cv[cv]2?|csc|security code|card code)[ ](?:is[ ])?(?P<code>\d{3,4})(?![\w.-])", re.IGNORECASE
)
"""The code of a payment card, where only a blank parts it from its name: `4539…, 04/27, cvv 731`."""
_NEAR_CARD = 80
_MIN_PHONE, _MAX_PHONE = 9, 15


_CARDS = (b"0" * 14, b"0000 0000 0000 0000", b"0000-0000-0000-0000", b"0000 000000 0000", b"0000-000000-0000")
_OTHERS = (
    ("ssn", _SSN, b"000-00-0000", 7),
    ("phone", _PHONE, b"000-000-0000", 8),
    ("phone", _PHONE, b"000.000.0000", 8),
    ("phone", _PHONE, b"(000)", 9),
    ("phone", _PHONE, b"(000)", 10),
)
"""Shapes of other numbers, and how far behind their beginning four digits in a row are."""
_BEFORE_OTHERS = frozenset([b"-00", b"000"])
"""The digits before these four and the sign in front of them."""


def find_numbers(view: View) -> Iterator[Finding]:
    """Find payment cards, phone numbers, social security numbers and bank accounts."""
    shape = view.shape
    for at in view.digits:
        if shape[at - 4 : at - 1] in _BEFORE_OTHERS or shape.startswith(_CARDS, at):
            yield from _with_four_digits(view, at)
    for at in places(view.shape, b"+0") if b"+" in view.raw else ():
        if (phone := _PHONE.match(view.text, at)) and _MIN_PHONE <= sum(map(str.isdigit, phone[0])) <= _MAX_PHONE:
            yield view.finding(*phone.span(), "phone")
    for at in places(view.shape, b"AA00"):
        if (account := _IBAN.match(view.text, at)) and _passes_mod_97(account[0]):
            yield view.finding(*account.span(), "iban")


def _with_four_digits(view: View, at: int) -> Iterator[Finding]:
    """Find the numbers whose first four digits in a row are at a position."""
    if view.shape.startswith(_CARDS, at) and (card := _CARD.match(view.text, at)) and passes_luhn(card[0]):
        yield view.finding(*card.span(), "card")
        if code := _CODE_BEHIND.search(view.text, card.end(), card.end() + _NEAR_CARD):
            yield view.finding(*code.span("code"), SECRET)
    for kind, pattern, shape, back in _OTHERS:
        start = max(0, at - back)
        if view.shape.startswith(shape, start) and (number := pattern.match(view.text, start)):
            yield view.finding(*number.span(), kind)


def passes_luhn(text: str) -> bool:
    """Return True if a card number has a valid check digit (ISO/IEC 7812-1, annex B)."""
    digits = [int(char) for char in text if char.isdigit()]
    doubled = [digit * 2 - 9 * (digit > 4) for digit in digits[-2::-2]]  # noqa: PLR2004 - 5 doubled has two digits
    return len(set(digits)) > 1 and (sum(digits[-1::-2]) + sum(doubled)) % 10 == 0


_IBAN_LENGTHS = {
    country: int(length)
    for length, countries in {
        "15": "NO", "16": "BE", "18": "DK FO FI GL NL SD", "19": "MK SI", "20": "AT BA EE KZ XK LT LU MN",
        "21": "HR LV LI CH", "22": "BH BG CR GE DE IE ME RS GB VA", "23": "TL GI IQ IL OM SO AE",
        "24": "AD CZ MD PK RO SA SK ES SE TN VG", "25": "LY PT ST", "26": "IS TR", "27": "BI DJ FR GR IT MC MR SM",
        "28": "AL AZ BY CY DO SV GT HU LB NI PL", "29": "BR EG PS QA UA", "30": "JO KW MU YE", "31": "MT SC",
        "32": "LC",
    }.items()
    for country in countries.split()
}  # fmt: skip
"""Length by country, from the SWIFT IBAN registry."""


def _passes_mod_97(text: str) -> bool:
    """Check an account number (ISO 13616-1; ISO/IEC 7064, MOD 97-10)."""
    iban = text.replace(" ", "")
    if len(iban) != _IBAN_LENGTHS.get(iban[:2]):
        return False
    return int("".join(str(int(char, 36)) for char in iban[4:] + iban[:4])) % 97 == 1
