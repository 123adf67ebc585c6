"""The value that a name in a text is given: where it starts and ends, and whether it can be a secret.

A value under a denied name may still be a placeholder, a type, a variable or a piece of prose.
"""

from __future__ import annotations

import re

from agenttape_core.lazy_patterns import Lazy
from agenttape_core.named_tuples import NamedTuple
from agenttape_core.redaction.detection.findings import NUMBER, SECRET, Finding
from agenttape_core.redaction.detection.names import HEADERS, PASSWORDS, Demand, demand_of, words_of
from agenttape_core.redaction.detection.values import (
    is_about,
    is_alternating,
    is_code_name,
    is_placeholder,
    is_type_name,
    satisfies,
)

_OPEN = Lazy(r"(?:(?:[rbfuRBFU]{1,2}|[NE])(?=[\"']))?(?P<quote>\\{0,7}[\"'`])")
_SCHEME = Lazy(
    r"(?:Bearer|Basic|Token|ApiKey|Api-Key|Digest|Negotiate|AWS4-HMAC-SHA256|OAuth|Signature|Hawk"
    r"|[A-Z][A-Z-]{1,31}(?=[ \t]+[\w.:+/=~-]{16,4096}(?:[\s\"'\\]|\Z)))[ \t]+",
    re.IGNORECASE,
)
"""A scheme of HTTP; of others than the known ones, what follows must be one long word."""
_PARAMETERS = Lazy(r"""(?:[\w-]{1,40}=(?:\\{0,7}"[^"\\\r\n]{0,2048}\\{0,7}"|[^\s,"'\\]{1,2048})[, \t]{0,8})++""")
"""The parameters of a scheme that signs (RFC 9110, 11.4): `username="u", response="6629fae4"`."""
_HEADER = Lazy(r"""[^\r\n"'\\]{1,8192}""")
_QUERY = Lazy(r"""[^\s"'`&;#<>\\{}]{1,4096}""")
_ENVIRONMENT = Lazy(r"""(?:[^\s"'`\\;]|;(?!\s|\Z|[A-Za-z_ ]{1,40}=)){1,4096}""")
_ELEMENT = Lazy(r"[^<>\s]{1,4096}(?=</)")
_BARE = Lazy(r"""[^\s"'`,;&<>(){}\[\]|\\]{1,512}""")
_ASCII = Lazy(r"[!-~]{6,}(?=[\u3000-\ud7ff\uff00-\uffef])")
_DIGIT = Lazy(r"[0-9]")
_NUMBER = Lazy(r"""-?\d{1,40}(?:\.\d{1,40})?(?:[eE][+-]?\d{1,4})?(?=[\s,}\])]|\Z)""")
_PLACE = Lazy(r"<[^<>\n]{1,60}>")
"""A place for a value, which may have blanks: `API_KEY=<your key>`."""
_NUMERIC = Lazy(r"[0-9]+(?:[.,:][0-9]+)*")
_COOKIE = Lazy(r"[^\s=;,]{1,128}=[^\s=]")
_AFTER_STRING = Lazy(r"[\s),;:\]}\\]|\Z")
_CODE = Lazy(r"[A-Za-z_][\w.]*")
_WORDS = Lazy(r"[A-Za-z_.=/-]+")
_PAIR = Lazy(
    r"""(?:[\w.]{0,40}Auth)?[(][ ]?\\{0,3}["'][^"'\\\n]{0,128}\\{0,3}["'],"""
    r"""[ ]?\\{0,3}["'](?P<secret>[^"'\\\n]{1,256})\\{0,3}["']"""
)
"""User and password, as HTTP clients take them: `("bob", "x")`, `HTTPBasicAuth("bob", "x")`."""
_BREAK, _IN_LINE = r"(?:\r?\n|\\n)", r"(?:[^\r\n\\]|\\(?!n))"
_BLOCK = Lazy(
    rf"""[|>][+-]?[1-9]?[ \t]{{0,4}}{_BREAK}(?P<indent>[ \t]{{1,32}})(?P<secret>(?![\s#]){_IN_LINE}{{1,512}}"""
    rf"""(?:{_BREAK}(?P=indent){_IN_LINE}{{1,512}}){{0,40}})"""
)
"""A block scalar of YAML (1.2, 8.1): the value stands on the lines below, indented."""
_SECTION = Lazy(rf"(?:\A[\"']?|\n|\\n)\[[^\]\n=,(\\]{{1,80}}\][ \t]{{0,8}}{_BREAK}")
"""A section of an ini file."""
_INI_NEAR = 1000
_WHOLE_FILE = 10_000
_NAME_OF_CODE = Lazy(r"(?:[A-Za-z_]\w*\.)*(?:[a-z]\w*_[a-z]+|[A-Z]\w*[a-z](?:Key|KeyTypes|Token|Password|Secret))")
"""A variable or a class that is called like a secret."""
_CREDENTIAL = Lazy(r"(?i)(?:pass|pwd|key|secret|token|sig)[\w ]{0,20}=|[^\s/:@]@")
_LEET = Lazy(r"(?=.*[A-Za-z])[^\W_]*?[0-9]+[A-Za-z]+[0-9]+\w*")
"""Digits, letters and digits again: hardly a variable."""
_BOTH_CASES = Lazy(r"(?=.*[A-Z])(?=.*[a-z])(?=.*[0-9])\w{8}")
_PHRASE = Lazy(r"[a-z]{3,8}(?:[ ][a-z]{3,8}){11,23}(?![\w])")
"""The words of a wallet (BIP 39)."""
_CONNECTION = Lazy(r"""[A-Za-z ]{1,40}=[^\r\n"'`<>]{3,1024}|[a-z][a-z+.-]{1,20}:[^\s"'`<>]{3,1024}""")
_LOGPROB = Lazy(r"logprob|token_id|\"bytes|'bytes")
_PATH = ("/", "./", "../", "~/", "http://", "https://", "file:")
_MAX_VALUE = 16_384
_MIN_BARE = 4
_ARROWS = frozenset({"->", "\u2192"})
"""Separators of prose, which in code stand before a type."""
_OF_CARDS = frozenset({"cvv", "cvc", "csc"})
_MIN_OF_CARDS = 3
"""The digits of the code on a payment card."""
_MIN_SAID = 6
_MAX_SAID_DIGITS = 8
_SPECIAL = frozenset("!@#$%^&*?")
_CHOSEN = frozenset(
    {Demand.NOTHING, Demand.TEXT, Demand.DIGITS, Demand.CONNECTION, Demand.NO_PATH, Demand.MADE_UP, Demand.UUID}
)
_MIN_OPAQUE = 20
"""A word of so many letters after a scheme is no English."""
_API_KEYS = frozenset({("api", "key"), ("apikey",)})
_TWO_WORDS = Lazy("[a-z]{1,8}(?:[-_ ][a-z]{1,8})?")
"""An example of a key that a provider would draw: `api_key="lm-studio"`."""
_NOTHING = (0, 0)
_NEAR = 120


