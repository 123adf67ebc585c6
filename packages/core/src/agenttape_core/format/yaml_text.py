"""Plain data as YAML text: one fixed way to write each value.

The text is a subset of YAML 1.1 and 1.2 that every reader understands in the same way: dicts indented by two, lists
without indentation, plain scalars only if they are unambiguous, JSON-style double quotes, and literal blocks for text
of many lines. No line is folded, so a line of the text is a line of the file.

We do not use PyYAML's dumper: its layout depends on width and version, and the fixed layout is what makes the
index and the fast reader possible.
"""

from __future__ import annotations

import json
from typing import Any

from agenttape_core.lazy_patterns import Lazy

_RESERVED = frozenset({"null", "true", "false", "yes", "no", "on", "off", "y", "n"})
PLAIN = r"[A-Za-z_$][^\t\n:#]*(?:(?::(?! |\Z)|(?<! )#)[^\t\n:#]*)*(?<! )"
"""Plain scalars as this module writes them; `UNSAFE` characters are looked for apart."""
_PLAIN = Lazy(PLAIN)
KEY = r"[A-Za-z_$][A-Za-z0-9_$.-]*"
_KEY = Lazy(KEY)
UNSAFE = Lazy(
    # controls, DEL and C1 (with NEL), bidirectional overrides that could deceive a reviewer, Unicode's line
    # breaks, the byte order mark and two non-characters: YAML refuses, folds or hides them when they stand raw
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\ufeff\ufffe\uffff]"
)
_BLANK_END = Lazy(r"[ \t](?:\n|\Z)")
SIMPLE_KEY = 900  # YAML allows 1024 characters before the colon of a simple key; longer ones are written as `? key`
_PADS = [" " * width for width in range(300)]


def dump_mapping(value: dict[str, Any]) -> str:
    """The text of a non-empty dict of plain data that was checked, ending with a newline."""
    lines: list[str] = []
    _collection(lines, value, 0, "")
    lines.append("")
    return "\n".join(lines)


def inline(value: Any) -> str:
    """A scalar or an empty collection on one line."""
    if isinstance(value, str):
        return value if _is_plain(value) else quote(value)
    if isinstance(value, float):
        text = repr(value)
        # YAML 1.1 readers take a number with an exponent for a float only when it has a point as well.
        return text.replace("e", ".0e") if "e" in text and "." not in text else text
    if isinstance(value, list):
        return "[" + ", ".join(inline(item) for item in value) + "]"
    return "{}" if isinstance(value, dict) else json.dumps(value)


def quote(text: str) -> str:
    """A double-quoted string that is valid in both JSON and YAML."""
    return UNSAFE.sub(lambda match: f"\\u{ord(match[0]):04x}", json.dumps(text, ensure_ascii=False))


def _is_plain(text: str) -> bool:
    return _PLAIN.fullmatch(text) is not None and text.lower() not in _RESERVED and UNSAFE.search(text) is None


def _collection(lines: list[str], value: Any, indent: int, lead: str) -> None:
    """Append a non-empty dict or list; `lead` is the text already on its first line."""
    pad = _PADS[indent]
    if isinstance(value, dict):
        for key, item in value.items():
            _item(lines, lead + _key(key, pad), item, indent, nested="")
            lead = pad
    else:
        for item in value:
            _item(lines, lead + "-", item, indent, nested=lead + "- ")
            lead = pad


def _item(lines: list[str], prefix: str, value: Any, indent: int, *, nested: str) -> None:
    """Append one entry; a list's collections begin on the line of their dash, a dict's on the next one."""
    if isinstance(value, (dict, list)) and value and not _is_numbers(value):
        if not nested:
            lines.append(prefix)
        inner = indent if not nested and isinstance(value, list) else indent + 2
        _collection(lines, value, inner, nested or _PADS[inner])
    elif isinstance(value, str) and _is_literal(value):
        _literal(lines, prefix, value, _PADS[indent + 2])
    else:
        lines.append(f"{prefix} {inline(value)}")


def _key(key: str, pad: str) -> str:
    simple = _KEY.fullmatch(key) is not None and key.lower() not in _RESERVED
    text = key if simple else quote(key)
    return f"{text}:" if len(text) <= SIMPLE_KEY else f"? {text}\n{pad}:"


def _is_numbers(value: Any) -> bool:
    """Return True if a list is better on one line, as an embedding is."""
    return isinstance(value, list) and all(type(item) is int or type(item) is float for item in value)


def _is_literal(text: str) -> bool:
    """Return True if a literal block keeps the text; blanks at the end of a line would fall to editors and hooks."""
    return "\n" in text and text.strip("\n") != "" and UNSAFE.search(text) is None and _BLANK_END.search(text) is None


def _literal(lines: list[str], prefix: str, text: str, pad: str) -> None:
    size = "2" if text[0] in " \t\n" else ""
    chomp = "-" if not text.endswith("\n") else "+" if text.endswith("\n\n") else ""
    lines.append(f"{prefix} |{size}{chomp}")
    body = text if chomp == "-" else text[:-1]
    lines.extend(pad + line if line else "" for line in body.split("\n"))
