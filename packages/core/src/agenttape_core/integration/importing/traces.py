"""Traces of OpenTelemetry as cassettes: our own exports, and spans in the words of a convention."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from agenttape_core.errors import CassetteFormatError, UnrecordableValueError
from agenttape_core.integration.importing.foreign_files import error_named, malformed, parse_json, read_source
from agenttape_core.integration.importing.genai_spans import genai_call, operation_of
from agenttape_core.integration.importing.openinference_spans import KIND, openinference_call
from agenttape_core.integration.importing.request_parts import NotImportableError
from agenttape_core.integration.importing.spans import Span, spans_of
from agenttape_core.integration.importing.traced_calls import (
    ERROR,
    Convention,
    TracedModelCall,
    TracedToolCall,
    TraceFramework,
)
from agenttape_core.integration.object_settings import MODEL_SETTINGS
from agenttape_core.lifecycle.imported import CallFacts, Graded, Importing, ImportReport
from agenttape_core.matching import Position
from agenttape_core.named_tuples import NamedTuple
from agenttape_core.redaction import Rule
from agenttape_core.redaction.pseudonyms import ANY_PSEUDONYM
from agenttape_core.schema import HEADER_ATTRIBUTE, RECORD_ATTRIBUTE, Header, Interaction, Step
from agenttape_core.session import ExecutedCall

_KINDS = {
    "chat": "chat", "generate_content": "chat", "text_completion": "completion", "execute_tool": "tool",
    "retrieval": "retrieval", "embeddings": "embeddings", "LLM": "chat", "TOOL": "tool", "RETRIEVER": "retrieval",
    "EMBEDDING": "embeddings",
}  # fmt: skip
"""The kind of an interaction by the operation or the kind of a span."""


_UNTOLD = (
    *MODEL_SETTINGS,
    *("tool_choice", "parallel_tool_calls", "n", "user", "metadata", "service_tier", "verbosity", "store"),
)
"""The parameters of a request that traces lack, or name in another way than the request does."""


class Whole(NamedTuple):
    """An importer of spans that hold a framework's own values.

    Args:
        reads: Returns whether the spans of a file are such ones.
        run: Imports all of them, and returns their grades.
    """

    reads: Callable[[Sequence[Span]], bool]
    run: Callable[[Importing, Path, Sequence[Span]], list[Graded]]


def import_otel(
    source: str | Path,
    target: str | Path,
    framework: TraceFramework,
    *,
    whole: Whole | None = None,
    overwrite: bool = False,
    redact: bool | Sequence[Rule] = True,
    tags: Sequence[str] = (),
) -> ImportReport:
    """Make a cassette of the spans in a file.

    Args:
        source: The file: OTLP/JSON or spans in JSON; JSON lines and gzip work as well.
        target: The cassette: a bare name under the cassette folder, or a path.
        framework: Makes the calls.
        whole: Imports spans that hold more of that framework's values than a convention names.
        overwrite: Whether to replace a cassette that is there already.
        redact: Rules beyond the built-in ones, or `False` to keep secrets in plain text.
        tags: Words for the header.

    Returns:
        The report, with a grade for each span that is a call of a model, a tool or a retriever.

    Raises:
        CassetteFormatError: If the source holds no spans.
        CassetteNotFoundError: If there is none.
        ConfigurationError: If the target is there already, or an option is not valid.
    """
    path = Path(source)
    spans = spans_of(path, parse_json(path, read_source(path)))
    own, is_whole = any(map(_is_exported, spans)), whole is not None and whole.reads(spans)
    ignore = () if own or is_whole else _UNTOLD
    with Importing(target, overwrite=overwrite, redact=redact, tags=tags, ignore=ignore) as importing:
        if own:
            items = _restored(importing, path, spans)
        elif whole is not None and is_whole:
            items = whole.run(importing, path, spans)
        else:
            items = _Import(importing, framework).all(spans)
    return ImportReport(path, importing.path, tuple(items))


class _Import:
    """The import of one file, span by span."""

    def __init__(self, importing: Importing, framework: TraceFramework) -> None:
        self._importing = importing
        self._framework = framework
        self._positions: dict[str, Position] = {}
        self._session_calls: dict[str, ExecutedCall | None] = {}

    def all(self, spans: Sequence[Span]) -> list[Graded]:
        """Record the calls among the spans, in their order, each below its parent span."""
        return [graded for span in spans if (graded := self._graded(span)) is not None]

    def _graded(self, span: Span) -> Graded | None:
        above = self._positions.get(span.parent, self._importing.root)
        self._session_calls[span.id] = self._session_calls.get(span.parent)
        sort = span.text(KIND).upper() or operation_of(span)
        try:
            told = openinference_call(span) if KIND in span.attributes else genai_call(span)
            if told is None:
                self._positions[span.id] = above.child(span.name)
                return None
            self._record(span, told, above)
        except NotImportableError as error:
            self._importing.missing(_KINDS.get(sort, "chat"), f"{span.name}: {error}")
            return Graded(f"span {span.id}", span.name, "missing", str(error))
        return Graded(f"span {span.id}", span.name, "lossy", _loss(span, told))

    def _record(self, span: Span, told: Convention, above: Position) -> None:
        try:
            boundary, name, body = self._framework.traced_request(told.call)
            value = None if span.error is not None else self._framework.traced_value(told.call)
            position = self._positions[span.id] = above.child(name)
            ids = self._framework.ids_of(value) if isinstance(told.call, TracedToolCall) else ()
            around = self._session_calls.get(span.parent)
            facts = CallFacts(position, around, ids, duration_ms=span.duration_ms, loss=_loss(span, told))
            session_call = self._importing.session_call(boundary, name, body, facts)
            if span.error is not None:
                session_call.raised(_error(span))
            else:
                session_call.returned(value)
        except UnrecordableValueError as error:
            raise NotImportableError(f"it cannot be recorded: {error}") from error
        if not isinstance(told.call, TracedModelCall):
            self._session_calls[span.id] = session_call


def _loss(span: Span, told: Convention) -> str:
    return "; ".join((ERROR, *told.losses) if span.error is not None else told.losses)


def _error(span: Span) -> Exception:
    """Return an exception of the type that the span names, with the text that it has."""
    given: Any = next((given for name, given in span.events if name == "exception"), {})
    named = str(given.get("exception.type") or span.attributes.get("error.type") or "Exception")
    module, _, name = named.rpartition(".")
    return error_named(module or "builtins", name, str(given.get("exception.message") or span.error or ""))


# Our own exports of spans, which hold the records of the cassette that they were made of.

_PSEUDONYMS = (
    "it holds pseudonyms, and the key that made them is in no export, so a request with a secret may not match"
)


def _is_exported(span: Span) -> bool:
    """Return True if a span holds a record of a cassette."""
    return any(RECORD_ATTRIBUTE in attributes for attributes in _all_attributes(span))


def _restored(importing: Importing, path: Path, spans: Sequence[Span]) -> list[Graded]:
    """Put the records that spans hold into a cassette, and return the grade of each interaction."""
    headers = [plain for span in spans if (plain := span.structured(HEADER_ATTRIBUTE)) is not None]
    if len(headers) != 1:
        problem = f"it holds {len(headers)} cassettes, and an import makes one"
        raise CassetteFormatError(path, problem, remedy="export each cassette to its own file, and import that")
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
