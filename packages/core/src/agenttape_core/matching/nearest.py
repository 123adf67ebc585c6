"""The recording nearest to a call that has none, and only the differences."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from itertools import takewhile

from agenttape_core.matching.difference import Difference, differences, differing_leaves, likeness
from agenttape_core.matching.fingerprint import CanonicalRequest
from agenttape_core.matching.ignored_paths import NOTHING, Ignored
from agenttape_core.named_tuples import NamedTuple
from agenttape_core.schema import IndexRow, Plain

_PARTS = re.compile(r"\w+|[^\s\w]")


def is_permuted(recorded: Plain, asked: Plain) -> bool:
    """Return True if two values differ, and only in the order of items of lists, of keys, or of words in texts."""
    return recorded != asked and _unordered(recorded) == _unordered(asked)


def _unordered(value: Plain) -> object:
    if isinstance(value, str):
        return "text", tuple(sorted(_PARTS.findall(value)))
    if isinstance(value, list):
        return "list", tuple(sorted((_unordered(item) for item in value), key=repr))
    if isinstance(value, dict):
        return "dict", tuple(sorted((key, _unordered(item)) for key, item in value.items()))
    return type(value).__name__, repr(value)


_TOOLS = "tools"
_MAX_CANDIDATES = 200
_MAX_SHOWN = 6


class Nearest(NamedTuple):
    """The recording that comes closest to a call."""

    row: IndexRow  # the recording
    why: str  # in which respect it is near
    same: bool  # whether it has the fingerprint of the call
    found: Sequence[Difference]  # its differences from the call's request
    is_permuted: bool = False  # whether they are only in the order of parts
    # The path of each value that differs, for `ignore`, and both values.
    leaves: Sequence[tuple[str, Plain, Plain]] = ()

    @property
    def is_drawn(self) -> bool:
        """All differing values look drawn again in each run, such as random tokens."""
        return bool(self.leaves) and all(_is_drawn(old, new) for _, old, new in self.leaves)

    def lines(self) -> list[str]:
        """Return the explanation, a line each."""
        first = f"closest   call {self.row.number}, {self.why}"
        if not self.found and self.same:
            return [f"{first}; every recording of it is already used"]
        if not self.found:
            return [f"{first}; the file was edited by hand, so its fingerprint doesn't match"]
        if len(self.found) == 1:
            lines = [f"{first}; {self.found[0].path} differs:", *_changed(self.found[0])]
        else:
            lines = [f"{first}; these parts differ:"]
            for difference in self.found[:_MAX_SHOWN]:
                lines += [f"            {difference.path}", *_changed(difference)]
        if len(self.found) > _MAX_SHOWN:
            lines.append(f"            … and {len(self.found) - _MAX_SHOWN} more parts")
        if self.is_permuted:
            lines.append("order     only the order changed: it looks like a set, whose order differs in each process")
        return lines


def _changed(difference: Difference) -> list[str]:
    recorded, asked = difference.unmarked()
    return [f"            - {recorded}", f"            + {asked}"]


def nearest(
    request: CanonicalRequest,
    address: str,
    rows: Iterable[IndexRow],
    recorded: Callable[[int], Plain],
    ignored: Ignored = NOTHING,
) -> Nearest | None:
    """Return the recording nearest to a call: by address first, then by content.

    `recorded` reads the recorded request of a number; paths in `ignored` are left out of the comparison.
    """

    def compared(row: IndexRow) -> Plain:
        return ignored.stripped(recorded(row.number))

    def near(row: IndexRow, why: str) -> Nearest:
        found = tuple(_by_tools(compared(row), asked))
        same = row.fingerprint == request.fingerprint
        leaves = [(_ignorable(path), old, new) for path, old, new in differing_leaves(compared(row), asked)]
        permuted = not same and is_permuted(compared(row), asked)
        return Nearest(row, why, same=same, found=found, is_permuted=permuted, leaves=leaves)

    same_kind = [row for row in rows if row.kind == request.kind]
    asked = ignored.stripped(request.body)
    for row in same_kind:
        if row.address == address and row.fingerprint != request.fingerprint:
            return near(row, "made at the same point")
    for row in same_kind:
        if row.fingerprint == request.fingerprint:
            return near(row, "with the same request")
    named = [row for row in same_kind if row.name == request.name] or same_kind
    if not named:
        return None
    best = max(named[:_MAX_CANDIDATES], key=lambda row: likeness(compared(row), asked))
    return near(best, "with the most similar request")


def _ignorable(path: str) -> str:
    """Return the path of a value in the form for `ignore`: without the tag of its type, such as for bytes."""
    parent, _, last = path.rpartition(".")
    return parent if last.startswith("$") and parent else path


def _by_tools(recorded: Plain, asked: Plain) -> Iterator[Difference]:
    """Yield the differences of two requests, with the differences of offered tools by the names of the tools."""
    if not isinstance(recorded, dict) or not isinstance(asked, dict):
        yield from differences(recorded, asked)
        return
    old, new = _tools(recorded.get(_TOOLS)), _tools(asked.get(_TOOLS))
    if old is None or new is None:
        yield from differences(recorded, asked)
        return
    new = _renamed(old, new)
    for part in differences({**recorded, _TOOLS: old}, {**asked, _TOOLS: new}):
        yield replace(part, path=_named(part.path, (*old, *new)))
    if list(old) != list(new) and set(old) == set(new):
        yield Difference(f"{_TOOLS} (their order)", ", ".join(old), ", ".join(new))


def _tools(offered: Plain) -> dict[str, Plain] | None:
    """Return offered tools by their names; `None` if they have none, or several have one."""
    if not isinstance(offered, list):
        return None
    names = [_name(tool) for tool in offered]
    are_unique = None not in names and len(set(names)) == len(names)
    return dict(zip(map(str, names), offered, strict=True)) if are_unique else None


def _renamed(old: dict[str, Plain], new: dict[str, Plain]) -> dict[str, Plain]:
    """Return the tools of the request; if as many were removed as added, the new ones are paired with the old names."""
    gone, came = ([name for name in one if name not in other] for one, other in ((old, new), (new, old)))
    names = dict(zip(came, gone, strict=True)) if len(gone) == len(came) else {}
    return {names.get(name, name): tool for name, tool in new.items()}


def _name(tool: Plain) -> str | None:
    """Return the name of a tool in the form that a provider gets, with the function inside or without."""
    if not isinstance(tool, dict):
        return None
    inner = tool.get("function")
    name = inner.get("name") if isinstance(inner, dict) else tool.get("name")
    return name if isinstance(name, str) else None


def _named(path: str, names: Iterable[str]) -> str:
    """Return a path with the name of a tool instead of its index."""
    for name in sorted(names, key=len, reverse=True):
        whole = f"{_TOOLS}.{name}"
        if path == whole or path.startswith((f"{whole}.", f"{whole}[")):
            return f"{_TOOLS}[{name}]{path[len(whole) :]}"
    return path


# Values that a program draws again in each run: random tokens and readings of clocks that aren't frozen.

_HEX = re.compile(r"(?=.*[0-9])(?:[0-9a-f]{6,}|[0-9A-F]{6,})")  # without a digit, it may be a word, such as `facade`
_TOKEN = re.compile(r"(?=.*[A-Z])(?=.*[a-z])(?=.*[0-9_-])[A-Za-z0-9_+/=-]{8,}")
"""The text of `token_urlsafe`, or of bytes in base64: letters of both cases and digits, and no words."""
_TIMESTAMP = re.compile(r"\d{4}-\d\d-\d\d[T ]\d\d:\d\d:\d\d\.\d+(?:Z|[+-]\d\d:?\d\d)?")
"""A reading of a clock. Without a fraction of a second, it may be a time that you chose."""
_LONGEST = 200
_EPOCH = 10**9  # seconds since 1970, from 2001 on: too many for a count of things
_DIGITS = 4


def _is_drawn(recorded: Plain, asked: Plain) -> bool:
    """Return True for two values that look drawn at random in each run: you can't edit or record them away.

    Rather too few: a value left out of the comparison by mistake makes a replay of another run green.
    """
    if isinstance(recorded, str) and isinstance(asked, str):
        are_times = _TIMESTAMP.fullmatch(recorded) is not None and _TIMESTAMP.fullmatch(asked) is not None
        return are_times or _is_token(recorded, asked)
    if type(recorded) is not type(asked) or not isinstance(recorded, int | float) or not isinstance(asked, int | float):
        return False
    if min(recorded, asked) >= _EPOCH:  # a reading of a clock, in seconds or less, whole or rounded
        return True
    return all(len(repr(value).partition(".")[2]) >= _DIGITS for value in (recorded, asked))


def _is_token(recorded: str, asked: str) -> bool:
    """Return True for two texts that differ in a token alone, which may have something before it: `req-4f1a09c2`."""
    if max(len(recorded), len(asked)) > _LONGEST or any(letter.isspace() for letter in recorded + asked):
        return False
    common = sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], zip(recorded, asked, strict=False)))
    start = max((recorded.rfind(mark, 0, common) + 1 for mark in "-_:/."), default=0)
    return any(
        pattern.fullmatch(old) is not None and pattern.fullmatch(new) is not None
        for at in {0, start}
        for old, new in [(recorded[at:], asked[at:])]
        for pattern in (_HEX, _TOKEN)
    )
