"""Redaction and rehydration of plain data: values, keys, and what a key says about its value."""

from __future__ import annotations

import base64
import binascii
from typing import TYPE_CHECKING, Any

from agenttape_core.redaction.names import words_of
from agenttape_core.redaction.pseudonyms import MARK, NUMBER, PSEUDONYM, Pseudonyms
from agenttape_core.redaction.values import is_placeholder

if TYPE_CHECKING:
    from agenttape_core.redaction.redactor import Redactor
    from agenttape_core.schema import Plain

BYTES = frozenset({"$bytes", "$bytearray"})
"""Tags whose body is base64; see `agenttape_core.schema.values`."""
_COLLECTIONS = frozenset({"$tuple", "$set", "$frozenset", "$deque"})
_SCALARS = frozenset({"$str", "$float", "$uuid", "$decimal", "$fraction"})
_OPAQUE = frozenset({"$float", "$uuid", "$decimal", "$fraction", "$datetime", "$date", "$time"})
_OF_MODELS = frozenset(
    [
        "logprob",
        "top_logprobs",
        "bytes",
        "token_id",
        "prob",
        "probability",
        "rank",
        "score",
        "start",
        "end",
        "offset",
        "pos",
        "lemma",
    ]
)
_SCHEMES = frozenset({"", "bearer", "basic", "token", "digest", "apikey", "negotiate"})


def redact_value(plain: Plain, redactor: Redactor) -> Plain:
    """Return redacted plain data; the very same object when nothing changed."""
    if isinstance(plain, str):
        return redactor.text(plain)
    if isinstance(plain, dict):
        return _redact_dict(plain, redactor)
    if isinstance(plain, list):
        return _redact_list(plain, redactor)
    return plain


def _redact_dict(plain: dict[str, Any], redactor: Redactor) -> dict[str, Any]:
    if len(plain) == 1:
        ((tag, body),) = plain.items()
        if tag in BYTES and isinstance(body, str):
            redacted = redactor.base64(body)
            return plain if redacted is body else {tag: redacted}
        if tag in _OPAQUE:
            return plain
    result: dict[str, Any] = {}
    changed = False
    for key, item in plain.items():
        kind = denied_kind(plain, key, redactor)
        redacted = redact_denied(item, kind, redactor, key) if kind else redact_value(item, redactor)
        name = redactor.text(key)
        changed = changed or redacted is not item or name is not key
        result[name] = redacted
    return result if changed else plain


def _redact_list(plain: list[Any], redactor: Redactor) -> list[Any]:
    pairs = plain and all(_pair(item) for item in plain)
    result = [(_redact_pair if pairs else redact_value)(item, redactor) for item in plain]
    return plain if all(new is old for new, old in zip(result, plain, strict=True)) else result


def _pair(item: Any) -> list[Any] | None:
    """Return a list or tagged tuple of a string and something, as lists of headers have them."""
    if isinstance(item, dict) and len(item) == 1:
        item = item.get("$tuple")
    if isinstance(item, list) and len(item) == 2 and isinstance(_header_name(item[0]), str):  # noqa: PLR2004 - a pair
        return item
    return None


def _header_name(name: Any) -> str | None:
    """Return a header's name, which ASGI and HTTP/2 give as bytes."""
    if isinstance(name, dict) and len(name) == 1 and isinstance(name.get("$bytes"), str):
        return decoded(name["$bytes"])
    return name if isinstance(name, str) else None


def _redact_pair(item: Any, redactor: Redactor) -> Any:
    pair = _pair(item) or []
    kind = redactor.kind_of(_header_name(pair[0]) or "")
    if kind is None:
        return redact_value(item, redactor)
    redacted = redact_denied(pair[1], kind, redactor)
    if redacted is pair[1]:
        return item
    return {"$tuple": [pair[0], redacted]} if isinstance(item, dict) else [pair[0], redacted]


def denied_kind(plain: dict[str, Any], key: str, redactor: Redactor) -> str | None:
    """Return the kind of the value under a key of a dict, or nothing if the key is not denied there."""
    kind = redactor.kind_of(key)
    if kind is None:
        if key != "value":
            return None
        # A header or a cookie as HAR files and many APIs write it: {"name": "X-Api-Key", "value": "..."}.
        name = plain.get("name", plain.get("key"))
        return redactor.kind_of(name) if isinstance(name, str) else None
    if words_of(key) == ("token",):
        value = plain[key]
        # An entry of log probabilities or of a tokenizer; a credential has no blanks either.
        if not _OF_MODELS.isdisjoint(plain) or (isinstance(value, str) and any(map(str.isspace, value))):
            return None
    return kind


