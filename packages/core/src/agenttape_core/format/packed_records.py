"""Records in less memory than their content takes.

To write a cassette, all of its records are read several times, because the header comes first and describes them. As
dicts, the records of a large cassette take several times the memory of its file. Most of their content repeats: some
hundred records, packed together, take a tenth of it.
"""

from __future__ import annotations

import marshal
import zlib
from collections.abc import Collection, Iterable, Iterator
from itertools import chain, islice

from agenttape_core.format.written_steps import Stored, WrittenStep

_AS_THEY_ARE = 2_000
"""The first records aren't packed: most cassettes have no more, and are written in the least time."""
_TOGETHER = 200
"""The number of records that are packed together, and unpacked together when one of them is read."""
_FASTEST = 1


class Shelf(Collection[Stored]):
    """Stored records, each of which is unpacked again every time it is read. They are not to be changed.

    Args:
        records: The records, which may be made one by one.
    """

    def __init__(self, records: Iterable[Stored]) -> None:
        coming = iter(records)
        self._first = list(islice(coming, _AS_THEY_ARE))
        self._packed: list[bytes | list[Stored]] = []
        self._count = len(self._first)
        while some := list(islice(coming, _TOGETHER)):
            self._count += len(some)
            self._packed.append(_packed(some))

    def __iter__(self) -> Iterator[Stored]:
        return chain(self._first, chain.from_iterable(map(_unpacked, self._packed)))

    def __len__(self) -> int:
        return self._count

    def __contains__(self, record: object) -> bool:
        return any(record == each for each in self)


def _packed(records: list[Stored]) -> bytes | list[Stored]:
    """Return some records packed together, or unpacked if they can't be."""
    plain = [tuple(record) if isinstance(record, WrittenStep) else record for record in records]
    try:
        return zlib.compress(marshal.dumps(plain), _FASTEST)
    except ValueError:  # a subclass of a plain type, or nested deeply
        return records


def _unpacked(packed: bytes | list[Stored]) -> list[Stored]:
    if isinstance(packed, list):
        return packed
    plain = marshal.loads(zlib.decompress(packed))  # noqa: S302 - it was packed here
    return [WrittenStep(*record) if isinstance(record, tuple) else record for record in plain]
