"""A crossing that is executed for real, and recorded where the session records."""

from __future__ import annotations

from asyncio import CancelledError
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from contextvars import ContextVar
from secrets import token_hex
from time import perf_counter, time
from typing import Any, ClassVar, Literal

from agenttape_core.acts import Unseen
from agenttape_core.errors import UnrecordableValueError
from agenttape_core.freeze import Frozen
from agenttape_core.locks import Lock
from agenttape_core.matching import CanonicalRequest, Position
from agenttape_core.scheduling import EXECUTING, RIGHT_AWAY, Awaited
from agenttape_core.schema import Act, Effect, Interaction, Outcome, Plain, Timing
from agenttape_core.session.acts_of_call import ActsOfCall
from agenttape_core.session.base_session import BaseSession, Slot
from agenttape_core.session.boundary import Boundary
from agenttape_core.session.candidates import Candidate
from agenttape_core.session.codecs import plain_metadata, plain_tags, plain_value
from agenttape_core.session.kept_parts import kept_ids, redacted_effects
from agenttape_core.session.nested_crossing import NestedCrossing

_MAKING_WORLDS = Lock()
_KEEPING = Lock()

_ACTING = frozenset({"tool", "call"})
"""The kinds of calls whose side effects are recorded even where they made no calls: for the report."""

WATCHED: ContextVar[ExecutedCrossing | None] = ContextVar("agenttape_watched", default=None)
"""The innermost call of a component of the program that runs here and is watched; see `program_calls`."""


