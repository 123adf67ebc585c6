"""One use of one cassette."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path
from threading import Lock
from time import perf_counter
from typing import Any, NoReturn

from agenttape_core.engine import Execute, Mode, Policy, Refuse, decide
from agenttape_core.errors import (
    AgentTapeError,
    AgentTapeHalt,
    CassetteMissError,
    DriftError,
    UnusedInteractionsError,
)
from agenttape_core.matching import (
    NOTHING,
    Branch,
    Canonicaliser,
    Ignored,
    Order,
    Position,
    Question,
    Recordings,
    current_branch,
    enter_branch,
    new_branch,
    task_branch,
)
from agenttape_core.redaction import Redactor
from agenttape_core.schema import KINDS, Interaction, Step, StepTiming, Timing, ValueCodec
from agenttape_core.session import current
from agenttape_core.session.codecs import value_codec
from agenttape_core.session.crossing import Boundary, Crossing
from agenttape_core.session.explaining import explanation
from agenttape_core.session.pacing import Pace
from agenttape_core.session.ports import IndexRow, Sink, Source
from agenttape_core.session.report import Crossed, Report


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
        opaque: Whether values without a codec are kept as stand-ins.
        pace: How fast recordings are served; by default at once.
        tracing: Whether tracers may report to the outside what the session does.
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
        pace: Pace | None = None,
        tracing: bool = True,
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
        self.ambient = ambient
        self.pace = pace
        self.tracing = tracing
        self.written: Path | str | None = None
        """The file that was written when the session ended: the cassette, or one derived from it; else nothing."""
        self.began = perf_counter()
        """When the recording began; steps are timed from here."""
        self.served_at: dict[int, Order] = {}
        """The place in this run of each recording that was served."""
        self.running: list[Crossing] = []
        """What is being executed for real now, in the order in which it began."""
        self._keepsakes: dict[str, Any] = {}
        self._kept: list[tuple[Order, Interaction]] = []
        self._sink = sink
        self._remedy = remedy
        self._recordings = Recordings(source.entries, policy.match_on, source.interaction)
        self._opaque = opaque
        self._canonical = Canonicaliser(lambda value: redactor.value(self.codec.encode(value)), ignored)
        self._named = policy.live | policy.frozen
        self._met: set[str] = set()
        self._numbers = itertools.count(1)
        self._latched: AgentTapeError | AgentTapeHalt | None = None
        self._unfinished: set[Callable[[], None]] = set()
        self._lock = Lock()
        self._branch_outside: Branch | None = None

    @property
    def mode(self) -> Mode:
        """The mode the session was opened in."""
        return self.policy.mode

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

    def keepsake(self, key: str, make: Callable[[], Any]) -> Any:
        """Return what someone keeps with this session under a key, made on first use."""
        if key not in self._keepsakes:
            with self._lock:
                if key not in self._keepsakes:
                    self._keepsakes[key] = make()
        return self._keepsakes[key]

    # -- the context -------------------------------------------------------------------------------------------

    def enter(self) -> None:
        """Make this the current session."""
        self.outer = current.context_session()
        self._branch_outside = current_branch()
        enter_branch(new_branch())
        current.enter(self)

    def leave(self) -> None:
        """End the session: it serves and executes nothing more, and streams that are not read to their end are cut."""
        for close in list(self._unfinished):
            with suppress(AgentTapeError):  # latched where it was raised
                close()
        with self._lock:
            self.closed = True
        if current.leave(self):
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
            question = self._canonical.question(boundary.kind, name, body, ids)
        parent = parent or current.executing() or self._executing_elsewhere()
        if parent is not None and parent.session is not self:
            parent = None
        if position is None:
            base = parent.position if parent is not None else self.root
            position = base.child(name, branch=task_branch(base))
        if self._named:
            self._met.update((boundary.kind, name))
        decision = decide(self.policy, question, position.address, self._recordings, self._fidelity_note)
        number = next(self._numbers)
        if isinstance(decision, Refuse):
            drift = self.miss(question, position, decision.reason, lossy=decision.lossy)
            return Crossing(self, boundary, question, position, number=number, owner=owner, parent=parent, drift=drift)
        if isinstance(decision, Execute):
            self.report.add(executed=Crossed(boundary.kind, name, position.address, number))
            return Crossing(self, boundary, question, position, number=number, owner=owner, parent=parent)
        found = decision.found
        self.report.add(served=Crossed(boundary.kind, name, position.address, found.number, found.rung))
        self.served_at.setdefault(found.number, position.order)
        return Crossing(self, boundary, question, position, number=number, owner=owner, parent=parent, found=found)

    def _executing_elsewhere(self) -> Crossing | None:
        """Return the boundary that a thread without a context most likely works for: the innermost, if there is one.

        Real code may start threads that know nothing of the session. What they call belongs to that code.
        """
        if current.context_session() is not None:
            return None
        running = list(self.running)
        innermost = running[-1] if running else None
        return innermost if innermost is not None and all(map(innermost.is_below, running)) else None

    def times_recorded(self, boundary: Boundary, body: Mapping[str, Any]) -> int:
        """Return how often a request was recorded, whether or not its recordings are used already."""
        return self._recordings.recorded(self._canonical.question(boundary.kind, "", body).fingerprint)

    def times_left(self, boundary: Boundary, body: Mapping[str, Any]) -> int:
        """Return how many recordings of a request are not used yet."""
        return self._recordings.left(self._canonical.question(boundary.kind, "", body).fingerprint)

    def miss(self, question: Question, position: Position, reason: str, *, lossy: bool = False) -> DriftError:
        """Raise the miss, or return the error that stands for it where the run is to live on."""
        what = "no exact recording" if lossy else "no recording"
        summary = f"{what} for {question.kind} {question.name} at {position.address}: {reason}"
        if self.policy.on_miss == "raise":
            self._refuse(question, position, summary, lossy=lossy)
        self.report.add_failure(drift=summary)
        return DriftError(summary)

    def _refuse(self, question: Question, position: Position, summary: str, *, lossy: bool) -> NoReturn:
        """Raise a miss that explains itself, and remember it even if someone eats it."""
        lines = [
            f"cassette  {self.path} ({len(self._recordings)} interactions, mode {self.policy.mode.value})",
            *explanation(self.source, question, position.address, self._canonical.ignored, self._remedy, lossy=lossy),
        ]
        miss = CassetteMissError(summary, "\n".join(f"  {line}" for line in lines))
        self.report.add_failure(missed=summary)
        self.latch(miss)
        raise miss

    def _fidelity_note(self, number: int) -> str:
        with self.latching():
            return self.source.fidelity_note(number)

    # -- recording ---------------------------------------------------------------------------------------------

    def latching(self) -> _Latching:
        """Latch our own errors of a block: an agent that eats them must not end green."""
        return _Latching(self)

    def keep(self, interaction: Interaction, timing: Timing, order: Order) -> None:
        """Hand a finished interaction to the sink. One that ends after the session is not part of it."""
        if self._sink is None:
            return
        with self._lock:
            if not self.closed:
                self._sink.append(interaction, timing, order)
                self._kept.append((order, interaction))

    def keep_step(self, step: Step, timing: StepTiming, order: Order) -> None:
        """Hand a finished step to the sink likewise."""
        if self._sink is None:
            return
        with self._lock:
            if not self.closed:
                self._sink.append_step(step, timing, order)

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