def redact_denied(item: Plain, kind: str, redactor: Redactor, key: str = "") -> Plain:
    """Return the value of a denied name with each string and number in it replaced as a whole.

    A dict is looked at by its own keys, except that of cookies: `{"password": {"type": "string"}}` is a schema.
    """
    if isinstance(item, str):
        return redact_whole(item, kind, redactor)
    if isinstance(item, int | float) and not isinstance(item, bool):
        return redactor.pseudonym(NUMBER, repr(item))
    if isinstance(item, list):
        result = [redact_denied(part, kind, redactor) for part in item]
        return item if all(new is old for new, old in zip(result, item, strict=True)) else result
    if isinstance(item, dict):
        return _redact_denied_dict(item, kind, redactor, key)
    return item


def _redact_denied_dict(item: dict[str, Any], kind: str, redactor: Redactor, key: str) -> Plain:
    if len(item) == 1:
        ((tag, body),) = item.items()
        if tag in BYTES and isinstance(body, str) and (whole := decoded(body)) is not None:
            redacted = redact_whole(whole, kind, redactor)
            return item if redacted is whole else {tag: encoded(redacted)}
        if tag in _COLLECTIONS:
            redacted = redact_denied(body, kind, redactor)
            return item if redacted is body else {tag: redacted}
        if tag in _SCALARS and isinstance(body, str):
            return redactor.pseudonym(kind, body)
    if words_of(key)[-1:] in (("cookies",), ("cookie",)):
        result = {name: redact_denied(part, kind, redactor) for name, part in item.items()}
        return item if all(result[name] is part for name, part in item.items()) else result
    return _redact_dict(item, redactor)


def redact_whole(text: str, kind: str, redactor: Redactor) -> str:
    """Return the pseudonym of a string of which the name says that it is secret, unless it is a placeholder.

    What a detector finds in it keeps its own kind, if it is all there is but for an authentication scheme: a key has
    one pseudonym, whether it stands in a header or in a sentence.
    """
    if is_placeholder(text):
        return text
    redacted = redactor.text(text)
    if MARK in redacted and PSEUDONYM.sub("", redacted).strip().lower() in _SCHEMES:
        return redacted
    return redactor.pseudonym(kind, text)


def decoded(body: str) -> str | None:
    """Return bytes in base64 as one character per byte, or nothing if it is no base64."""
    try:
        return base64.b64decode(body, validate=True).decode("latin-1")
    except (binascii.Error, ValueError):
        return None


def encoded(text: str) -> str:
    """Return one character per byte as base64."""
    return base64.b64encode(text.encode("latin-1")).decode("ascii")


def is_utf8(text: str) -> bool:
    """Whether bytes, given as one character per byte, are text in UTF-8."""
    try:
        text.encode("latin-1").decode()
    except UnicodeDecodeError:
        return False
    return True


def rehydrate_value(plain: Plain, pseudonyms: Pseudonyms) -> Plain:
    """Return plain data with the known secrets put back; the very same object when there are none."""
    if isinstance(plain, str):
        if MARK not in plain:
            return plain
        number = pseudonyms.number(plain)
        return pseudonyms.restore(plain) if number is None else number
    if isinstance(plain, list):
        result = [rehydrate_value(item, pseudonyms) for item in plain]
        return plain if all(new is old for new, old in zip(result, plain, strict=True)) else result
    if isinstance(plain, dict):
        return _rehydrate_dict(plain, pseudonyms)
    return plain


def _rehydrate_dict(plain: dict[str, Any], pseudonyms: Pseudonyms) -> dict[str, Any]:
    if len(plain) == 1:
        ((tag, body),) = plain.items()
        if tag in BYTES and isinstance(body, str):
            text = decoded(body)
            return plain if text is None or MARK not in text else {tag: encoded(pseudonyms.restore(text))}
    result: dict[str, Any] = {}
    changed = False
    for key, item in plain.items():
        name, restored = pseudonyms.restore(key), rehydrate_value(item, pseudonyms)
        changed = changed or name is not key or restored is not item
        result[name] = restored
    return result if changed else plain
