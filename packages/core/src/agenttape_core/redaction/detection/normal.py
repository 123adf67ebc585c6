r"""A text as it reads: without colours, invisible characters, full-width forms and escapes, and a way back.

Agents read coloured terminals, and people copy keys from chats and web pages: `\x1b[31mghp_...`, a key with a soft
hyphen in it, a full-width colon. Tools return JSON in ASCII, in which `\u5bc6\u7801` is a password, and pages with
quotes such as `&quot;` or `%22`. All detectors search the normal text; what they find is told in the positions of the
original.
"""

from __future__ import annotations

from bisect import bisect_right
from html import unescape
from types import MappingProxyType
from typing import TYPE_CHECKING, NamedTuple
from urllib.parse import unquote

from agenttape_core.lazy_patterns import Lazy

if TYPE_CHECKING:
    import re
    from collections.abc import Mapping

_FULL_WIDTH = {code: code - 0xFEE0 for code in range(0xFF01, 0xFF5F)}
_LIKE_ASCII = _FULL_WIDTH | {0xA0: 32, 0x3000: 32, 0x2007: 32, 0x202F: 32, 0x2010: 45, 0x2011: 45}
"""Characters that stand for one of ASCII (Unicode, Halfwidth and Fullwidth Forms; no-break blanks and hyphens)."""
_LIKE = {chr(code): chr(like) for code, like in _LIKE_ASCII.items()}
_BEHIND = (
    r"(?: (?<=\x1b) (?: \[ [0-9;:?]{0,32} [\ -/]{0,4} [@-~]"  # ECMA-48, 5.4
    r"  | \] [^\x07\x1b]{0,1024} (?:\x07|\x1b\\))"
    r"| (?<=\\) (?: (?:u001[bB]|x1[bB]|033|e)\[ [0-9;]{0,32} [mK]"
    r"  | u(?:00[aA][dD]|200[b-fB-F]|2060|[fF][eE][fF][fF])"
    r"  | (?<!\\\\) \\{0,6} u (?P<code> (?!00[0-7]|[dD][89a-fA-F]) [0-9a-fA-F]{4}))"
    r"| (?<=&) (?P<entity>"
    r"  (?:quot|apos|lt|gt|amp|equals|colon|\#0?(?:3[2-9]|[4-9]\d|1[01]\d|12[0-6])|\#[xX][2-7][0-9a-fA-F]);)"
    r"| (?<=%) (?P<percent>2[267]|3[ADad])"
    r"| (?<=[^\\&%\x1b]))"
)
_UNSEEN_ASCII = Lazy(rf"(?x) [\\&%\x1b]{_BEHIND}")
_UNSEEN = Lazy(
    r"(?x) [\\&%\x1b\xad\u200b-\u200f\u202a-\u202e\u2060-\u2064\u2066-\u2069\ufe00-\ufe0f\ufeff\U000e0000-\U000e007f]"
    + _BEHIND
)
"""Text that a terminal or a browser does not show, also as JSON and programs escape it.

It begins with a set of characters, as `re` then skips all others without trying anything.
"""
_ESCAPED = Lazy(r"\\(?:u(?:001[bB]\[|(?!00[0-7]|[dD][89a-fA-F])[0-9a-fA-F]{4})|x1[bB]\[|033\[|e\[)")
_ENTITY = Lazy(r"&(?:quot|apos|lt|gt|amp|equals|colon|#)")
_GIVEN = Lazy(r"%3[dD](?<=[A-Za-z]%3[dD])(?=[\w.!@$*+-])")
"""The equals sign between a name and its value in an address inside of another one."""
_COLON = "%22%3"
"""A quote, and the colon or the equals sign behind it, in an address: without it, `%22` and `%3A` stay."""
_ODD = Lazy(
    r"[\xa0\xad\u2007\u2010\u2011\u202f\u3000\uff01-\uff5e\u200b-\u200f\u202a-\u202e\u2060-\u2069\ufe00-\ufe0f\ufeff"
    r"\U000e0000-\U000e007f]"
)
"""All characters that are looked for: one pass for a text that has none."""


_ASCII = bytes(range(128))


