"""The index row of a recording: its facts that can be read without parsing the whole record."""

from __future__ import annotations

from agenttape_core.named_tuples import NamedTuple


class IndexRow(NamedTuple):
    """The first keys of a record.

    A named tuple, because it costs a quarter of a frozen dataclass to make, and opening a cassette makes one for each
    recording.
    """

    number: int  # the number of the recording in its cassette
    kind: str  # the kind of boundary
    name: str  # the name of the boundary
    address: str  # its location in the run
    fingerprint: str  # the hash of its request
    parent: int | None = None  # the number of the recording that it lies inside, if it lies inside one
