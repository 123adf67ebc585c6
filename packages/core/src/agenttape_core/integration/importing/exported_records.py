"""Our own exports of spans, which hold the records of the cassette that they were made of."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from agenttape_core.errors import CassetteFormatError
from agenttape_core.integration.importing.foreign_files import malformed
from agenttape_core.integration.importing.spans import Span
from agenttape_core.lifecycle.imported import Graded, Importing
from agenttape_core.redaction.recognition import ANY_PSEUDONYM
from agenttape_core.schema import HEADER_ATTRIBUTE, RECORD_ATTRIBUTE, Header, Interaction, Step

_PSEUDONYMS = (
    "it holds pseudonyms, and the key that made them is in no export, so a request with a secret may not match"
)


def is_exported(span: Span) -> bool:
    """Return True if a span holds a record of a cassette."""
    return any(RECORD_ATTRIBUTE in attributes for attributes in _all_attributes(span))


def restored(importing: Importing, path: Path, spans: Sequence[Span]) -> list[Graded]:
    """Put the records that spans hold into a cassette, and return the grade of each interaction.

    Args:
        importing: The cassette.
        path: The file, for errors.
        spans: Those of one cassette.

    Raises:
        CassetteFormatError: If a record is malformed, or they are of several cassettes.
    """
    headers = [plain for span in spans if (plain := span.structured(HEADER_ATTRIBUTE)) is not None]
    if len(headers) != 1:
        problem = f"it holds {len(headers)} cassettes, and an import makes one"
        raise CassetteFormatError(path, problem, remedy="export each cassette to a file of its own, and import that")
    held = [
        plain
        for span in spans
        for attributes in _all_attributes(span)
        if (plain := _record(path, attributes)) is not None
    ]
    try:
        header = Header.model_validate_json(json.dumps(headers[0]))
        records = [_read(plain) for plain in sorted(held, key=lambda plain: int(plain["order"]))]
    except (ValidationError, KeyError, TypeError, ValueError) as error:
        raise malformed(path, RECORD_ATTRIBUTE, f"a record of AgentTape ({type(error).__name__})", {}) from None
    importing.restore(header, records)
    return [_graded(record) for record in records if isinstance(record, Interaction)]


def _all_attributes(span: Span) -> list[Any]:
    return [span.attributes, *(attributes for _, attributes in span.events)]


def _record(path: Path, attributes: Any) -> dict[str, Any] | None:
    span = Span("", "", "", 0, 0, attributes)
    plain = span.structured(RECORD_ATTRIBUTE)
    if plain is None:
        return None
    if not isinstance(plain, dict):
        raise malformed(path, RECORD_ATTRIBUTE, "a record of AgentTape", plain)
    return plain


def _read(plain: dict[str, Any]) -> Interaction | Step:
    record: Interaction | Step
    if "step" in plain:
        return Step.model_validate_json(json.dumps(plain["step"]))
    record = Interaction.model_validate_json(json.dumps(plain["interaction"]))
    if record.fidelity == "exact" and ANY_PSEUDONYM.search(record.model_dump_json()):
        record = record.model_copy(update={"fidelity": "lossy", "fidelity_note": _PSEUDONYMS})
    return record


def _graded(record: Interaction) -> Graded:
    return Graded(f"interaction {record.number}", f"{record.kind} {record.name}", record.fidelity, record.fidelity_note)