class Normal(NamedTuple):
    """A normal text.

    Args:
        text: The text.
        starts: Where its unbroken parts begin, in order; empty if every position is that of the original.
        origins: Where the same parts begin in the original.
        widths: The length in the original of the parts that are an escape there, by where they begin.
    """

    text: str
    starts: tuple[int, ...] = ()
    origins: tuple[int, ...] = ()
    widths: Mapping[int, int] = MappingProxyType({})

    def origin(self, at: int) -> int:
        """Return where the character at a position of this text stands in the original."""
        part = bisect_right(self.starts, at) - 1
        return self.origins[part] + at - self.starts[part] if self.starts else at

    def place(self, origin: int) -> int:
        """Return where what stands at a position of the original begins here, or what follows it if it is unseen."""
        if not self.starts:
            return origin
        part = max(0, bisect_right(self.origins, origin) - 1)
        at = self.starts[part] + max(0, origin - self.origins[part])
        return min(at, self.starts[part + 1]) if part + 1 < len(self.starts) else at

    def span(self, start: int, end: int) -> tuple[int, int]:
        """Return the part of the original that a part of this text stands for, with what is unseen inside of it."""
        if end <= start:
            return (self.origin(start),) * 2
        return self.origin(start), self.origin(end - 1) + self.widths.get(end - 1, 1)


def normalised(text: str) -> Normal:
    """Return a text as it reads. Pure; most texts come back as they are, at the price of a few look-ups."""
    if text.isascii():
        return _without_unseen(text) if _holds_unseen(text) else Normal(text)
    if _ODD.search(beyond_ascii(text)):
        # Each once, as `str.translate` takes fifty times as long.
        for odd in sorted(_LIKE_ASCII.keys() & set(map(ord, _ODD.findall(text)))):
            text = text.replace(chr(odd), chr(_LIKE_ASCII[odd]))
    elif not _holds_unseen(text):
        return Normal(text)
    return _without_unseen(text)


def beyond_ascii(text: str) -> str:
    """Return the characters of a text that ASCII does not have: a tenth of the cost of a search for some of them."""
    return text.encode("utf-8", "surrogatepass").translate(None, _ASCII).decode("utf-8", "surrogatepass")


def is_normal(text: str) -> bool:
    """Return True if a text reads as it is."""
    return not _holds_unseen(text) and (text.isascii() or not _ODD.search(beyond_ascii(text)))


def _holds_unseen(text: str) -> bool:
    if "\x1b" in text or ("\\" in text and _ESCAPED.search(text) is not None):
        return True
    return ("&" in text and _ENTITY.search(text) is not None) or _holds_names(text)


def _holds_names(text: str) -> bool:
    """Return True if a text has names and their values as an address has them within another one."""
    return "%" in text and (_COLON in text or ("%3" in text and _GIVEN.search(text) is not None))


def _without_unseen(text: str) -> Normal:
    pieces: list[str] = []
    starts: list[int] = []
    origins: list[int] = []
    widths: dict[int, int] = {}
    at = length = 0
    has_names = _holds_names(text)
    for unseen in (_UNSEEN_ASCII if text.isascii() else _UNSEEN).finditer(text):
        seen = _shown(unseen)
        if unseen["percent"] and not has_names:
            continue
        if unseen.start() > at:
            starts.append(length)
            origins.append(at)
            pieces.append(text[at : unseen.start()])
            length += unseen.start() - at
        if seen:
            starts.append(length)
            origins.append(unseen.start())
            pieces.append(seen)
            widths[length] = unseen.end() - unseen.start()
            length += 1
        at = unseen.end()
    if not at:
        return Normal(text)
    starts.append(length)
    origins.append(at)
    return Normal("".join([*pieces, text[at:]]), tuple(starts), tuple(origins), widths)


def _shown(escape: re.Match[str]) -> str:
    """Return the character that an escape stands for; none if it is not seen."""
    if code := escape["code"]:
        character = chr(int(code, 16))
        return "" if _ODD.search(character) and character not in _LIKE else _LIKE.get(character, character)
    if escape["entity"]:
        return unescape(escape[0])
    return unquote(escape[0]) if escape["percent"] else ""
