"""Slots: the places of values, in the row itself if they are small, else among the contents.

A slot begins with a number: after 0 the kind and the bytes of the value follow, each after its length; any other number
refers to a content. The slots of a checkpoint follow one another, in the order of its channels, and end with a
checksum.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple
from zlib import crc32

_MORE = 0x80
"""The bit of a byte of a number that shows that another byte follows."""
_BITS = 7
_MOST_BITS = 64
_SUM = 4


class Slot(NamedTuple):
    """The place of a value."""

    content: int = 0  # the number of its content; 0 if the value is in the slot
    kind: str = ""  # the serialiser's name for the type of the bytes, if they are in the slot
    data: bytes = b""  # the encoded bytes, if they are in the slot


def write_slots(slots: Iterable[Slot]) -> bytes:
    """Return slots as bytes."""
    return summed(b"".join(map(_write_slot, slots)))


def _write_slot(slot: Slot) -> bytes:
    if slot.content:
        return _number(slot.content)
    kind = slot.kind.encode()
    return b"".join((b"\0", _number(len(kind)), kind, _number(len(slot.data)), slot.data))


def read_slots(data: bytes) -> list[Slot]:
    """Return the slots that follow one another. Raises `ValueError` if they are damaged."""
    data, position = checked(data), 0
    slots = []
    while position < len(data):
        content, position = _read_number(data, position)
        if content:
            slots.append(Slot(content))
            continue
        kind, position = _read_bytes(data, position)
        body, position = _read_bytes(data, position)
        slots.append(Slot(0, kind.decode(), body))
    return slots


def summed(data: bytes) -> bytes:
    """Return bytes with a checksum at their end."""
    return data + crc32(data).to_bytes(_SUM)


def checked(data: bytes) -> bytes:
    """Return the bytes before a checksum. Raises `ValueError` if the checksum does not fit."""
    content = data[:-_SUM]
    if len(data) < _SUM or crc32(content) != int.from_bytes(data[-_SUM:]):
        raise ValueError("its checksum does not fit")
    return content


def _read_bytes(data: bytes, position: int) -> tuple[bytes, int]:
    length, position = _read_number(data, position)
    if position + length > len(data):
        raise ValueError(f"expected {length} bytes, found {len(data) - position}")
    return data[position : position + length], position + length


def _number(number: int) -> bytes:
    """Return a number in groups of seven bits, the lowest first, as many as it needs."""
    out = bytearray()
    while number >= _MORE:
        out.append(number % _MORE | _MORE)
        number >>= _BITS
    out.append(number)
    return bytes(out)


def _read_number(data: bytes, position: int) -> tuple[int, int]:
    if position < len(data) and data[position] < _MORE:  # nearly all of them
        return data[position], position + 1
    number = shift = 0
    while True:
        if position >= len(data) or shift >= _MOST_BITS:
            raise ValueError("a number is cut off")
        byte = data[position]
        number |= byte % _MORE << shift
        position, shift = position + 1, shift + _BITS
        if byte < _MORE:
            return number, position
