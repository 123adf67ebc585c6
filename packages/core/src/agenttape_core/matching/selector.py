"""One selector of calls: by kind, name, number, node, address, or a pattern of places."""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterable, Sequence
from functools import lru_cache
from pathlib import Path
from typing import Protocol, Self, TypeVar, cast

from agenttape_core.errors import ConfigurationError, counted, shown_path
from agenttape_core.lazy_patterns import Lazy
from agenttape_core.schema import KINDS

Key = int | str
"""Selects recorded calls: a number, a kind, a name, a node, an address, or a pattern of places such as `**/search`."""

_ORDINALS = Lazy(r"(?:[@~#][\d.]+|\[\d+\])+$")
_NEAR, _FAR = 0.5, 0.3


class Call(Protocol):
    """The facts about a recorded call that a selector needs."""

    @property
    def number(self) -> int:
        """Its number in the cassette."""

    @property
    def kind(self) -> str:
        """Its kind."""

    @property
    def name(self) -> str:
        """Its name."""

    @property
    def address(self) -> str:
        """The place where it is made."""


C = TypeVar("C", bound=Call)


class Selector(frozenset[Key]):
    """Selects calls. Its items are the keys, and an empty one selects no calls.

    A key is, in this order, a kind, the name of a recorded call, or an address. A number selects the interaction with
    that number. A word without `/` and `*` that is none of these is the name of a step around the call, such as a node
    of a graph.

    Anything else is a pattern that is compared with the whole address, step by step: `*` matches any text within a
    step, `**` any number of steps. A step of the pattern without an ordinal is each one of that name: `tools` is
    `tools@2[1]`, too.

    Args:
        keys: The keys.
        rows: The recorded calls; without any, a word is a kind, a name and a node.
        option: The option that gives them, for messages.

    Raises:
        ConfigurationError: If a key is neither a number nor a text.
    """

    __slots__ = ("_at", "_called", "_numbers", "_places")

    _called: frozenset[str]
    _numbers: frozenset[int]
    _at: frozenset[str]
    _places: tuple[str, ...]

    def __new__(cls, keys: Iterable[Key] = (), rows: Iterable[Call] = (), *, option: str = "") -> Self:
        """Sort the keys by their type."""
        self = super().__new__(cls, keys)
        rows = rows if isinstance(rows, Sequence) else list(rows)
        words = {word for row in rows for word in (row.kind, row.name)} | KINDS if self else frozenset()
        called: set[str] = set()
        numbers: set[int] = set()
        places: list[str] = []
        for key in self:
            if isinstance(key, bool) or not isinstance(key, int | str) or key == "":
                raise ConfigurationError(
                    f"{option}={{{key!r}}}: expected a number, a kind, a name, a node, an address or a pattern such as "
                    "'**/search'"
                )
            if isinstance(key, int) or (key.isdecimal() and key not in words):
                numbers.add(int(key))
            elif key in words:
                called.add(key)
            else:
                places.append(key)
                called |= set() if rows else {key}
        self._called, self._numbers, self._places = frozenset(called), frozenset(numbers), tuple(places)
        self._at = frozenset(row.address for row in rows if row.number in numbers)
        return self

    def selects(self, kind: str, name: str, address: str = "") -> bool:
        """Return whether it selects a call.

        Args:
            kind: The kind of the call.
            name: Its name.
            address: Where it's made.
        """
        if kind in self._called or name in self._called or address in self._at:
            return True
        return bool(self._places) and any(_selects(place, address) for place in self._places)

    def among(self, rows: Iterable[C]) -> list[C]:
        """Return the recorded calls that it selects."""
        return [
            row
            for row in rows
            if row.number in self._numbers
            or row.kind in self._called
            or row.name in self._called
            or any(_selects(place, row.address) for place in self._places)
        ]

    def is_exact(self, rows: Iterable[Call]) -> bool:
        """Return whether it selects calls by a number or an address."""
        addresses = {row.address for row in rows}
        return bool(self._numbers) or any(place in addresses for place in self._places)

    def without(self, keys: frozenset[str]) -> Selector:
        """Return it without some kinds and names."""
        other = Selector(self - keys)
        other._called, other._places, other._at = self._called - keys, self._places, self._at
        return other


NO_CALLS = Selector()  # selects no calls


def refuse_unselected(keys: Iterable[Key], rows: Sequence[Call], option: str, path: Path | str) -> None:
    """Refuse a key that selects none of the recorded calls.

    `option` is the one that gives the keys. Raises `ConfigurationError` if there's such a key; the message has the
    closest match.
    """
    for key in keys:
        if not Selector((key,), rows, option=option).among(rows):
            raise ConfigurationError(f"{option}={{{key!r}}}: {_nothing(key, rows, shown_path(cast('Path', path)))}")


def _nothing(key: Key, rows: Sequence[Call], shown: object) -> str:
    """Return the message that a key selects no call, with the closest match."""
    if isinstance(key, int) or key.isdecimal():
        return f"{shown} holds {counted(len(rows), 'interaction')}, and none has this number"
    steps = (bare_step(step) for row in rows for step in row.address.split("/"))
    words = list(dict.fromkeys([*(word for row in rows for word in (row.name, row.kind, row.address)), *steps]))
    near = difflib.get_close_matches(key.rpartition("/")[2] or key, words, 3, _NEAR)
    near = near or difflib.get_close_matches(key, words, 3, _FAR) or words[:5]
    return (
        f"no recorded call of {shown} is selected; there are {', '.join(near) or 'none at all'}\n"
        "  name a call by its kind, name, number, node or address, or by a pattern of places such as **/search"
    )


@lru_cache(4096)
def _selects(text: str, address: str) -> bool:
    if text == address:
        return True
    steps = address.split("/")
    if "/" not in text and "*" not in text:
        return text in steps or text in map(bare_step, steps)
    return _matches(text.split("/"), steps)


def bare_step(step: str) -> str:
    """Return a step of an address without its ordinals: `tools` for `tools@2[1]`."""
    return _ORDINALS.sub("", step)


def _matches(pattern: list[str], steps: list[str]) -> bool:
    if not pattern:
        return not steps
    if pattern[0] == "**":
        return any(_matches(pattern[1:], steps[skipped:]) for skipped in range(len(steps) + 1))
    if not steps:
        return False
    wanted = _regular(pattern[0])
    is_step = wanted.fullmatch(steps[0]) or wanted.fullmatch(bare_step(steps[0]))
    return bool(is_step) and _matches(pattern[1:], steps[1:])


@lru_cache(512)
def _regular(step: str) -> re.Pattern[str]:
    return re.compile(".*".join(map(re.escape, step.split("*"))))
