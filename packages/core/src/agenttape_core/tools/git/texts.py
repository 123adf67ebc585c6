"""A cassette as a text whose differences are those that somebody would want to see."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from agenttape_core.errors import AgentTapeError
from agenttape_core.format.continuation import Compactor
from agenttape_core.format.stamps import stamped
from agenttape_core.format.yaml_text import dump_mapping, inline, quote
from agenttape_core.schema import Interaction, Volatile
from agenttape_core.storage import Cassette, read_cassette
from agenttape_core.storage.writer import stored_record, stored_step
from agenttape_core.tools.reading.answer import joined

_HEADING = ("kind", "name", "address")
_UNSAID = frozenset({*_HEADING, "interaction", "step", "fingerprint", "continues", "keep", "parent", "ids"})
"""Keys that the heading shows, that follow from others, or that are numbers, which change with the records before."""


def diffable(path: Path) -> bytes:
    """Return the text of a cassette for `git diff`: unpacked, streams joined, without numbers and times.

    Args:
        path: The file, which git may have copied to another name.

    Returns:
        The text; of a file that cannot be read as a cassette, what it holds.
    """
    try:
        with path.open("rb") as stream:
            return "".join(_text_of(read_cassette(stream, attached=False))).encode()
    except (AgentTapeError, RecursionError):
        return path.read_bytes()


def _text_of(cassette: Cassette) -> Iterator[str]:
    header = cassette.header.model_copy(update={"volatile": Volatile(packages=cassette.header.volatile.packages)})
    yield dump_mapping(header.model_dump(mode="json", exclude_defaults=True))
    for said in stamped(list(_said(cassette))).records:
        yield f"--- {' '.join(_one_line(said[key]) for key in _HEADING)}\n"
        if rest := {key: item for key, item in said.items() if key not in _UNSAID}:
            yield dump_mapping(rest)


def _said(cassette: Cassette) -> Iterator[dict[str, Any]]:
    """Yield the records as they would be stored, streams joined."""
    compactor = Compactor()
    for record in cassette.records():
        if isinstance(record, Interaction):
            stored = stored_record(compactor, record, record.number)
            compactor.confirm()
            yield {**stored, "outcome": _joined(record, stored["outcome"])}
        else:
            yield stored_step(record)


def _joined(record: Any, outcome: dict[str, Any]) -> dict[str, Any]:
    """Return an outcome with a stream as what it amounts to: where it was cut into chunks is no difference."""
    if "chunks" not in outcome:
        return outcome
    rest = {key: item for key, item in outcome.items() if key != "chunks"}
    return {"value": joined(record.outcome), **rest}


def _one_line(text: str) -> str:
    return quote(text) if "\n" in text else inline(text)
