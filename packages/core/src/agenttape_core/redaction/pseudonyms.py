"""The pseudonyms of secrets; decision 0027 has their grammar.

One in brackets is `[REDACTED:<kind>:<8 hex>]`. The hex digits are the first 32 bits of an HMAC-SHA256 (RFC 2104) of
the secret, so equal secrets stay equal within one key, and two tapes with two keys cannot be joined on them. One with
a form is made of such a digest, too: see `forms`.
"""

from __future__ import annotations

import hmac
import json
import re
import secrets
from functools import cache
from typing import TYPE_CHECKING
from urllib.parse import quote

from agenttape_core.lazy_patterns import Lazy
from agenttape_core.locks import Lock
from agenttape_core.redaction.detection.encoded import HELD, has_pseudonym, sub_encoded
from agenttape_core.redaction.detection.findings import NUMBER, SECRET
from agenttape_core.redaction.detection.names import is_denied
from agenttape_core.redaction.forms import EMAIL, MAIL_MARK, is_pseudonym
from agenttape_core.redaction.path_placeholders import KINDS_OF_PLACES, is_in_file_url

if TYPE_CHECKING:
    from collections.abc import Sequence

    from agenttape_core.redaction.forms import Form
    from agenttape_core.redaction.path_placeholders import Writing
    from agenttape_core.redaction.scanner import Scanner


MARK = "[REDACTED:"
IN_URL = "%5BREDACTED%3A"
"""The same as a URL writes it."""
_AT = r"(?:@|%40|\\{1,4}u0040)"
PSEUDONYM = re.compile(
    r"(?:\[REDACTED:(?=[a-z0-9_-]{1,32}:[0-9a-f]{8}\])|%5BREDACTED%3A(?=[a-z0-9_-]{1,32}%3A[0-9a-f]{8}%5D)"
    rf"|(?:redacted|Redacted|REDACTED)-(?=(?i:email-[0-9a-f]{{8}}{_AT}example\.com)))"
    rf"(?P<kind>[A-Za-z0-9_-]{{1,32}}?)(?:[:-]|%3A)(?P<digest>[0-9A-Fa-f]{{8}})(?:\]|%5D|{_AT}(?i:example\.com))"
)
"""One pseudonym that tells its kind, in brackets or an e-mail address; the groups are `kind` and `digest`.

In the URLs of answers it is written as those write it; see `rehydration`.
An address is in small letters, in capitals, or in both, and so is its kind.
"""

_HEADS = (MARK, IN_URL, "redacted-", "Redacted-", "REDACTED-")
"""The beginnings of pseudonyms."""

FORMED = r"(?<![\w.])0{8}-0000-[1-9a-f]000-[89ab]000-[0-9a-f]{12}(?!\w)"
FORMED += r"|(?<![\w-])(?<!\d\.)-?9[0-9]{3,199}(?=\.0\b|(?!\w|\.\d))|(?<![\w.-])-?90[0-9]{4}\.[0-9]{2}[1-9](?!\w)"
"""A number or a UUID that may be a pseudonym."""
OF_SECRET = Lazy(rf"\[REDACTED:(?!(?:{'|'.join(sorted(KINDS_OF_PLACES))}):)|{FORMED}")
"""The pseudonym of a secret that another one may be found by: not that of a folder or an address."""
WHOLE = ".0"
"""The end of a whole number that is written as a fraction: it has the pseudonym of the number, with that end."""
_GROUPED = Lazy(r"-?[1-9][0-9]{3,17}")
_NAMED = {"number": NUMBER, "uuid": SECRET}
"""The kinds of secrets that have a form and that only their names give away, by their form."""
_IN_MAIL_MARKS = MAIL_MARK[1:].partition("email")[0]
"""The part that an address has in small letters and in both cases; one in capitals has the other part."""
_QUOTED_NUMBER = Lazy(r"""(?P<quote>\\{0,7}["'])(?P<name>\[REDACTED:number:[0-9a-f]{8}\])(?P=quote)""")
_ESCAPED = Lazy(r'["\\\x00-\x1f\x7f-\U0010ffff]')
_ARMOUR = Lazy(
    r"(?P<head>-----BEGIN [A-Z0-9 ]{1,50}-----)(?P<break>\\*r\\*n|\\*n|\r?\n)(?P<body>[^-]+?)(?P=break)"
    r"(?P<tail>-----END [A-Z0-9 ]{1,50}-----(?:\\{1,4}[nrt]|\s)*)",
)
_BREAK_BEFORE = Lazy(r"-----(?P<break>\\*r\\*n|\\*n|\r?\n)\Z")
_LONGEST_BREAK = 24
PEM = "pem"


