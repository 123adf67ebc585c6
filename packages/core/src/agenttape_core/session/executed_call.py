"""A call that runs: for real, and recorded if the session records; or stepped into, without a new recording."""

from __future__ import annotations

from asyncio import CancelledError
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from contextvars import ContextVar
from secrets import token_hex
from time import perf_counter, time
from typing import TYPE_CHECKING, Any, ClassVar, Literal, TypeAlias

from agenttape_core.errors import UnrecordableValueError
from agenttape_core.freeze import Frozen
from agenttape_core.locks import Lock
from agenttape_core.matching import Candidate as Match
from agenttape_core.matching import CanonicalRequest, IdMap, Position
from agenttape_core.scheduling import EXECUTING, RIGHT_AWAY, SCOPES, Awaited, is_cancellation_requested
from agenttape_core.schema import Effect, Interaction, Outcome, Plain, RecordedError, SideEffect, Timing, Usage
from agenttape_core.schema.class_names import writing_answers
from agenttape_core.session.boundary import Boundary
from agenttape_core.session.call import Call
from agenttape_core.session.candidates import Candidate
from agenttape_core.session.codecs import plain_metadata, plain_tags, plain_value
from agenttape_core.session.recorded_errors import record_error
from agenttape_core.session.recording import SideEffectsOfCall, interaction_of, redacted_effects, response_ids
from agenttape_core.session.slot import Slot
from agenttape_core.side_effects import UnwatchedCode

if TYPE_CHECKING:
    from agenttape_core.session.session import Session  # the type alone: a session makes its calls

_MAKING_WORLDS = Lock()
_KEEPING = Lock()

_ACTING = frozenset({"tool", "call"})
"""The kinds of calls whose side effects are recorded even where they made no calls: for the report."""

Failure: TypeAlias = Exception | CancelledError
"""An exception that is an outcome. One that ends the program is none."""

WATCHED: ContextVar[ExecutedCall | None] = ContextVar("agenttape_watched", default=None)
"""The innermost call of a component of the program that runs here and is watched; see `conditional_boundary`."""


class CallStack(tuple["ExecutedCall", ...]):
    """A call and the calls that are executed around it, from the innermost on."""

    __slots__ = ()

    def is_inside(self, owner: Any) -> bool:
        """True if one of them belongs to the owner."""
        return any(call.owner is owner for call in self)

    def reaches_out(self) -> bool:
        """True if their code may reach the outside now: one of them is made for real, and none has ended."""
        return any(call.is_real for call in self) and not any(call.has_ended for call in self)


