"""Pseudonyms with the form of their secrets: decision 0027 has the grammar. Pure.

Addresses are at a domain that is reserved (RFC 2606). Phone numbers are those that countries keep free for films: NANP
555-0100 to 555-0199 (ATIS-0300115), Ofcom's numbers for TV and radio drama, the Federal Network Agency's for
audiovisual media (Order 148/2021), Arcep's decision 2018-0881, ACMA's numbers for use in television and radio. Other
countries publish none: there the number begins with 999, which is no country (ITU-T E.164). All other numbers have the
length and the punctuation of the original, and valid check digits, and belong to no one.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from agenttape_core.lazy_patterns import Lazy
from agenttape_core.named_tuples import NamedTuple
from agenttape_core.redaction.detection.findings import NUMBER, SECRET
from agenttape_core.redaction.detection.personal import passes_luhn


class Reading(NamedTuple):
    """A value as its form reads it."""

    essence: str  # the same for all ways of writing a value, such as the digits of a card
    write: Callable[[str], str]  # writes the essence of a pseudonym like this value, with the same punctuation
    exact: str  # is put back for a pseudonym of the same style
    put_back: Callable[[str], str]  # writes it like this value
    style: str = ""  # a trait that `put_back` alone cannot restore, such as the case of letters


class Form(NamedTuple):
    """One form of pseudonyms: it reads a value of its kind, makes another of the same form, and knows one again."""

    kind: str
    read: Callable[[str], Reading | None]  # `None` for a text that does not have this form
    made: Callable[[str, bytes], str]  # the essence of a pseudonym, by the secret's and 32 bytes made of it and the key
    is_pseudonym: Callable[[str], bool]  # by its essence
    is_example: Callable[[str], bool] = lambda _: False  # reserved or documented as an example, and so no secret
    styles: Callable[[str], Mapping[str, str]] = lambda _: {}  # what to put back for styles that programs make of it


def _of_digits(text: str, essence: str, before: str = "") -> Reading:
    """Return the reading of a number: its essence is digits, and they stand in the places of digits in the text.

    The digits of `before` are in front of the essence in the text, and stay.
    """

    def write(digits: str) -> str:
        return _filled(text, before + digits)

    return Reading(essence, write, essence, write)


def _filled(text: str, digits: str) -> str:
    """Return a text with its digits replaced one by one."""
    rest = iter(digits)
    return "".join(next(rest) if "0" <= char <= "9" else char for char in text)


def _digits_of(text: str) -> str:
    """Return the digits of a text."""
    return "".join(char for char in text if "0" <= char <= "9")


def _drawn(digest: bytes, count: int, after: int = 0) -> str:
    """Return decimal digits that follow from a digest, `after` so many of it; beyond 70 they repeat."""
    digits = str(int.from_bytes(digest, "big")).zfill(77)[7:]
    return (digits * ((after + count) // len(digits) + 1))[after : after + count]


_NOWHERE = "999"
_NANP_DIGITS = 10
_NANP_AREAS_WRITTEN = """
    201 202 203 205 206 207 208 209 210 212 213 214 215 216 217 218 219 224 225 228 229 231 234 239 240 248 251
    252 253 254 256 260 262 267 269 270 276 281 301 302 303 304 305 307 308 309 310 312 313 314 315 316 317 318
    319 320 321 323 325 330 334 336 337 339 347 351 352 360 361 386 401 402 404 405 406 407 408 409 410 412 413
    414 415 417 419 423 424 425 430 432 434 435 440 443 469 478 479 480 484 501 502 503 504 505 507 508 509 510
    512 513 515 516 517 518 520 530 540 541 551 559 561 562 563 567 570 571 573 574 580 585 586 601 602 603 605
    606 607 608 609 610 612 614 615 616 617 618 619 620 623 626 630 631 636 641 646 650 651 660 661 662 678 682
    701 702 703 704 706 707 708 712 713 714 715 716 717 718 719 720 724 727 731 732 734 740 754 757 760 763 765
    770 772 773 774 775 781 785 786 801 802 803 804 805 806 808 810 812 813 814 815 816 817 818 828 830 831 832
    843 845 847 848 850 856 857 858 859 860 862 863 864 865 870 878 901 903 904 906 907 908 909 910 912 913 914
    915 916 917 918 919 920 925 928 931 936 937 940 941 947 949 951 952 954 956 970 971 972 973 978 979 980 985
    989
