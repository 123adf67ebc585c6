"""E-mail addresses at a domain that is reserved (RFC 2606), and phone numbers that countries keep free for films.

Sources: NANP 555-0100 to 555-0199 (ATIS-0300115), Ofcom's numbers for TV and radio drama, the Federal Network Agency's
for audiovisual media (Order 148/2021), Arcep's decision 2018-0881, ACMA's numbers for use in television and radio.
Other countries publish none: there the number begins with 999, which is no country (ITU-T E.164).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from agenttape_core.redaction.detection.lazy import Lazy
from agenttape_core.redaction.forms.form import Reading, digits_of, drawn, of_digits

if TYPE_CHECKING:
    from collections.abc import Mapping


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


class _Number(NamedTuple):
    """A phone number: `1`, `44` or another code that we know, or no code; and what follows it."""

    country: str
    national: str
    before: str
    """The digits that stand before the national ones in the text."""


class Phones:
    """A number that is reserved in the country of the original, or else of no country."""

    kind = "phone"

    def read(self, text: str) -> Reading | None:
        """Read a number with or without the code of its country."""
        number = _parsed(text)
        if number is None:
            return None
        reading = of_digits(text, number.national, number.before)
        return reading._replace(
            essence=f"{number.country}:{number.national}", write=lambda made: reading.write(made.partition(":")[2])
        )

    def made(self, essence: str, digest: bytes) -> str:
        """Return a free number of as many digits."""
        country, _, national = essence.partition(":")
        chosen = int(drawn(digest, 9, after=15))
        if country == "1" and len(national) == _NANP_DIGITS:
            return f"1:{_NANP_AREAS[chosen % len(_NANP_AREAS)]}55501{drawn(digest, 2)}"
        free = [form for form in _FREE.get(country, ()) if len(form) == len(national)]
        if mobile := _MOBILE.get(country):
            free = free[:1] if national[0] in mobile else free[1:]
        if free:
            form = free[chosen % len(free)]
            head = form.rstrip("d")
            return f"{country}:{head}{drawn(digest, len(form) - len(head))}"
        return f"{country}:{_NOWHERE}{drawn(digest, len(national) - len(_NOWHERE))}"

    def is_pseudonym(self, essence: str) -> bool:
        """Return True for a free number."""
        country, _, national = essence.partition(":")
        if country == "1" and len(national) == _NANP_DIGITS:
            return national[3:8] == "55501"
        if national.startswith(_NOWHERE):
            return True
        return any(
            len(form) == len(national) and national.startswith(form.rstrip("d")) for form in _FREE.get(country, ())
        )

    def is_example(self, essence: str) -> bool:
        """Return True for a free number: which of them are examples, only the memory of a run can tell."""
        return self.is_pseudonym(essence)

    def styles(self, exact: str) -> Mapping[str, str]:  # noqa: ARG002 - digits have none
        """Return nothing."""
        return {}


def _parsed(text: str) -> _Number | None:
    digits = digits_of(text)
    if not 7 <= len(digits) <= 15:  # noqa: PLR2004 - E.164
        return None
    if "+" in text or digits.startswith("00"):
        zeros = "" if "+" in text else "00"
        rest = digits.removeprefix(zeros)
        for country in ("1", *_FREE):
            if rest.startswith(country):
                before = zeros + country + ("0" if "(0)" in text else "")
                return _Number(country, digits[len(before) :], before)
        return _Number("", rest, zeros)
    if len(digits) in (10, 11) and digits[-10] not in "01" and digits[:-10] in ("", "1"):
        return _Number("1", digits[-10:], digits[:-10])
    if digits.startswith("0"):
        country = {10: "33", 11: "44"}.get(len(digits), "")
        return _Number(country, digits[1:], "0")
    return _Number("", digits, "")


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