class ExecutedCall(Call):
    """A call whose code is run.

    Most are executed for real. One that is stepped into (`found`) has a recording: the calls that it makes cross as
    they did when that was made. A part (`whole`) is a call inside of one that may turn out to be all of it.

    Args:
        session: The session it belongs to.
        boundary: The family of the call.
        request: The request.
        position: Where the call is made.
        number: Its number in this run: the order of its start.
        owner: The object whose call it is; calls that the same object makes inside are part of this one.
        parent: The call that is executing around this one.
        found: The recording of a call that is stepped into; `None` if it is executed for real.
        whole: The call that this one is a part of; `None` for a whole one.
    """

    __slots__ = (
        "_is_kept",
        "_side_effects",
        "_world",
        "abandoned",
        "began",
        "began_at",
        "candidate",
        "changed",
        "code",
        "drops_ids",
        "duration_ms",
        "effects",
        "error_ids",
        "fidelity_note",
        "found",
        "has_ended",
        "has_made_calls",
        "is_run_again",
        "is_run_now",
        "may_be_run_again",
        "metadata",
        "moment",
        "nonce",
        "offsets",
        "outcome",
        "parent",
        "settle",
        "tags",
        "unrecorded",
        "whole",
    )

    is_replayed: ClassVar[Literal[False]] = False
    """True if the call is answered without being executed."""

    def __init__(
        self,
        session: Session,
        boundary: Boundary,
        request: CanonicalRequest,
        position: Position,
        *,
        number: int,
        owner: Any = None,
        parent: ExecutedCall | None = None,
        found: Match | None = None,
        whole: ExecutedCall | None = None,
    ) -> None:
        super().__init__(session, boundary, request, position, number=number, owner=owner)
        self.parent, self.found, self.whole = parent, found, whole
        self.is_run_now: bool = not self.is_real and (parent is None or parent.is_run_now)
        """True if this is a replay that runs its code, and the code of those around it."""
        self.may_be_run_again: bool = self.is_of_program and (parent is None or parent.may_be_run_again)
        """True if a replay may run its code, and the code of those around it."""
        self.outcome: Outcome | None = None
        """The outcome of a part, once it has ended: it's held back, and recorded if it becomes the whole's."""
        self.tags: Sequence[str] = ()
        """Words that the program gave the call, in addition to its request."""
        self.metadata: Mapping[str, Any] = {}
        """More facts that the program gave about the call."""
        self.fidelity_note = ""
        """The reason for a lossy recording, where an observer cannot see all of the outcome; empty if it is exact."""
        self.drops_ids = False
        """True if an empty text is recorded for each run-specific id of the call that its outcome does not hold.

        For ids of tasks: they differ in each recording, and occur nowhere else in the cassette."""
        self.error_ids: Mapping[str, str] = {}
        """The ids in its error that differ in each recording, and their recorded replacements."""
        self.duration_ms: float | None = None
        """The duration that another tool has measured; `None` to measure it here."""
        self.candidate: Candidate | None = None
        """The candidate to call instead of the program's own model; `None` to call the program's."""
        self.code: Any = None
        """The function whose code the call runs, or the object with it; where that is known."""
        self.unrecorded: tuple[Any, ...] = ()
        """The arguments that its request does not hold; its code may reach outside by one of them."""
        self.settle: Callable[[Outcome], ExecutedCall | None] | None = None
        """Called with the outcome when the call has ended; returns the part whose outcome is recorded in its place."""
        self.changed: Callable[[], dict[str, Plain]] | None = None
        """Called when the call has ended; returns the arguments that it has changed."""
        self.moment: float | None = None
        """The moment at which the code of a tool began, by its own clock; `None` if it did not ask for time or ids."""
        self.nonce = ""
        """A text that no other recording has, of which the ids in the code of a tool are made."""
        self.has_ended = False
        """True once its code has ended, however it did."""
        self.has_made_calls = False
        """True once a call inside has ended that is recorded."""
        self.is_run_again = found is not None
        """True once it is known that a replay will run its code, as it only made calls that are recorded."""
        self._world: Frozen | None = None
        self.offsets: list[float] = []
        self.effects: list[Effect] = []
        self.abandoned: int | None = None
        self._is_kept, self._side_effects = False, SideEffectsOfCall()
        self.begin_now()

    def begin_now(self) -> None:
        """Take this moment as the one at which it began: one that watches calls may have held it up."""
        self.began = perf_counter()
        self.began_at = time()

    def part(self) -> ExecutedCall:
        """Begin a part of this call whose outcome may become the outcome of the whole; see `settle`."""
        facts = (self.session, self.boundary, self.request, self.position)
        return ExecutedCall(*facts, number=self.number, owner=self.owner, parent=self, whole=self)

    @property
    def stack(self) -> CallStack:
        """The call and those around it. Not kept: a call that held itself would stay until garbage is collected."""
        found = [self]
        while (around := found[-1].parent) is not None:
            found.append(around)
        return CallStack(found)

    @property
    def is_real(self) -> bool:
        """True if the call's side effects happen; false if its code is only stepped into."""
        return self.found is None

    @property
    def is_of_program(self) -> bool:
        """True if a replay may step into it: a tool, a retriever, or other code of the program."""
        return self.found is not None or self.boundary.may_be_stepped_into

    # -- while it runs -----------------------------------------------------------------------------------------

    def frozen_inside(self) -> Frozen | None:
        """Return the frozen values for the code that runs.

        For most calls there are none: a client signs its request with the real time. The code of a tool runs again in a
        replay, unless it had side effects; the values that it computes before them must then be equal.
        """
        frozen = self.session.frozen
        if frozen is None or not self.is_of_program or (self.is_real and self.side_effects):
            return None
        if self._world is None:
            with _MAKING_WORLDS:
                self._world = self._world or _new_world(self, frozen)
        return self._world

    @contextmanager
    def executing(self) -> Iterator[None]:
        """While inside, calls are children of this one, and time, ids and randomness come from `frozen_inside`.

        Hold it only while the real code runs, never across a `yield`: the caller's own code runs there.
        """
        outside, running = EXECUTING.get(), self.session.running
        EXECUTING.set(self)
        running.append(self)
        try:
            leaves = self.is_real and (not self.boundary.is_watched or bool(self.side_effects))
            with self.arrivals.executing(leaves=leaves, is_real=self.is_real):
                if self.arrivals.is_in_pool:
                    self.session.in_threads[self] = None
                yield
        except BaseException as error:
            self.has_ended = True
            if not isinstance(error, Exception | CancelledError):
                self._is_over()
            raise
        finally:
            running.remove(self)
            # An abandoned coroutine is closed in the context of its collector, where nothing was set.
            if EXECUTING.get() is self:
                EXECUTING.set(outside)

    def _is_over(self) -> None:
        """Note that the end of the session need not look at it: it is recorded, or leaves no record."""
        if self.arrivals.is_in_pool:
            self.session.in_threads.pop(self, None)

    def chunk_arrived(self) -> None:
        """Note the time of a chunk."""
        self.note_abandoning()
        self.offsets.append((perf_counter() - self.began) * 1000)

    def effected(self, value: Any) -> None:
        """Record a side effect of the call in addition to its result; a replay repeats it when it answers the call.

        Thread-safe. The value is encoded now, before anyone can change it. Where the call is replayed, its shell gets a
        function that does it again.

        Args:
            value: A description of the effect; `effects` of an answered call returns it.

        Raises:
            UnrecordableValueError: If the value has no codec.
        """
        self.arrivals.effect()
        _keep_effect(self, value)
        (self.whole or self).arrivals.awaited.effected()  # the whole call is awaited, and not its part

    async def effect_comes(self, value: Any, come: Callable[[], object]) -> bool:
        """Record a side effect that comes from outside, as `effected` does, when it may reach the program; `come` then.

        Return false if the awaited call has ended before.
        """

        def comes() -> None:
            _keep_effect(self, value)
            come()

        return await self.arrivals.awaited.effect_comes(comes)

    @property
    def is_abandoned(self) -> bool:
        """True if the call is made in a thread, and the program no longer waits for that thread."""
        return self.abandoned is not None or self.arrivals.is_abandoned

    def note_abandoning(self) -> None:
        """Note how many chunks had arrived when it was abandoned, if it is."""
        if self.abandoned is None and self.is_abandoned:
            self.abandoned = len(self.offsets)

    @property
    def is_left(self) -> bool:
        """True if the call is executed for real, and has not ended."""
        return self.is_real and not (self.has_ended or self._is_kept)

    @property
    def is_awaited(self) -> bool:
        """True if an event loop awaits the call; false if it holds up its thread."""
        return self.arrivals.awaited is not RIGHT_AWAY

    @property
    def side_effects(self) -> SideEffectsOfCall:
        """The side effects of the call's own code outside the process so far; true if there are any."""
        return self._side_effects if self.whole is None else self.whole.side_effects

    def awaiting(self) -> AbstractContextManager[Awaited]:
        """Give an awaited call its place among all that its event loop waits for, while inside."""
        if self.whole is not None:
            return nullcontext(RIGHT_AWAY)  # the whole call has its place
        if self.found is not None:  # the call ends when its code does
            return self.arrivals.stepping_into(self, self.session.source.interaction(self.found.number).address)
        return self.arrivals.awaiting_code(self, self.position.address)

    def returned(self, value: Any) -> None:
        """Record that the call returned.

        Raises:
            UnrecordableValueError: If the value has no codec.
        """
        with self.session.latch, writing_answers():
            plain = self.session.redactor.value(_written(self, value))
            self._record(Outcome(status="returned", value=plain, usage=self.boundary.usage_of(value)))

    def raised(self, error: Failure) -> None:
        """Record that the call raised, or that it was cancelled, if that is why it did."""
        if isinstance(error, CancelledError) and is_cancellation_requested():
            return self.cancelled()
        with self.session.latch:
            return self._record(Outcome(status="raised", error=_redacted(self, error)))

    def cancelled(self, chunks: Sequence[Plain] | None = None) -> None:
        """Record that the call was cancelled before it ended.

        Args:
            chunks: The chunks so far of a stream, as for `streamed`.
        """
        with self.session.latch:
            redacted = self.session.redactor.chunks(list(chunks)) if chunks is not None else None
            self._record(Outcome(status="cancelled", chunks=redacted))

    def streamed(
        self,
        chunks: Sequence[Plain],
        ended: Literal["exhausted", "closed", "raised"] = "exhausted",
        error: Failure | None = None,
        usage: Usage | None = None,
    ) -> None:
        """Record a stream, or that it was cancelled, if that is why it raised.

        Args:
            chunks: The chunks, each encoded at the moment of its arrival, before the reader could change it.
            ended: How it ended.
            error: The error that broke it.
            usage: The token counts of the whole.
        """
        if isinstance(error, CancelledError) and is_cancellation_requested():
            return self.cancelled(chunks)
        with self.session.latch:
            record = _redacted(self, error) if error is not None else None
            redacted = self.session.redactor.chunks(list(chunks))
            return self._record(Outcome(status="streamed", chunks=redacted, ended=ended, error=record, usage=usage))

    def ran(self) -> None:
        """End a call that isn't recorded: a replay runs its code, as it had no side effects outside the process."""
        self.has_ended = self.is_run_again = self.side_effects.has_ended = True
        self._is_over()

    def _record(self, outcome: Outcome) -> None:
        part = self.settle(outcome) if self.settle is not None else None
        if part is not None and part.outcome is not None:
            outcome, later = part.outcome, (part.began - self.began) * 1000
            self.offsets, self.effects = [offset + later for offset in part.offsets], part.effects
        if self.whole is not None:
            self.outcome = outcome
            self._is_over()
            return
        self.has_ended = True
        if self.found is not None:
            _note_otherwise(self, self.found.number, outcome)
        else:
            self._keep(outcome)

    def _keep(self, outcome: Outcome) -> None:
        with _KEEPING:  # the end of the session may be that of a call in a thread
            was_kept, self._is_kept = self._is_kept, True
        if was_kept:
            return
        outcome, now = _whole(self, outcome), perf_counter()
        interaction = _interaction(self, outcome)
        self.is_run_again = self.is_of_program and self.has_made_calls and interaction.acts == []
        if not self.is_run_again:
            self.session.scheduler.block(self.position.address)
        around = _lies_in(self)
        if around is not None:
            around.has_made_calls = True
        self.session.ledger.keep(interaction, _timing(self, now), self.position.order)
        self._is_over()


