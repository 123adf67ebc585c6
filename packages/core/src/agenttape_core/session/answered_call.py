"""A call that is answered without being executed: from its recording, by a function of the user, or as a miss."""

from __future__ import annotations

from asyncio import CancelledError
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import TYPE_CHECKING, Any, ClassVar, Literal

from agenttape_core.errors import (
    AgentTapeError,
    ConfigurationError,
    UnrecordableValueError,
    UnrecordedCallError,
    counted,
)
from agenttape_core.matching import Candidate as Match
from agenttape_core.matching import CanonicalRequest, IdMap, Position
from agenttape_core.scheduling import RIGHT_AWAY, Awaited, Ending
from agenttape_core.schema import Outcome, Plain, RecordedError
from agenttape_core.session.boundary import Boundary
from agenttape_core.session.call import Call
from agenttape_core.session.id_mapping import Asked, id_map
from agenttape_core.session.miss import miss_of
from agenttape_core.session.pacing import Paced, Tempo
from agenttape_core.session.recorded_errors import rebuild_error, record_error
from agenttape_core.session.report import ReachedChange
from agenttape_core.session.sources import Alteration, Edited, original

if TYPE_CHECKING:
    from agenttape_core.session.session import Session  # the type alone: a session makes its calls

# -- Changes of recorded calls: one that is about to be answered gets the outcome that was chosen for it.


class ChangedCall:
    """A recorded call whose outcome is changed, in the terms of its boundary. `outcome` is the recorded one."""

    def __init__(self, call: Call, outcome: Outcome) -> None:
        self._call = call
        self.outcome = outcome
        self.error: Exception | None = None

    def answer(self) -> Any:
        """Return a fresh copy of the recorded answer, as the framework has it; `ConfigurationError` without one."""
        value = recorded_value(self._call, self.outcome)
        if value is None and self.outcome.status not in {"returned", "streamed"}:
            raise ConfigurationError(f"it has no recorded answer: it {self.outcome.status}")
        return self._call.boundary.told(self._call, value)

    def returning(self, answer: Any) -> Outcome:
        """Return the outcome of a call that returns an answer."""
        call = self._call
        value = call.boundary.faked(call, answer)
        return Outcome(status="returned", value=call.session.codec.encode(value), usage=call.boundary.usage(value))

    def raising(self, error: Exception, after: int | None = None) -> Outcome:
        """Return the outcome of a call that raises an error: right away, or after a number of its chunks."""
        self.error = error
        record = record_error(error, self._call.session.codec)
        if after is None:
            return Outcome(status="raised", error=record)
        chunks = (self.outcome.chunks or [])[:after]
        effects = [effect for effect in self.outcome.effects if effect.after <= after]
        return Outcome(status="streamed", chunks=chunks, ended="raised", error=record, effects=effects)


def recorded_value(call: Call, outcome: Outcome) -> Any:
    """Return the value that was recorded, a fresh object; `None` for a call that brought no whole one."""
    decode = call.session.codec.decode
    if outcome.status == "streamed" and not outcome.has_failed and outcome.ended == "exhausted":
        return call.boundary.join([decode(chunk) for chunk in outcome.chunks or ()])
    return decode(outcome.value) if outcome.status == "returned" else None


def changed_outcome(call: Call, number: int, source: Edited, change: Alteration) -> tuple[Outcome, Exception | None]:
    """Return the outcome that a changed call has in this run, and note that the change was reached.

    Returns the outcome, and the error that it raises, with attributes that a cassette cannot hold; `None` if none does.
    Raises `ConfigurationError` if the change cannot be made.
    """
    session, recorded = call.session, original(source, number)
    changed = ChangedCall(call, source.outcome(number))
    kind, address = call.boundary.kind, call.position.address
    try:
        made = change.outcome(changed)
    except (ConfigurationError, UnrecordableValueError) as error:
        raise ConfigurationError(f"the change of interaction {recorded}, {kind} at {address}: {error}") from error
    outcome = Outcome.model_validate(session.redactor.value(made.model_dump()))
    source.land(number, outcome)
    session.report.add_reached(ReachedChange(kind, source.interaction(number).name, address, recorded, str(change)))
    session.recordings.has_changed = True
    session.scheduler.diverge()  # the recorded order of threads holds up to here
    session.diverge()
    return outcome, changed.error


