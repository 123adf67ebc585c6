"""The text for `git diff` of a cassette with streams: its records as plain data, unchecked.

Git starts a process for each side of each file, and the models of records take longer to import than all else. Nothing
here imports them. Records in another form than AgentTape's are left to `texts`, which gives the same text.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from typing import Any

from agenttape_core.format.malformed import Malformed
from agenttape_core.format.volatile_values import Stamps, stamped
from agenttape_core.format.yaml_fast import NotCanonical, load_canonical
from agenttape_core.format.yaml_text import dump_mapping, inline, quote
from agenttape_core.tools.git.filtered import HEADING, LEFT_OUT, documents_of, said_of_header
from agenttape_core.tools.reading.messages import joined_chunks

_UNSAID = LEFT_OUT | frozenset(HEADING)


def parsed(data: bytes) -> bytes | None:
    """Return what `diffable` returns; `None` for a file that does not stand as AgentTape writes it."""
    documents = documents_of(data)
    if documents is None:
        return None
    header, *records = documents
    try:
        stamps = Stamps(load_canonical(header.encode()).get("volatile", {}).get("stamps", ""))
        plain = [stamps.filled(load_canonical(record.encode())) for record in records]
        return "".join([said_of_header(header), *text_of_records(plain)]).encode()
    except (NotCanonical, Malformed, LookupError, TypeError, AttributeError, RecursionError):
        return None


def text_of_records(records: Collection[dict[str, Any]]) -> Iterator[str]:
    """Yield the text of records, streams joined: the cuts between chunks aren't a difference."""
    for said in stamped([_joined(record) for record in records]).records:
        yield f"--- {' '.join(_one_line(said[key]) for key in HEADING)}\n"
        if rest := {key: item for key, item in said.items() if key not in _UNSAID}:
            yield dump_mapping(rest)


def _joined(record: dict[str, Any]) -> dict[str, Any]:
    """Return a record with a stream replaced by its joined content."""
    outcome = record.get("outcome", {})
    if "chunks" not in outcome:
        return record
    rest = {key: item for key, item in outcome.items() if key != "chunks"}
    return {**record, "outcome": {"value": joined_chunks(outcome["chunks"]), **rest}}


def _one_line(text: str) -> str:
    return quote(text) if "\n" in text else inline(text)
