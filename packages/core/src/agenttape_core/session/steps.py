"""Steps: parts of a run that aren't boundaries but give it its shape. An integration that observes records them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from time import perf_counter
from typing import TYPE_CHECKING, Any, Literal

from agenttape_core.matching import IdMap, Order
from agenttape_core.named_tuples import NamedTuple
from agenttape_core.schema import Plain, RecordedError, Step, StepTiming
from agenttape_core.session.codecs import plain_metadata, plain_tags, value_codec
from agenttape_core.session.recorded_errors import record_error
from agenttape_core.session.session import Session

if TYPE_CHECKING:
    from agenttape_core.redaction import Redactor


class StepEvent(NamedTuple):
    """A step that has ended, as an integration hands it in; it is redacted when it is recorded, if its data is not yet.

    Args:
        kind: The kind of step: a word of the glossary.
        name: Which one.
        address: Where in the run tree.
        order: Its place in the file: the order of its position, or `Position.moment()` without one.
        began: When, by `time.perf_counter()`.
        tags: Words that the program gave it.
        metadata: More facts that the program gave.
        status: How it ended.
        error: The error that it failed with.
        error_ids: Ids in the error that differ in each recording, and their replacements.
        missing: For a call that no interaction could be made of: why.
        input: Its input, for the outermost step of a run, made plain by `plain_value` when it was given.
        output: Its output, as plain data.
        data: The content of an event, as plain data.
        repeats: Whether its input and output may repeat the long texts of interactions; it then only refers to them.
        is_redacted: Whether the secrets in its data are replaced already, by the redactor of the session.
    """

    kind: str
    name: str
    address: str
    order: Order
    began: float
    tags: Sequence[str] = ()
    metadata: Mapping[str, Any] = {}
    status: Literal["ended", "failed", "open"] = "ended"
    error: BaseException | None = None
    error_ids: Mapping[str, str] = {}
    missing: str = ""
    input: Plain = None
    output: Plain = None
    data: Plain = None
    repeats: bool = False
    is_redacted: bool = False


def record_step(session: Session, event: StepEvent) -> None:
    """Record a step in a session that records. Thread-safe.

    Raises:
        UnrecordableValueError: If a value is not plain data, or nested deeper than any file could hold.
        CassetteWriteError: If it cannot be written.
    """
    start = (event.began - session.began) * 1000
    duration = (perf_counter() - event.began) * 1000
    timing = StepTiming(start_ms=start, duration_ms=duration)
    session.ledger.keep_step(_step(session, event), timing, event.order)


def _step(session: Session, event: StepEvent) -> Step:
    redactor, texts = session.redactor, session.ledger.texts

    def shown(value: Plain) -> Plain:
        if value is None:
            return None
        plain = redactor.value(value)
        return texts.referred_to(plain) if event.repeats and texts is not None else plain

    return Step(
        number=0,  # steps are numbered when the cassette is written
        kind=event.kind,
        name=event.name,
        address=event.address,
        tags=plain_tags(event.tags, redactor) if event.tags else [],
        metadata=plain_metadata(event.metadata, redactor) if event.metadata else {},
        status=event.status,
        error=_plain_error(event.error, redactor, event.error_ids),
        fidelity="missing" if event.missing else "exact",
        fidelity_note=redactor.text(event.missing) if event.missing else "",
        input=shown(event.input),
        output=shown(event.output),
        data=event.data if event.is_redacted or event.data is None else redactor.value(event.data),
    )


def _plain_error(error: BaseException | None, redactor: Redactor, ids: Mapping[str, str]) -> RecordedError | None:
    if error is None:
        return None
    record = record_error(error, value_codec(lenient=True))
    plain = IdMap(list(ids), list(ids.values())).value(record.model_dump())
    return RecordedError.model_validate(redactor.value(plain))