_NO_IDS = IdMap((), ())
_NOT_RECORDED = Outcome.model_construct(status="returned")
_RIGHT_AWAY = nullcontext(RIGHT_AWAY)


class AnsweredCall(Call):
    """A call that is answered without being executed.

    `owner` is the object whose call it is, and `found` the recording that answers it; without one, `answer` does.
    """

    __slots__ = ("_outcome", "_raises", "answer", "found", "recording")

    is_replayed: ClassVar[Literal[True]] = True  # true if the call is answered without being executed

    def __init__(
        self,
        session: Session,
        boundary: Boundary,
        request: CanonicalRequest,
        position: Position,
        *,
        number: int,
        owner: Any = None,
        found: Match | None = None,
        answer: Callable[[AnsweredCall], Any] | None = None,
    ) -> None:
        super().__init__(session, boundary, request, position, number=number, owner=owner)
        self.found = found
        self.answer = answer
        self.recording = found.number if found is not None else 0
        """The number of the recording that answers it; 0 if none does."""
        self._outcome = None if found is not None else _NOT_RECORDED
        self._raises: Exception | None = None

    # -- directly ----------------------------------------------------------------------------------------------

    def direct_outcome(self) -> Outcome | None:
        """Return the outcome if it's the answer without further work, as for most calls of a replay.

        The session only replays, the call returned or streamed to its end without other effects, and its answer
        contains no ids of the call. When it may come is the scheduler's to say.
        """
        if not self.session.only_replays or self.found is None or self.request.ids:
            return None
        outcome = self._outcome or self.outcome()
        if outcome.status != "returned" and (outcome.status != "streamed" or outcome.ended != "exhausted"):
            return None
        return None if outcome.effects or outcome.given_up is not None or outcome.arguments else outcome

    def value(self, outcome: Outcome) -> Any:
        """Return the value of a call that returned, a fresh object."""
        session = self.session
        waiting = session.answering.calls
        waiting.append(None)
        try:
            return session.codec.decode(session.redactor.rehydrate(outcome.value))
        except AgentTapeError as error:
            session.latch.keep(error)
            raise
        finally:
            waiting.pop()

    def chunks(self, outcome: Outcome) -> Iterator[Any]:
        """Return the chunks of a stream, each a fresh object when its reader comes to it."""
        return map(self.session.codec.decode, self.session.redactor.rehydrate_chunks(outcome.chunks or []))

    # -- when its answer comes ---------------------------------------------------------------------------------

    def paced(self) -> Paced | None:
        """Begin to answer in the recorded time, if requested. Raises `ConfigurationError` if that's impossible."""
        session, number = self.session, self.recording
        change = session.source.change_of(number) if isinstance(session.source, Edited) else None
        late = change.delay if change is not None else 0.0
        if self.found is None or (session.pace is None and not late):
            return None
        with session.latch:
            return Paced(session.pace or Tempo(0, {}), original(session.source, number), late=late)

    def awaiting(self) -> AbstractContextManager[Awaited]:
        """Give the call its place among all that its event loop waits for, while inside."""
        if self.found is None:
            return _RIGHT_AWAY
        address = self.session.recordings.address_of(self.recording)  # not where it is made in this run
        outcome = self._outcome or self.outcome()
        has_answer = outcome.status != "cancelled"
        answers = len(outcome.chunks or ()) + has_answer if outcome.effects else None
        return self.arrivals.awaiting(address, answers=answers, during=self._answering)

    def _answering(self) -> AbstractContextManager[None]:
        return self.session.answering

    @contextmanager
    def executing(self) -> Iterator[None]:
        """Run code inside that passes the answer on. It was part of the call when that was recorded.

        So it isn't part of the program: its waits and draws are real, and have no place in the order.
        """
        answered = self.session.scheduler.answered
        before = answered.get()
        answered.set(self)
        try:
            with nullcontext() if before is self else self.arrivals.executing(leaves=True, is_real=True):
                yield
        finally:
            if answered.get() is self:  # an abandoned coroutine is closed in the context of its collector
                answered.set(before)

    def seconds(self) -> float:
        """Return how long the recorded call took."""
        return self.session.recordings.seconds_of(self.recording)

    @property
    def was_cancelled(self) -> bool:
        """True if the recorded call was cancelled before it ended."""
        outcome = self.outcome()
        return outcome.status == "cancelled" and outcome.given_up is None

    @property
    def may_be_late(self) -> bool:
        """True if the recorded call was abandoned, cancelled or left: then its answer may have to wait for that."""
        outcome = self.outcome()
        return outcome.given_up is not None or outcome.status == "cancelled" or outcome.ended == "closed"

    @property
    def is_stream(self) -> bool:
        """True if a stream was recorded, whole or in part."""
        return self.outcome().status == "streamed"

    def is_left_after(self, chunks: int) -> bool:
        """True if the recorded stream ended after so many chunks because its reader went.

        In a replay, a reader may want another chunk before the task comes that closes or cancels it.
        """
        outcome = self.outcome()
        return (self.was_cancelled or outcome.ended == "closed") and chunks == len(outcome.chunks or ())

    async def await_cancellation(self) -> None:
        """Wait until the call is cancelled as the recorded one was. Return if that does not happen."""
        with self.session.answering:
            await self.arrivals.until_cancelled(self._ending())

    def wait_to_be_abandoned(self, after: int | None = None) -> None:
        """Wait until no code waits for this thread, if none did during the recorded call.

        With `after`, only if that was when so many chunks of a stream had arrived; by default in any case. Raises
        `CassetteMissError` if some code still waits: the answer came too late when it was recorded.
        """
        if self._was_abandoned(after):
            with self.session.answering:
                if not self.arrivals.until_abandoned(self._ending()):
                    raise self._not_abandoned()

    def wait_to_be_left(self, after: int) -> None:
        """Wait in a thread that works for an event loop, if the recorded reader of the stream left it here.

        A loop may have a thread get another part of a stream that the program has left, or is about to leave with the
        session: in the recording, the thread had not come to it. `after` is the number of chunks that have arrived.
        Raises `CancelledError` if the program leaves it, or the session ends: the thread is no longer waited for.
        """
        if self.arrivals.works_for_loop() and self.is_left_after(after):
            with self.session.answering:
                self.arrivals.until_left(self.session, self._ending())

    async def await_to_be_abandoned(self, after: int | None = None) -> None:
        """Like `wait_to_be_abandoned`, in an event loop that runs in the thread."""
        if self._was_abandoned(after):
            with self.session.answering:
                if not await self.arrivals.auntil_abandoned(self._ending()):
                    raise self._not_abandoned()

    def _was_abandoned(self, after: int | None) -> bool:
        when = self.outcome().given_up
        return when is not None and after in (None, when)

    def _ending(self) -> Ending:
        return self.session.recordings.ending_of(self.recording)

    # -- its answer --------------------------------------------------------------------------------------------

    def replay(self) -> Any:
        """Return the recorded value, or raise the recorded error.

        Raises `CassetteMissError` if the recorded call was cancelled, or its stream closed: there's no answer to
        replay.
        """
        if self.answer is not None:
            return self.answer(self)
        with self.session.answering:
            return self._replay()

    def _replay(self) -> Any:
        outcome = self.outcome()
        if outcome.status == "raised":
            raise self._error(outcome.error)
        if outcome.status == "returned":
            return self.decoded(outcome.value)
        if outcome.status == "refused":
            return self.boundary.missed(self, UnrecordedCallError(outcome.value).neutral())
        if outcome.status == "cancelled":
            raise self._cut_short(outcome)
        chunks = list(self._chunks(outcome))
        self._end_of_stream(outcome, len(chunks))
        with self.session.latch:
            return self.boundary.join(chunks)

    def replay_chunks(self) -> Iterator[Any]:
        """Yield the recorded chunks, each a fresh object; raise the error that broke the stream, if one did."""
        outcome = self.outcome()
        if self.answer is not None or outcome.status == "refused":
            yield from self._split(self.replay())
        elif outcome.status == "raised":
            raise self._error(outcome.error)
        elif outcome.status == "returned":
            yield from self._split(self.decoded(outcome.value))
        else:
            yield from self._chunks(outcome)
            self._end_of_stream(outcome, len(outcome.chunks or ()))

    def _split(self, value: Any) -> Sequence[Any]:
        with self.session.latch:
            return self.boundary.split(value)

    def effects(self, after: int | None = None) -> list[Any]:
        """Return the recorded side effects of the call, in order, each a fresh object with the ids of this run.

        With `after`, only those when that many chunks of its stream had arrived.
        """
        effects = self.outcome().effects
        return [self.decoded(effect.value) for effect in effects if after is None or effect.after == after]

    def changed_arguments(self) -> dict[str, Any]:
        """Return the arguments that the recorded call changed, each a fresh object as the call left it."""
        return {name: self.decoded(value) for name, value in self.outcome().arguments.items()}

    def outcome(self) -> Outcome:
        """Return the outcome, in its cassette form, or the chosen one instead; it's read once."""
        if self._outcome is not None:
            return self._outcome
        source, number = self.session.source, self.recording
        change = source.change_of(number) if isinstance(source, Edited) else None
        try:
            if change is not None and isinstance(source, Edited):
                outcome, self._raises = changed_outcome(self, number, source, change)
            else:
                outcome = source.outcome(number)
                self.session.ledger.are_metered[number] = outcome.usage is not None
        except AgentTapeError as error:
            self.session.latch.keep(error)
            raise
        self._outcome = outcome
        return outcome

    @property
    def recorded(self) -> Any:
        """The recorded value, a fresh object; `None` if the call brought none."""
        if self.found is None:
            return None
        source = self.session.source
        return recorded_value(self, source.outcome(original(source, self.recording)))

    def _end_of_stream(self, outcome: Outcome, read: int) -> None:
        if outcome.ended == "raised":
            raise self._error(outcome.error)
        if outcome.status == "cancelled":
            raise self._cut_short(outcome)
        if outcome.ended == "closed":
            reason = f"the recorded stream was closed by its reader after {counted(read, 'chunk')}"
            raise miss_of(self.session, self.request, self.position, reason)

    def _cut_short(self, outcome: Outcome) -> BaseException:
        """Return what ends a call that was abandoned and had not ended with the session, or else was cancelled."""
        return CancelledError() if outcome.given_up is not None else self._not_cancelled(outcome)

    def _not_abandoned(self) -> UnrecordedCallError:
        """Raise the miss of a call whose thread is waited for, or return the equivalent error."""
        took = f"{self.session.recordings.seconds_of(self.recording):.3g} s"
        reason = (
            f"the program had given up the thread of the recorded call when it ended after {took}, and does not give up"
            " this one, so an answer would come in time that came too late"
        )
        return miss_of(self.session, self.request, self.position, reason)

    def _not_cancelled(self, outcome: Outcome) -> UnrecordedCallError:
        """Raise the miss of a call that continues after it was cancelled, or return the equivalent error."""
        after = f"after {self.session.recordings.seconds_of(self.recording):.3g} s"
        if outcome.chunks:
            after += f" and {counted(len(outcome.chunks), 'chunk')}"
        reason = f"the recorded call was cancelled by the program {after}, and this one is not, so it has no answer"
        return miss_of(self.session, self.request, self.position, reason)

    def _ids(self) -> IdMap:
        """Return the ids of this run for the recorded ones."""
        if not self.request.ids or self.found is None:
            return _NO_IDS
        return id_map(Asked(self.request, self.found.same), self.session.source.ids(self.recording))

    def decoded(self, plain: Plain) -> Any:
        """Return a recorded value with the ids and the secrets of this run instead of the recorded ones."""
        with self.session.latch:
            return self.session.codec.decode(self._with_secrets(self._ids().value(plain)))

    def _with_secrets(self, plain: Plain) -> Any:
        """Return plain data with the secrets of this run instead of pseudonyms."""
        held = self.session.held
        return self.session.redactor.rehydrate(plain) if held is None else held.put_back(self.position.address, plain)

    def _chunks(self, outcome: Outcome) -> Iterator[Any]:
        """Yield the recorded chunks as `decoded` returns values; each is decoded when its reader comes to it."""
        with self.session.latch:
            chunks = self._ids().chunks(outcome.chunks or ())
            held, redactor = self.session.held, self.session.redactor
            plain = (
                redactor.rehydrate_chunks(chunks)
                if held is None
                else iter(held.put_back_chunks(self.position.address, list(chunks)))
            )
        for _ in chunks:
            with self.session.latch:
                value = self.session.codec.decode(next(plain))
            yield value

    def _error(self, record: RecordedError | None) -> BaseException:
        assert record is not None
        with self.session.latch:
            plain = self._with_secrets(self._ids().value(dict(record)))
            error = rebuild_error(RecordedError.model_construct(**plain), self.session.codec)
        for name, value in vars(self._raises).items() if self._raises is not None else ():
            vars(error).setdefault(name, value)  # a response of a client, for example
        return error