def new_key() -> str:
    """Make a key for the pseudonyms of one cassette: 32 random bytes as hex."""
    return secrets.token_hex(32)


def may_hold(text: str) -> bool:
    """Return True if a text may hold a pseudonym that tells its kind."""
    find = text.rfind  # which takes half the time of `in`; see `detection.views`
    return find(HELD) >= 0 or ("-" in text and find(_IN_MAIL_MARKS) >= 0)


def places_of_pseudonyms(text: str) -> list[tuple[int, int]]:
    """Return where the pseudonyms that tell their kind start and end in a text, in order."""
    found = []
    for head in _HEADS:
        at = text.find(head)
        while at >= 0:
            pseudonym = PSEUDONYM.match(text, at)
            found += [pseudonym.span()] if pseudonym else []
            at = text.find(head, pseudonym.end() if pseudonym else at + 1)
    return sorted(found)


class Pseudonyms:
    """Makes pseudonyms with one key, and remembers which secret each stands for. Thread-safe.

    An answer may hold the pseudonym of a folder of this run before a request holds the folder: the pseudonyms of those
    that are `expected` are made when the first one is looked for.
    """

    def __init__(self, key: str, expected: Sequence[Writing] = ()) -> None:
        self._key = key.encode("utf-8", "surrogatepass")
        self._known: dict[str, str | None] = {}
        self._escaped: dict[str, str] = {}
        self._formed: dict[tuple[str, str, str], str | None] = {}
        self._exact: set[str] = set()
        self._kinds: dict[str, str] = {}
        self._encoded: dict[str, str | None] = {}
        self._places: set[str] = set()
        self._expected = expected
        self._in_file_urls: dict[str, str] = {}
        self._lock = Lock()

    @property
    def any_known(self) -> bool:
        """True if any secret was seen at all."""
        return bool(self._known or self._formed or self._expected)

    @property
    def any_secret(self) -> bool:
        """True if any was seen that is no place."""
        return bool(self._formed) or len(self._known) > len(self._places)

    @property
    def any_formed(self) -> bool:
        """True if a secret was seen whose pseudonym does not tell its kind."""
        return bool(self._formed)

    @property
    def any_named(self) -> bool:
        """True if a number or a UUID was seen that only its name gave away."""
        return bool(self._kinds)

    @property
    def secrets(self) -> frozenset[str]:
        """All secrets that a pseudonym was made of, and that have it for themselves."""
        with self._lock:
            secrets = (secret for name, secret in self._known.items() if name not in self._places)
            return frozenset(secret for secret in secrets if secret is not None) | self._exact

    @property
    def kinds(self) -> dict[str, str]:
        """The kind of each secret that only its name, or what stands around it, has given away."""
        with self._lock:
            known = {secret: name for name, secret in self._known.items() if name not in self._places and secret}
            bracketed = {secret: name[len(MARK) :].partition(":")[0] for secret, name in known.items()}
            return bracketed | {secret: self._kinds[secret] for secret in self._exact if secret in self._kinds}

    def make(self, kind: str, secret: str, *, named: str | None = None) -> str:
        """Return the pseudonym of a secret in brackets, and remember the pair.

        `named` is hashed instead of a secret that differs in each run.
        """
        name = self._bracket(kind, secret if named is None else named)
        with self._lock:
            # Of two secrets with one pseudonym neither may be put back: a wrong secret is worse than none.
            if self._known.setdefault(name, secret) != secret:
                self._known[name] = None
            if named is None and _ESCAPED.search(secret):
                for other in _other_writings(secret):
                    self._escaped[self._bracket(kind, other)] = other
        return name

    def make_place(self, place: Writing) -> str:
        """Return the pseudonym of a folder of this run, in one of its writings, and remember the pair."""
        name = self.make(place.kind, place.text, named=place.named)
        self._places.add(name)
        if place.named == place.kind and (quoted := quote(place.text)) != place.text:
            self._in_file_urls[name] = quoted
        return name

    def make_armoured(self, secret: str) -> str | None:
        r"""Return a key in PEM armour with a pseudonym instead of its content; `None` if it has another form.

        What is in it has the same pseudonym whether its lines end with a line break or with `\\n`, as JSON writes one.
        """
        found = _ARMOUR.fullmatch(secret)
        body = found["body"].replace(found["break"], "\n") if found else ""
        if not found or body.replace("\n", found["break"]) != found["body"] or "\\" in body:
            return None
        return f"{found['head']}{found['break']}{self.make(PEM, body)}{found['break']}{found['tail']}"

    def make_formed(self, form: Form, secret: str) -> str:
        """Return the pseudonym of a secret in its form, and remember the pair. A pseudonym stays as it is."""
        reading = form.read(secret)
        assert reading is not None
        if form.is_pseudonym(reading.essence):
            return secret
        made = form.made(reading.essence, self._digest(f"{form.kind}:{reading.essence}"))
        others = form.styles(reading.exact)
        with self._lock:
            self._exact.add(secret)
            if form.kind in _NAMED:
                self._kinds[secret] = _NAMED[form.kind]
                if (grouped := with_commas(secret)) != secret:
                    self._escaped[self._bracket(SECRET, grouped)] = grouped
            for style, exact in {**others, reading.style: reading.exact}.items():
                place = (form.kind, made, style)
                if self._formed.setdefault(place, exact) != exact:
                    self._formed[place] = None
        return reading.write(made)

    def note_plain(self, form: Form, text: str) -> None:
        """Note that the run itself holds a value that looks like a pseudonym: no secret is put in its place."""
        reading = form.read(text)
        if reading is not None:
            with self._lock:
                self._formed[form.kind, reading.essence, reading.style] = None

    def note_encoded(self, redacted: str, original: str) -> None:
        """Remember what redacted base64 stands for, to the last padding."""
        with self._lock:
            if self._encoded.setdefault(redacted, original) != original:
                self._encoded[redacted] = None

    def original(self, form: Form, text: str) -> str | None:
        """Return the secret that a pseudonym with a form stands for, written as it is; `None` if it is not known."""
        reading = form.read(text)
        if reading is None or not form.is_pseudonym(reading.essence):
            return None
        exact = self._formed.get((form.kind, reading.essence, reading.style))
        return None if exact is None else reading.put_back(exact)

    def restore(self, text: str) -> str:
        """Replace each known pseudonym that tells its kind, in a text, by its secret."""
        if not self.any_known:
            return text
        if has_pseudonym(text):
            text = self._restore_encoded(text)
        if not may_hold(text):
            return text
        text = _QUOTED_NUMBER.sub(lambda found: self._secret(found["name"]) or found[0], text)
        return PSEUDONYM.sub(self._told, text)

    def number(self, text: str) -> int | float | None:
        """Return the number that a whole string stands for, if it is the pseudonym of one in brackets."""
        found = PSEUDONYM.fullmatch(text)
        secret = self._known.get(text) if found and found["kind"] == NUMBER else None
        return None if secret is None else number_of(secret)

    def _told(self, found: re.Match[str]) -> str:
        if not found[0].startswith((MARK, IN_URL)):
            return self.original(EMAIL, found[0]) or found[0]
        secret = self._secret(f"{MARK}{found['kind']}:{found['digest']}]")
        if secret is None:
            return found[0]
        if found[0] in self._in_file_urls and is_in_file_url(found.string, found.start()):
            return self._in_file_urls[found[0]]
        if found["kind"] == PEM:
            before = found.string[max(0, found.start() - _LONGEST_BREAK) : found.start()]
            line_break = _BREAK_BEFORE.search(before)
            return secret.replace("\n", line_break["break"]) if line_break else secret
        return secret

    def _restore_encoded(self, text: str) -> str:
        for redacted, original in list(self._encoded.items()):
            text = text if original is None else text.replace(redacted, original)
        return sub_encoded(text, self.restore)

    def _secret(self, name: str) -> str | None:
        if self._expected and name not in self._known:
            for place in self._expected:
                self.make_place(place)
            self._expected = ()  # not before, as another thread would not find them
        return self._known[name] if name in self._known else self._escaped.get(name)

    def _bracket(self, kind: str, text: str) -> str:
        return f"{MARK}{kind}:{self._digest(text)[:4].hex()}]"

    def _digest(self, text: str) -> bytes:
        return hmac.digest(self._key, text.encode("utf-8", "surrogatepass"), "sha256")


