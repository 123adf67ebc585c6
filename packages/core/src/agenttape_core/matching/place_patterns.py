"""Patterns of places in a run: the name of a node, a whole address, or a pattern with `*` and `**`."""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import lru_cache

_ORDINALS = re.compile(r"(?:[@~#][\d.]+|\[\d+\])+$")


@dataclass(frozen=True, slots=True)
class PlacePattern:
    """A pattern that selects calls by where they are made.

    A word without `/` and `*` is the name of a step around the call, such as a node of a graph, or of the call itself.
    Anything else is compared with the whole address, step by step: `*` stands for any text within a step, `**` for any
    number of steps. A step of the pattern without an ordinal is each one of that name: `tools` is `tools@2[1]`, too.

    Args:
        text: The pattern.
    """

    text: str

    def selects(self, address: str) -> bool:
        """Return True if a call at an address is meant."""
        return _selects(self.text, address)


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
