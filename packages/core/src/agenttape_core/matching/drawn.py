"""Values that a program draws again in each run: random tokens and readings of clocks that aren't frozen."""

from __future__ import annotations

import re
from itertools import takewhile

from agenttape_core.schema import Plain

_HEX = re.compile(r"(?=.*[0-9])(?:[0-9a-f]{6,}|[0-9A-F]{6,})")
"""Without a digit, it may be a word, such as `facade`."""
_TOKEN = re.compile(r"(?=.*[A-Z])(?=.*[a-z])(?=.*[0-9_-])[A-Za-z0-9_+/=-]{8,}")
"""The text of `token_urlsafe`, or of bytes in base64: letters of both cases and digits, and no words."""
_LONGEST = 200
_NANOSECONDS = 10**9
_DIGITS = 4


def is_drawn(recorded: Plain, asked: Plain) -> bool:
    """Return True for two values that look drawn at random in each run: you can't edit or record them away.

    Rather too few: a value left out of the comparison by mistake makes a replay of another run green.

    Args:
        recorded: The recorded value.
        asked: That of the call.
    """
    if isinstance(recorded, str) and isinstance(asked, str):
        return _is_token(recorded, asked)
    if type(recorded) is float and type(asked) is float:  # a reading of a clock, or a random number
        return all(len(repr(value).partition(".")[2]) >= _DIGITS for value in (recorded, asked))
    return type(recorded) is type(asked) is int and min(recorded, asked) >= _NANOSECONDS


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
