"""A cassette as a text whose differences are the ones that you want to see."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from agenttape_core.errors import AgentTapeError
from agenttape_core.format.continuation import Compactor
from agenttape_core.format.yaml_text import dump_mapping
from agenttape_core.schema import Interaction, Volatile
from agenttape_core.storage import Cassette, read_cassette
from agenttape_core.storage.writer import stored_record, stored_step
from agenttape_core.tools.git.parsed import text_of_records


def diffable(path: Path) -> bytes:
    """Return the text of a cassette for `git diff`: unpacked, streams joined, without numbers and times.

    Git may have copied the file to another name. If it can't be read as a cassette, returns its content.
    """
    try:
        with path.open("rb") as stream:
            return "".join(_text_of(read_cassette(stream, attached=False))).encode()
    except (AgentTapeError, RecursionError):
        return path.read_bytes()


def _text_of(cassette: Cassette) -> Iterator[str]:
    header = cassette.header.model_copy(update={"volatile": Volatile(packages=cassette.header.volatile.packages)})
    yield dump_mapping(header.model_dump(mode="json", exclude_defaults=True))
    yield from text_of_records(list(_stored(cassette)))


def _stored(cassette: Cassette) -> Iterator[dict[str, Any]]:
    """Yield the records as they would be stored."""
    compactor = Compactor()
    for record in cassette.records():
        if isinstance(record, Interaction):
            yield stored_record(compactor, record, record.number)
            compactor.confirm()
        else:
            yield stored_step(record)
