"""A user and a password in one place: a line of `.pgpass`, `Credentials: bob / x`, `smtp.login("bob", "x")`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from agenttape_core.redaction.detection.kinds import SECRET
from agenttape_core.redaction.detection.lazy import Lazy
from agenttape_core.redaction.detection.literals import places
from agenttape_core.redaction.detection.values import is_alternating, is_placeholder, is_type_name
from agenttape_core.redaction.detection.vocabulary import STATES

if TYPE_CHECKING:
    from collections.abc import Iterator

    from agenttape_core.redaction.detection.findings import Finding
    from agenttape_core.redaction.detection.views import View

PORT, ANY_PORT = b"0000:", b":*:"
LOGINS = (b"credential", b"login")
_HOST = Lazy(r"""(?:\A|[\s"'`]|\\n)[\w.*\[-][\w.*-]{0,127}\]?\Z""")
_REST = Lazy(
    r""":(?:543\d|6432|6543|25060|26257|\*):[^\s:"'\\/]{1,64}:[^\s:"'\\/]{1,64}:"""
    r"""(?P<secret>(?:[^\s"'\\]|\\[:\\]){4,256})"""
)
"""A line of a password file (PostgreSQL, 34.16): host, port, database, user, password; the ports are those of
PostgreSQL, its poolers and hosts."""
_LONGEST_HOST = 132
_COLON = ord(":")
_LOGIN = Lazy(
    r"""(?ix)(?:credentials?|log-?ins?) (?:[ ](?:details|data|info|credentials))? [*_`"']{0,3}
    (?:(?:[ ](?:is|are))?[ ]?: | [ ](?:is|are))
    [*_`"'\ ]{1,6} (?P<user>[a-z][\w.@+-]{1,63}) (?P<between>[ ][/|][ ]|[:/])
    (?P<secret>[^\s"'`<>,;:/()]{6,64})(?![:/\w])"""
)
_CALL = Lazy(
    r"""(?x) (?i:login|credentials?)\((?:\s|\\n){0,40}
    (?:[\w.]{1,60} | \\{0,3}(?P<q>["'])[^"'\\\n]{1,128}\\{0,3}(?P=q)),(?:\s|\\n){0,40}
    \\{0,3}(?P<quote>["'])(?P<secret>[^"'\\\n]{4,256})\\{0,3}(?P=quote)\s{0,4}\)"""
)
"""A method that takes user and password, as those of `smtplib`, or what makes credentials of them."""
_SPECIAL, _SIGN = Lazy("[!@#$%^&*?]"), Lazy("[0-9!@#$%^&*?]")


def find_logins(view: View) -> Iterator[Finding]:
    """Find the passwords that stand behind their users."""
    raw = view.raw
    if b":" in raw:
        for at in (*_ports(view), *(places(raw, ANY_PORT) if b"*" in raw else ())):
            match = _REST.match(view.text, at)
            if match and _is_given(match["secret"]) and _HOST.search(_before(view, at, _LONGEST_HOST)):
                yield view.finding(*match.span("secret"), SECRET)
    for literal in LOGINS if b":" in raw or b"(" in raw else ():
        for at in places(view.low, literal):
            is_call = literal != b"login" or view.text[at - 1 : at] == "."
            called = _CALL.match(view.text, at) if is_call else None
            if called and _is_given(called["secret"]) and _SIGN.search(called["secret"]):
                yield view.finding(*called.span("secret"), SECRET)
            match = _LOGIN.match(view.text, at)
            secret = match["secret"].rstrip(".") if match else ""
            if match and match["user"].lower() not in STATES and _is_told(secret, match["between"]):
                yield view.finding(match.start("secret"), match.start("secret") + len(secret), SECRET)


def _ports(view: View) -> Iterator[int]:
    """Yield where a colon stands before a number of four digits, or of five, and another colon."""
    for at in places(view.shape, PORT) if b"0" in view.shape else ():
        for before in (at - 1, at - 2):
            if before >= 0 and view.shape[before] == _COLON:
                yield before


def _before(view: View, at: int, most: int) -> str:
    return view.text[max(0, at - most) : at]


def _is_given(secret: str) -> bool:
    return not is_placeholder(secret) and not secret.isdigit()


def _is_told(secret: str, between: str) -> bool:
    """Return True if a word is no English: letters and digits alternate, or it has a sign, or it stands apart."""
    if is_placeholder(secret) or is_type_name(secret):
        return False
    has_digit, has_letter = any(map(str.isdigit, secret)), any(map(str.isalpha, secret))
    if between.startswith(" "):
        return has_letter and (has_digit or _SPECIAL.search(secret) is not None)
    return has_letter and (is_alternating(secret) or (has_digit and _SPECIAL.search(secret) is not None))