def keep_so_far(call: ExecutedCall, chunks: Sequence[Plain]) -> None:
    """Keep an open stream for a recovery, as one that has ended here; the record of its end replaces this."""
    with call.session.latch:
        outcome = Outcome(status="streamed", chunks=call.session.redactor.chunks(list(chunks)), ended="exhausted")
        call.session.ledger.begin(_interaction(call, outcome), _timing(call, perf_counter()), call.position.order)


def _keep_effect(call: ExecutedCall, value: Any) -> None:
    with call.session.latch:
        effect = Effect.model_construct(value=call.session.codec.encode(value), after=len(call.offsets))
    call.effects.append(effect)


def _lies_in(call: ExecutedCall) -> ExecutedCall | None:
    """Return the call that a call is recorded inside of: one that executes, else one that is watched."""
    watched = WATCHED.get() if call.parent is None else None
    if watched is not None and watched is not call and watched.session is call.session:
        return watched
    return call.parent


def _new_world(call: ExecutedCall, frozen: Frozen) -> Frozen:
    """Begin a separate clock and ids: the recorded ones for a call that is stepped into."""
    if call.found is None:
        call.moment, call.nonce = round(call.began_at, 6), token_hex(6)
        return frozen.within(call.position.address, call.moment, call.nonce)
    recorded = call.session.recordings.timing_of(call.found.number)
    call.nonce = recorded.nonce if recorded is not None else ""
    call.moment = recorded.moment if recorded is not None else None
    moment = call.moment if call.moment is not None else frozen.clock
    recorded_at = call.session.source.interaction(call.found.number).address  # the ids were made of it
    return frozen.within(recorded_at, moment, call.nonce)


