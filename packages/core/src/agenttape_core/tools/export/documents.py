"""A cassette as JSON: rows with all that is recorded, independent of the storage format.

The shape of the rows is documented in docs/files.md; `VERSION` grows when it changes.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from agenttape_core.schema import MODEL_KINDS, Interaction
from agenttape_core.storage import Cassette
from agenttape_core.tools.export.attributes import Placed, placed_in
from agenttape_core.tools.reading.answer import Answer
from agenttape_core.tools.reading.summary import model_of

VERSION = 1
"""The version of the shape of the rows."""
_OF_RECORDS = {"timings", "steps"}
"""The parts of the header that repeat what the rows of the records say."""


def rows_of(cassette: Cassette) -> Iterator[dict[str, Any]]:
    """Yield a row for the header, then one for each record, in the order of the file.

    Requests are whole, and large binary parts stand in their places. The key of the redaction is left out: its only use
    is to guess at secrets.

    Args:
        cassette: The cassette.

    Raises:
        CassetteFormatError: If a record is malformed.
    """
    left_out = {"redaction": {"key"}, "volatile": _OF_RECORDS}
    header = cassette.header.model_dump(mode="json", exclude_defaults=True, exclude=left_out)
    volatile = header.pop("volatile", {})
    facts = {key: item for key, item in {**header, **volatile}.items() if item}
    yield {"record": "header", "export": VERSION, **facts}
    yield from map(_row, placed_in(cassette))


def _row(placed: Placed) -> dict[str, Any]:
    record = placed.record
    sort = "interaction" if isinstance(record, Interaction) else "step"
    fields = record.model_dump(mode="json", exclude_defaults=True, exclude={"parent"})
    row = {"record": sort, "id": placed.id, "parent": placed.parent, **fields}
    row |= {"start_ms": placed.start_ms, "duration_ms": placed.duration_ms}
    if not isinstance(record, Interaction):
        return row
    if placed.offsets_ms:
        row["offsets_ms"] = list(placed.offsets_ms)
    if (model := model_of(record)) is not None:
        row["model"] = model
    if record.kind in MODEL_KINDS:
        row["answer"] = Answer(record.outcome).messages
    return row
