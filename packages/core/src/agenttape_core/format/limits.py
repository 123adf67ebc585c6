"""The limits of a cassette, so that a hostile or broken file costs an error and not the machine.

The limits hold on writing too: nothing is ever written that could not be read back.
"""

from __future__ import annotations

MAX_FILE_BYTES = 512 * 1024 * 1024
"""Size of a cassette in bytes, after decompression. It is held in memory while the cassette is open."""

MAX_RECORD_BYTES = 64 * 1024 * 1024
"""Size of one record (or of the header) in bytes, as it stands in the file; and of all assets of a record."""

MAX_DEPTH = 128
"""Levels of lists and dicts inside each other, the record itself being the first."""

MAX_INT_DIGITS = 4300
"""Decimal digits of an integer: CPython's own default limit for converting between `int` and `str`."""

MIN_ASSET_BYTES = 16 * 1024
"""Size in bytes from which a binary part goes to a file of its own beside the cassette."""
