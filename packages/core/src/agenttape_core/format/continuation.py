"""Continuations: store only the new part of a request that extends an earlier one.

An agent sends its whole history again on every call, so files of full requests grow with the square of its turns. A
stored request names the record that it *continues*, the number of leading messages that it *keeps* (default: all) and
the keys that it is *without*, and holds the rest itself.
"""

from __future__ import annotations

import hashlib
import itertools
import marshal
from typing import Any

from agenttape_core.format.malformed import Malformed
from agenttape_core.format.plain import check_plain
from agenttape_core.named_tuples import NamedTuple

MESSAGES = "messages"
_LARGE = 512
"""A request that shares no message still continues another one for a part of at least so many bytes (tools)."""
_BITS = 48  # the bits of a number of a message; no program has so many
_REMEMBERED = 10_000  # the number of messages that are held to look them up
_LISTS = 100_000
"""The number of lists of messages that a request may continue. Beyond it all are forgotten: a service that is observed
for months makes conversations without end, and an old one that continues after that is stored whole once more."""


class Delta(NamedTuple):
    """A stored request."""

    request: dict[str, Any]
    continues: int | None = None
    keep: int | None = None
    without: tuple[str, ...] = ()


class _Seen(NamedTuple):
    number: int
    parts: dict[str, bytes]
    messages: int


class _Prefixes:
    """The lists of messages that requests begin with, numbered: each is one message longer than another one.

    All of them are in one dict of integers: an object for each of thousands of messages would cost each collection of
    garbage a visit.
    """

    def __init__(self) -> None:
        self._longer: dict[int, int] = {}
        """The number of a list, composed of the number of the list that it continues (the upper bits) and of its last
        message."""
        self._latest: list[_Seen | None] = [None]
        """The latest record that begins with a list, by its number; 0 is the list of no messages."""

    def __len__(self) -> int:
        return len(self._latest)

    def note(self, path: list[int], seen: _Seen) -> None:
        """Note that a record begins with all prefixes of a list, which is given by the numbers of its messages."""
        longer, latest, at = self._longer, self._latest, 0
        for message in path:
            step = at << _BITS | message
            at = longer.get(step, 0)
            if at:
                latest[at] = seen
            else:
                longer[step] = at = len(latest)
                latest.append(seen)

    def find(self, path: list[int]) -> tuple[_Seen | None, int]:
        """Return the latest record that begins with the longest known prefix of a list, and how long that is."""
        longer, at = self._longer, 0
        for length, message in enumerate(path):
            after = longer.get(at << _BITS | message)
            if after is None:
                return self._latest[at], length
            at = after
        return self._latest[at], len(path)


class Compactor:
    """Turns requests, in the order of their records, into stored requests; O(messages of each request).

    The messages it was given must not be changed afterwards. With `checks`, it checks that the new part of a request is
    plain data.
    """

    def __init__(self, *, checks: bool = True) -> None:
        self.checks = checks
        self._prefixes = _Prefixes()
        self._large: dict[bytes, _Seen] = {}
        self._pending: tuple[list[int], list[bytes], _Seen] | None = None
        self._contents = _Contents()

    def add(self, number: int, request: dict[str, Any]) -> Delta:
        """Store the next request; later ones may continue it only after `confirm`.

        `number` is greater than all before. Raises `UnrecordableValueError` if a part that no earlier request has is
        not plain data.
        """
        if len(self._prefixes) > _LISTS:
            self._prefixes, self._contents, self._large = _Prefixes(), _Contents(), {}
        messages = request.get(MESSAGES)
        try:
            path = self._contents.numbers(messages) if isinstance(messages, list) else []
            digests = {key: _digest(value) for key, value in request.items() if not _is_messages(key, value)}
        except ValueError:  # of `marshal`, which does not say where
            check_plain(request, "request", depth=2)
            raise
        parts = {key: digest for key, (_, digest) in digests.items()}
        large = [digest for size, digest in sorted(digests.values(), reverse=True) if size >= _LARGE]
        base, shared = self._find(path, large)
        delta = _delta(request, parts, base, shared) if base else Delta(request)
        if self.checks:
            check_plain(delta.request, "request", depth=2)
        seen = _Seen(number, parts, len(path) if isinstance(messages, list) else -1)
        self._pending = (path, large, seen)
        return delta

    def confirm(self) -> None:
        """The record of the last request was written."""
        if self._pending:
            path, large, seen = self._pending
            self._prefixes.note(path, seen)
            self._large.update(dict.fromkeys(large, seen))

    def _find(self, path: list[int], large: list[bytes]) -> tuple[_Seen | None, int]:
        """The latest record with the longest shared prefix, else the one with the largest equal part."""
        base, shared = self._prefixes.find(path)
        known = (self._large[part] for part in large if part in self._large)
        return base or next(known, None), shared