def with_commas(secret: str) -> str:
    """Return a whole number of four digits or more as people write it; any other text unchanged."""
    return f"{int(secret):,}" if _GROUPED.fullmatch(secret) else secret


def number_of(text: str) -> int | float:
    """Return the number that `repr` has written."""
    return float(text) if set(text) & set(".eEn") else int(text)


def _other_writings(secret: str) -> list[str]:
    """Return a secret as JSON writes it inside of a string, once and twice, and read, if JSON has written it."""
    found: list[str] = []
    for ascii_only in (True, False):
        text = secret
        for _ in range(2):
            text = json.dumps(text, ensure_ascii=ascii_only)[1:-1]
            found.append(text)
    if "\\" in secret:
        try:
            inner = json.loads(f'"{secret}"')
        except ValueError:
            return found
        found.append(inner)
    return found


_FORMED = (
    r"(?<!\d)9999(?:[ -]?\d){8,15}(?!\d)"
    r"|(?<!\d)9\d\d-[1-4]\d-\d{4}(?!\d)"
    r"|(?<!\d)(?:\+?1[ .-]?)?\(?[2-9]\d\d\)?[ .-]?555[ .-]?01\d\d(?!\d)"
    r"|\+(?:999|99 9|9 99)[\d .()-]{4,20}\d"
    r"|(?<!\w)0{8}-0000-[1-9a-f]000-[89ab]000-[0-9a-f]{12}(?!\w)"
)
ANY_PSEUDONYM = Lazy(re.sub(r"\(\?P<\w+>", "(?:", PSEUDONYM.pattern) + "|" + _FORMED)
"""A pseudonym of any form that is seen without its name: all but numbers under a denied one. It has no groups."""


