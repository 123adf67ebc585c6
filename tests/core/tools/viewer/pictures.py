"""Pictures of a page in a palette: a third of the bytes that a browser writes, for a repository that keeps them."""

from __future__ import annotations

import struct
import zlib
from collections import Counter
from collections.abc import Iterator

COLOURS = 256
Colour = tuple[int, int, int]


def in_palette(png: bytes) -> bytes:
    """Return a PNG of three bytes a pixel as one of a byte a pixel, in the nearest of its most frequent colours."""
    chunks = dict(_chunks(png))
    width, height = struct.unpack(">II", chunks[b"IHDR"][:8])
    rows = list(_rows(zlib.decompress(chunks[b"IDAT"]), 3 * width))
    counted = Counter(colour for row in rows for colour in _colours(row))
    palette = [colour for colour, _ in counted.most_common(COLOURS)]
    nearest = {colour: _nearest(palette, colour) for colour in counted}
    data = b"".join(b"\0" + bytes(nearest[colour] for colour in _colours(row)) for row in rows)
    return b"".join(
        [
            png[:8],
            _chunk(b"IHDR", struct.pack(">IIBBBBB", width, height, 8, 3, 0, 0, 0)),
            _chunk(b"PLTE", b"".join(map(bytes, palette))),
            _chunk(b"IDAT", zlib.compress(data, 9)),
            _chunk(b"IEND", b""),
        ]
    )


def _chunks(png: bytes) -> Iterator[tuple[bytes, bytes]]:
    """Yield the chunks by name, those of the picture itself as one."""
    at, data = 8, b""
    while at < len(png):
        length, name = struct.unpack(">I4s", png[at : at + 8])
        content = png[at + 8 : at + 8 + length]
        if name == b"IDAT":
            data += content
        else:
            yield name, content
        at += length + 12
    yield b"IDAT", data


def _rows(data: bytes, width: int) -> Iterator[bytes]:
    """Undo the filters of PNG, section 9 of its specification, for three bytes a pixel."""
    above = bytes(width)
    for start in range(0, len(data), width + 1):
        kind, row = data[start], bytearray(data[start + 1 : start + 1 + width])
        for at in range(width):
            left = row[at - 3] if at >= 3 else 0
            corner = above[at - 3] if at >= 3 else 0
            guess = (0, left, above[at], (left + above[at]) // 2, _paeth(left, above[at], corner))[kind]
            row[at] = (row[at] + guess) & 255
        above = bytes(row)
        yield above


def _paeth(left: int, above: int, corner: int) -> int:
    guess = left + above - corner
    return min((left, above, corner), key=lambda each: abs(guess - each))


def _colours(row: bytes) -> Iterator[Colour]:
    return zip(row[::3], row[1::3], row[2::3], strict=True)


def _nearest(palette: list[Colour], colour: Colour) -> int:
    return min(range(len(palette)), key=lambda at: sum((a - b) ** 2 for a, b in zip(palette[at], colour, strict=True)))


def _chunk(name: bytes, content: bytes) -> bytes:
    return struct.pack(">I", len(content)) + name + content + struct.pack(">I", zlib.crc32(name + content))
