"""Where two requests differ, and how to show only that."""

from __future__ import annotations

import difflib
import json
import re
from collections.abc import Iterator
from dataclasses import dataclass

from agenttape_core.schema import Plain

_WORDS = re.compile(r"\s+|[^\s\w]|\w+")
_CONTEXT_WORDS = 6
_MAX_TEXT = 300
_MAX_COMPARED = 20_000


@dataclass(frozen=True, slots=True)
class Difference:
    """One place where a recorded and an asked request differ.

    Args:
        path: Such as `messages[1].content`.
        recorded: What the recording holds, shortened to the differing words and a little around them.
        asked: What was asked, shortened likewise.
    """

    path: str
    recorded: str
    asked: str


_ABSENT = object()


def differences(recorded: Plain, asked: Plain, path: str = "") -> Iterator[Difference]:
    """Yield the differing leaves of two plain values, in the order of the asked one."""
    if recorded is _ABSENT or asked is _ABSENT or type(recorded) is not type(asked):
        yield Difference(path, _shown(recorded), _shown(asked))
    elif isinstance(asked, dict):
        for key in [*asked, *(key for key in recorded if key not in asked)]:
            below = f"{path}.{key}" if path else key
            yield from differences(recorded.get(key, _ABSENT), asked.get(key, _ABSENT), below)
    elif isinstance(asked, list):
        for index in range(max(len(recorded), len(asked))):
            old = recorded[index] if index < len(recorded) else _ABSENT
            new = asked[index] if index < len(asked) else _ABSENT
            yield from differences(old, new, f"{path}[{index}]")
    elif recorded != asked:
        if isinstance(asked, str):
            yield Difference(path, *differing_words(recorded, asked))
        else:
            yield Difference(path, _shown(recorded), _shown(asked))


def differing_words(recorded: str, asked: str) -> tuple[str, str]:
    """Return both texts cut down to the words that differ, marked `[-so-]` and `{+so+}` as `git diff` does."""
    old, new = _WORDS.findall(recorded[:_MAX_COMPARED]), _WORDS.findall(asked[:_MAX_COMPARED])
    left, right = [], []
    for tag, a, b, c, d in difflib.SequenceMatcher(None, old, new, autojunk=False).get_opcodes():
        if tag == "equal":
            left.append(_around(old[a:b], first=a == 0, last=b == len(old)))
            right.append(_around(new[c:d], first=c == 0, last=d == len(new)))
        else:
            left.append("[-" + "".join(old[a:b]) + "-]" if a < b else "")
            right.append("{+" + "".join(new[c:d]) + "+}" if c < d else "")
    return _short("".join(left)), _short("".join(right))


def _around(words: list[str], *, first: bool, last: bool) -> str:
    """Keep the words next to a difference: the end of a leading run, the start of a trailing one, or both."""
    keep = _CONTEXT_WORDS * 2
    if len(words) <= keep * 2:
        return "".join(words)
    head = "" if first else "".join(words[:keep])
    tail = "" if last else "".join(words[-keep:])
    return f"{head} … {tail}"


def _shown(value: Plain) -> str:
    if value is _ABSENT:
        return "(absent)"
    return _short(value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, sort_keys=True))


def _short(text: str) -> str:
    text = text.replace("\n", "⏎")
    return text if len(text) <= _MAX_TEXT else f"{text[: _MAX_TEXT - 1]}…"


def likeness(recorded: Plain, asked: Plain) -> float:
    """Return how alike two requests are, from 0 to 1, by equal leaves and by common words in unequal ones."""
    leaves, equal = 0, 0.0
    unequal = {difference.path for difference in differences(recorded, asked)}
    for path, text in _leaves(asked):
        leaves += 1
        equal += 0.0 if any(path.startswith(prefix) for prefix in unequal) else 1.0
        if path in unequal:
            words = set(_WORDS.findall(text))
            equal += 0.9 * len(words & set(_WORDS.findall(_at(recorded, path)))) / (len(words) or 1)
    return equal / leaves if leaves else 0.0


def _leaves(value: Plain, path: str = "") -> Iterator[tuple[str, str]]:
    if isinstance(value, dict):
        for key, item in value.items():
            yield from _leaves(item, f"{path}.{key}" if path else key)
    elif isinstance(value, list):
        for index, item in enumerate(value):
            yield from _leaves(item, f"{path}[{index}]")
    else:
        yield path, str(value)


def _at(value: Plain, path: str) -> str:
    return next((text for other, text in _leaves(value) if other == path), "")
