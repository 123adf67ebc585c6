"""A reader for exactly the YAML that `yaml_text` writes, several times faster than PyYAML's C loader.

A replay reads one record at a time, so this is its hot path. The reader supports exactly one layout: at the first sign
of another it raises `NotCanonical`, and the caller turns to the full reader, which also explains the error. What it
accepts, the full reader accepts with the same result (property-tested).
"""

from __future__ import annotations

import re
from json.decoder import scanstring  # type: ignore[attr-defined]  # what `json` itself reads strings with
from typing import Any

from agenttape_core.format.limits import MAX_DEPTH, MAX_VALUES
from agenttape_core.format.malformed import Malformed
from agenttape_core.format.yaml_text import KEY, SIMPLE_KEY, UNSAFE
from agenttape_core.lazy_patterns import Lazy

_QUOTED = r'"[^"\\\n\t]*(?:\\(?:["\\bfnrt]|u(?!d[89a-f])[0-9a-f]{4})[^"\\\n\t]*)*"'
_NUMBER = r"-?(?:0|[1-9][0-9]{0,4000})(?:\.[0-9]+)?(?:e[+-][0-9]+)?"
_match_key = re.compile(rf"({KEY}|{_QUOTED}):(?: |\Z)").match
_match_quoted = re.compile(_QUOTED).fullmatch
_match_number = re.compile(_NUMBER).fullmatch
_NUMBERS = Lazy(rf"\[{_NUMBER}(?:, {_NUMBER})*\]")
_CONTROLS = bytes({*range(9), *range(11, 32), 127})
_LETTERS = frozenset("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ_$")
_WORDS: dict[str, Any] = {"null": None, "true": True, "false": False}
_LITERALS = {f"|{size}{chomp}": (bool(size), chomp) for size in ("", "2") for chomp in ("", "-", "+")}
_PADS = [" " * width for width in range(MAX_DEPTH - 4)]  # a level takes a column or more; deeper is checked elsewhere
_seen_keys: set[str] = set()  # plain keys that were checked before: every record has the same few dozen
_MAX_SEEN_KEYS = 4096
_seen_lines: dict[str, tuple[str, Any]] = {}  # the keys and values of short lines: all records share most of them
_SHORT, _MAX_SEEN_LINES = 24, 4096
_MUTABLE = (dict, list)
_INFINITIES = (float("inf"), float("-inf"))

_BELOW, _LITERAL = object(), object()  # the values of lines whose value is on the next ones

Parsed = tuple[Any, int]


class NotCanonical(Exception):  # noqa: N818 - a signal to use the full reader, not an error
    """The text is not laid out as `yaml_text` lays it out; it may be good YAML nevertheless."""


def load_canonical(raw: bytes) -> Any:
    """Parse one document that `yaml_text` wrote.

    `raw` has whole lines of UTF-8 at column 0, the last one ended. Raises `NotCanonical` if it needs the full reader.
    """
    if len(raw.translate(None, _CONTROLS)) != len(raw):
        raise NotCanonical
    if len(raw) > MAX_VALUES and raw.count(b"\n") > MAX_VALUES:
        raise Malformed(f"more than {MAX_VALUES} lines in one record")
    try:
        text = raw.decode()
    except UnicodeDecodeError:
        raise NotCanonical from None
    if not text.isascii() and UNSAFE.search(text):
        raise NotCanonical
    lines = text.split("\n")
    del text  # it may be large, and its lines are the same again
    if lines.pop() or not lines:
        raise NotCanonical
    lines.append("\n")  # stands at column 0 and is no key: the end, whatever the level
    value, end = _mapping(lines, 0, 0, lines[0])
    if end != len(lines) - 1:
        raise NotCanonical
    return value


