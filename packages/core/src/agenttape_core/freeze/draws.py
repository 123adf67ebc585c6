"""Pseudo-random bytes that do not depend on the order in which parallel tasks run, and the UUIDs that are made of them.

UUIDs have the bit layouts of RFC 9562 (section 5), filled from given bytes and a given time.
"""

from __future__ import annotations

import hashlib
import json
import uuid

_RANDOM, _UNIX_TIME = 4, 7
VERSIONS = (1, 4, 6, 7)
"""The UUID versions that can be laid out."""

TIME_ORDERED = (1, 6, 7)
"""The versions that contain a time."""

_GREGORIAN_OFFSET = 0x01B21DD213814000
"""100 ns intervals between 1582-10-15, where the time of versions 1 and 6 starts, and 1970-01-01."""
_TICKS_PER_MILLISECOND = 10_000
_VARIANT = 0b10 << 62
_MULTICAST = 1 << 40
"""Marks a node that isn't a hardware address (RFC 9562, section 6.10)."""

_new = object.__new__
_set_int = vars(uuid.UUID)["int"].__set__  # of a slot
_set_is_safe = vars(uuid.UUID)["is_safe"].__set__
_UNKNOWN = uuid.SafeUUID.unknown


class Stream:
    """Pseudo-random bytes of one maker in one scope: sha256 over the caller, the ordinal of the call, and a block."""

    def __init__(self, seed: str, scope: str, maker: str) -> None:
        # JSON keeps the parts apart, and has an ASCII form for every string.
        self._start = hashlib.sha256(json.dumps([seed, scope, maker]).encode("ascii"))
        self._taken = 0

    def next(self, size: int) -> bytes:
        """Give the next bytes. The n-th ask gives the start of the same bytes, however many the asks before it took."""
        nth = self._taken
        self._taken = nth + 1
        found, block = b"", 0
        while len(found) < size:
            digest = self._start.copy()
            digest.update(b"%d.%d" % (nth, block))
            found += digest.digest()
            block += 1
        return found[:size]


def uuid_from(
    noise: bytes, version: int, milliseconds: int, node: int | None = None, clock_seq: int | None = None
) -> uuid.UUID:
    """Lay out a UUID.

    `noise` has 16 bytes for the fields that are random by default; `milliseconds` are since the epoch, for versions 1,
    6 and 7; `node` (48 bits) and `clock_seq` (14 bits) replace noise in versions 1 and 6.
    """
    value = int.from_bytes(noise, "big")
    low = value & ((1 << 62) - 1)
    if version == _RANDOM:
        high = value >> 64
    elif version == _UNIX_TIME:
        high = milliseconds << 16 | (value >> 64 & 0xFFF)
    else:
        node = (value & 0xFFFF_FFFF_FFFF) | _MULTICAST if node is None else node & 0xFFFF_FFFF_FFFF
        clock_seq = (value >> 48 if clock_seq is None else clock_seq) & 0x3FFF
        low = clock_seq << 48 | node
        high = _gregorian(version, (milliseconds * _TICKS_PER_MILLISECOND + _GREGORIAN_OFFSET) & ((1 << 60) - 1))
    high = high & 0xFFFF_FFFF_FFFF_0FFF | version << 12
    made = _new(uuid.UUID)  # its constructor takes six times as long, to find out which of its arguments is given
    _set_int(made, high << 64 | _VARIANT | low)
    _set_is_safe(made, _UNKNOWN)
    return made


def _gregorian(version: int, ticks: int) -> int:
    """The upper half: version 6 has the time in order, version 1 has its low part first."""
    if version == 6:  # noqa: PLR2004 - the version's own number
        return (ticks >> 12) << 16 | ticks & 0xFFF
    return (ticks & 0xFFFF_FFFF) << 32 | (ticks >> 32 & 0xFFFF) << 16 | ticks >> 48
