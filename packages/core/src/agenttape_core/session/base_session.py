"""The part of a session that its calls share: recordings, redactor, ledger, latch, extensions."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Generic, Literal, NoReturn, TypeVar

from agenttape_core.engine import Mode, Policy
from agenttape_core.errors import AgentTapeError, AgentTapeHalt, CassetteMissError, DriftError, counted, shown_path
from agenttape_core.freeze import is_drawn_by_program
from agenttape_core.locks import RLock
from agenttape_core.matching import (
    Candidate,
    Canonicaliser,
    CanonicalRequest,
    Nearest,
    Position,
    RecordingIndex,
    differences,
)
from agenttape_core.scheduling import Ending, takes_part
from agenttape_core.schema import Timing, ValueCodec
from agenttape_core.session.codecs import value_codec
from agenttape_core.session.drift import Drift
from agenttape_core.session.failure import FirstFailure
from agenttape_core.session.held_secrets import HeldSecrets
from agenttape_core.session.ledger import Ledger
from agenttape_core.session.miss import differences_around, explanation, nearest_to
from agenttape_core.session.report import Crossed, Departure, Landed, Report, answered_without, why_not_run
from agenttape_core.session.setup import Setup
from agenttape_core.session.sources import held, original

if TYPE_CHECKING:
    from agenttape_core.session.module_dates import ModuleDates

T = TypeVar("T")


def _go_on() -> None:
    pass


class Slot(Generic[T]):
    """A typed place for what an integration keeps with each session. Define one as a constant of a module.

    Args:
        make: Makes what is kept with a session, given the session, when it is first asked for.
    """

    __slots__ = ("make",)

    def __init__(self, make: Callable[[Any], T]) -> None:
        self.make = make


class Answering:
    """The calls of a session that are decided or answered now, beside those that are executed: one more while inside.

    Waiting for a call takes no frozen time: a call takes none when it is executed, so it takes none when it is served.
    """

    __slots__ = ("_calls",)

    def __init__(self) -> None:
        self._calls: list[None] = []  # to append and to remove one is safe in any thread

    def __bool__(self) -> bool:
        return bool(self._calls)

    def __enter__(self) -> None:
        self._calls.append(None)

    def __exit__(self, *_: object) -> None:
        self._calls.pop()


class BaseSession:
    """A session as its crossings and steps see it; `Session` decides what happens on a call.

    Args:
        setup: All that it is made of.
    """

    def __init__(self, setup: Setup) -> None:
        self._setup = setup
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
        if setup.zone and setup.frozen is not None:
            setup.frozen.tell_local = self._tell_zone
        self.watches_acts = False
        """True if what calls do outside the process is seen."""
        self.report = self._new_report()
        self.ledger = Ledger(setup.sink, setup.revise, setup.events)
        self.closed = False
        """True if the session has ended: it serves and executes nothing more."""
        self.answering = Answering()
        self.scheduler = setup.scheduler
        self.scheduler.belongs_to(self)
        self._failure = FirstFailure()
        self._depart: Callable[[], None] = _go_on
        self._extensions: dict[Slot[Any], Any] = {}
        self._extensions_lock = RLock()  # to make one extension may need another
        self._unfinished: set[Callable[[], None]] = set()
        self._addresses: dict[int, str] | None = None
        self._warnings: dict[str, Warning] = {}
        note = setup.source.fidelity_note if setup.policy.lossy == "refuse" else None
        self._recordings = RecordingIndex(
            setup.source.entries,
            setup.policy.match_on,
            setup.source.interaction,
            fidelity_note=note,
            acted=lambda number: setup.source.interaction(number).acts != [],
        )
        guarded = setup.policy.serves and not setup.policy.offline
        self.held = HeldSecrets(setup.redactor, self._encoded) if guarded else None
        """The secrets that requests have held, where what is served may reach a call that is executed."""
        look = self._dates().look if setup.policy.records and setup.frozen is not None else None
        self._canonical = Canonicaliser(self._plain, setup.ignored, self._plain_items, look)

    def _dates(self) -> ModuleDates:
        """Return what looks for dates of modules in the requests of a recording."""
        from agenttape_core.session.module_dates import ModuleDates  # a replay needs none

        return ModuleDates(self.warn_at_end, shown_path(self.path))

    def _encoded(self, value: Any) -> Any:
        return self.codec.encode(value)  # which may have learned of more types since

    def _plain(self, value: Any) -> Any:
        return self.redactor.value(self._encoded(value))

    def _plain_items(self, name: str, values: Sequence[Any]) -> list[Any]:
        """Return values under one name as plain, redacted data; the texts in them are searched together."""
        redactor = self.redactor
        redactor.foresee(values)
        return [
            dict(value)
            if name in redactor.harmless_keys and redactor.is_plain(value)
            else next(iter(self._plain({name: value}).values()))
            for value in values
        ]

    def _new_report(self) -> Report:
        source = self.source  # it is another one when the session has ended

        def why_served(served: Crossed) -> str:
            recorded = source.interaction(served.number)
            if served.kind != "tool" and not recorded.acts:
                return ""  # a search of a remote service has no code that could have run
            if not self.policy.may_run_through(served.kind, served.name):
                return "frozen"
            return answered_without(recorded) or why_not_run(recorded.acts)

        return Report(why_served, run_id=self._setup.run_id)

    def _tell_zone(self) -> None:
        if is_drawn_by_program():
            self.report.add_real(self._setup.zone)

    @property
    def mode(self) -> Mode:
        """The mode the session was opened in."""
        return self.policy.mode

    @property
    def ambient(self) -> bool:
        """True if integrations tape here what the user did not tape: everywhere, or inside what takes part."""
        return self._setup.ambient or takes_part(self)

    @property
    def codec(self) -> ValueCodec:
        """Writes and reads the values of this session."""
        return value_codec(lenient=self._setup.opaque)

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
        """True if executed calls are not added to a recording of another run, where their times would mean nothing."""
        return self.policy.replaces or not self.policy.recorded or not self.policy.records

    def seconds_of(self, number: int) -> float:
        """Return how long a recorded call took, as far as that is known."""
        timing = self.timing_of(number)
        return timing.duration_ms / 1000 if timing is not None else 0.0

    def timing_of(self, number: int) -> Timing | None:
        """Return the recorded times of a call, if they are known."""
        return self._setup.timings().get(original(self.source, number))

    def ending_of(self, number: int) -> Ending:
        """Return when a recorded call ended: one that was cancelled then waits as long to be cancelled again."""
        timing = self.timing_of(number)
        took = self.seconds_of(number)
        start = timing.start_ms if timing is not None else None
        return Ending(took, until=took + (start or 0.0) / 1000)

    def recorded_address(self, number: int) -> str:
        """Return where a call was made when it was recorded."""
        if self._addresses is None:
            self._addresses = {row.number: row.address for row in self.source.entries}
        return self._addresses[number]

    # -- extensions --------------------------------------------------------------------------------------------

    def extension(self, slot: Slot[T]) -> T:
        """Return what an integration keeps in a slot of this session, made on first use."""
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

    # -- changes -----------------------------------------------------------------------------------------------

    def when_landed(self, depart: Callable[[], None]) -> None:
        """Call this when a change lands: what follows departs from what was recorded."""
        self._depart = depart

    def landed(self, landed: Landed) -> None:
        """Note a change that lands. The recorded order of threads holds up to here."""
        self.report.add_landed(landed)
        self.scheduler.depart()
        self._depart()

    # -- unfinished streams ------------------------------------------------------------------------------------

    def watch(self, close: Callable[[], None]) -> None:
        """Call this when the session ends, unless `unwatch` comes first.

        An async stream that its reader abandons needs it: the event loop closes it at some later time.
        """
        self._unfinished.add(close)

    def unwatch(self, close: Callable[[], None]) -> None:
        """Undo `watch`."""
        self._unfinished.discard(close)

    # -- warnings ----------------------------------------------------------------------------------------------

    @property
    def warnings(self) -> tuple[Warning, ...]:
        """The warnings to give when the session has ended well."""
        return tuple(self._warnings.values())

    def warn_at_end(self, warning: Warning) -> None:
        """Give a warning when the session has ended well, once for each text."""
        self._warnings.setdefault(str(warning), warning)

    # -- failures ----------------------------------------------------------------------------------------------

    @property
    def failure(self) -> AgentTapeError | AgentTapeHalt | None:
        """The first failure, whether or not user code caught it."""
        return self._failure.error

    def latch(self, failure: AgentTapeError | AgentTapeHalt) -> None:
        """Remember the first failure, so that the session fails even if user code caught it."""
        self._failure.latch(failure)

    def on_failure(self, note: Callable[[AgentTapeError | AgentTapeHalt], object]) -> None:
        """Call this with the first failure from now on."""
        self._failure.on_first.append(note)

    def latching(self) -> FirstFailure:
        """Latch our own errors of a block: an agent that eats them must not end green."""
        return self._failure

    def miss(self, request: CanonicalRequest, position: Position, reason: str, *, lossy: bool = False) -> DriftError:
        """Raise the miss, or return the error that stands for it where the run is to live on."""
        what = "no exact recording" if lossy else "no recording"
        summary = f"{what} for {request.kind} {request.name} at {position.address}: {reason}"
        if self.policy.on_miss == "raise":
            self._raise_miss(request, position, (summary, reason), lossy=lossy)
        near = nearest_to(self.source, request, position.address, self._setup.ignored) if not lossy else None
        found = near if isinstance(near, Nearest) else None
        drift = Drift(
            summary,
            kind=request.kind,
            name=request.name,
            address=position.address,
            reason=reason,
            request=request.body,
            nearest=found.row.number if found is not None else None,
            differences=_differences(found),
        )
        self.report.add_failure(drift=drift)
        self._departed("missed", request, position, found)
        self._tell_refused("call.refused", request, position)
        is_read = request.kind == "tool" or self._setup.candidates is not None
        return DriftError(summary, self._setup.unavailable if is_read else None)

    def _departed(
        self,
        what: Literal["missed", "executed"],
        request: CanonicalRequest,
        position: Position,
        found: Nearest | None = None,
    ) -> None:
        """Note a call that has no recording, if this is a run in which something is changed."""
        if self._setup.notes_departures:
            number = found.row.number if found is not None else None
            departure = Departure(
                what, request.kind, request.name, position.address, number, tuple(_differences(found))
            )
            self.report.add_departed(departure)

    def _moved(self, request: CanonicalRequest, position: Position, found: Candidate) -> None:
        """Note a call that asks for something else than the recording that answers it, if something is changed."""
        if found.same:
            return
        recorded = self.source.interaction(found.number).request
        differing = tuple((one.path, one.recorded, one.asked) for one in differences(recorded, request.body))
        number = original(self.source, found.number)
        departure = Departure("moved", request.kind, request.name, position.address, number, differing)
        self.report.add_departed(departure)

    def _tell_refused(self, event: str, request: CanonicalRequest, position: Position) -> None:
        if self.events is not None:
            self.events.tell(event, kind=request.kind, name=request.name, address=position.address)

    def _raise_miss(
        self, request: CanonicalRequest, position: Position, words: tuple[str, str], *, lossy: bool
    ) -> NoReturn:
        """Raise a miss that explains itself, and remember it even if someone eats it."""
        recorded = counted(held(self._setup.source), "interaction")
        (summary, reason), address, path = words, position.address, shown_path(self.path)
        near = nearest_to(self.source, request, address, self._setup.ignored) if not lossy else None
        lines = [
            f"cassette  {path} ({recorded}, mode {self.policy.mode.value})",
            *explanation(
                self.source,
                request,
                address,
                self._setup.remedy,
                near=near,
                around=differences_around(self, address),
                hash_seed=self._setup.hash_seed,
                zone=self._setup.zone,
            ),
        ]
        found = near if isinstance(near, Nearest) else None
        miss = CassetteMissError(
            summary,
            "\n".join(f"  {line}" for line in lines),
            kind=request.kind,
            name=request.name,
            address=address,
            reason=reason,
            cassette=path,
            nearest=found.row.number if found is not None else None,
            differences=_differences(found),
        )
        self.report.add_failure(missed=summary)
        self._departed("missed", request, position, found)
        self._tell_refused("call.missed", request, position)
        self.latch(miss)
        raise miss


def _differences(found: Nearest | None) -> list[tuple[str, Any, Any]]:
    return [(part.path, part.recorded, part.asked) for part in found.found] if found is not None else []