class _Contents:
    """Numbers messages by their content: equal ones get the same number, and types and the order of keys count.

    Agents send the same objects again and again, and most messages are a few texts, whose hash Python has already. So
    recent messages are looked up directly; of older ones only digests are kept.
    """

    def __init__(self) -> None:
        self._numbers = itertools.count()
        self._objects: dict[int, int] = {}
        self._held: list[Any] = []  # the same objects, which keeps their ids from being used again
        self._lately: dict[tuple[tuple[str, str], ...] | bytes, int] = {}
        self._before: dict[bytes, int] = {}

    def numbers(self, messages: list[Any]) -> list[int]:
        """Return the number of each of some messages. Raises `ValueError` if one is not plain data."""
        known = map(self._objects.get, map(id, messages))
        return [
            self._number(message) if number is None else number for number, message in zip(known, messages, strict=True)
        ]

    def _number(self, message: Any) -> int:
        if len(self._objects) >= _REMEMBERED:
            self._objects.clear()
            self._held.clear()
            self._before.update((_digest_of(content), number) for content, number in self._lately.items())
            self._lately.clear()
        content = _content(message)
        number = self._lately.get(content)
        if number is None:
            number = self._before.get(_digest_of(content)) if self._before else None
            number = next(self._numbers) if number is None else number
            self._lately[content] = number
        self._objects[id(message)] = number
        self._held.append(message)
        return number


def _content(message: Any) -> tuple[tuple[str, str], ...] | bytes:
    if type(message) is dict:
        for name, text in message.items():
            if type(name) is not str or type(text) is not str:
                break
        else:
            return tuple(message.items())
    return _digest(message)[1]


def _digest_of(content: tuple[tuple[str, str], ...] | bytes) -> bytes:
    return content if isinstance(content, bytes) else _digest(dict(content))[1]


def resolve(base: dict[str, Any], delta: Delta) -> dict[str, Any]:
    """Return a whole request, given the one that it continues. Raises `Malformed` if they don't fit."""
    unknown = [key for key in delta.without if key not in base]
    if unknown:
        raise Malformed(f"`without` names {unknown[0]!r}, which record {delta.continues} does not have")
    merged = {key: value for key, value in base.items() if key not in delta.without} | delta.request
    kept = None if MESSAGES in delta.without else base.get(MESSAGES)
    own = delta.request.get(MESSAGES, [])
    if isinstance(kept, list) and isinstance(own, list):
        keep = len(kept) if delta.keep is None else delta.keep
        if not 0 <= keep <= len(kept):
            raise Malformed(f"`keep: {keep}`, but record {delta.continues} has {len(kept)} messages")
        merged[MESSAGES] = kept[:keep] + own
    elif delta.keep is not None:
        raise Malformed("`keep` without a list of messages on both sides")
    return merged


def _delta(request: dict[str, Any], parts: dict[str, bytes], base: _Seen, shared: int) -> Delta:
    both_lists = base.messages >= 0 and isinstance(request.get(MESSAGES), list)
    stored: dict[str, Any] = {}
    for key, value in request.items():
        if key == MESSAGES and both_lists:
            if tail := value[shared:]:
                stored[key] = tail
        elif base.parts.get(key) != parts.get(key) or key not in parts:
            stored[key] = value
    had = [*base.parts, *([MESSAGES] if base.messages >= 0 else [])]
    without = tuple(key for key in had if key not in request)
    return Delta(stored, base.number, shared if both_lists and shared != base.messages else None, without)


def _is_messages(key: str, value: Any) -> bool:
    return key == MESSAGES and isinstance(value, list)


def _digest(value: Any) -> tuple[int, bytes]:
    """Size and hash of plain data: equal for equal data only, its types and the order of its keys included."""
    data = marshal.dumps(value, 2)  # several times faster than JSON; version 2 has no references to earlier parts
    return len(data), hashlib.sha256(data).digest()
