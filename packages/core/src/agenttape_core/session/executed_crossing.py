"""A crossing that is executed for real, and recorded where the session records."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from time import perf_counter
from typing import Any, ClassVar, Literal

from agenttape_core.matching import CanonicalRequest, IdMap, Position, ids_held
from agenttape_core.redaction import Redactor
from agenttape_core.schema import Effect, Interaction, Outcome, Plain, RecordedError, Timing, Usage
from agenttape_core.session.base_session import BaseSession, Slot
from agenttape_core.session.boundary import BaseCrossing, Boundary
from agenttape_core.session.codecs import plain_metadata, plain_tags
from agenttape_core.session.recorded_errors import record_error

_executing: ContextVar[ExecutedCrossing | None] = ContextVar("agenttape_executing", default=None)


def executing() -> ExecutedCrossing | None:
    """Return the innermost boundary that is being executed for real around this call."""
    return _executing.get()


def swap_executing(crossing: ExecutedCrossing | None) -> ExecutedCrossing | None:
    """Make a crossing the innermost one that is being executed in this context, and return the one that was."""
    before = _executing.get()
    _executing.set(crossing)
    return before


class ExecutedCrossing(BaseCrossing):
    """A call that is executed for real.

    Args:
        session: The session it belongs to.
        boundary: The family of the call.
        request: The request.
        position: Where the call is made.
        number: Its provisional number: the order of its start.
        owner: The object whose call it is; calls that the same object makes inside are part of this one.
        parent: The crossing that is executing around this one.
    """

    __slots__ = (
        "_began",
        "_effects",
        "_offsets",
        "drops_ids",
        "duration_ms",
        "error_ids",
        "fidelity_note",
        "metadata",
        "number",
        "parent",
        "settle",
        "tags",
    )

    is_served: ClassVar[Literal[False]] = False
    """True if the call is answered without being executed."""

    def __init__(
        self,
        session: BaseSession,
        boundary: Boundary,
        request: CanonicalRequest,
        position: Position,
        *,
        number: int,
        owner: Any = None,
        parent: ExecutedCrossing | None = None,
    ) -> None:
        super().__init__(session, boundary, request, position, owner=owner)
        self.number = number
        self.parent = parent
        self.tags: Sequence[str] = ()
        """Words that the program gave the call, besides its request."""
        self.metadata: Mapping[str, Any] = {}
        """More facts that the program gave about the call."""
        self.fidelity_note = ""
        """The reason for a lossy recording, where an observer cannot see all of the outcome; empty if it is exact."""
        self.drops_ids = False
        """True if an empty text is recorded for each run-specific id of the call that its outcome does not hold.

        For ids of tasks: they differ in each recording, and nothing else in the cassette names them."""
        self.error_ids: Mapping[str, str] = {}
        """The ids in its error that differ in each recording, and what is recorded in their place."""
        self.duration_ms: float | None = None
        """The duration that another tool has measured; `None` to measure it here."""
        self.settle: Callable[[Outcome], PartCrossing | None] | None = None
        """Called with the outcome when the call has ended; returns the part whose outcome is recorded in its place."""
        self._offsets: list[float] = []
        self._effects: list[Effect] = []
        self._began = perf_counter()

    def part(self) -> PartCrossing:
        """Begin a part of this call whose outcome may turn out to be that of the whole; see `settle`."""
        return PartCrossing(
            self.session,
            self.boundary,
            self.request,
            self.position,
            number=self.number,
            owner=self.owner,
            parent=self,
        )

    # -- while it runs -----------------------------------------------------------------------------------------

    @contextmanager
    def executing(self) -> Iterator[None]:
        """While inside, calls are children of this one, and time, ids and randomness are real.

        Hold it only while the real code runs, never across a `yield`: the caller's own code runs there.
        """
        outside, running = swap_executing(self), self.session.extension(RUNNING)
        running.append(self)
        try:
            yield
        finally:
            running.remove(self)
            # An abandoned coroutine is closed in the context of its collector, where nothing was set.
            if executing() is self:
                swap_executing(outside)

    def is_below(self, other: ExecutedCrossing) -> bool:
        """True if this crossing is the other one or was begun inside it."""
        return any(crossing is other for crossing in self._outwards())

    def is_inside(self, owner: Any) -> bool:
        """True if this crossing or one around it belongs to the owner."""
        return any(crossing.owner is owner for crossing in self._outwards())

    def _outwards(self) -> Iterator[ExecutedCrossing]:
        crossing: ExecutedCrossing | None = self
        while crossing is not None:
            yield crossing
            crossing = crossing.parent

    def chunk_arrived(self) -> None:
        """Note the time of a chunk."""
        self._offsets.append((perf_counter() - self._began) * 1000)

    def effected(self, value: Any) -> None:
        """Record that the call has just done something besides returning; it is done again when the call is served.

        Thread-safe. The value is encoded now, before anyone can change it. Where the call is served, its shell gets a
        function that does it again.

        Args:
            value: A description of what it did; `effects` of a served crossing returns it.

        Raises:
            UnrecordableValueError: If the value has no codec.
        """
        with self.session.latching():
            effect = Effect.model_construct(value=self.session.codec.encode(value), after=len(self._offsets))
        self._effects.append(effect)

    # -- how it ended ------------------------------------------------------------------------------------------

    def returned(self, value: Any) -> None:
        """Record that the call returned.

        Raises:
            UnrecordableValueError: If the value has no codec.
        """
        with self.session.latching():
            plain = self.session.redactor.value(self.session.codec.encode(value))
            self._record(Outcome(status="returned", value=plain, usage=self.boundary.usage(value)))

    def raised(self, error: Exception) -> None:
        """Record that the call raised."""
        with self.session.latching():
            self._record(Outcome(status="raised", error=self._redacted(error)))

    def streamed(
        self,
        chunks: Sequence[Plain],
        ended: Literal["exhausted", "closed", "raised"] = "exhausted",
        error: Exception | None = None,
        usage: Usage | None = None,
    ) -> None:
        """Record a stream.

        Args:
            chunks: The chunks, each encoded at the moment of its arrival, before the reader could change it.
            ended: How it ended.
            error: The error that broke it.
            usage: The token counts of the whole.
        """
        with self.session.latching():
            record = self._redacted(error) if error is not None else None
            redacted = self.session.redactor.chunks(list(chunks))
            self._record(Outcome(status="streamed", chunks=redacted, ended=ended, error=record, usage=usage))

    def _redacted(self, error: Exception) -> RecordedError:
        record = record_error(error, self.session.codec)
        plain = IdMap(list(self.error_ids), list(self.error_ids.values())).value(record.model_dump())
        return RecordedError.model_validate(self.session.redactor.value(plain))

    def _record(self, outcome: Outcome) -> None:
        part = self.settle(outcome) if self.settle is not None else None
        if part is not None:
            outcome, self._offsets, self._effects = part.as_whole(self._began)
        self._keep(outcome)

    def _keep(self, outcome: Outcome) -> None:
        if self._effects:
            outcome = outcome.model_copy(update={"effects": redacted_effects(self._effects, self.session.redactor)})
        now = perf_counter()
        if self.parent is None:
            self.session.turns.ended(self.position.address, self._began, now)
        self.session.ledger.keep(self._interaction(outcome), self._timing(now), self.position.order)

    def _interaction(self, outcome: Outcome) -> Interaction:
        request, redactor = self.request, self.session.redactor
        return Interaction.model_construct(
            number=self.number,
            kind=request.kind,
            name=request.name,
            address=self.position.address,
            fingerprint=request.fingerprint,
            parent=self.parent.number if self.parent is not None else None,
            ids=self._ids_kept(outcome),
            tags=plain_tags(self.tags, redactor) if self.tags else [],
            metadata=plain_metadata(self.metadata, redactor) if self.metadata else {},
            fidelity="lossy" if self.fidelity_note else "exact",
            fidelity_note=redactor.text(self.fidelity_note),
            request=request.body,
            outcome=outcome,
        )

    def _ids_kept(self, outcome: Outcome) -> list[str]:
        """Return the ids to record.

        Ids are found again by their place, so one that is dropped leaves an empty text behind. Only those of the call
        itself, which stand last, may be dropped: the others are part of the request.
        """
        ids, extra = self.request.ids, self.request.extra
        if not self.drops_ids or not extra:
            return list(ids)
        error = [dict(outcome.error)] if outcome.error is not None else []
        values = [outcome.value, *error, *(effect.value for effect in outcome.effects)]
        return [*ids[:-extra], *ids_held(ids[-extra:], values, outcome.chunks or ())]

    def _timing(self, now: float) -> Timing:
        took = (now - self._began) * 1000 if self.duration_ms is None else self.duration_ms
        is_of_now = self.duration_ms is None and self.session.is_one_run
        start = (self._began - self.session.began) * 1000 if is_of_now else None
        return Timing(start_ms=start, duration_ms=took, offsets_ms=self._offsets)


class PartCrossing(ExecutedCrossing):
    """A part of a call: its outcome is held, and recorded only if it turns out to be that of the whole call."""

    __slots__ = ("outcome",)

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        self.outcome: Outcome | None = None
        """The outcome, once it has ended."""

    def as_whole(self, began: float) -> tuple[Outcome, list[float], list[Effect]]:
        """Return its outcome, the times of its chunks and its effects, as those of the whole call.

        Args:
            began: The moment at which the whole call began.
        """
        assert self.outcome is not None
        return self.outcome, [offset + (self._began - began) * 1000 for offset in self._offsets], self._effects

    def _keep(self, outcome: Outcome) -> None:
        self.outcome = outcome


def _none(_: BaseSession) -> list[ExecutedCrossing]:
    return []


RUNNING = Slot(_none)
"""The crossings of a session that are being executed for real now, in the order in which they began."""


def redacted_effects(effects: Sequence[Effect], redactor: Redactor) -> list[Effect]:
    """Return effects redacted; what one writes after the other may be a text in pieces, as chunks are."""
    values = redactor.chunks([effect.value for effect in effects])
    return [  # and each alone: a secret after another text's end may hide in the whole
        Effect.model_construct(value=redactor.value(value), after=effect.after)
        for value, effect in zip(values, effects, strict=True)
    ]
