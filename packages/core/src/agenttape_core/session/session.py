"""A session: one use of one cassette. It holds its parts, and decides what happens on a call."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any, TypeVar

from agenttape_core.engine import Decision, Execute, Mode, Policy, Refuse, Replay, StepInto
from agenttape_core.errors import AgentTapeError, AgentTapeHalt, CassetteFormatError, IncompleteObjectError
from agenttape_core.freeze import Frozen, is_drawn_by_program
from agenttape_core.locks import Lock, RLock, cached_property
from agenttape_core.matching import CanonicalRequest, Position, task_branch
from agenttape_core.scheduling import SCOPES as _SCOPES
from agenttape_core.scheduling import Membership, Scopes, takes_part
from agenttape_core.schema import MODEL_KINDS, Interaction, ValueCodec, asks_model
from agenttape_core.session.boundary import Boundary
from agenttape_core.session.call import WATCHERS, begun
from agenttape_core.session.candidates import HTTP, Candidate, may_be_tried
from agenttape_core.session.codecs import plain_value, value_codec
from agenttape_core.session.executed_call import ExecutedCall, around, executing
from agenttape_core.session.ledger import Ledger
from agenttape_core.session.listening import Listener
from agenttape_core.session.recordings import Recordings, canonicaliser, only_replays
from agenttape_core.session.report import CallRecord, Report, answered_without, why_not_run
from agenttape_core.session.run_input import FirstInput
from agenttape_core.session.secret_scope import HeldSecrets
from agenttape_core.session.session_call import Facts, SessionCall, answered, executed, faked, missed, step_into
from agenttape_core.session.setup import Setup
from agenttape_core.session.slot import Slot
from agenttape_core.session.sources import spare
from agenttape_core.session.stale_objects import ReplayedWrite, note_replayed_write, replayed_write_on

# -- The latch: the first failure of a session, which then fails even if user code caught the error.


_FAILING = Lock()  # one lock for all sessions: few fail, and each holds it for a moment


class Latch:
    """Remembers the first failure. Thread-safe.

    As a context manager it latches our own errors that leave the block. It holds no state of a block, so that one
    object serves all blocks of a session: every call enters several.
    """

    __slots__ = ("error", "on_first")

    def __init__(self) -> None:
        self.error: AgentTapeError | AgentTapeHalt | None = None
        self.on_first: list[Callable[[AgentTapeError | AgentTapeHalt], object]] = []  # called with the first failure

    def keep(self, failure: AgentTapeError | AgentTapeHalt) -> None:
        """Remember a failure, unless there was one before."""
        with _FAILING:
            is_first = self.error is None
            self.error = self.error or failure
        if is_first:
            for note in self.on_first:
                note(failure)

    def __enter__(self) -> None:
        pass

    def __exit__(self, kind: object, error: BaseException | None, traceback: object) -> None:
        if isinstance(error, AgentTapeError):
            self.keep(error)


T = TypeVar("T")


def _go_on() -> None:
    pass


class Answering:
    """The calls of a session that are decided or answered now, beside those that are executed: one more while inside.

    Waiting for a call takes no frozen time: a call takes none when it is executed, so it takes none when it is
    replayed.
    """

    __slots__ = ("calls",)

    def __init__(self) -> None:
        self.calls: list[None] = []  # an entry for each: to append and to remove one is safe in any thread

    def __bool__(self) -> bool:
        return bool(self.calls)

    def __enter__(self) -> None:
        self.calls.append(None)

    def __exit__(self, *_: object) -> None:
        self.calls.pop()


class Session:
    """One use of one cassette. Thread-safe and task-safe.

    Integrations call `cross` and act on the result; users get a session from `use_cassette`.

    Args:
        setup: All that it is made of.
    """

    closed = False
    """True if the session has ended: it answers and makes no more calls."""
    watches_side_effects = False
    """True if what calls do outside the process is seen."""
    has_aftermath = False
    """True if something is to be refused in the context of the session when that has ended."""
    was_cut = False
    """True if a stream was open when the session ended."""
    written: Path | str | None = None
    """The file that was written when the session ended: the cassette, or one derived from it; else `None`."""
    put_aside: Path | str | None = None
    """The copy of the unreadable file that was in its place; `None` if there was none."""

    def __init__(self, setup: Setup) -> None:
        self.setup = setup
        self.path: Path | str = setup.path
        self.policy: Policy = setup.policy
        self.is_replay = not setup.policy.records
        """True if it was opened to replay, whatever it may execute since."""
        self.redactor = setup.redactor
        self.source = setup.source
        self.root: Position = setup.root
        self.pace = setup.pace
        self.frozen = setup.frozen
        self.tracing = setup.tracing
        self.events = setup.events
        self.began = setup.began
        self.takes_strays = setup.takes_strays
        """True if a thread without a context belongs to it where it is the only open session."""
        self.scheduler = setup.scheduler
        self.scheduler.belongs_to(self)
        self.recordings = Recordings(setup)
        self.only_replays = only_replays(setup)
        """True if every call gets its unchanged recording, as soon as it's made."""
        self.ledger = Ledger(setup.sink, setup.revise, setup.events)
        self.latch = Latch()
        """The first failure: a session that has one fails, even if user code caught it."""
        self.report = self.new_report()
        self.listeners: list[Listener] = []
        """Listen to each call, for something rare; see `listeners`."""
        self.answering = Answering()
        self.first_input = FirstInput(is_kept=setup.policy.records and setup.sink is not None and setup.keeps_input)
        """The input that the run began with, where it is recorded."""
        guarded = setup.policy.replays and not setup.policy.offline
        self.held = HeldSecrets(setup.redactor, self._encoded) if guarded else None
        """The secrets in requests, kept if a replayed value may reach a call that is made for real."""
        self.warnings: dict[str, Warning] = {}
        """The warnings to give when the session has ended well, once for each text."""
        self.running: list[ExecutedCall] = []
        """The calls that are being executed for real now, in the order in which they began."""
        self.in_threads: dict[ExecutedCall, None] = {}
        """Those whose code runs in work that may be given up, until they are recorded: longer than their code runs."""
        self.unfinished: set[Callable[[], None]] = set()
        """Called when the session ends; see `watch`."""
        self.diverge: Callable[[], None] = _go_on
        """Called when a change has been reached: from here on, the run may differ from the recording."""
        is_recorded = self.recordings.index.is_recorded if self.only_replays else None
        self.canonical = canonicaliser(setup, self._encoded, self.warn_at_end, is_recorded)
        """Makes the canonical requests of calls."""
        self._extensions: dict[Slot[Any], Any] = {}
        self._extensions_lock = RLock()  # to make one extension may need another
        if setup.zone and setup.frozen is not None:
            setup.frozen.tell_local = self._note_zone

    def _encoded(self, value: Any) -> Any:
        return self.codec.encode(value)  # which may have learned of more types since

    def _note_zone(self) -> None:
        if is_drawn_by_program():
            self.report.add_entropy(self.setup.zone)

    def new_report(self) -> Report:
        """Return an empty report."""
        source = self.source  # it is another one when the session has ended

        def why_replayed(replayed: CallRecord) -> str:
            try:
                recorded = source.interaction(replayed.number)
            except CassetteFormatError:  # such as a lost asset, which the call has raised already
                return "its recording cannot be read"
            if replayed.kind != "tool" and not recorded.acts:
                return ""  # a search of a remote service has no code that could have run
            if not self.policy.may_step_into(replayed.kind, replayed.name, replayed.address):
                return "replay-only"
            return answered_without(recorded) or why_not_run(recorded.acts)

        def unused() -> list[CallRecord]:
            if self.policy.replaces:
                return []
            rows = {row.number: row for row in source.entries}
            needless, policy = spare(source), self.policy
            replayed = [number for number in rows if number not in needless]
            if policy.live:
                called = [rows[number] for number in replayed]
                replayed = [row.number for row in called if not policy.is_live(row.kind, row.name, row.address)]
            candidates = self.setup.candidates
            if candidates is not None and candidates.is_everywhere:  # which answers instead
                called = [rows[number] for number in replayed if rows[number].kind == HTTP]
                asked = {row.number for row in called if asks_model(HTTP, source.interaction(row.number).request)}
                replayed = [number for number in replayed if number not in asked]
            found = [rows[number] for number in self.recordings.index.unused(replayed)]
            return [CallRecord(row.kind, row.name, row.address, row.number) for row in found]

        return Report(why_replayed, unused, run_id=self.setup.run_id)

    # -- facts -------------------------------------------------------------------------------------------------

    @property
    def mode(self) -> Mode:
        """The mode the session was opened in."""
        return self.policy.mode

    @property
    def auto(self) -> bool:
        """True if integrations record objects here that the user didn't wrap: everywhere, or in recorded objects."""
        return self.setup.auto or takes_part(self)

    @property
    def codec(self) -> ValueCodec:
        """Writes and reads the values of this session."""
        return value_codec(lenient=self.setup.opaque)

    @property
    def records(self) -> bool:
        """True if anything of the run may be written: executed calls, and its steps."""
        return self.ledger.writes

    @property
    def keeps_steps(self) -> bool:
        """True if the steps of this run are kept: because they are watched, or because they are written."""
        return self.ledger.watches_steps or self.ledger.writes

    @property
    def is_one_run(self) -> bool:
        """True if calls made now aren't added to a recording of another run, where their times would be meaningless."""
        return self.policy.replaces or not self.policy.recorded or not self.policy.records

    @property
    def failure(self) -> AgentTapeError | AgentTapeHalt | None:
        """The first failure, whether or not user code caught it."""
        return self.latch.error

    @property
    def interactions(self) -> list[Interaction]:
        """The interactions of the cassette; while one is being recorded, those that have ended so far."""
        if self.policy.replaces and not self.closed:
            return self.ledger.executed()
        return [self.source.interaction(row.number) for row in self.source.entries]

    @property
    def http(self) -> bool:
        """True if requests of HTTP clients are taped here that the user did not tape."""
        return self.setup.tapes_http is not None

    def tapes_http(self, host: str, port: int | None) -> bool:
        """Return whether a request to a host is taped here that a client makes which the user did not tape."""
        return self.setup.tapes_http is not None and self.setup.tapes_http(host, port)

    @cached_property
    def observed(self) -> Membership[Any]:
        """The membership of observed work, in a session that no context enters."""
        return Membership(self, None)

    def note_input(self, value: Any) -> None:
        """Keep the input of the run in the header of its recording, so that it can be started again.

        Graphs, chains, agents and workflows do so automatically; a program of plain Python can do it here. The first
        input is kept. In a replay, this has no effect.

        Args:
            value: The input: for a function, its argument, or a dictionary of its arguments by their names.
        """
        self.first_input.note(plain_value(value))

    # -- what others keep with it ------------------------------------------------------------------------------

    def extension(self, slot: Slot[T]) -> T:
        """Return the value that an integration keeps in a slot of this session, made on first use."""
        if slot not in self._extensions:
            with self._extensions_lock:
                if slot not in self._extensions:
                    self._extensions[slot] = slot.make(self)
        found: T = self._extensions[slot]
        return found

    def extend(self, slot: Slot[T], value: T) -> None:
        """Keep a value in a slot, unless there is one already."""
        with self._extensions_lock:
            self._extensions.setdefault(slot, value)

    def watch(self, close: Callable[[], None]) -> None:
        """Call this when the session ends, unless `unwatch` comes first.

        An async stream that its reader abandons needs it: the event loop closes it at some later time.
        """
        self.unfinished.add(close)

    def unwatch(self, close: Callable[[], None]) -> None:
        """Undo `watch`."""
        self.unfinished.discard(close)

    def warn_at_end(self, warning: Warning) -> None:
        """Give a warning when the session has ended well, once for each text."""
        self.warnings.setdefault(str(warning), warning)

    # -- a call ------------------------------------------------------------------------------------------------

    def cross(
        self,
        boundary: Boundary,
        name: str,
        body: Mapping[str, Any],
        *,
        position: Position | None = None,
        owner: Any = None,
        ids: tuple[str, ...] = (),
        ids_around: tuple[str, ...] = (),
        parent: ExecutedCall | None = None,
        holder: Any = None,
        writes: bool = False,
        is_idempotent: bool = False,
    ) -> SessionCall:
        """Decide what happens on a call: make its request canonical, find its place, decide, then begin it.

        Args:
            boundary: The family of the call.
            name: Which one: the class of the model, the name of the tool.
            body: The request: encodable values, `KeyedItems` where building them is costly.
            position: Where the call is made; by default below the call that executes around it, or the root.
            owner: The object whose call it is.
            ids: Run-specific ids of the call that are not part of the request, for example the id of a tool call.
            ids_around: Run-specific ids around the call, such as the messages of a conversation.
                They are recorded where its outcome holds one of them.
            parent: The call that is executing around it; by default the one of this context.
            holder: The state of the object that the call reads or changes; by default the owner's.
            writes: Whether the call changes the contents of the object.
            is_idempotent: Whether the boundary declares its calls safe to repeat, or only reads.

        Raises:
            CassetteMissError: If the call may be neither replayed nor executed.
            IncompleteObjectError: If it would be executed on an object after a write to it was replayed.
            UnrecordableValueError: If the body cannot be written.
        """
        for listener in self.listeners:
            listener.begins(boundary.kind, name)
        # Before the lookup: threads that make equal requests must come to it in the recorded order, or they'd get each
        # other's answers.
        self.scheduler.begins_call()
        inside = executing()
        frozen = self.frozen if inside is None else self.frozen_here()
        if frozen is not None:
            frozen.calls += 1
        candidate, waiting = None, self.answering.calls
        waiting.append(None)  # what waits for the decision takes no frozen time
        try:
            request = self.canonical.request(boundary.kind, name, body, ids, ids_around)
            if parent is None or parent.session is not self:
                is_here = inside is None and SCOPES.innermost() is not None  # no thread that knows of no session
                parent = None if is_here else around(self, position)
            position = position if position is not None else self._position(name, parent)
            # The place comes before the decision: two equal requests at two places have a recording each.
            found = self.recordings.index.take(request, position.address) if self.only_replays else None
            if found is not None:
                decision: Decision = Replay(found)
            else:
                decision, candidate = self._decided(boundary, request, position, parent, is_idempotent=is_idempotent)
        except AgentTapeError as error:
            self.latch.keep(error)  # an agent that eats it must not end green
            raise
        finally:
            waiting.pop()
        for listener in self.listeners:
            listener.decided(position, body, decision)
        if writes or isinstance(decision, Execute):
            self._follow_writes(decision, request, owner if holder is None else holder)
        # A call that raised above has no number: the numbers of a recording are those of calls that began.
        facts = Facts(self, boundary, request, position, self.ledger.next_number(), owner, parent)
        if isinstance(decision, Replay):
            call: SessionCall = answered(facts, decision.found)
        else:
            call = self._not_answered(facts, decision, candidate, body)
        if WATCHERS:
            begun(call)
        return call

    def _not_answered(
        self, facts: Facts, decision: StepInto | Execute | Refuse, candidate: Candidate | None, body: Mapping[str, Any]
    ) -> SessionCall:
        """Begin a call that no recording answers."""
        if isinstance(decision, StepInto):
            return step_into(facts, decision.found)
        if isinstance(decision, Execute):
            return executed(facts, candidate)
        fake = self.setup.fakes.get(facts.request.name)
        if fake is not None and decision.found is None:
            return faked(facts, fake, body)
        return missed(facts, decision)

    def _position(self, name: str, parent: ExecutedCall | None) -> Position:
        """Return the location of a call that no framework places."""
        base = parent.position if parent is not None else self.root
        return base.child(name, branch=task_branch(base))

    def _decided(
        self,
        boundary: Boundary,
        request: CanonicalRequest,
        position: Position,
        parent: ExecutedCall | None,
        *,
        is_idempotent: bool,
    ) -> tuple[Decision, Candidate | None]:
        """Decide what happens on a call, and return the candidate that is asked, if there is one.

        A trial makes all models live but those that no candidate can replace.
        """
        candidate, is_tried, policy, candidates = None, False, self.policy, self.setup.candidates
        if candidates is not None and not boundary.takes_candidates:
            policy = replace(policy, live=policy.live.without(MODEL_KINDS)) if candidates.is_everywhere else policy
        elif candidates is not None and may_be_tried(request, parent.boundary.kind if parent is not None else ""):
            candidate = candidates.at(request.kind, request.name, position.address)
            is_tried = candidate is not None or candidates.is_everywhere
            policy = replace(policy, unrecorded=policy.unrecorded | {request.kind})
        decided = self.recordings.decide(
            policy, request, position.address, is_tried=is_tried, is_idempotent=is_idempotent
        )
        return decided, candidate

    def _follow_writes(self, decision: Decision, request: CanonicalRequest, holder: Any) -> None:
        """Note a write that is replayed, and refuse what would be executed on an object after one was."""
        if holder is None:
            return
        if isinstance(decision, Execute):
            owner = request.name.rpartition(".")[0] or request.name  # a method's name follows that of its class
            self.refuse_after_replayed_write(holder, owner, request.name)
        elif isinstance(decision, Replay):  # else it is executed, stepped into or refused
            note_replayed_write(holder, ReplayedWrite(request.name, str(self.path)))

    def refuse_after_replayed_write(self, holder: Any, name: str, call: str) -> None:
        """Refuse to make a call on an object that lacks a replayed write.

        Args:
            holder: The state of the object.
            name: The name of its class.
            call: The call, in words.

        Raises:
            IncompleteObjectError: If a write to the object was replayed.
        """
        written = replayed_write_on(holder)
        if written is not None:
            error = IncompleteObjectError(call, name, *written)
            self.latch.keep(error)
            raise error

    def frozen_here(self, begun_in: ExecutedCall | None = None) -> Frozen | None:
        """Return the frozen values for the code that runs here: around a boundary, or inside one that runs for real.

        Args:
            begun_in: The boundary that was being executed where a thread without a context was begun.
        """
        inside = executing() or begun_in
        if inside is None:  # code that passes the answer of a replayed call on had real values when it was recorded
            return None if getattr(self.scheduler.answered.get(), "session", None) is self else self.frozen
        return inside.frozen_inside() if inside.session is self else None

    def around(self, position: Position | None = None) -> ExecutedCall | None:
        """Return the innermost call of this session that executes around a call made here.

        Args:
            position: The location of the call, if a framework provides it.
        """
        return around(self, position)


SCOPES: Scopes[Session] = _SCOPES  # the sessions of this process