class ExecutedCrossing(NestedCrossing):
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
        "_abandoned",
        "_acts",
        "_began",
        "_began_at",
        "_effects",
        "_is_kept",
        "_is_run_again",
        "_offsets",
        "_world",
        "candidate",
        "changed",
        "code",
        "drops_ids",
        "duration_ms",
        "fidelity_note",
        "has_made_calls",
        "metadata",
        "moment",
        "nonce",
        "number",
        "settle",
        "tags",
        "unrecorded",
    )

    is_served: ClassVar[Literal[False]] = False
    """True if the call is answered without being executed."""

    parent: ExecutedCrossing | None

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
        super().__init__(session, boundary, request, position, owner=owner, parent=parent)
        self.number = number
        self.tags: Sequence[str] = ()
        """Words that the program gave the call, besides its request."""
        self.metadata: Mapping[str, Any] = {}
        """More facts that the program gave about the call."""
        self.fidelity_note = ""
        """The reason for a lossy recording, where an observer cannot see all of the outcome; empty if it is exact."""
        self.drops_ids = False
        """True if an empty text is recorded for each run-specific id of the call that its outcome does not hold.

        For ids of tasks: they differ in each recording, and nothing else in the cassette names them."""
        self.error_ids = {}
        self.duration_ms: float | None = None
        """The duration that another tool has measured; `None` to measure it here."""
        self.candidate: Candidate | None = None
        """The candidate that is asked in the place of the program's own model; `None` if that is asked."""
        self.code: Any = None
        """The function whose code the call runs, or the object with it; where that is known."""
        self.unrecorded: tuple[Any, ...] = ()
        """The arguments that its request does not hold; its code may reach outside by one of them."""
        self.settle: Callable[[Outcome], PartCrossing | None] | None = None
        """Called with the outcome when the call has ended; returns the part whose outcome is recorded in its place."""
        self.changed: Callable[[], dict[str, Plain]] | None = None
        """Called when the call has ended; returns the arguments that it has changed."""
        self.moment: float | None = None
        """The moment at which the code of a tool began, by its own clock; `None` if it did not ask for time or ids."""
        self.nonce = ""
        """A text that no other recording has, of which the ids in the code of a tool are made."""
        self._world: Frozen | None = None
        self._offsets: list[float] = []
        self._effects: list[Effect] = []
        self._abandoned: int | None = None
        self._is_kept = False
        self._is_run_again = False
        self.has_made_calls = False
        """True once a call inside has ended that is recorded."""
        self._acts = ActsOfCall()
        self._began = perf_counter()
        self._began_at = time()

    def frozen_inside(self) -> Frozen | None:
        """Return what is kept fixed for the code that is executed.

        For most it is nothing: a client signs its request with the real time. The code of a tool is run again on a
        replay, unless it acted; what it computes before it acts must then be the same.
        """
        return self._own_world() if not self.acted else None

    def _own_world(self) -> Frozen | None:
        """Return the clock and the ids that code of the program has of its own, made when it first asks for any."""
        frozen = self.session.frozen
        if frozen is None or not self.is_of_program:
            return None
        if self._world is None:
            with _MAKING_WORLDS:
                self._world = self._world or self._new_world(frozen)
        return self._world

    def _new_world(self, frozen: Frozen) -> Frozen:
        self.moment, self.nonce = round(self._began_at, 6), token_hex(6)
        return frozen.within(self.position.address, self.moment, self.nonce)

    def part(self) -> PartCrossing:
        """Begin a part of this call whose outcome may turn out to be that of the whole; see `settle`."""
        facts = (self.session, self.boundary, self.request, self.position)
        return PartCrossing(*facts, number=self.number, owner=self.owner, parent=self)

    # -- while it runs -----------------------------------------------------------------------------------------

    @contextmanager
    def executing(self) -> Iterator[None]:
        """While inside, calls are children of this one, and time, ids and randomness are those of `frozen_inside`.

        Hold it only while the real code runs, never across a `yield`: the caller's own code runs there.
        """
        outside, running = EXECUTING.get(), self.session.extension(RUNNING)
        EXECUTING.set(self)
        running.append(self)
        try:
            leaves = self.is_real and (not self.boundary.is_watched or bool(self.acted))
            with self.arrivals.executing(leaves=leaves, is_real=self.is_real):
                if self.arrivals.is_in_pool:
                    self.session.extension(IN_THREADS)[self] = None
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
            self.session.extension(IN_THREADS).pop(self, None)

    def chunk_arrived(self) -> None:
        """Note the time of a chunk."""
        self._note_abandoning()
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
        self.arrivals.effect()
        with self.session.latching():
            effect = Effect.model_construct(value=self.session.codec.encode(value), after=len(self._offsets))
        self._effects.append(effect)
        self._note_effect()

    def _note_effect(self) -> None:
        self.arrivals.awaited.effected()

    @property
    def is_abandoned(self) -> bool:
        """True if the call is made in a thread, and nobody waits for what the thread does any more."""
        return self._abandoned is not None or self.arrivals.is_abandoned

    def _note_abandoning(self) -> None:
        if self._abandoned is None and self.is_abandoned:
            self._abandoned = len(self._offsets)

    @property
    def is_left(self) -> bool:
        """True if the call is executed for real, and has not ended."""
        return self.is_real and not (self.has_ended or self._is_kept)

    @property
    def is_awaited(self) -> bool:
        """True if an event loop awaits the call; false if it holds up its thread."""
        return self.arrivals.awaited is not RIGHT_AWAY

    # -- acts --------------------------------------------------------------------------------------------------

    @property
    def acted(self) -> ActsOfCall:
        """The things that the code of the call has done outside the process by itself so far: true if there are any."""
        return self._acts

    # -- how it ended ------------------------------------------------------------------------------------------

    def awaiting(self) -> AbstractContextManager[Awaited]:
        """Give an awaited call its place among all that its event loop waits for, while inside."""
        return self.arrivals.awaiting_code(self, self.position.address)

    @property
    def is_run_again(self) -> bool:
        """True once the call has ended and a replay will run its code, as it only made calls that are recorded."""
        return self._is_run_again

    def ran(self) -> None:
        """End a call that is not recorded: a replay runs its code, as it did nothing but what a program does."""
        self.has_ended = self._is_run_again = self.acted.has_ended = True
        self._is_over()

    def _written(self, value: Any) -> Plain:
        """Return a value as plain data, or a text in its place if the user says that a replay runs the code."""
        try:
            return super()._written(value)
        except UnrecordableValueError as error:
            policy, asked = self.session.policy, self.request
            if not (policy.is_named_through(asked.kind, asked.name) and policy.may_run_through(asked.kind, asked.name)):
                raise
            self.fidelity_note = f"a replay runs its code: {str(error).partition(chr(10))[0]}"
            return plain_value(value)

    def _record(self, outcome: Outcome) -> None:
        part = self.settle(outcome) if self.settle is not None else None
        if part is not None:
            outcome, self._offsets, self._effects = part.as_whole(self._began)
        self._keep(outcome)

    def _keep(self, outcome: Outcome) -> None:
        self.has_ended = True
        with _KEEPING:  # the end of the session may be that of a call in a thread
            was_kept, self._is_kept = self._is_kept, True
        if was_kept:
            return
        outcome, now = self._whole(outcome), perf_counter()
        interaction = self._interaction(outcome)
        self._is_run_again = self.is_of_program and self.has_made_calls and interaction.acts == []
        around = self._around()
        if around is not None:
            around.has_made_calls = True
        self.session.ledger.keep(interaction, self._timing(now), self.position.order)
        self._is_over()

    def _number_around(self) -> int | None:
        around = self._around()
        return around.number if around is not None else None

    def _around(self) -> ExecutedCrossing | None:
        """Return the crossing that this one lies in: one that executes, else one that is watched."""
        watched = WATCHED.get() if self.parent is None else None
        if watched is not None and watched is not self and watched.session is self.session:
            return watched
        return self.parent

    def _whole(self, outcome: Outcome) -> Outcome:
        """Return the outcome with the effects of the call, the arguments it changed, and whether it was abandoned."""
        self._note_abandoning()
        arguments = self.changed() if self.changed is not None else None
        if not self._effects and self._abandoned is None and not arguments:
            return outcome
        redactor = self.session.redactor
        effects = redacted_effects(self._effects, redactor)
        changed = redactor.value(arguments) if arguments else {}
        return outcome.model_copy(update={"effects": effects, "given_up": self._abandoned, "arguments": changed})

    def _interaction(self, outcome: Outcome) -> Interaction:
        request, redactor = self.request, self.session.redactor
        return Interaction.model_construct(
            number=self.number,
            kind=request.kind,
            name=request.name,
            address=self.position.address,
            fingerprint=request.fingerprint,
            parent=self._number_around(),
            ids=kept_ids(request, outcome, drops_ids=self.drops_ids),
            tags=plain_tags(self.tags, redactor) if self.tags else [],
            metadata=plain_metadata(self.metadata, redactor) if self.metadata else {},
            fidelity="lossy" if self.fidelity_note else "exact",
            fidelity_note=redactor.text(self.fidelity_note),
            acts=self._acts_kept(),
            request=request.body,
            outcome=outcome,
        )

    def _acts_kept(self) -> list[Act] | None:
        """Return the side effects that are recorded: `None` where they decide nothing, as those of a remote search."""
        is_decided = self.boundary.is_watched and (self.has_made_calls or self.boundary.kind in _ACTING)
        if not self.session.watches_acts or not is_decided:
            return None
        text, unseen = self.session.redactor.text, self.session.extension(_UNSEEN)
        acts = self.acted.ended(self.code, unseen, self.unrecorded, is_ambient=self.session.ambient)
        return [Act(what=text(act.what), at=text(act.at)) for act in acts]

    def _timing(self, now: float) -> Timing:
        took = (now - self._began) * 1000 if self.duration_ms is None else self.duration_ms
        is_of_now = self.duration_ms is None and self.session.is_one_run
        start = (self._began - self.session.began) * 1000 if is_of_now else None
        return Timing(start_ms=start, duration_ms=took, offsets_ms=self._offsets, moment=self.moment, nonce=self.nonce)


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

    def awaiting(self) -> AbstractContextManager[Awaited]:
        """Wait for nothing: the whole call has its place."""
        return nullcontext(RIGHT_AWAY)

    @property
    def acted(self) -> ActsOfCall:
        """Those of the whole call."""
        return self.parent.acted if self.parent is not None else self._acts

    def _note_effect(self) -> None:
        """Note it with the whole call, which is awaited."""
        if self.parent is not None:
            self.parent.arrivals.awaited.effected()

    def _keep(self, outcome: Outcome) -> None:
        self.outcome = outcome
        self._is_over()


_UNSEEN: Slot[Unseen] = Slot(lambda _: Unseen())


RUNNING: Slot[list[ExecutedCrossing]] = Slot(lambda _: [])
"""The crossings of a session that are being executed for real now, in the order in which they began."""

IN_THREADS: Slot[dict[ExecutedCrossing, None]] = Slot(lambda _: {})
"""Those whose code runs in work that may be given up, until they are recorded: longer than their code runs."""
