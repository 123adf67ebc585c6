"""The limits of a cassette, so that a hostile or broken file costs an error and not the machine.

The limits also hold for writing: every file that is written can be read back.
"""

from __future__ import annotations

MAX_FILE_BYTES = 512 * 1024 * 1024
"""Size of a cassette in bytes, after decompression. It is held in memory while the cassette is open."""

MAX_RECORD_BYTES = 64 * 1024 * 1024
"""Size of one record (or of the header) in bytes in the file; and of all assets of a record."""

MAX_PACKED_RATIO = 256
"""Times that the size of a packed cassette may grow when it is unpacked, if it is larger than `MAX_UNPACKED_BYTES`."""

MAX_UNPACKED_BYTES = 48 * 1024 * 1024  # size in bytes up to which the ratio does not count

MAX_VALUES = 3_000_000
"""Values of one record (or of the header), as the file separates them: lines of YAML, commas of JSON."""

MAX_FOREIGN_VALUES = 300_000
"""The same of YAML that AgentTape has not laid out, and that takes twenty times as long to read."""

MAX_FOREIGN_BYTES = 16 * 1024 * 1024  # size of one record of such YAML in bytes

MAX_DEPTH = 128
"""Levels of lists and dicts inside each other, the record itself being the first."""

MAX_INT_DIGITS = 4300
"""Decimal digits of an integer: CPython's own default limit for converting between `int` and `str`."""

MIN_ASSET_BYTES = 16 * 1024
"""Size in bytes from which a binary part is written to a separate file next to the cassette."""


def unpacked_limit(packed: int) -> int:
    """Return the size in bytes that a cassette may have after decompression."""
    return min(MAX_FILE_BYTES, max(MAX_UNPACKED_BYTES, packed * MAX_PACKED_RATIO))
