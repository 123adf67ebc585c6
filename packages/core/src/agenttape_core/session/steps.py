"""What is no boundary but gives a run its shape: how an integration that observes records it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from time import perf_counter
from typing import TYPE_CHECKING, Any, Literal

from agenttape_core.matching import IdMap
from agenttape_core.schema import Plain, RecordedError, Step, StepTiming
from agenttape_core.session.codecs import value_codec
from agenttape_core.session.recorded_errors import record_error

if TYPE_CHECKING:
    from agenttape_core.matching import Order
    from agenttape_core.redaction import Redactor
    from agenttape_core.session.session import Session


@dataclass(frozen=True, slots=True)
class StepEvent:
    """A step that has ended, as it is handed in; it is redacted when it is recorded.

    Args:
        kind: What sort of thing happened: a word of the glossary.
        name: Which one.
        address: Where in the run tree.
        order: Where in the file: the order of its position, or `Position.moment()` for what has none.
        began: When, by `time.perf_counter()`.
        tags: Words that the program gave it.
        metadata: What else the program said of it.
        status: How it ended.
        error: What it failed with.
        error_ids: Ids in the error that differ in each recording, and what is to stand for them.
        missing: For a call that no interaction could be made of: why.
        input: What it was given, for the outermost of a run, as plain data: `plain_value` at the time it was given.
        output: What it gave, likewise.
        data: What an event says, likewise.
        retells: Whether its input and output may say again what interactions hold: their long texts are only named.
    """

    kind: str
    name: str
    address: str
    order: Order
    began: float
    tags: Sequence[str] = ()
    metadata: Mapping[str, Any] = field(default_factory=dict)
    status: Literal["ended", "failed", "open"] = "ended"
    error: BaseException | None = None
    error_ids: Mapping[str, str] = field(default_factory=dict)
    missing: str = ""
    input: Plain = None
    output: Plain = None
    data: Plain = None
    retells: bool = False


def record_step(session: Session, event: StepEvent) -> None:
    """Record a step in a session that records. Thread-safe.

    Raises:
        UnrecordableValueError: If a value is not plain data, or nested deeper than any file could hold.
        CassetteWriteError: If it cannot be written.
    """
    redactor = session.redactor
    named = session.texts.named if event.retells and session.texts is not None else _as_it_is
    step = Step(
        number=0,  # steps are numbered when the cassette is written
        kind=event.kind,
        name=event.name,
        address=event.address,
        tags=plain_tags(event.tags, redactor),
        metadata=plain_metadata(event.metadata, redactor),
        status=event.status,
        error=_plain_error(event.error, redactor, event.error_ids),
        fidelity="missing" if event.missing else "exact",
        fidelity_note=redactor.text(event.missing),
        input=named(redactor.value(event.input)),
        output=named(redactor.value(event.output)),
        data=redactor.value(event.data),
    )
    start = (event.began - session.began) * 1000
    duration = (perf_counter() - event.began) * 1000
    session.keep_step(step, StepTiming(start_ms=start, duration_ms=duration), event.order)


def _as_it_is(value: Plain) -> Plain:
    return value


GAP = "gap"
"""The kind of a step that says what nobody could see: its data lists kinds of calls."""


def is_gap_of(step: Step, kind: str) -> bool:
    """Whether a step says that no call of a kind could be seen."""
    return step.kind == GAP and isinstance(step.data, list) and kind in step.data


def plain_value(value: Any) -> Plain:
    """Return any value as plain data, what has no codec as an opaque value: for readers, not to be served."""
    return value_codec(lenient=True).encode(value)


def plain_tags(tags: Sequence[str], redactor: Redactor) -> list[str]:
    """Return tags redacted."""
    return [redactor.text(str(tag)) for tag in tags]


def plain_metadata(metadata: Mapping[str, Any], redactor: Redactor) -> dict[str, Plain]:
    """Return metadata as plain, redacted data."""
    plain: dict[str, Plain] = redactor.value({str(key): plain_value(item) for key, item in metadata.items()})
    return plain


def _plain_error(error: BaseException | None, redactor: Redactor, ids: Mapping[str, str]) -> RecordedError | None:
    if error is None:
        return None
    record = record_error(error, value_codec(lenient=True))
    plain = IdMap(list(ids), list(ids.values())).value(record.model_dump())
    return RecordedError.model_validate(redactor.value(plain))
