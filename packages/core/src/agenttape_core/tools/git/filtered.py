"""The text for `git diff` of a cassette that stands as AgentTape writes it: some of its lines, without parsing them.

Git starts a process for each side of each file, so what that process imports is what a diff costs. This module imports
nothing of AgentTape. What it cannot tell is left to `texts`, which gives the same text.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

_OTHERWISE = re.compile(rb"\r|\n<<<<<<< |\n  (?:- )?chunks:|\n(?:---|\.\.\.)[^\n]")
"""Lines that were changed, or streams, which have to be joined."""
_STAMPS = b"\n  stamps: |\n"
_MAY_HAVE_STAMPS = re.compile(rb"usage|fingerprint: (?!\"?[0-9a-f]{32}\"?\n)|[Ii][dD]: ")
_KEY = re.compile(r"([a-z_]+):(?: (.*))?\n", re.DOTALL)
_HEADING = ("kind", "name", "address")
_LEFT_OUT = frozenset({"interaction", "step", "fingerprint", "continues", "keep", "parent", "ids"})
_SAID_OF_VOLATILE = "packages"


def filtered(data: bytes) -> bytes | None:
    """Return what `diffable` returns; `None` where that takes more than leaving lines out.

    Args:
        data: The file.
    """
    if not re.match(rb"agenttape: [12]\n", data) or not data.endswith(b"\n...\n") or _OTHERWISE.search(data):
        return None
    header, *records = data[: -len(b"...\n")].decode().split("\n---\n")
    if _STAMPS not in data and _MAY_HAVE_STAMPS.search(data):
        return None
    pieces = [_header(f"{header}\n")]
    for record in records:
        piece = _record(record if record.endswith("\n") else f"{record}\n")
        if piece is None:
            return None
        pieces.append(piece)
    return "".join(pieces).encode()


def _blocks(text: str) -> Iterator[tuple[str, str, str]]:
    """Yield each key of a document, what stands on its line, and all its lines."""
    key, value, lines = "", "", []
    for line in re.findall("[^\n]*\n", text):
        match = _KEY.fullmatch(line)
        if match is None:
            lines.append(line)
            continue
        if lines:
            yield key, value, "".join(lines)
        key, value, lines = match[1], match[2] or "", [line]
    if lines:
        yield key, value, "".join(lines)


def _header(text: str) -> str:
    return "".join(
        _volatile(lines) if key == "volatile" else lines for key, _, lines in _blocks(text) if key != "agenttape"
    )


def _volatile(lines: str) -> str:
    match = re.search(rf"^  {_SAID_OF_VOLATILE}:\n(?:    .*\n)+", lines, re.MULTILINE)
    return f"volatile:\n{match[0]}" if match else ""


def _record(text: str) -> str | None:
    heading: dict[str, str] = {}
    said = []
    for key, value, lines in _blocks(text):
        if key in _HEADING:
            heading[key] = value
        elif key not in _LEFT_OUT:
            said.append(lines)
    if heading.keys() != set(_HEADING):
        return None
    return f"--- {' '.join(heading[key] for key in _HEADING)}\n{''.join(said)}"