class Assignment(NamedTuple):
    """A name in a text and what follows it."""

    name: str  # as it is written
    start: int  # of the name
    value: int  # the start of the value, or of its quote
    kind: str  # of its value
    demand: Demand  # on the value
    sep: str = " "  # between them: a blank in the words of a command, ` is ` in prose
    close: str | None = None  # the quote that ends the name
    gap: str = ""  # blanks before the value


def find_value(text: str, found: Assignment) -> Finding | None:
    """Return the secret that is assigned to a name, or `None` if the value is no secret."""
    opened = _OPEN.match(text, found.value)
    start, end = _quoted(text, found, opened) if opened else _unquoted(text, found)
    if found.demand not in _CHOSEN:
        start, end = _suspicious(text, found, start, end, is_quoted=bool(opened))
        return Finding(start, end, SECRET) if start < end else None
    if number := _json_number(text, found, opened):
        return Finding(found.value, number, NUMBER, found.close or "")
    if words_of(found.name)[-1] in HEADERS and (scheme := _SCHEME.match(text, start, end)):
        start = scheme.end()
    if end <= start or _is_harmless(text[start:end], found) or _is_model_token(text, found, start, end):
        return None
    if found.sep in _ARROWS and not is_alternating(text[start:end]):
        return None
    if not satisfies(text[start:end], found.demand) or _is_turn(text[start:end], found, is_quoted=bool(opened)):
        return None
    return Finding(start, end, found.kind)