def _whole(call: ExecutedCall, outcome: Outcome) -> Outcome:
    """Return the outcome with the effects of the call, the arguments it changed, and whether it was abandoned."""
    call.note_abandoning()
    arguments = call.changed() if call.changed is not None else None
    if not call.effects and call.abandoned is None and not arguments:
        return outcome
    redactor = call.session.redactor
    effects = redacted_effects(call.effects, redactor)
    changed = redactor.value(arguments) if arguments else {}
    return outcome.model_copy(update={"effects": effects, "given_up": call.abandoned, "arguments": changed})


def _redacted(call: ExecutedCall, error: Failure) -> RecordedError:
    record = record_error(error, call.session.codec)
    plain = IdMap(list(call.error_ids), list(call.error_ids.values())).value(record.model_dump())
    return RecordedError.model_validate(call.session.redactor.value(plain))


def _timing(call: ExecutedCall, now: float) -> Timing:
    took = (now - call.began) * 1000 if call.duration_ms is None else call.duration_ms
    is_of_now = call.duration_ms is None and call.session.is_one_run
    start = (call.began - call.session.began) * 1000 if is_of_now else None
    return Timing(start_ms=start, duration_ms=took, offsets_ms=call.offsets, moment=call.moment, nonce=call.nonce)


def _note_otherwise(call: ExecutedCall, number: int, outcome: Outcome) -> None:
    """Note the outcome of a call that was stepped into, if it differs from the recording."""
    recorded = call.session.source.interaction(number)
    now = _interaction(call, _whole(call, outcome))
    if now.outcome != recorded.outcome:
        kept = {key: getattr(recorded, key) for key in ("number", "parent", "address")}
        update = {**kept, "acts": now.acts or recorded.acts}
        call.session.ledger.again[number] = now.model_copy(update=update)


