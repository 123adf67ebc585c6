"""Records in less memory than their content takes.

To write a cassette, all of its records are gone through several times, as the header comes first and says what stands
in them. As dicts, those of a large one take several times what its file does. Most of that stands in many of them:
some hundred, packed together, take a tenth of it.
"""

from __future__ import annotations

import marshal
import zlib
from collections.abc import Collection, Iterable, Iterator
from itertools import chain, islice

from agenttape_core.format.written_steps import Stored, WrittenStep

_AS_THEY_ARE = 2_000
"""The first records are kept as they are: most cassettes have no more, and are written in the least time."""
_TOGETHER = 200
"""The records that are packed into one, and are in memory together when one of them is asked for."""
_FASTEST = 1


class Shelf(Collection[Stored]):
    """Records as they are stored, each of which is made anew each time it is asked for. They are not to be changed.

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
    """Return some records in one, or as they are where that cannot be."""
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