def kinds_in(text: str) -> list[str]:
    """Return the kinds of the pseudonyms in a text, but for those inside base64."""
    found = [match["kind"].lower() for match in PSEUDONYM.finditer(text)]
    rest = PSEUDONYM.sub(" ", text)
    spans = ((finding.kind, rest[finding.start : finding.end]) for finding in unsparing_scanner().find(rest))
    return found + [kind for kind, value in spans if is_pseudonym(kind, value)]


@cache
def unsparing_scanner() -> Scanner:
    """Return a scanner that finds all that the detectors know: pseudonyms with a form and examples, too."""
    from agenttape_core.redaction.scanner import Scanner

    return Scanner((), lambda _: False, lambda *_: False)


def holds_pseudonym(value: object, name: str = "") -> bool:
    """Return True if a recorded value stands for a secret, or tells with a pseudonym where one was.

    Args:
        value: A text or a number; anything else is not a pseudonym.
        name: The name of the value. A number can be a pseudonym only below a denied name.
    """
    told = isinstance(value, str) and PSEUDONYM.search(value) is not None
    return told or kind_of_formed(value, name) is not None


def kind_of_formed(value: object, name: str) -> str | None:
    """Return the kind of a value that as a whole is a pseudonym, which only its name tells. Takes the same."""
    if isinstance(value, bool) or not isinstance(value, str | int | float) or not is_denied(name):
        return None
    return kind_of_whole(value)


def kind_of_whole(value: str | float) -> str | None:
    """Return the kind of a value that can be a pseudonym below a denied name; `None` if it cannot."""
    if not isinstance(value, str):
        return NUMBER if is_pseudonym(NUMBER, repr(value)) else None
    return SECRET if is_pseudonym(SECRET, value) else None
