"""Oracle files: a JSON array of entries."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

from agenttape_core.errors import CassetteFormatError, CassetteNotFoundError
from agenttape_core.tools.oracle.entries import Entry

_EXPECTED = "expected an array of {tool_name, args_hash, occurrence, response or error}"
_REMEDY = "write it anew: agenttape export CASSETTE --format oracle -o FILE"
_HEX = frozenset("0123456789abcdef")
_DIGITS = 64


def lines_of(entries: Iterable[Entry]) -> Iterator[str]:
    """Yield the lines of an oracle file: an array, with a line for each entry.

    Args:
        entries: The entries.
    """
    lines = [json.dumps(entry.plain()) for entry in entries]
    yield "["
    yield from (f"{line}," for line in lines[:-1])
    yield from lines[-1:]
    yield "]"


def read_oracle(path: Path | str) -> list[Entry]:
    """Return the entries of an oracle file.

    `occurrence` may be missing where no call is repeated. Further keys are ignored.

    Args:
        path: The file.

    Raises:
        CassetteNotFoundError: If there is no such file.
        CassetteFormatError: If it is no array of entries, or two of them answer the same call.
    """
    try:
        found = json.loads(Path(path).read_bytes(), object_pairs_hook=without_duplicates)
    except FileNotFoundError:
        raise CassetteNotFoundError(path, "there is no such oracle file", remedy=_REMEDY) from None
    except (ValueError, RecursionError) as error:
        raise CassetteFormatError(path, f"this is no JSON: {error}", remedy=_REMEDY) from None
    if not isinstance(found, list):
        raise CassetteFormatError(path, f"{_EXPECTED}, found {_sort(found)}", remedy=_REMEDY)
    entries: dict[tuple[str, str, int], Entry] = {}
    for number, raw in enumerate(found, 1):
        entry = _entry(path, number, raw)
        same = entries.setdefault((entry.tool_name, entry.args_hash, entry.occurrence), entry)
        if same is not entry:
            raise CassetteFormatError(
                path,
                f"entries {same.source} and {number} both answer call {entry.occurrence} of {entry.tool_name} with the"
                f" arguments {entry.args_hash}",
                remedy="keep one of them, or number them as occurrence 1, 2, ...",
            )
    return list(entries.values())


def _entry(path: Path | str, number: int, raw: Any) -> Entry:
    fields = raw if isinstance(raw, Mapping) else {}
    name, hashed, occurrence = fields.get("tool_name"), fields.get("args_hash"), fields.get("occurrence", 1)
    problems = [
        (not isinstance(raw, Mapping), f"is {_sort(raw)}"),
        (not isinstance(name, str) or not name, "has no tool_name"),
        (not is_hash(hashed), "has no args_hash of 64 hex digits"),
        (type(occurrence) is not int or occurrence < 1, f"has the occurrence {occurrence!r}, expected 1 or more"),
        (("response" in fields) == ("error" in fields), "needs either a response or an error"),
        ("error" in fields and not _is_error(fields["error"]), "has an error without type and message"),
    ]
    problem = next((said for is_so, said in problems if is_so), None)
    if problem is not None:
        raise CassetteFormatError(path, f"entry {number} {problem}; {_EXPECTED}", remedy=_REMEDY)
    return Entry(str(name), str(hashed), occurrence, fields.get("response"), fields.get("error"), source=number)


def without_duplicates(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """Return the members of a JSON object, as `object_pairs_hook`. Canonical JSON has each name once.

    Raises:
        ValueError: If a name stands there twice: languages differ on which of the values counts.
    """
    found = dict(pairs)
    if len(found) < len(pairs):
        twice = next(name for name, times in Counter(name for name, _ in pairs).items() if times > 1)
        raise ValueError(f"the name {twice!r} stands twice in an object")
    return found


def is_hash(value: Any) -> bool:
    """Return whether a value is a hash of arguments: 64 hex digits."""
    return isinstance(value, str) and len(value) == _DIGITS and set(value) <= _HEX


def _is_error(value: Any) -> bool:
    return isinstance(value, Mapping) and all(isinstance(value.get(key), str) for key in ("type", "message"))


def _sort(value: Any) -> str:
    sorts = {dict: "an object", list: "an array", str: "a text", bool: "a truth value", type(None): "null"}
    return sorts.get(type(value), "a number")
