"""A crossing that is answered from its recording."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from agenttape_core.errors import counted
from agenttape_core.matching import Candidate, CanonicalRequest, IdMap, Position
from agenttape_core.schema import Outcome, Plain, RecordedError
from agenttape_core.session.base_session import BaseSession
from agenttape_core.session.boundary import AnsweredCrossing, Boundary
from agenttape_core.session.pacing import Paced
from agenttape_core.session.recorded_errors import rebuild_error

_NO_IDS = IdMap((), ())


class ServedCrossing(AnsweredCrossing):
    """A call that is answered from its recording.

    Args:
        session: The session it belongs to.
        boundary: The family of the call.
        request: The request.
        position: Where the call is made.
        owner: The object whose call it is.
        found: The recording.
    """

    __slots__ = ("_outcome", "found")

    def __init__(
        self,
        session: BaseSession,
        boundary: Boundary,
        request: CanonicalRequest,
        position: Position,
        *,
        owner: Any,
        found: Candidate,
    ) -> None:
        super().__init__(session, boundary, request, position, owner=owner)
        self.found = found
        self._outcome: Outcome | None = None

    def paced(self) -> Paced | None:
        """Begin to serve in the time that the recording took, if the session is to."""
        pace = self.session.pace
        return Paced(pace, self.found.number) if pace is not None else None

    async def await_turn(self) -> None:
        """Wait until those concurrent calls are answered that were answered before this one in the recording."""
        await self.session.turns.wait(self.position.address, self.session.seconds_of(self.found.number))

    def replay(self) -> Any:
        """Return the recorded value, or raise the recorded error."""
        outcome = self.outcome()
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
        outcome = self.outcome()
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
        effects = self.outcome().effects
        return [self._value(effect.value) for effect in effects if after is None or effect.after == after]

    def outcome(self) -> Outcome:
        """Return what was recorded, as it stands in the cassette; it is read once."""
        if self._outcome is None:
            with self.session.latching():
                self._outcome = self.session.source.outcome(self.found.number)
        return self._outcome

    def _end_of_stream(self, outcome: Outcome, read: int) -> None:
        if outcome.ended == "raised":
            raise self._error(outcome.error)
        if outcome.ended == "closed":
            reason = f"the recorded stream was closed by its reader after {counted(read, 'chunk')}"
            raise self.session.miss(self.request, self.position, reason)

    def _ids(self) -> IdMap:
        """Return the ids of this run for the recorded ones.

        Two different requests have their ids in different places, so of another request than the recorded one
        (`match_on="address"`) only the ids of the call itself have a counterpart: they stand last.
        """
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
        """Yield the recorded chunks as `_value` returns values; each is decoded when its reader comes to it."""
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
