"""The text for `git diff` of a cassette that stands as AgentTape writes it: some of its lines, without parsing them.

Git starts a process for each side of each file, so the imports of that process are the cost of a diff. This module
doesn't import any of AgentTape. What it cannot tell is left to `texts`, which gives the same text.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

_OTHERWISE = re.compile(rb"\r|\n<<<<<<< |\n(?:---|\.\.\.)[^\n]")  # lines that were changed
_STREAM = re.compile(r"\n  (?:- )?chunks:")
_STAMPS = "\n  stamps: |\n"
_MAY_HAVE_STAMPS = re.compile(r"usage|fingerprint: (?!\"?[0-9a-f]{32}\"?\n)|[Ii][dD]: ")
_KEY = re.compile(r"([a-z_]+):(?: (.*))?\n", re.DOTALL)
HEADING = ("kind", "name", "address")  # the keys of the line with which a record begins
LEFT_OUT = frozenset({"interaction", "step", "fingerprint", "continues", "keep", "parent", "ids"})
"""Keys that follow from others, or that are numbers, which change with the records before."""
_SAID_OF_VOLATILE = "packages"


def documents_of(data: bytes) -> list[str] | None:
    """Return the header and the records of a file; `None` if it does not stand as AgentTape writes it."""
    if not re.match(rb"agenttape: [12]\n", data) or not data.endswith(b"\n...\n") or _OTHERWISE.search(data):
        return None
    try:
        *documents, last = data[: -len(b"...\n")].decode().split("\n---\n")
    except UnicodeDecodeError:
        return None
    return [*(f"{document}\n" for document in documents), last]


def filtered(data: bytes) -> bytes | None:
    """Return what `diffable` returns; `None` where that takes more than leaving lines out."""
    documents = documents_of(data)
    if documents is None:
        return None
    header, *records = documents
    if any(map(_STREAM.search, records)):  # it has to be joined
        return None
    if _STAMPS not in header and any(map(_MAY_HAVE_STAMPS.search, documents)):
        return None
    pieces = [said_of_header(header), *map(_record, records)]
    return "".join(piece for piece in pieces if piece is not None).encode() if None not in pieces else None


def _blocks(text: str) -> Iterator[tuple[str, str, str]]:
    """Yield each key of a document, the rest of its line, and all its lines."""
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


def said_of_header(text: str) -> str:
    """Return the lines of a header that are shown."""
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
        if key in HEADING:
            heading[key] = value
        elif key not in LEFT_OUT:
            said.append(lines)
    if heading.keys() != set(HEADING):
        return None
    return f"--- {' '.join(heading[key] for key in HEADING)}\n{''.join(said)}"