"""
_NANP_AREAS = tuple(_NANP_AREAS_WRITTEN.split())
_FREE: dict[str, tuple[str, ...]] = {
    "44": (
        "7700900ddd", "1632960ddd", "2079460ddd", "1134960ddd", "1144960ddd", "1154960ddd", "1164960ddd", "1174960ddd",
        "1184960ddd", "1214960ddd", "1314960ddd", "1414960ddd", "1514960ddd", "1614960ddd", "1914980ddd", "2896496ddd",
        "2920180ddd",
    ),
    "33": ("63998dddd", "19900dddd", "26191dddd", "35301dddd", "46571dddd", "53649dddd"),
    "49": ("3023125ddd", "6990009ddd", "4066969ddd", "2214710ddd", "8999998ddd", "176040690dd"),
    "61": ("25550dddd", "27010dddd", "35550dddd", "37010dddd", "75550dddd", "77010dddd", "85550dddd", "87010dddd"),
}  # fmt: skip
"""The free numbers without the zero before them, by country; the first of a country with mobile numbers is one."""
_MOBILE = {"44": "7", "33": "67"}
"""With what the mobile numbers of a country begin."""


def _read_phone(text: str) -> Reading | None:
    number = _parsed(text)
    if number is None:
        return None
    country, national, before = number
    reading = _of_digits(text, national, before)
    return reading._replace(essence=f"{country}:{national}", write=lambda made: reading.write(made.partition(":")[2]))


def _free_phone(essence: str, digest: bytes) -> str:
    """Return a free number of as many digits in the country of the original, or else of no country."""
    country, _, national = essence.partition(":")
    chosen = int(_drawn(digest, 9, after=15))
    if country == "1" and len(national) == _NANP_DIGITS:
        return f"1:{_NANP_AREAS[chosen % len(_NANP_AREAS)]}55501{_drawn(digest, 2)}"
    free = [form for form in _FREE.get(country, ()) if len(form) == len(national)]
    if mobile := _MOBILE.get(country):
        free = free[:1] if national[0] in mobile else free[1:]
    if free:
        form = free[chosen % len(free)]
        head = form.rstrip("d")
        return f"{country}:{head}{_drawn(digest, len(form) - len(head))}"
    return f"{country}:{_NOWHERE}{_drawn(digest, len(national) - len(_NOWHERE))}"


def _is_free_phone(essence: str) -> bool:
    country, _, national = essence.partition(":")
    if country == "1" and len(national) == _NANP_DIGITS:
        return national[3:8] == "55501"
    if national.startswith(_NOWHERE):
        return True
    return any(len(form) == len(national) and national.startswith(form.rstrip("d")) for form in _FREE.get(country, ()))


def _parsed(text: str) -> tuple[str, str, str] | None:
    """Return a phone number's country, if we know it, its national digits, and those before them in the text."""
    digits = _digits_of(text)
    if not 7 <= len(digits) <= 15:  # noqa: PLR2004 - E.164
        return None
    if "+" in text or digits.startswith("00"):
        zeros = "" if "+" in text else "00"
        rest = digits.removeprefix(zeros)
        for country in ("1", *_FREE):
            if rest.startswith(country):
                before = zeros + country + ("0" if "(0)" in text else "")
                return country, digits[len(before) :], before
        return "", rest, zeros
    if len(digits) in (10, 11) and digits[-10] not in "01" and digits[:-10] in ("", "1"):
        return "1", digits[-10:], digits[:-10]
    if digits.startswith("0"):
        return {10: "33", 11: "44"}.get(len(digits), ""), digits[1:], "0"
    return "", digits, ""