def _written(call: ExecutedCall, value: Any) -> Plain:
    """Return a value as plain data, or a text instead if the user declares that a replay runs the code."""
    try:
        return call.session.codec.encode(value)
    except UnrecordableValueError as error:
        policy, asked = call.session.policy, (call.request.kind, call.request.name, call.position.address)
        if not (policy.must_step_into(*asked) and policy.may_step_into(*asked)):
            raise
        call.fidelity_note = f"a replay runs its code: {str(error).partition(chr(10))[0]}"
        return plain_value(value)


def _interaction(call: ExecutedCall, outcome: Outcome) -> Interaction:
    redactor, around = call.session.redactor, _lies_in(call)
    return interaction_of(
        call,
        outcome,
        around.number if around is not None else None,
        ids=response_ids(call.request, outcome, drops_ids=call.drops_ids),
        tags=plain_tags(call.tags, redactor) if call.tags else [],
        metadata=plain_metadata(call.metadata, redactor) if call.metadata else {},
        fidelity="lossy" if call.fidelity_note else "exact",
        fidelity_note=redactor.text(call.fidelity_note),
        acts=_kept_side_effects(call),
    )


def _kept_side_effects(call: ExecutedCall) -> list[SideEffect] | None:
    """Return the side effects to record: `None` if no decision depends on them, as for a remote search."""
    is_decided = call.boundary.is_watched and (call.has_made_calls or call.boundary.kind in _ACTING)
    if not call.session.watches_side_effects or not is_decided:
        return None
    text, unseen = call.session.redactor.text, call.session.extension(_UNWATCHED)
    found = call.side_effects.ended(call.code, unseen, call.unrecorded, is_automatic=call.session.auto)
    return [SideEffect(what=text(each.what), at=text(each.at)) for each in found]


