"""One use of one cassette."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from threading import Lock, RLock
from time import perf_counter
from typing import Any, NoReturn

from agenttape_core.engine import Decision, Execute, Mode, Policy, Refuse, Serve, decide
from agenttape_core.errors import (
    AgentTapeError,
    AgentTapeHalt,
    CassetteMissError,
    DriftError,
    UnusedInteractionsError,
    counted,
    shown_path,
)
from agenttape_core.matching import (
    NOTHING,
    Branch,
    Canonicaliser,
    CanonicalRequest,
    Ignored,
    Order,
    Position,
    RecordingIndex,
    current_branch,
    enter_branch,
    new_branch,
    task_branch,
)
from agenttape_core.redaction import Redactor
from agenttape_core.schema import KINDS, IndexRow, Interaction, Outcome, Step, StepTiming, Timing, ValueCodec
from agenttape_core.session import context
from agenttape_core.session.codecs import value_codec
from agenttape_core.session.crossing import Boundary, Crossing
from agenttape_core.session.miss import explanation, refusal_reason
from agenttape_core.session.pacing import Tempo
from agenttape_core.session.ports import Sink, Source
from agenttape_core.session.report import Crossed, Report
from agenttape_core.session.shared_texts import Texts
from agenttape_core.session.turns import Turns


class Session:
    """One use of one cassette. Thread-safe and task-safe.

    Integrations call `cross` and act on what it gives; users get one from `use_cassette`.

    Args:
        path: The cassette: its file, or its URL.
        policy: What the session allows.
        redactor: Replaces secrets.
        source: The recordings.
        sink: Where executed interactions go; nothing when none can be executed.
        remedy: Says how to record what is missing, a line each.
        ambient: Whether integrations tape what the user did not tape.
        ignored: What of requests is not compared; the fingerprints of the source leave out the same.
        opaque: Whether values without a codec are kept as opaque ones.
        pace: How fast recordings are served; by default at once.
        tracing: Whether tracers may report to the outside what the session does.
        revise: Returns a step as it is to be kept, or nothing for one of which nothing is.
    """

    def __init__(
        self,
        path: Path | str,
        *,
        policy: Policy,
        redactor: Redactor,
        source: Source,
        sink: Sink | None,
        remedy: Callable[[], list[str]],
        ambient: bool = True,
        ignored: Ignored = NOTHING,
        opaque: bool = False,
        pace: Tempo | None = None,
        tracing: bool = True,
        revise: Callable[[Step], Step | None] = lambda step: step,
    ) -> None:
        self.path = path
        self.policy = policy
        self.redactor = redactor
        self.source = source
        self.report = Report()
        self.root = Position()
        self.outer: Session | None = None
        self.closed = False
        self.frozen: Any = None
        """What is kept fixed for this session: set by who opens it, asked for by the stand-ins of freeze."""
        self._ambient = ambient
        self.pace = pace
        self.timings: Callable[[], Mapping[int, Timing]] = dict
        """The recorded times, by the numbers of their interactions: given by who opens the session."""
        self.tracing = tracing
        self.written: Path | str | None = None
        """The file that was written when the session ended: the cassette, or one derived from it; else nothing."""
        self.put_aside: Path | str | None = None
        """Where the file was put that was in its place and could not be read."""
        self.began = perf_counter()
        """When the recording began; calls and steps are timed from here."""
        self.served_at: dict[int, Order] = {}
        """The place in this run of each recording that was served."""
        self.turns = Turns()
        """The order in which concurrent calls ended: given by who opens the session, where one was recorded."""
        self.running: list[Crossing] = []
        """What is being executed for real now, in the order in which it began."""
        self.texts: Texts | None = None
        """The long texts of its interactions, for who records steps that say them again."""
        self._keepsakes: dict[str, Any] = {}
        self._keepsakes_lock = RLock()  # what makes one may ask for another
        self._kept: list[tuple[Order, Interaction]] = []
        self._watched: list[tuple[Order, Step]] | None = None
        self._sink = sink
        self._revise = revise
        self._remedy = remedy
        note = source.fidelity_note if policy.lossy == "refuse" else None
        self._recordings = RecordingIndex(source.entries, policy.match_on, source.interaction, note)
        self._opaque = opaque
        self._canonical = Canonicaliser(lambda value: redactor.value(self.codec.encode(value)), ignored)
        self._named = policy.live | policy.frozen
        self._met: set[str] = set()
        self._numbers = itertools.count(1)
        self._latched: AgentTapeError | AgentTapeHalt | None = None
        self._unfinished: set[Callable[[], None]] = set()
        self._lock = Lock()
        self._branch: Branch | None = None
        self._branch_outside: Branch | None = None

    @property
    def mode(self) -> Mode:
        """The mode the session was opened in."""
        return self.policy.mode

    @property
    def records(self) -> bool:
        """Whether anything of the run may be written: what is executed, and its steps."""
        return self._sink is not None

    @property
    def ambient(self) -> bool:
        """Whether integrations tape here what the user did not tape: everywhere, or inside what takes part."""
        return self._ambient or context.takes_part(self)

    @property
    def codec(self) -> ValueCodec:
        """Writes and reads the values of this session."""
        return value_codec(lenient=self._opaque)

    @property
    def interactions(self) -> list[Interaction]:
        """The interactions of the cassette; while one is being recorded, those that have ended so far."""
        if self.policy.replaces and not self.closed:
            with self._lock:
                return [interaction for _, interaction in sorted(self._kept, key=lambda kept: kept[0])]
        return [self.source.interaction(row.number) for row in self.source.entries]

    def happened(self) -> list[Interaction]:
        """Return what this run has asked and got so far: what was served and what was executed, as it is ordered."""
        with self._lock:
            ran = [(order, interaction) for order, interaction in self._kept]
        ran += [(order, self.source.interaction(number)) for number, order in list(self.served_at.items())]
        return [interaction for _, interaction in sorted(ran, key=lambda item: item[0])]

    def steps_taken(self, kind: str) -> list[Step]:
        """Return the steps of a kind that this run has taken since `watch_steps`, as it is ordered."""
        with self._lock:
            taken = [(order, step) for order, step in self._watched or () if step.kind == kind]
        return [step for _, step in sorted(taken, key=lambda item: item[0])]

    def seconds_of(self, number: int) -> float:
        """Return how long a recorded call took, as far as that is known."""
        timing = self.timings().get(number)
        return timing.duration_ms / 1000 if timing is not None else 0.0

    def keepsake(self, key: str, make: Callable[[], Any]) -> Any:
        """Return what someone keeps with this session under a key, made on first use."""
        if key not in self._keepsakes:
            with self._keepsakes_lock:
                if key not in self._keepsakes:
                    self._keepsakes[key] = make()
        return self._keepsakes[key]

    # -- the context -------------------------------------------------------------------------------------------

    def enter(self) -> None:
        """Make this the current session."""
        self.outer = context.context_session()
        self._branch_outside = current_branch()
        self._branch = new_branch()
        enter_branch(self._branch)
        context.enter(self)

    @contextmanager
    def resumed(self) -> Iterator[None]:
        """Make this the current session of the context of a block, while it is open.

        A test runner sets a test up in one context and runs it in another.
        """
        before, branch = context.swap(self), current_branch()
        enter_branch(self._branch)
        try:
            yield
        finally:
            context.swap(before)
            enter_branch(branch)

    def pause(self) -> None:
        """Let the context that entered this session be outside of it again, while the session stays open."""
        if context.context_session() is self:
            context.swap(self.outer)
            enter_branch(self._branch_outside)

    def leave(self) -> None:
        """End the session: it serves and executes nothing more, and streams that are not read to their end are cut."""
        for close in list(self._unfinished):
            with suppress(AgentTapeError):  # latched where it was raised
                close()
        with self._lock:
            self.closed = True
        if context.leave(self):
            enter_branch(self._branch_outside)

    def watch(self, close: Callable[[], None]) -> None:
        """Call this when the session ends, unless `unwatch` comes first.

        An async stream that its reader abandons needs it: the event loop closes it at some later time.
        """
        self._unfinished.add(close)

    def unwatch(self, close: Callable[[], None]) -> None:
        """Undo `watch`."""
        self._unfinished.discard(close)

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
        parent: Crossing | None = None,
    ) -> Crossing:
        """Decide what happens on a call.

        Args:
            boundary: The family of the call.
            name: Which one: the class of the model, the name of the tool.
            body: What is asked: encodable values, `Keyed` where building them is costly.
            position: Where it is asked; by default below the crossing that executes around it, or the root.
            owner: The object whose call it is.
            ids: Run-specific ids of the call that are not part of what is asked, such as the id of a tool call.
            parent: The crossing that is executing around this one; by default the one of this context.

        Raises:
            CassetteMissError: If the call may be neither served nor executed.
            UnrecordableValueError: If the body cannot be written.
        """
        with self.latching():
            request = self._canonical.request(boundary.kind, name, body, ids)
        parent = parent or context.executing() or self._executing_elsewhere(position)
        if parent is not None and parent.session is not self:
            parent = None
        if position is None:
            base = parent.position if parent is not None else self.root
            position = base.child(name, branch=task_branch(base))
        if self._named:
            self._met.update((boundary.kind, name))
        decision = self._decide(request, position.address)
        number = next(self._numbers)
        if isinstance(decision, Refuse):
            drift = self._refused(request, position, decision)
            return Crossing(self, boundary, request, position, number=number, owner=owner, parent=parent, drift=drift)
        if isinstance(decision, Execute):
            self.report.add(executed=Crossed(boundary.kind, name, position.address, number))
            return Crossing(self, boundary, request, position, number=number, owner=owner, parent=parent)
        found = decision.found
        self.report.add(served=Crossed(boundary.kind, name, position.address, found.number, found.rung))
        self.served_at.setdefault(found.number, position.order)
        return Crossing(self, boundary, request, position, number=number, owner=owner, parent=parent, found=found)

    def _decide(self, request: CanonicalRequest, address: str) -> Decision:
        """Find, decide, then use: a recording that is found and refused stays for the next call that asks for it."""
        kind, name = request.kind, request.name
        if not self.policy.may_serve(kind, name):
            return decide(self.policy, kind, name, None)
        with self._recordings.lock, self.latching():
            candidate = self._recordings.find(request, address, self.policy.exhausted)
            decision = decide(self.policy, kind, name, candidate)
            if isinstance(decision, Serve):
                self._recordings.use(decision.found)
        return decision

    def _executing_elsewhere(self, position: Position | None) -> Crossing | None:
        """Return the boundary that a thread without a context most likely works for: the innermost, if there is one.

        Real code may start threads that know nothing of the session. What they call belongs to that code. It does not
        if a framework knows the place of the call, in the same tree and not below that boundary: then it runs beside,
        as in an event loop that is older than the session.
        """
        if context.context_session() is not None:
            return None
        running = list(self.running)
        innermost = running[-1] if running else None
        if innermost is None or not all(map(innermost.is_below, running)):
            return None
        return None if position is not None and position.is_beside(innermost.position) else innermost

    def times_recorded(self, boundary: Boundary, body: Mapping[str, Any]) -> int:
        """Return how often a request was recorded, whether or not its recordings are used already."""
        return len(self._recordings.numbers(self._canonical.request(boundary.kind, "", body).fingerprint))

    def outcomes_of(self, boundary: Boundary, body: Mapping[str, Any]) -> list[Outcome]:
        """Return what came back each time that a request was recorded, in recorded order.

        Raises:
            CassetteError: If one of them cannot be read.
        """
        fingerprint = self._canonical.request(boundary.kind, "", body).fingerprint
        return [self.source.outcome(number) for number in self._recordings.numbers(fingerprint)]

    def times_left(self, boundary: Boundary, body: Mapping[str, Any]) -> int:
        """Return how many recordings of a request are not used yet."""
        return self._recordings.left(self._canonical.request(boundary.kind, "", body).fingerprint)

    def _refused(self, request: CanonicalRequest, position: Position, refusal: Refuse) -> DriftError:
        known = len(self._recordings.numbers(request.fingerprint))
        reason = refusal_reason(refusal, known, frozen=self.policy.is_frozen(request.kind, request.name))
        return self.miss(request, position, reason, lossy=refusal.found is not None)

    def miss(self, request: CanonicalRequest, position: Position, reason: str, *, lossy: bool = False) -> DriftError:
        """Raise the miss, or return the error that stands for it where the run is to live on."""
        what = "no exact recording" if lossy else "no recording"
        summary = f"{what} for {request.kind} {request.name} at {position.address}: {reason}"
        if self.policy.on_miss == "raise":
            self._raise_miss(request, position, summary, lossy=lossy)
        self.report.add_failure(drift=summary)
        return DriftError(summary)

    def _raise_miss(self, request: CanonicalRequest, position: Position, summary: str, *, lossy: bool) -> NoReturn:
        """Raise a miss that explains itself, and remember it even if someone eats it."""
        held = counted(len(self._recordings), "interaction")
        lines = [
            f"cassette  {shown_path(self.path)} ({held}, mode {self.policy.mode.value})",
            *explanation(self.source, request, position.address, self._canonical.ignored, self._remedy, lossy=lossy),
        ]
        miss = CassetteMissError(summary, "\n".join(f"  {line}" for line in lines))
        self.report.add_failure(missed=summary)
        self.latch(miss)
        raise miss

    # -- recording ---------------------------------------------------------------------------------------------

    def latching(self) -> _Latching:
        """Latch our own errors of a block: an agent that eats them must not end green."""
        return _Latching(self)

    def keep(self, interaction: Interaction, timing: Timing, order: Order) -> None:
        """Hand a finished interaction to the sink. One that ends after the session is not part of it."""
        if self._sink is None:
            return
        if self.texts is not None:
            self.texts.note(interaction)
        with self._lock:
            if not self.closed:
                self._sink.append(interaction, timing, order)
                self._kept.append((order, interaction))

    def keep_step(self, step: Step, timing: StepTiming, order: Order) -> None:
        """Hand a finished step to the sink likewise, and remember it for who watches."""
        with self._lock:
            if self._watched is not None and not self.closed:
                self._watched.append((order, step))
        if self._sink is None or (self._watched is not None and not self._writes_steps):
            return
        kept = self._revise(step)
        if kept is None:
            return
        with self._lock:
            if not self.closed:
                self._sink.append_step(kept, timing, order)

    @property
    def keeps_steps(self) -> bool:
        """Whether the steps of this run are kept: where somebody watches, and where they are written."""
        return self._watched is not None or self._writes_steps

    @property
    def _writes_steps(self) -> bool:
        """Not beside those of an earlier run, and not where nothing is written."""
        return self._sink is not None and (self.policy.replaces or not self.policy.records)

    @property
    def is_one_run(self) -> bool:
        """Whether what is executed is not added to a recording of another run, where its times would mean nothing."""
        return self.policy.replaces or not self.policy.recorded or not self.policy.records

    def watch_steps(self) -> None:
        """Remember the steps of this run from now on, also of a replay, which takes them again."""
        self._watched = self._watched or []

    def forget(self) -> None:
        """Forget what has happened: it is with the sink, and who only observes asks for nothing of it any more."""
        with self._lock:
            self._kept.clear()
            self.report = Report()

    # -- the end -----------------------------------------------------------------------------------------------

    def latch(self, failure: AgentTapeError | AgentTapeHalt) -> None:
        """Remember the first failure, so that the session fails even if user code caught it."""
        with self._lock:
            self._latched = self._latched or failure

    @property
    def failure(self) -> AgentTapeError | AgentTapeHalt | None:
        """The first failure, whether or not user code caught it."""
        return self._latched

    def find_unused(self) -> None:
        """Put what was never asked for into the report."""
        if self.policy.replaces:
            return
        rows = {row.number: row for row in self.source.entries}
        served = [number for number, row in rows.items() if not self.policy.is_live(row.kind, row.name)]
        self.report.close([_crossed(rows[number]) for number in self._recordings.unused(served)])

    def permit(self, policy: Policy) -> None:
        """Go on under another policy: what follows departs from what was recorded."""
        self.policy = policy

    def go_back(self, numbers: Iterable[int]) -> None:
        """Serve recordings again that were served already: the run goes back to before it asked for them."""
        self._recordings.give_back(numbers)

    def used_numbers(self) -> list[int]:
        """Return the recordings that were served, with all that lies inside them, in the order of the file."""
        unused = set(self._recordings.unused(row.number for row in self.source.entries))
        return [row.number for row in self.source.entries if row.number not in unused]

    def executed_live(self) -> set[str]:
        """Return the fingerprints of what was executed because it is live, and has ended."""
        with self._lock:
            kept = [interaction for _, interaction in self._kept]
        return {item.fingerprint for item in kept if self.policy.is_live(item.kind, item.name)}

    def unmatched(self) -> list[str]:
        """Return the names that were given as live or frozen, and are none of a boundary that was asked or recorded."""
        recorded = {word for row in self.source.entries for word in (row.kind, row.name)}
        return sorted(self._named - self._met - recorded - KINDS)

    def unused_error(self) -> UnusedInteractionsError | None:
        """Return the error that names what was never asked for, if anything was not."""
        unused = self.report.unused
        if not unused:
            return None
        shown = [str(crossed) for crossed in unused[:10]]
        if len(unused) > len(shown):
            shown.append(f"      … and {len(unused) - len(shown)} more")
        of = len(self._recordings)
        return UnusedInteractionsError(
            "\n  ".join(
                [
                    f"{self.path}: {len(unused)} of {of} recorded interactions were never asked for",
                    *shown,
                    "the run no longer does what was recorded: fix it, re-record it (mode='all'),",
                    "or open the cassette with unused='ignore' if it serves several runs",
                ]
            )
        )


class _Latching:
    """What `latching` returns; a class, because every call enters several."""

    __slots__ = ("_session",)

    def __init__(self, session: Session) -> None:
        self._session = session

    def __enter__(self) -> None:
        pass

    def __exit__(self, kind: object, error: BaseException | None, traceback: object) -> None:
        if isinstance(error, AgentTapeError):
            self._session.latch(error)


def _crossed(row: IndexRow) -> Crossed:
    return Crossed(row.kind, row.name, row.address, row.number)