def _is_harmless(value: str, found: Assignment) -> bool:
    """Return True for a placeholder, a description, a key to press (HTML), or a connection without a password."""
    is_word = value.isalpha() and value.islower()
    if found.demand is Demand.CONNECTION and not _CREDENTIAL.search(value):
        return True
    if is_word and (found.demand is Demand.DIGITS or words_of(found.name)[-1] in ("cookie", "cookies")):
        return True
    is_key_to_press = len(value) == 1 and found.name.lower() == "accesskey"
    if found.sep == "=" and words_of(found.name)[-2:] in _API_KEYS and _TWO_WORDS.fullmatch(value):
        return True
    return is_key_to_press or is_placeholder(value) or is_about(value, found.name)


def _is_turn(value: str, found: Assignment, *, is_quoted: bool) -> bool:
    """Return True if `pass: 12.5s` or `pass: x2` tells of a turn rather than of a password."""
    if is_quoted or found.name.lower() != "pass" or found.sep != ":":
        return False
    return not is_alternating(value) and not _SPECIAL.intersection(value) and not _BOTH_CASES.match(value)


def _suspicious(text: str, found: Assignment, start: int, end: int, *, is_quoted: bool) -> tuple[int, int]:
    """Return where the secret under a name such as `key` or `auth` starts and ends."""
    pair = _PAIR.match(text, found.value) if found.sep == "=" and found.name.endswith("auth") else None
    if pair:
        return _NOTHING if is_placeholder(pair["secret"]) else pair.span("secret")
    value = text[start:end]
    is_code = not is_quoted and "." in value and _CODE.fullmatch(value)
    return (start, end) if satisfies(value, found.demand) and not is_code else _NOTHING


def _quoted(text: str, found: Assignment, opened: re.Match[str]) -> tuple[int, int]:
    """Return where a quoted value starts and ends."""
    start, quote = opened.end(), opened["quote"]
    if _is_closing(text, found, opened) or ("f" in opened[0].lower() and "{" in text[start : start + _NEAR]):
        return _NOTHING  # the end of another string, or a template in source code
    if "r" in opened[0].lower() and text[start : start + 1] in ("[", "\\", "(", "^"):
        return _NOTHING  # a regular expression
    end = closing(text, start, quote)
    if quote == "`" and found.sep == "=" and not found.gap and " " in text[start:end]:
        return _NOTHING  # a command of a shell
    return start, end


def _unquoted(text: str, found: Assignment) -> tuple[int, int]:
    at = found.value
    if _PLACE.match(text, at):
        return _NOTHING
    last = words_of(found.name)[-1]
    if last in ("mnemonic", "phrase") and (phrase := _PHRASE.match(text, at)):
        return phrase.span()
    if found.demand is Demand.CONNECTION:
        return at, _end(_CONNECTION, text, at)
    if found.sep == ">":
        return at, _end(_ELEMENT, text, at)
    if found.sep == ":" and (block := _BLOCK.match(text, at)):
        return block.span("secret")
    return at, _bare(text, found)


def _is_closing(text: str, found: Assignment, opened: re.Match[str]) -> bool:
    """Return True if the quote after a name ends the string that the name is in: `getpass("Password: ")`."""
    if found.close or not _AFTER_STRING.match(text, opened.end()):
        return False
    line = text[max(0, found.start - _NEAR) : found.start].rpartition("\n")[2]
    return line.count(opened["quote"]) % 2 == 1


def closing(text: str, start: int, quote: str) -> int:
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


def _end(pattern: Lazy[str], text: str, at: int) -> int:
    match = pattern.match(text, at)
    return match.end() if match else at


def _bare(text: str, found: Assignment) -> int:
    """Return where a value without quotes ends, or its start when there is none that could be a secret."""
    at, sep, last = found.value, found.sep, words_of(found.name)[-1]
    if last in HEADERS and sep == ":":
        return _header(text, at) if last == "authorization" else _cookie(text, at)
    if sep == "=" and text[found.start - 1 : found.start] in ("?", "&", "#"):
        return _end(_QUERY, text, at)
    if sep == "=" and not found.gap and found.name.isupper():
        return _end(_ENVIRONMENT, text, at)
    end = _end(_BARE, text, at)
    value = text[at:end].rstrip(".,:?*\u00bb\u201d\u201c\u2019")
    if sep == " is " and (ascii_ := _ASCII.match(value)):
        value = ascii_[0]  # what follows it in Chinese, Japanese and Korean has no blank before it
    if sep == " is " and not _is_said(value, found):
        return at
    if text[end : end + 1] in ("(", "[") or not _is_secret_word(text, value, found):
        return at
    return at + len(value)