MAIL_MARK = "redacted-email-"
"""The pseudonym of an address in small letters begins like this."""
_DOMAIN = "example.com"
_SIGN = Lazy(r"@|%40|\\{1,4}u0040")
_PSEUDONYM = Lazy(rf"{MAIL_MARK}[0-9a-f]{{8}}@example\.com")
_RESERVED = Lazy(r"(?:[^@]+\.)?(?:example\.(?:com|net|org|edu)|example|invalid|test|localhost)")
_DIGEST = 4
_SMALL, _CAPITAL, _MIXED = "small", "capital", "mixed"


def _read_email(text: str) -> Reading | None:
    """Read an address; its sign may be written as URLs and JSON write it.

    Programs compare addresses in small letters, so two spellings of one address have one pseudonym but for its case.
    """
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


def _reader(least: int, most: int) -> Callable[[str], Reading | None]:
    """Return what reads numbers of so many digits."""

    def read(text: str) -> Reading | None:
        digits = _digits_of(text)
        return _of_digits(text, digits) if least <= len(digits) <= most else None

    return read


def _card(essence: str, digest: bytes) -> str:
    body = _NOBODY + _drawn(digest, len(essence) - len(_NOBODY) - 1)
    return next(body + check for check in "0123456789" if passes_luhn(body + check))


def _ssn(_: str, digest: bytes) -> str:
    """Return a number of an area that is never assigned, and of a group that no taxpayer's number has."""
    area, group, serial = _drawn(digest, 2), _drawn(digest, 1, after=2), int(_drawn(digest, 6, after=3))
    return f"9{area}{digest[31] % 4 + 1}{group}{serial % 9999 + 1:04}"


def _read_iban(text: str) -> Reading | None:
    compact = "".join(text.split())

    def write(iban: str) -> str:
        rest = iter(iban)
        return "".join(char if char.isspace() else next(rest) for char in text)

    return Reading(compact, write, compact, write) if compact[:2].isalpha() else None


def _iban(essence: str, digest: bytes) -> str:
    """Return an account of the same country and length at a bank that does not exist."""
    bank = "".join("9" if char.isdigit() else "X" for char in essence[4:8])
    rest = essence[8:]
    digits = _filled(rest, _drawn(digest, len(rest)))
    letters = iter(digest * 2)
    body = bank + "".join(chr(65 + next(letters) % 26) if char.isalpha() else char for char in digits)
    number = int("".join(str(int(char, 36)) for char in f"{body}{essence[:2]}00"))
    return f"{essence[:2]}{98 - number % 97:02}{body}"


def _is_made_iban(essence: str) -> bool:
    return len(essence) > 8 and set(essence[4:8]) <= {"9", "X"}  # noqa: PLR2004 - country, check, bank


_BEGINNING = "9090"
_WHOLE = Lazy(r"[0-9]{1,200}")
_NUMBER = Lazy(r"-?[0-9]{1,200}(?:\.[0-9]{1,200})?(?:[eE][+-]?[0-9]{1,4})?")
_FRACTION = Lazy(r"90[0-9]{4}\.[0-9]{2}[1-9]")
_UUID = Lazy(r"(?i)[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}")
_MADE_UUID = Lazy(r"00000000-0000-[1-9a-f]000-[89ab]000-[0-9a-f]{12}")


def _read_number(text: str) -> Reading | None:
    """Read a whole number or a decimal fraction."""
    if not _NUMBER.fullmatch(text):
        return None
    sign = "-" if text.startswith("-") else ""
    digits = text.removeprefix("-")
    if _WHOLE.fullmatch(digits):
        return _of_digits(text, digits)
    # A fraction has no length to keep: `repr` decides how many digits are written.
    return Reading(digits, lambda made: sign + made, digits, lambda exact: sign + exact)


