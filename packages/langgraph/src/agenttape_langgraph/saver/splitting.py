"""Split serialised bytes, so that a value that grew shares its pieces with its former self.

A list of messages is serialised again at every step, and only its end is new. It is split where the next serialisation
is likely to have the same bytes: after each large item of msgpack, or near punctuation in any other format. The splits
carry no meaning: the pieces joined are the bytes, and a bad split only costs space.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import pairwise

_ITEM = 128
"""An item of at least so many bytes is its own piece."""
_RUN = 512
"""Smaller items are gathered into pieces of at least so many bytes."""
_NESTED = 4096
"""A larger extension (an object) is split inside too."""
_LIST = 4
"""The length of a list with so many items is likely to change: the split is after it."""
_LARGE = 1 << 14
"""A larger item is split as bytes of an unknown format."""
_LEAST, _MOST = 1024, 1 << 16
_PAUSES = b"\n,}])>;\x94\x00"
_PAUSE = re.compile(b"[%s]" % re.escape(_PAUSES))
_NEAR = 256
"""So far a pattern is as fast as any search; over more bytes, a search for each of them is much faster."""


def _shapes() -> tuple[tuple[int, int], ...]:
    """Return for each first byte of an item of msgpack its size without content, and the size of the length."""
    shapes = [(1, 0)] * 256  # small numbers, nil, true, false, and the headers of small containers
    for first in range(0xA0, 0xC0):
        shapes[first] = (1 + (first & 0x1F), 0)  # a short text with its content
    for first, width in ((0xC4, 1), (0xC5, 2), (0xC6, 4), (0xD9, 1), (0xDA, 2), (0xDB, 4)):
        shapes[first] = (1 + width, width)  # bytes, texts
    for first, width in ((0xC7, 1), (0xC8, 2), (0xC9, 4)):
        shapes[first] = (2 + width, width)  # extensions
    for first, size in ((0xCA, 5), (0xCB, 9), (0xCC, 2), (0xCD, 3), (0xCE, 5), (0xCF, 9), (0xD0, 2), (0xD1, 3)):
        shapes[first] = (size, 0)  # numbers
    for first, size in ((0xD2, 5), (0xD3, 9), (0xD4, 3), (0xD5, 4), (0xD6, 6), (0xD7, 10), (0xD8, 18)):
        shapes[first] = (size, 0)  # numbers, small extensions
    for first, size in ((0xDC, 3), (0xDD, 5), (0xDE, 3), (0xDF, 5)):
        shapes[first] = (size, 0)  # the headers of containers
    return tuple(shapes)


_SHAPES = _shapes()
_OBJECTS = frozenset((0xC7, 0xC8, 0xC9))
_LISTS = frozenset((*range(0x90 + _LIST, 0xA0), 0xDC, 0xDD))


Piece = bytes | memoryview
"""Some of the bytes of a value."""


def split(kind: str, data: bytes) -> list[Piece]:
    """Return the pieces of serialised bytes.

    `kind` is the serializer's name for their type; the structure of `msgpack` is known.
    """
    if len(data) < _ITEM:
        return [data] if data else []
    cuts = list(_items(data)) if kind == "msgpack" else []
    ends = [*cuts, len(data)] if not cuts or cuts[-1] != len(data) else cuts
    most = _LARGE if cuts else 2 * _LEAST
    whole = data if len(data) < _LARGE else memoryview(data)  # which copies nothing
    return [whole[start:end] for begin, stop in pairwise([0, *ends]) for start, end in _parts(data, begin, stop, most)]


def _parts(data: bytes, start: int, end: int, most: int) -> Iterator[tuple[int, int]]:
    """Yield a range whole, or split near punctuation if it is too large."""
    if end - start <= most:
        yield start, end
        return
    while end - start > 2 * _LEAST:
        cut = _after_pause(data, start + _LEAST, min(start + _MOST, end))
        yield start, cut
        start = cut
    if start < end:
        yield start, end


def _after_pause(data: bytes, start: int, end: int) -> int:
    """Return the place after the first punctuation in a range, or its end if there is none."""
    near = _PAUSE.search(data, start, min(start + _NEAR, end))
    if near:
        return near.end()
    for pause in _PAUSES:
        found = data.find(pause, start, end)
        if found >= 0:
            end = found + 1
    return end


def _items(data: bytes) -> Iterator[int]:
    """Yield the ends of the large items of msgpack, in order.

    Items are read one after the other, without regard to what contains them: containers are only their headers.
    Reading stops after very many small items, so that splitting stays cheaper than serialising.
    """
    position, cut, size = 0, 0, len(data)
    objects: list[int] = []
    for _ in range(1024 + size // 48):
        if position >= size:
            return
        first = data[position]
        after, width = _SHAPES[first]
        length = int.from_bytes(data[position + 1 : position + 1 + width]) if width else 0
        after += position
        if length >= _NESTED and first in _OBJECTS:
            objects.append(after + length)  # it is split inside
        else:
            after = min(after + length, size)
        large = first in _LISTS or after - position >= _ITEM or after - cut >= _RUN
        while objects and after >= objects[-1]:
            objects.pop()
            large = True
        if large:
            if position > cut and after - position >= _ITEM and (cut == 0 or position - cut >= _ITEM):
                yield position  # bytes before a large item are a piece of their own: the header of a list, small items
            yield after
            cut = after
        position = after
