"""The differences of two plain values, and how to show only those."""

from __future__ import annotations

import difflib
import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from agenttape_core.lazy_patterns import Lazy
from agenttape_core.schema import Plain

_WORDS = Lazy(r"\s+|[^\s\w]|\w+")
_SPACED_WORDS = Lazy(r"\s*(?:\w+|[^\s\w])|\s+")
_CONTEXT_WORDS = 12
_CONTEXT = 80
_GAP = " … "
_MAX_TEXT = 300
_MAX_WORDS = 120
_MAX_ALIGNED = 250_000
_MAX_COMPARED = 20_000


@dataclass(frozen=True, slots=True)
class Difference:
    """One difference between a recorded request and a call's request."""

    path: str  # the place, for example `messages[1].content`
    recorded: str  # the recorded value, shortened to the differing words and a little around them
    asked: str  # the value of the call, shortened in the same way

    def unmarked(self) -> tuple[str, str]:
        """Return both values without the marks around differing words, for lines that begin with `-` and `+`."""
        return _REMOVED.sub(r"\1", self.recorded), _ADDED.sub(r"\1", self.asked)


_REMOVED, _ADDED = Lazy(r"\[-(.*?)-\]"), Lazy(r"\{\+(.*?)\+\}")
ABSENT = object()  # stands for what one of two values does not have at all


def differences(recorded: Plain, asked: Plain, path: str = "") -> Iterator[Difference]:
    """Yield the differing leaves of two plain values, in the order of the second."""
    return (spelled(*leaf) for leaf in differing_leaves(recorded, asked, path))


def differing_leaves(recorded: Plain, asked: Plain, path: str = "") -> Iterator[tuple[str, Plain, Plain]]:
    """Yield the path and both values of each differing leaf, `ABSENT` for one that is not there."""
    if recorded is ABSENT or asked is ABSENT or type(recorded) is not type(asked):
        yield path, recorded, asked
    elif isinstance(asked, dict):
        for key in [*asked, *(key for key in recorded if key not in asked)]:
            below = f"{path}.{key}" if path else key
            yield from differing_leaves(recorded.get(key, ABSENT), asked.get(key, ABSENT), below)
    elif isinstance(asked, list):
        for index in range(max(len(recorded), len(asked))):
            old = recorded[index] if index < len(recorded) else ABSENT
            new = asked[index] if index < len(asked) else ABSENT
            yield from differing_leaves(old, new, f"{path}[{index}]")
    elif not _is_equal(recorded, asked):
        yield path, recorded, asked


def is_identical(first: Plain, other: Plain) -> bool:
    """Return True if two plain values are equal byte for byte: `1` is not `1.0`, and the order of keys counts."""
    return json.dumps(first) == json.dumps(other)


def differing_key_orders(
    first: Plain, other: Plain, path: str = ""
) -> Iterator[tuple[str, Sequence[str], Sequence[str]]]:
    """Yield the path and the keys of each pair of mappings that have the same keys in another order."""
    if isinstance(first, dict) and isinstance(other, dict):
        if list(first) != list(other) and set(first) == set(other):
            yield path, list(first), list(other)
        for key in filter(other.__contains__, first):
            yield from differing_key_orders(first[key], other[key], f"{path}.{key}" if path else key)
    elif isinstance(first, list) and isinstance(other, list):
        for index, (old, new) in enumerate(zip(first, other, strict=False)):
            yield from differing_key_orders(old, new, f"{path}[{index}]")


def _is_equal(recorded: Plain, asked: Plain) -> bool:
    """True if two leaves of one type have the same text: a NaN is equal to itself, and `-0.0` is not `0.0`."""
    return repr(recorded) == repr(asked) if isinstance(asked, float) else bool(recorded == asked)


def spelled(path: str, recorded: Plain, asked: Plain) -> Difference:
    """Return two differing leaves for display: texts word by word."""
    if isinstance(recorded, str) and isinstance(asked, str):
        return Difference(path, *differing_words(recorded, asked))
    return Difference(path, _shown(recorded), _shown(asked))