def _number(essence: str, digest: bytes) -> str:
    """Return a number."""
    if not essence.isdigit():
        return f"90{_drawn(digest, 4)}.{_drawn(digest, 2, after=4)}{digest[31] % 9 + 1}"
    kept = _kept(len(essence))
    return _BEGINNING[:kept] + _drawn(digest, len(essence) - kept)


def _is_made_number(essence: str) -> bool:
    """Return True for a number that this form may have made: one in hundred of any others looks so."""
    if not essence.isdigit():
        return bool(_FRACTION.fullmatch(essence))
    return essence.startswith(_BEGINNING[: _kept(len(essence))])


def _kept(length: int) -> int:
    return min(len(_BEGINNING), max(1, (length + (length == 3)) // 2))  # noqa: PLR2004 - 9dd would be one in nine


def _read_uuid(text: str) -> Reading | None:
    """Read a UUID with hyphens (RFC 9562)."""
    if not _UUID.fullmatch(text):
        return None
    small = text.lower()

    def write(uuid: str) -> str:
        return uuid if text == small else uuid.upper()

    return Reading(small, write, text, str, "small" if text == small else "capital")


def _uuid(essence: str, digest: bytes) -> str:
    """Return a UUID."""
    version = essence[14] if essence[14] != "0" else "4"
    variant = essence[19] if essence[19] in "89ab" else "8"
    return f"00000000-0000-{version}000-{variant}000-{digest[:6].hex()}"


EMAIL = Form(
    "email",
    _read_email,
    lambda _, digest: f"{MAIL_MARK}{digest[:_DIGEST].hex()}@{_DOMAIN}",
    lambda essence: _PSEUDONYM.fullmatch(essence) is not None,
    lambda essence: _RESERVED.fullmatch(essence.rpartition("@")[2]) is not None,
    lambda exact: {_SMALL: exact.lower(), _CAPITAL: exact.upper()},
)
"""`redacted-email-7f3a09bc@example.com`, in the case of the original: small letters, capitals, or both."""
_NUMBERS = Form("number", _read_number, _number, _is_made_number)
"""A number that begins with as much of 9090 as leaves it half of its digits. A fraction is one of nine digits."""
_UUIDS = Form(
    "uuid",
    _read_uuid,
    _uuid,
    lambda essence: _MADE_UUID.fullmatch(essence) is not None,
    lambda essence: len(set(essence)) == 2,  # noqa: PLR2004 - the digit and the hyphen of the nil UUID and the greatest
)
"""A UUID of the same version and variant, of zeros but for its last twelve digits."""
_BY_KIND: dict[str, tuple[Form, ...]] = {
    form.kind: (form,)
    for form in (
        EMAIL,
        # Which free number is an example, only the memory of a run can tell.
        Form("phone", _read_phone, _free_phone, _is_free_phone, _is_free_phone),
        Form("card", _reader(12, 19), _card, lambda essence: essence.startswith(_NOBODY), _CARDS.__contains__),
        Form("ssn", _reader(9, 9), _ssn, lambda digits: digits[0] == "9" and digits[3] in "1234", _SSNS.__contains__),
        Form("iban", _read_iban, _iban, _is_made_iban, _IBANS.__contains__),
    )
}
_BY_KIND |= {SECRET: (_NUMBERS, _UUIDS), NUMBER: (_NUMBERS,)}


def form_of(kind: str, text: str) -> Form | None:
    """Return the form that the pseudonym of a secret has; `None` for one in brackets."""
    return next((form for form in _BY_KIND.get(kind, ()) if form.read(text) is not None), None)


def is_example(kind: str, text: str) -> bool:
    """Return True if a text of some kind is reserved or documented as an example, and so no secret."""
    form = form_of(kind, text)
    reading = form.read(text) if form else None
    return bool(form and reading and form.is_example(reading.essence))


def is_pseudonym(kind: str, text: str) -> bool:
    """Return True if a text of some kind has the form of a pseudonym of that kind."""
    form = form_of(kind, text)
    reading = form.read(text) if form else None
    return bool(form and reading and form.is_pseudonym(reading.essence))