def _header(text: str, at: int) -> int:
    """Return where the value of an `Authorization` ends: one word after a scheme, or the parameters of one."""
    scheme = _SCHEME.match(text, at)
    start = scheme.end() if scheme else at
    if scheme and (end := _end(_PARAMETERS, text, start)) > start and "=" in text[start:end].rstrip("= \t"):
        return start + len(text[start:end].rstrip(", \t"))
    line = text[start : _end(_HEADER, text, start)].rstrip()
    word = line.split(" ", 1)[0] if scheme else line
    if " " in word or (not _DIGIT.search(word) and (not scheme or (len(word) < _MIN_OPAQUE and word.isalpha()))):
        return at
    return start + len(word)


def _cookie(text: str, at: int) -> int:
    line = text[at : _end(_HEADER, text, at)].rstrip()
    return at + len(line) if _COOKIE.match(line) else at


def _is_said(value: str, found: Assignment) -> bool:
    """Return True if the word after `password is` mixes letters and digits, as words of prose do not."""
    is_chosen = found.demand is Demand.DIGITS or words_of(found.name)[-1] in PASSWORDS
    if is_chosen and value.isdigit():
        return _MIN_BARE <= len(value) <= _MAX_SAID_DIGITS
    is_mixture = bool(_DIGIT.search(value)) and any(char.isalpha() for char in value)
    return len(value) >= _MIN_SAID and is_mixture and not is_type_name(value.partition("-")[0])


def _is_secret_word(text: str, value: str, found: Assignment) -> bool:
    if words_of(found.name)[-1] in _OF_CARDS and value.isdecimal():
        return len(value) >= _MIN_OF_CARDS
    if len(value) < _MIN_BARE or value.startswith(_PATH) or is_type_name(value):
        return False
    if _NUMERIC.fullmatch(value):
        return found.demand is Demand.DIGITS or words_of(found.name)[-1] in PASSWORDS
    if not _DIGIT.search(value) and _WORDS.fullmatch(value):
        return False
    if _NAME_OF_CODE.fullmatch(value) and demand_of(value.removesuffix("Types")) is not None:
        return False
    is_code = found.sep in ("=", "==", ":=", "=>") or (found.close is None and "." in value and not _is_no_code(found))
    return not (is_code and (found.gap or "." in value) and is_code_name(value)) or _is_in_ini(text, value, found)


def _is_no_code(found: Assignment) -> bool:
    """Return True for `--token hvs.x1` and `X-Vault-Token: hvs.x1`: no variable has a hyphen in its name."""
    if found.sep == " " and found.name.startswith("--"):
        return True
    return found.sep == ":" and "-" in found.name.strip("-") and found.name[0].isupper()


def _is_in_ini(text: str, value: str, found: Assignment) -> bool:
    """Return True if what reads like a variable is the value of a configuration: `password = S3cr3tPw99`."""
    if found.sep != "=" or "." in value:
        return False
    if _is_line_of_its_own(text, value, found):
        return True
    return bool(_LEET.fullmatch(value) or _SECTION.search(text, max(0, found.start - _INI_NEAR), found.start))


def _is_line_of_its_own(text: str, value: str, found: Assignment) -> bool:
    """Return True if `password = hunter2` is a line of settings: code that names a variable has it twice at least."""
    end = found.value + len(value)
    is_line = text[found.start - 1 : found.start] in ("", "\n") and text[end : end + 1] in ("", "\n", "\r")
    near = max(0, found.start - _WHOLE_FILE), end + _WHOLE_FILE
    return is_line and words_of(found.name)[-1] in PASSWORDS and text.count(value, *near) == 1


def _json_number(text: str, found: Assignment, opened: re.Match[str] | None) -> int:
    """Return where a bare number after a quoted name ends, or 0."""
    if opened or not found.close or found.sep not in (":", "=>"):
        return 0
    match = _NUMBER.match(text, found.value)
    if match and not satisfies(match[0], found.demand):
        return 0
    return match.end() if match and not _is_model_token(text, found, found.value, match.end()) else 0


def _is_model_token(text: str, found: Assignment, start: int, end: int) -> bool:
    """Return True if the value is a piece of a model's output: it has blanks, or its log probability is near."""
    if words_of(found.name) != ("token",):
        return False
    value = text[start:end]
    around = text[max(0, found.start - _NEAR) : found.start] + text[end : end + _NEAR]
    return value != value.strip() or " " in value or bool(_LOGPROB.search(around))