def _mapping(lines: list[str], at: int, column: int, text: str) -> Parsed:  # noqa: C901, PLR0912 - each line of each answer
    """Parse the dict whose first key is at the start of `text`, the rest of line `at` from `column` on."""
    found: dict[str, Any] = {}
    pad = _PADS[column]
    value: Any
    while True:
        seen = _seen_lines.get(text)
        if seen is not None:
            key, value = seen
        else:
            if text[-1:] == ":":
                key, rest = text[:-1], ""
            else:
                key, _, rest = text.partition(": ")
            if key not in _seen_keys:
                key, rest = _split(text)
            if not rest:
                if text[-1:] != ":":
                    raise NotCanonical
                value = _BELOW
            # Most values are plain text; the conditions are those of `_scalar`.
            elif rest[0] in _LETTERS and rest[-1] not in ": " and rest not in _WORDS:
                value = rest if ": " not in rest and " #" not in rest and "\t" not in rest else _scalar(rest)
            elif rest[0] == '"' and "\\" not in rest and _match_quoted(rest):
                value = rest[1:-1]
            else:
                value = _LITERAL if rest in _LITERALS else _scalar(rest)
            if len(text) <= _SHORT and len(_seen_lines) < _MAX_SEEN_LINES and type(value) not in _MUTABLE:
                _seen_lines[text] = key, value
        if key in found:
            raise NotCanonical
        if value is _BELOW:  # a list is at the same column, a dict two to the right
            at += 1
            line, below = lines[at], column + 2
            if below < len(_PADS) and line.startswith(_PADS[below]):
                found[key], at = _mapping(lines, at, below, line[below:])
            elif line.startswith("- ", column) and line.startswith(pad):
                found[key], at = _sequence(lines, at, column, line[column:])
            else:
                raise NotCanonical
        elif value is _LITERAL:
            found[key], at = _literal(lines, at + 1, column + 2, text[text.rindex("|") :])
        else:
            found[key] = value
            at += 1
        line = lines[at]
        if not line.startswith(pad) or line == "\n":
            return found, at
        text = line[column:]


def _split(text: str) -> tuple[str, str]:
    """The key at the start of a line and what follows it."""
    match = _match_key(text)
    if match is None or match.end() > SIMPLE_KEY or match[1] in _WORDS:
        raise NotCanonical
    key = match[1]
    if key[0] == '"':
        return scanstring(key, 1)[0], text[match.end() :]
    if len(_seen_keys) < _MAX_SEEN_KEYS:
        _seen_keys.add(key)
    return key, text[match.end() :]


def _sequence(lines: list[str], at: int, column: int, text: str) -> Parsed:
    """Parse the list whose first dash is at the start of `text`."""
    found: list[Any] = []
    lead = _PADS[column] + "- "
    while True:
        rest = text[2:]
        if rest[:1] == "|":
            item, at = _literal(lines, at + 1, column + 2, rest)
        elif rest[:2] == "- " or (rest.partition(": ")[0] in _seen_keys and ": " in rest) or _match_key(rest):
            if column + 2 >= len(_PADS):
                raise NotCanonical
            item, at = (_sequence if rest[:2] == "- " else _mapping)(lines, at, column + 2, rest)
        elif rest.isidentifier() and rest[0] in _LETTERS and rest not in _WORDS:  # as most items are
            item, at = rest, at + 1
        else:
            item, at = _scalar(rest), at + 1
        found.append(item)
        if not lines[at].startswith(lead):
            return found, at
        text = lines[at][column:]


def _scalar(text: str) -> Any:
    first = text[:1]
    if first in _LETTERS:
        if text in _WORDS:
            return _WORDS[text]
        # The conditions of `yaml_text.PLAIN`, without the cost of a pattern.
        if ": " not in text and " #" not in text and "\t" not in text and text[-1] not in ": ":
            return text
    elif first == '"':
        if _match_quoted(text):
            return scanstring(text, 1)[0] if "\\" in text else text[1:-1]
    elif first in "[{":
        return _flow(text)
    elif _match_number(text):
        return _number(text) if "." in text or "e" in text else int(text)
    raise NotCanonical


def _flow(text: str) -> Any:
    if text == "{}":
        return {}
    if text != "[]" and not _NUMBERS.fullmatch(text):
        raise NotCanonical
    return [_number(item) for item in text[1:-1].split(", ")] if len(text) > len("[]") else []


def _number(text: str) -> int | float:
    if "." not in text and "e" not in text:
        return int(text)
    number = float(text)
    if number in _INFINITIES:
        raise NotCanonical
    return number


def _literal(lines: list[str], at: int, column: int, header: str) -> Parsed:
    if header not in _LITERALS or column >= len(_PADS):
        raise NotCanonical
    sized, chomp = _LITERALS[header]
    pad, start = _PADS[column], at
    line = lines[at]
    while line.startswith(pad) or not line:
        at += 1
        line = lines[at]
    body = [line[column:] for line in lines[start:at]]
    # Without a size the first line sets the indentation; blank lines at the end are kept by `+` only.
    if not body or not (sized or body[0][:1].strip(" \t")) or (chomp != "+" and not body[-1]):
        raise NotCanonical
    return "\n".join(body) + ("" if chomp == "-" else "\n"), at
