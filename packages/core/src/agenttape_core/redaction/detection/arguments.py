"""Passwords that only their place tells: `htpasswd -b FILE USER x`, `getConnection(url, "user", "x")`, `/p:x`."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from agenttape_core.redaction.detection.kinds import SECRET
from agenttape_core.redaction.detection.lazy import Lazy
from agenttape_core.redaction.detection.literals import matches_at
from agenttape_core.redaction.detection.values import is_alternating, is_placeholder

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from agenttape_core.redaction.detection.findings import Finding
    from agenttape_core.redaction.detection.views import View

_QUOTE = r"""(?P<quote>\\{0,3}["'])?"""
_WORD = r"""(?P<secret>(?(quote)[^"'\\\n]{1,256}|(?!-)[^\s"'\\;|&<>()`]{3,256}))"""
_ARGUMENT = r"""(?!-)[^\s"'\\;|&<>()`]{1,256}"""
_HTPASSWD = (
    r"(?i:htpasswd)(?=(?:[ ]-[\w-]{1,16}){0,4}?[ ]-[A-Za-z0-9]{0,8}b)"
    r"(?:(?=(?:[ ]-[\w-]{1,16}){0,4}?[ ]-[A-Za-z0-9]{0,8}n)|(?P<file>))"
    rf"(?:[ ]-[\w-]{{1,16}}(?:[ ]\d{{1,2}}(?=[ ]))?){{1,5}}+(?(file)[ ]{_ARGUMENT})[ ]{_ARGUMENT}[ ]{{1,4}}"
)
"""Behind the options, among which is `b`, are the file, unless one is `n`, the user and the password."""
_URL_AND_USER = rf"""[ ]{_ARGUMENT}[ ]\\{{0,3}}["']?https?://{_ARGUMENT}\\{{0,3}}["']?[ ]{_ARGUMENT}[ ]{{1,4}}"""
_SPACE = r"(?:\s|\\n){0,40}"
_TEXT = r"""\\{0,3}["'][^"'\\\n]{1,256}\\{0,3}["']"""
_USER_AND_TEXT = (
    rf"""\({_SPACE}(?:{_TEXT}|[\w.$>\[\]-]{{1,80}}),{_SPACE}(?:\d{{1,5}},{_SPACE})?"""
    rf"""\\{{0,3}}["'][\w.@\\-]{{1,64}}?\\{{0,3}}["'],{_SPACE}"""
    r"""\\{0,3}(?P<quote>["'])(?P<secret>[^"'\\\n]{4,256})\\{0,3}(?P=quote)"""
)
_DIGIT_OR_SIGN, _SIGN = Lazy("[0-9!@#$%^&*?]"), Lazy("[!@#$%^&*?]")


class _Place(NamedTuple):
    """A place of a password.

    Args:
        sign: A character that each of them has, which is quickly looked for.
        anchor: What each of them begins with, in small letters; the longer, the sooner a text is looked through.
        pattern: The whole, up to the password.
        is_given: Whether a word at this place is a password.
    """

    sign: bytes
    anchor: bytes
    pattern: Lazy
    is_given: Callable[[str], bool]


def _is_word(_: str) -> bool:
    return True


def _has_digit_or_sign(secret: str) -> bool:
    return _DIGIT_OR_SIGN.search(secret) is not None


def _is_made_up(secret: str) -> bool:
    """Return True if a word is no name: `connect` is a method of much that takes no password."""
    return is_alternating(secret) or (_has_digit_or_sign(secret) and _SIGN.search(secret) is not None)


_FREERDP = r"(?i:freerdp)\d?(?:\.exe)?[ ](?:[^\n|;&]{0,200}?[ ])?/g?p:"
_PLACES = (
    _Place(b"-", b"htpasswd -", Lazy(_HTPASSWD + _QUOTE + _WORD), _is_word),
    _Place(b":", b"alias set ", Lazy("(?i:alias set)" + _URL_AND_USER + _QUOTE + _WORD), _is_word),
    _Place(b":", b"freerdp", Lazy(_FREERDP + _QUOTE + _WORD), _is_word),
    _Place(b"}", b"{noop}", Lazy(r"\{noop\}(?P<secret>[^\s\"'<>`,;{}()\\]{3,256})"), _is_word),
    _Place(b"(", b"getconnection(", Lazy("(?i:getconnection)" + _USER_AND_TEXT), _has_digit_or_sign),
    _Place(b"(", b"mysqli", Lazy("(?i:mysqli(?:_connect)?)" + _USER_AND_TEXT), _has_digit_or_sign),
    _Place(b"(", b"new pdo(", Lazy("(?i:new pdo)" + _USER_AND_TEXT), _has_digit_or_sign),
    _Place(b"(", b".connect(", Lazy(r"(?i:\.connect)" + _USER_AND_TEXT), _is_made_up),
)
ANCHORS = tuple((place.sign, place.anchor) for place in _PLACES)
"""The literals that the places begin with, each with a character that its texts have."""


def find_placed(view: View) -> Iterator[Finding]:
    """Find passwords that stand at a place of a command or of a call, whatever is before them."""
    for place in _PLACES:
        if place.sign in view.raw:
            for match in matches_at(view, place.anchor, place.pattern):
                if not is_placeholder(match["secret"]) and place.is_given(match["secret"]):
                    yield view.finding(*match.span("secret"), SECRET)
