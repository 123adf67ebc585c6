"""Secrets that only their name gives away, inside a text.

`password = "x"`, `{"api_key": "x"}` at any depth of JSON escapes, `Authorization: x`, `?token=x`, `DB_PASSWORD=x`,
`--password x`, `<secret>x</secret>`. The name decides (see `names`), the value may still be a placeholder, a type, a
variable or a piece of prose.
"""

from __future__ import annotations

import re
import string
from typing import TYPE_CHECKING, NamedTuple

from agenttape_core.redaction.names import HEADERS, PASSWORDS, Names, is_suspicious, words_of
from agenttape_core.redaction.pseudonyms import NUMBER, SECRET
from agenttape_core.redaction.values import (
    is_code_name,
    is_placeholder,
    is_random,
    is_type_name,
)

if TYPE_CHECKING:
    from collections.abc import Iterator

    from agenttape_core.redaction.findings import Finding
    from agenttape_core.redaction.views import View

_NAME = string.ascii_letters + string.digits + "_-."
_MAX_LEFT = 48
_TAIL = re.compile(
    r"""(?x)
    (?P<rest>[A-Za-z0-9_-]{0,48}+)
    (?P<close>\\{0,7}["'`])? \]? [ \t]{0,8}
    (?: (?P<typed>:[ \t]{0,4}(?:str|bytes|string|String|SecretStr|Optional\[str\]|str[ ]\|[ ]None)[ \t]{0,4}=(?!=))
      | (?P<sep>=>|:=|={1,2}|:|>) )
    (?P<gap>[ \t]{0,8})"""
)
_FLAG = re.compile(r"(?P<rest>[A-Za-z0-9_-]{0,48}+)(?P<close>)(?P<sep> )(?P<gap>)(?!-)")
_OPEN = re.compile(r"(?:[rbfuRBFU]{1,2}(?=[\"']))?(?P<quote>\\{0,7}[\"'`])")
_SCHEME = re.compile(r"(?:Bearer|Basic|Token|ApiKey|Api-Key|Digest|Negotiate|AWS4-HMAC-SHA256)[ \t]+", re.IGNORECASE)
_HEADER = re.compile(r"""[^\r\n"'\\]{1,8192}""")
_QUERY = re.compile(r"""[^\s"'`&;#<>\\{}]{1,4096}""")
_ENVIRONMENT = re.compile(r"""[^\s"'`\\]{1,4096}""")
_ELEMENT = re.compile(r"[^<>\s]{1,4096}(?=</)")
_BARE = re.compile(r"""[^\s"'`,;&<>(){}\[\]|\\]{1,512}""")
_DIGIT = re.compile(r"[0-9]")
_NUMBER = re.compile(r"""-?\d{1,40}(?:\.\d{1,40})?(?:[eE][+-]?\d{1,4})?(?=[\s,}\])]|\Z)""")
_COOKIE = re.compile(r"[^\s=;,]{1,128}=[^\s=]")
_AFTER_STRING = re.compile(r"[\s),;:\]}\\]|\Z")
_CODE = re.compile(r"[A-Za-z_][\w.]*")
_WORDS = re.compile(r"[A-Za-z_.=/-]+")
_LOGPROB = re.compile(r"logprob|token_id|\"bytes|'bytes")
_PATH = ("/", "./", "../", "~/", "http://", "https://", "file:")
_MAX_VALUE = 16_384
_MIN_BARE = 4
_NEAR = 120


class _Assignment(NamedTuple):
    """A name in a text and what follows it."""

    name: str
    """The name as it is written."""
    start: int
    """Where the name starts."""
    value: int
    """Where the value starts, or its quote."""
    tail: re.Match[str]
    kind: str | None
    """The kind of its value, or nothing when the value must also look random."""


def find_assignments(view: View, names: Names) -> Iterator[Finding]:
    """Find values of denied names, and random-looking values of names such as `key`."""
    flags = b"--" in view.raw
    for stem in names.stems:
        at = view.low.find(stem)
        while at >= 0:
            tail = _TAIL.match(view.text, at) or (_FLAG.match(view.text, at) if flags else None)
            found = _named(view.text, at, tail, names) if tail else None
            finding = _value(view, found) if found else None
            if finding:
                yield finding
            # What is inside a secret needs no look of its own, and texts that nest names stay cheap.
            at = view.low.find(stem, max(at + len(stem), finding.end if finding else 0))


def _named(text: str, at: int, tail: re.Match[str], names: Names) -> _Assignment | None:
    window = text[max(0, at - _MAX_LEFT) : at]
    before = window.rstrip(_NAME)
    left = window[len(before) :]
    if before.endswith("\\") and left[:1] in tuple("nrt"):
        left = left[1:]
    elif not left and before[-4:].lower() == "api ":
        left = "api_"
    name = (left + tail["rest"]).rstrip(".")
    if tail["sep"] == " " and not left.startswith("--"):
        return None
    start = at - len(left)
    if tail["sep"] == ">" and text[start - 1 : start] != "<":
        return None
    kind = names.kind_of(name)
    if tail["sep"] == "==" and words_of(name)[-1:] == ("token",):
        return None  # the lexer of a language
    if not kind and not is_suspicious(name):
        return None
    return _Assignment(name, start, tail.end(), tail, kind)


