"""The index row of a recording: its facts that can be read without parsing the whole record."""

from __future__ import annotations

from typing import NamedTuple


class IndexRow(NamedTuple):
    """The first keys of a record.

    A named tuple, because it costs a quarter of a frozen dataclass to make, and opening a cassette makes one for each
    recording.

    Args:
        number: The number of the recording in its cassette.
        kind: The kind of boundary.
        name: The name of the boundary.
        address: Its location in the run.
        fingerprint: The hash of its request.
        parent: The number of the recording that it lies inside, if it lies inside one.
    """

    number: int
    kind: str
    name: str
    address: str
    fingerprint: str
    parent: int | None = None
