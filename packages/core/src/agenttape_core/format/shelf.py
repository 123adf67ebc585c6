"""Records in as little memory as their content takes.

To write a cassette, all of its records are gone through several times, as the header comes first and says what stands
in them. As dicts, those of a large one take several times what its file does.
"""

from __future__ import annotations

import marshal
from collections.abc import Collection, Iterable, Iterator

from agenttape_core.format.written_steps import Stored, WrittenStep

_AS_THEY_ARE = 2_000
"""The first records are kept as they are: most cassettes have no more, and are written in the least time."""


class Shelf(Collection[Stored]):
    """Records as they are stored, each of which is made anew each time it is asked for. They are not to be changed.

    Args:
        records: The records, which may be made one by one.
    """

    def __init__(self, records: Iterable[Stored]) -> None:
        self._kept = [record if at < _AS_THEY_ARE else _packed(record) for at, record in enumerate(records)]

    def __iter__(self) -> Iterator[Stored]:
        for kept in self._kept:
            yield marshal.loads(kept) if isinstance(kept, bytes) else kept  # noqa: S302 - it was packed here

    def __len__(self) -> int:
        return len(self._kept)

    def __contains__(self, record: object) -> bool:
        return any(record == each for each in self)


def _packed(record: Stored) -> Stored | bytes:
    if isinstance(record, WrittenStep):
        return record
    try:
        return marshal.dumps(record)
    except ValueError:  # a subclass of a plain type, or nested deeply
        return record