def _value(view: View, found: _Assignment) -> Finding | None:
    text, at = view.text, found.value
    opened = _OPEN.match(text, at)
    if opened and _is_closing(text, found, opened):
        return None
    if opened:
        start = opened.end()
        if "f" in opened[0].lower() and "{" in text[start : start + _NEAR]:
            return None  # a template in source code
        end = _closing(text, start, opened["quote"])
    elif found.tail["sep"] == ">":
        start, end = at, _end(_ELEMENT, text, at)
    else:
        start, end = at, _bare(text, found)
    if not found.kind:
        value = text[start:end]
        is_code = not opened and "." in value and _CODE.fullmatch(value)
        return view.finding(start, end, SECRET) if is_random(value) and not is_code else None
    if number := _json_number(text, found, opened):
        return view.finding(at, number, NUMBER, found.tail["close"])
    if words_of(found.name)[-1] in HEADERS and (scheme := _SCHEME.match(text, start, end)):
        start = scheme.end()
    if end <= start or is_placeholder(text[start:end]) or _is_model_token(text, found, start, end):
        return None
    return view.finding(start, end, found.kind)


def _is_closing(text: str, found: _Assignment, opened: re.Match[str]) -> bool:
    """Whether the quote after a name ends the string that the name is in: `getpass("Password: ")`."""
    if found.tail["close"] or not _AFTER_STRING.match(text, opened.end()):
        return False
    line = text[max(0, found.start - _NEAR) : found.start].rpartition("\n")[2]
    return line.count(opened["quote"]) % 2 == 1


def _closing(text: str, start: int, quote: str) -> int:
    """Return where a quoted value ends: at its quote, or where the line or the text does."""
    limit = min(len(text), start + _MAX_VALUE)
    line = text.find("\n", start, limit)
    limit = line if line >= 0 and quote != "`" else limit
    at = text.find(quote, start, limit)
    while at >= 0:
        slashes = len(text[start:at]) - len(text[start:at].rstrip("\\"))
        if slashes % 2 == 0:
            return at
        at = text.find(quote, at + 1, limit)
    return limit


def _end(pattern: re.Pattern[str], text: str, at: int) -> int:
    match = pattern.match(text, at)
    return match.end() if match else at


def _bare(text: str, found: _Assignment) -> int:
    """Return where a value without quotes ends, or its start when there is none that could be a secret."""
    at, sep, last = found.value, found.tail["sep"], words_of(found.name)[-1]
    if last in HEADERS and sep == ":":
        return _header(text, at, cookie=last != "authorization")
    if sep == "=" and text[found.start - 1 : found.start] in ("?", "&"):
        return _end(_QUERY, text, at)
    if sep == "=" and not found.tail["gap"] and found.name.isupper():
        return _end(_ENVIRONMENT, text, at)
    end = _end(_BARE, text, at)
    value = text[at:end].rstrip(".,:!?*")
    if text[end : end + 1] in ("(", "[") or not _is_secret_word(value, found):
        return at
    return at + len(value)


def _header(text: str, at: int, *, cookie: bool) -> int:
    line = text[at : _end(_HEADER, text, at)].rstrip()
    if cookie:
        return at + len(line) if _COOKIE.match(line) else at
    scheme = _SCHEME.match(line)
    if not scheme and (" " in line or not any(char.isdigit() for char in line)):
        return at
    return at + len(line)


def _is_secret_word(value: str, found: _Assignment) -> bool:
    if len(value) < _MIN_BARE or value.startswith(_PATH) or is_type_name(value):
        return False
    if value.isdigit():
        return words_of(found.name)[-1] in PASSWORDS
    if not _DIGIT.search(value) and _WORDS.fullmatch(value):
        return False
    is_code = found.tail["sep"] in ("=", "==", ":=", "=>") or (found.tail["close"] is None and "." in value)
    return not (is_code and (found.tail["gap"] or "." in value) and is_code_name(value))


def _json_number(text: str, found: _Assignment, opened: re.Match[str] | None) -> int:
    """Return where a bare number after a quoted name ends, or 0."""
    if opened or not found.tail["close"] or found.tail["sep"] not in (":", "=>"):
        return 0
    match = _NUMBER.match(text, found.value)
    return match.end() if match and not _is_model_token(text, found, found.value, match.end()) else 0


def _is_model_token(text: str, found: _Assignment, start: int, end: int) -> bool:
    """Whether the value is a piece of a language model's output: it has blanks, or its log probability is near."""
    if words_of(found.name) != ("token",):
        return False
    value = text[start:end]
    around = text[max(0, found.start - _NEAR) : found.start] + text[end : end + _NEAR]
    return value != value.strip() or " " in value or bool(_LOGPROB.search(around))
