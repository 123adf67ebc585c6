"""One boundary crossing in progress: served from the cassette, or executed and recorded."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from time import perf_counter
from typing import TYPE_CHECKING, Any, Literal, NoReturn

from agenttape_core.errors import DriftError, counted
from agenttape_core.matching import Candidate, CanonicalRequest, IdMap, Position, ids_held
from agenttape_core.schema import Effect, Interaction, Outcome, Plain, RecordedError, Timing, Usage
from agenttape_core.session.context import _executing, _watchers
from agenttape_core.session.pacing import Paced
from agenttape_core.session.recorded_errors import rebuild_error, record_error
from agenttape_core.session.steps import plain_metadata, plain_tags

if TYPE_CHECKING:
    from agenttape_core.redaction import Redactor
    from agenttape_core.session.session import Session


_NO_IDS = IdMap((), ())


def _no_usage(_: Any) -> Usage | None:
    return None


def _raise_drift(_: Crossing, drift: DriftError) -> NoReturn:
    raise drift


@dataclass(frozen=True, slots=True)
class Boundary:
    """A family of calls that reach outside: what they are called, and how their streams relate to their values.

    Args:
        kind: `chat`, `completion`, `embeddings`, `retrieval`, `tool`, `memory`, `http` or `call`.
        join: Makes the value of the chunks of an exhausted stream, so that a streamed recording serves a plain call.
        split: Makes chunks of a value, so that a plain recording serves a stream.
        usage: Reads the token counts of a value.
        missed: Makes the error result of a call that has no recording (`on_miss="return"`), as the callers of this
            family expect one; by default the `DriftError` is raised.
    """

    kind: str
    join: Callable[[list[Any]], Any] = list
    split: Callable[[Any], Sequence[Any]] = list
    usage: Callable[[Any], Usage | None] = _no_usage
    missed: Callable[[Crossing, DriftError], Any] = _raise_drift


class Crossing:
    """One boundary crossing in progress.

    Args:
        session: The session it belongs to.
        boundary: The family of the call.
        request: What is asked.
        position: Where it is asked.
        number: Its provisional number: the order of its start.
        owner: The object whose call it is; calls that the same object makes inside are part of this one.
        parent: The crossing that is executing around this one.
        found: The recording that serves it, if one does.
        drift: Why there is none, if the run is to live on without one. A call with neither is executed.
    """

    __slots__ = (
        "_began",
        "_effects",
        "_served",
        "boundary",
        "drift",
        "drops_ids",
        "duration_ms",
        "error_ids",
        "fidelity_note",
        "found",
        "metadata",
        "number",
        "offsets",
        "owner",
        "parent",
        "position",
        "request",
        "session",
        "tags",
    )

    def __init__(
        self,
        session: Session,
        boundary: Boundary,
        request: CanonicalRequest,
        position: Position,
        *,
        number: int,
        owner: Any = None,
        parent: Crossing | None = None,
        found: Candidate | None = None,
        drift: DriftError | None = None,
    ) -> None:
        self.session = session
        self.boundary = boundary
        self.request = request
        self.position = position
        self.number = number
        self.owner = owner
        self.parent = parent
        self.found = found
        self.drift = drift
        self.offsets: list[float] = []
        self.tags: Sequence[str] = ()
        """What is recorded of the call besides its request: words that the program gave it."""
        self.metadata: Mapping[str, Any] = {}
        """What else the program said of it."""
        self.fidelity_note = ""
        """What its recording will lack, and why, where an observer cannot see all of the outcome."""
        self.drops_ids = False
        """Whether run-specific ids of the call are recorded as empty that its outcome does not hold: those of tasks,
        which differ in each recording and which nothing else in the cassette names."""
        self.error_ids: Mapping[str, str] = {}
        """Ids in the error that it raises that differ in each recording, and what is recorded in their place."""
        self.duration_ms: float | None = None
        """How long it took, where another tool has measured it; by default as long as it takes now."""
        self._began = perf_counter()
        self._effects: list[Effect] = []
        self._served: Outcome | None = None
        for watcher in _watchers:
            watcher(self)

    # -- served ------------------------------------------------------------------------------------------------

    @property
    def is_served(self) -> bool:
        """Whether the call is answered without being executed."""
        return self.found is not None or self.drift is not None

    def paced(self) -> Paced | None:
        """Begin to serve in the time that the recording took, if the session is to."""
        pace = self.session.pace
        return Paced(pace, self.found.number) if pace is not None and self.found is not None else None

    async def await_turn(self) -> None:
        """Wait until those concurrent calls are answered that were answered before this one in the recording."""
        if self.found is not None:
            await self.session.turns.wait(self.position.address, self.session.seconds_of(self.found.number))

    def has_turned(self) -> None:
        """Note that the call is answered."""
        self.session.turns.passed(self.position.address)

    def replay(self) -> Any:
        """Return the recorded value, or raise the recorded error."""
        if self.drift is not None:
            return self.boundary.missed(self, self.drift)
        outcome = self._outcome()
        if outcome.status == "raised":
            raise self._error(outcome.error)
        if outcome.status == "returned":
            return self._value(outcome.value)
        chunks = list(self._chunks(outcome))
        self._end_of_stream(outcome, len(chunks))
        with self.session.latching():
            return self.boundary.join(chunks)

    def replay_chunks(self) -> Iterator[Any]:
        """Yield the recorded chunks, each a fresh object; raise the error that broke the stream, if one did."""
        if self.drift is not None:
            yield from self._split(self.boundary.missed(self, self.drift))
            return
        outcome = self._outcome()
        if outcome.status == "raised":
            raise self._error(outcome.error)
        if outcome.status == "returned":
            yield from self._split(self._value(outcome.value))
            return
        yield from self._chunks(outcome)
        self._end_of_stream(outcome, len(outcome.chunks or ()))

    def effects(self, after: int | None = None) -> list[Any]:
        """Return what the recorded call did besides returning, in order, each a fresh object with the ids of this run.

        Args:
            after: Only what it did when so many chunks of its stream had arrived; by default all.
        """
        if self.found is None:
            return []
        effects = self._outcome().effects
        return [self._value(effect.value) for effect in effects if after is None or effect.after == after]

    def _split(self, value: Any) -> Sequence[Any]:
        with self.session.latching():
            return self.boundary.split(value)

    def _end_of_stream(self, outcome: Outcome, read: int) -> None:
        if outcome.ended == "raised":
            raise self._error(outcome.error)
        if outcome.ended == "closed":
            reason = f"the recorded stream was closed by its reader after {counted(read, 'chunk')}"
            raise self.session.miss(self.request, self.position, reason)

    def _outcome(self) -> Outcome:
        assert self.found is not None
        if self._served is None:
            with self.session.latching():
                self._served = self.session.source.outcome(self.found.number)
        return self._served

    def _ids(self) -> IdMap:
        assert self.found is not None
        live = self.request.ids
        if not live:
            return _NO_IDS
        recorded = self.session.source.ids(self.found.number)
        return IdMap(recorded, live, only_last=None if self.found.same else self.request.extra)

    def _value(self, plain: Plain) -> Any:
        """Return a recorded value with the ids and the secrets of this run in the place of the recorded ones."""
        with self.session.latching():
            return self.session.codec.decode(self.session.redactor.rehydrate(self._ids().value(plain)))

    def _chunks(self, outcome: Outcome) -> Iterator[Any]:
        """Yield recorded chunks likewise, each decoded when it is asked for."""
        with self.session.latching():
            chunks = self._ids().chunks(outcome.chunks or ())
        for chunk in chunks:
            with self.session.latching():
                value = self.session.codec.decode(self.session.redactor.rehydrate(chunk))
            yield value

    def _error(self, record: RecordedError | None) -> Exception:
        assert record is not None
        with self.session.latching():
            plain = self.session.redactor.rehydrate(self._ids().value(dict(record)))
            return rebuild_error(RecordedError.model_construct(**plain), self.session.codec)

    # -- executed ----------------------------------------------------------------------------------------------

    @contextmanager
    def executing(self) -> Iterator[None]:
        """While inside, calls are children of this one, and time, ids and randomness are real.

        Hold it only while the real code runs, never across a `yield`: the caller's own code runs there.
        """
        outside = _executing.get()
        _executing.set(self)
        self.session.running.append(self)
        try:
            yield
        finally:
            self.session.running.remove(self)
            # An abandoned coroutine is closed in the context of whoever collects it, where nothing was set.
            if _executing.get() is self:
                _executing.set(outside)

    def is_below(self, other: Crossing) -> bool:
        """Whether this crossing is the other one or was begun inside it."""
        crossing: Crossing | None = self
        while crossing is not None and crossing is not other:
            crossing = crossing.parent
        return crossing is other

    def is_inside(self, owner: Any) -> bool:
        """Whether this crossing or one around it belongs to the owner."""
        crossing: Crossing | None = self
        while crossing is not None:
            if crossing.owner is owner:
                return True
            crossing = crossing.parent
        return False

    def chunk_arrived(self) -> None:
        """Note the time of a chunk."""
        self.offsets.append((perf_counter() - self._began) * 1000)

    def effected(self, value: Any) -> None:
        """Record that the call has just done something besides returning; it is done again when the call is served.

        Thread-safe. The value is encoded now, before anyone can change it; who serves the call gives its shell a
        function that does it again.

        Args:
            value: What it did, so that `effects` of a served crossing tells whoever does it again.

        Raises:
            UnrecordableValueError: If the value has no codec.
        """
        with self.session.latching():
            effect = Effect.model_construct(value=self.session.codec.encode(value), after=len(self.offsets))
        self._effects.append(effect)

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
            chunks: What arrived, each encoded at the moment of its arrival, before the reader could change it.
            ended: How it ended.
            error: What broke it.
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

    def _ids_kept(self, outcome: Outcome) -> list[str]:
        ids, extra = self.request.ids, self.request.extra
        if not self.drops_ids or not extra:
            return list(ids)
        error = [dict(outcome.error)] if outcome.error is not None else []
        values = [outcome.value, *error, *(effect.value for effect in outcome.effects)]
        return [*ids[:-extra], *ids_held(ids[-extra:], values, outcome.chunks or ())]

    def _record(self, outcome: Outcome) -> None:
        request, redactor = self.request, self.session.redactor
        if self._effects:
            outcome = outcome.model_copy(update={"effects": redacted_effects(self._effects, redactor)})
        interaction = Interaction.model_construct(
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
        now = perf_counter()
        if self.parent is None:
            self.session.turns.ended(self.position.address, self._began, now)
        took = (now - self._began) * 1000 if self.duration_ms is None else self.duration_ms
        is_of_now = self.duration_ms is None and self.session.is_one_run
        start = (self._began - self.session.began) * 1000 if is_of_now else None
        timing = Timing(start_ms=start, duration_ms=took, offsets_ms=self.offsets)
        self.session.keep(interaction, timing, self.position.order)


def redacted_effects(effects: Sequence[Effect], redactor: Redactor) -> list[Effect]:
    """Return effects redacted; what one writes after the other may be a text in pieces, as chunks are."""
    values = redactor.chunks([effect.value for effect in effects])
    return [  # and each alone: a secret after another text's end may hide in the whole
        Effect.model_construct(value=redactor.value(value), after=effect.after)
        for value, effect in zip(values, effects, strict=True)
    ]