def differing_words(recorded: str, asked: str) -> tuple[str, str]:
    """Return both texts cut down to the words that differ, marked `[-so-]` and `{+so+}` as `git diff` does."""
    old, new = _WORDS.findall(recorded), _WORDS.findall(asked)
    start = _common(old, new)
    left = [_around(old[:start], first=True, last=False)]
    right = list(left)
    old, new = old[start:], new[start:]
    end = _common(old[::-1], new[::-1])
    rest = _around(old[len(old) - end :], first=False, last=True)
    old, new = old[: len(old) - end], new[: len(new) - end]
    long = len(old) * len(new) > _MAX_ALIGNED  # aligning is quadratic, unless frequent words do not count
    if long:
        old, new = _SPACED_WORDS.findall("".join(old)), _SPACED_WORDS.findall("".join(new))
    for tag, a, b, c, d in difflib.SequenceMatcher(None, old, new, autojunk=long).get_opcodes():
        if tag == "equal":
            kept = _around(old[a:b], first=False, last=False)
            left.append(kept)
            right.append(kept)
        else:
            left.append("[-" + _cut(old[a:b]) + "-]" if a < b else "")
            right.append("{+" + _cut(new[c:d]) + "+}" if c < d else "")
    return _short("".join([*left, rest])), _short("".join([*right, rest]))


def _common(old: Sequence[str], new: Sequence[str]) -> int:
    """Return how many words both begin with."""
    return next((n for n, (a, b) in enumerate(zip(old, new, strict=False)) if a != b), min(len(old), len(new)))


def _around(words: list[str], *, first: bool, last: bool) -> str:
    """Keep the words next to a difference: the end of a leading run, the start of a trailing one, or both."""
    text = "".join(words)
    head = "" if first else "".join(words[:_CONTEXT_WORDS])[:_CONTEXT]
    tail = "" if last else "".join(words[-_CONTEXT_WORDS:])[-_CONTEXT:]
    return text if len(text) <= len(head) + len(tail) + len(_GAP) else f"{head}{_GAP}{tail}"


def _cut(words: list[str]) -> str:
    text = "".join(words)
    return text if len(text) <= _MAX_WORDS else f"{text[: _MAX_WORDS - 1]}…"


def _shown(value: Plain) -> str:
    if value is ABSENT:
        return "(absent)"
    return _short(value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, sort_keys=True))


def _short(text: str) -> str:
    text = text.replace("\n", "⏎")
    return text if len(text) <= _MAX_TEXT else f"{text[: _MAX_TEXT - 1]}…"


def likeness(recorded: Plain, asked: Plain) -> float:
    """Return how similar two requests are, from 0 to 1, by equal leaves and by common words in unequal ones."""
    leaves, equal = _compared(recorded, asked)
    return equal / leaves if leaves else 0.0


def _compared(recorded: Plain, asked: Plain) -> tuple[int, float]:
    """Return the number of leaves in the request, and how many of them the recording has."""
    if isinstance(asked, dict | list):
        other = recorded if type(recorded) is type(asked) else type(asked)()
        pairs = [_compared(old, new) for old, new in _pairs(other, asked)]
        return sum(leaves for leaves, _ in pairs), sum(equal for _, equal in pairs)
    if type(recorded) is not type(asked):
        return 1, 0.0
    if recorded == asked or not isinstance(asked, str):
        return 1, float(recorded == asked)
    words = set(_WORDS.findall(asked[:_MAX_COMPARED]))
    return 1, 0.9 * len(words & set(_WORDS.findall(recorded[:_MAX_COMPARED]))) / (len(words) or 1)


def _pairs(recorded: Plain, asked: Plain) -> Iterator[tuple[Plain, Plain]]:
    if isinstance(asked, dict):
        return ((recorded.get(key, ABSENT), item) for key, item in asked.items())
    return ((recorded[n] if n < len(recorded) else ABSENT, item) for n, item in enumerate(asked))