_UNWATCHED: Slot[UnwatchedCode] = Slot(lambda _: UnwatchedCode())


executing: Callable[[], ExecutedCall | None] = EXECUTING.get
"""Return the innermost call that is being executed around this one."""


def swap_executing(call: ExecutedCall | None) -> ExecutedCall | None:
    """Make a call the innermost one that is being executed in this context, and return the one that was."""
    before = executing()
    EXECUTING.set(call)
    return before


def around(session: Session, position: Position | None = None) -> ExecutedCall | None:
    """Return the innermost call of a session that executes around a call made here."""
    innermost = executing()
    if innermost is None:
        innermost = None if SCOPES.innermost() is not None else _executing_elsewhere(session, position)
    return innermost if innermost is not None and innermost.session is session else None


def _executing_elsewhere(session: Session, position: Position | None) -> ExecutedCall | None:
    """Return the call that a thread without a context most likely works for: the innermost, if there is one.

    Real code may start threads that don't know the session. Their calls belong to that code. They don't
    if a framework places the call in the same tree and not below that boundary: then it runs in parallel,
    as in an event loop that is older than the session.
    """
    origin = SCOPES.origin()
    if origin is not None and origin.membership.session is session:
        begun_in: ExecutedCall | None = origin.session_call
        return begun_in if begun_in is not None and not begun_in.has_ended else None
    # A request that is under way starts no threads that make others: those run beside it.
    running = [call for call in session.running[:] if call.boundary.kind != "http"]
    innermost = running[-1] if running else None
    if innermost is None or not all(one in innermost.stack for one in running):
        return None
    return None if position is not None and position.is_beside(innermost.position) else innermost


_NOWHERE = nullcontext()


def notified_outside() -> AbstractContextManager[None]:
    """While inside, the caller is outside of the calls that are executed around it, up to a tool or the like.

    For callbacks of a call while it runs: the callback is part of the program, and gets its clock and ids.
    """
    return _notified_outside() if EXECUTING.get() is not None else _NOWHERE


class anotified_outside:  # noqa: N801 - it's used as a function; an async generator would be one of the program's
    """Like `notified_outside`, for awaited work: a chunk that calls back has its place in the order of arrivals."""

    async def __aenter__(self) -> None:
        self._inside = around = EXECUTING.get()
        streams = list[Awaited]()
        while around is not None and not around.is_of_program:
            streams.append(around.arrivals.tells)
            around = around.parent
        if around is self._inside:
            return
        EXECUTING.set(around)  # before it waits: the step that goes on is one of the program
        for stream in streams:
            await stream.callback_event()

    async def __aexit__(self, *_: object) -> None:
        if EXECUTING.get() is not self._inside:
            EXECUTING.set(self._inside)


@contextmanager
def _notified_outside() -> Iterator[None]:
    inside: ExecutedCall = EXECUTING.get()
    around = next((call for call in inside.stack if call.is_of_program), None)
    if around is inside:
        yield
        return
    EXECUTING.set(around)
    try:
        yield
    finally:
        EXECUTING.set(inside)
