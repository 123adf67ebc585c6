"""The start of a session that is prepared: its journal and the session itself."""

from __future__ import annotations

import concurrent.futures.thread as pools
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from secrets import token_hex
from typing import TYPE_CHECKING, Literal
from weakref import WeakSet

from agenttape_core.engine import Policy
from agenttape_core.errors import ConfigurationError, counted, shown_path
from agenttape_core.freeze import Environment, Frozen
from agenttape_core.guard import Guard, in_telemetry, tracer_hosts
from agenttape_core.lifecycle.chosen_order import choices_of
from agenttape_core.lifecycle.header import another_zone, with_beginning
from agenttape_core.lifecycle.prepared import Prepared
from agenttape_core.lifecycle.project import this_project
from agenttape_core.lifecycle.request import unchanged
from agenttape_core.lifecycle.running_test import this_test
from agenttape_core.lifecycle.shape_only import WithoutContent
from agenttape_core.locks import cached_property
from agenttape_core.matching import NOTHING, Ignored, Position
from agenttape_core.named_tuples import NamedTuple
from agenttape_core.scheduling import Choices, Order, Scheduler, Times
from agenttape_core.schema import GAP, IndexRow, Timing
from agenttape_core.session import Session, Setup, Sink, Source, context_session
from agenttape_core.session.context import call_is_under_way
from agenttape_core.session.events import Events
from agenttape_core.session.listeners import listen
from agenttape_core.session.pacing import Tempo
from agenttape_core.session.positions import current_scope, scope_seen
from agenttape_core.session.run_input import RunInput
from agenttape_core.session.sources import EMPTY, Edited, Extended, compared_by
from agenttape_core.storage import Location, derived_path, is_pending, pending_path
from agenttape_core.storage.location import refuse_read_only

if TYPE_CHECKING:
    from agenttape_core.storage import Journal


class Opened(NamedTuple):
    """A session that is open."""

    prepared: Prepared  # all that was decided before
    session: Session
    journal: Journal | None  # the journal of its recording; `None` if it can't record

    def abandon(self) -> None:
        """Give up without touching the cassette, and drop the recorded calls."""
        if self.journal is not None:
            self.journal.abandon(keep=False)
        self.tell_end("abandoned")

    def tell_end(self, status: str) -> None:
        """Tell that the session has ended, and close the sink of its events."""
        events, report = self.session.events, self.session.report
        if events is None:
            return
        counts = {"replayed": report.replayed, "recorded": report.recorded, "missed": report.missed}
        counts |= {"refused": report.unrecorded, "blocked": report.blocked, "unused": report.unused}
        events.ended({"status": status, **{what: len(items) for what, items in counts.items()}})


def start(prepared: Prepared, *, run_id: str = "", events: Events | None = None) -> Opened:
    """Start the journal of what will be recorded, and make the session.

    `run_id` is the run's id, if it is known already, and `events` the stream of events, if that is open. Raises
    `CassetteError` if the cassette is being recorded elsewhere, or its folder cannot be written to, and
    `ConfigurationError` if a kind to freeze is unknown.
    """
    policy, request = prepared.policy, prepared.request
    journal = None
    if not policy.offline or request.derivation is not None:
        target = _target(prepared)
        refuse_read_only(target)
        # A request of a server has a cassette with a name of its own: the server must not see that its disk is full.
        from agenttape_core.storage import Journal  # most sessions only replay

        journal = Journal(target, prepared.header, is_unique=request.is_unique, is_quiet=request.is_unique)
    try:
        opened = Opened(prepared, _session(prepared, journal, run_id, events), journal)
        if request.is_current and (on_open := this_project().on_open) is not None:
            on_open(opened.session)
        if journal is not None:
            opened.session.first_input.tell(partial(_note_beginning, prepared, opened.session, journal))
    except BaseException:
        if journal is not None:
            journal.abandon(keep=False)
        raise
    if opened.session.events is not None and events is None:
        opened.session.events.tell("session.started", mode=policy.mode.value)
    return opened


def _note_beginning(prepared: Prepared, session: Session, journal: Journal, begun: RunInput) -> None:
    run_id, anew = session.report.run_id, session.policy.updates
    journal.note_header(with_beginning(prepared.header, run_id, begun, prepared.redactor, anew=anew))


def _target(prepared: Prepared) -> Location:
    if prepared.request.write_to is not None:
        return prepared.request.write_to
    if not prepared.policy.records:
        return _derived(prepared)
    if not prepared.settings.review or prepared.cassette is None or is_pending(prepared.path.name):
        return prepared.path
    if not isinstance(prepared.path, Path):
        raise ConfigurationError(
            f"pending: {prepared.path} isn't a local file, beside which its new recording could wait for review\n"
            "  leave the option out, or record to a local cassette"
        )
    return pending_path(prepared.path)


def _derived(prepared: Prepared) -> Location:
    """Return the file of the derived cassette. Raises `ConfigurationError` if it is the cassette itself."""
    request = prepared.request
    if request.derived_as is None:
        test = this_test()
        label = prepared.candidates.described() if prepared.candidates is not None else ""
        model = label if isinstance(label, str) else "-".join(label.values())
        return (test.derive_to(prepared.path) if test is not None else None) or derived_path(prepared.path, model)
    project = request.project or this_project()
    target = project.recording(request.derived_as, prepared.settings.cassette_dir)
    if target == prepared.path:
        raise ConfigurationError(f"to={request.derived_as!r}: {prepared.path} cannot be derived from itself")
    return target


def _session(prepared: Prepared, journal: Journal | None, run_id: str, events: Events | None) -> Session:
    request, settings, policy, header = prepared.request, prepared.settings, prepared.policy, prepared.header
    derivation, recorded = request.derivation, prepared.cassette is not None
    ignored = Ignored.of(header.ignore) if header.ignore else NOTHING
    root = Position()
    run_id = run_id or settings.run_id or token_hex(16)
    source = _source(prepared, ignored)
    choices = None
    if request.is_current:
        path, redactor = str(prepared.path), prepared.redactor
        choices = choices_of(request.order, path, header, source.entries, policy=policy, redactor=redactor)
    rows = prepared.cassette.entries if prepared.cassette is not None else ()
    is_held = request.is_current and derivation is None
    tempo = _tempo_of(settings.pace, rows, prepared.timings, policy, is_held=is_held)
    sink = _sink(prepared, journal, ignored)
    session = Session(
        Setup(
            path=prepared.shown,
            policy=policy,
            redactor=prepared.redactor,
            source=source,
            sink=sink,
            keeps_input=header.payload == "full",
            # Not looked for on the disk: a cassette at a URL is out of reach in a replay.
            remedy=lambda: request.remedy(recorded),
            auto=request.auto and request.is_current,
            ignored=ignored,
            opaque="opaque" in settings.accept,
            pace=tempo,
            tracing=settings.traces or policy.records,
            tapes_http=_TapedHosts(policy, prepared.hosts_of_program) if header.http and request.is_current else None,
            frozen=_frozen(prepared),
            timings=prepared.timings,
            takes_strays=request.takes_strays,
            root=root.child(f"process {request.process}") if request.process else root,
            zone=another_zone(header.volatile.zone, header.volatile.clock),
            hash_seed=header.volatile.hash_seed,
            began=prepared.began,
            run_id=run_id,
            events=events if events is not None else _events(prepared, run_id),
            revise=derivation.revise if derivation is not None else unchanged,
            candidates=prepared.candidates,
            fakes=request.fakes,
            unavailable=settings.unavailable,
            notes_divergences=request.changes is not None,
            scheduler=_scheduler(prepared, source, choices, tempo, notes=sink is not None),
        )
    )
    listen(session)
    return session


def _scheduler(
    prepared: Prepared, source: Source, choices: Choices | None, tempo: Tempo | None, *, notes: bool
) -> Scheduler:
    """Return what decides when something reaches the program: it keeps the recorded order, or one that is chosen."""
    request, policy, header = prepared.request, prepared.policy, prepared.header
    imposes = request.derivation is None
    is_timed = tempo is not None and tempo.is_virtual
    keeps_order = request.is_current and not policy.replaces and choices is None and not is_timed
    # An observer freezes nothing, and knows no order of threads.
    goes_by_times = keeps_order and policy.offline and not (header.freeze.kinds or header.volatile.threads)
    volatile = header.volatile
    recorded = Order(
        admissions=volatile.admissions,
        unordered=volatile.loose,
        answers=volatile.answers() if volatile.admissions is None else (),
        schedule=volatile.schedule,
        at_once=volatile.at_once(),
        is_older=bool(volatile.threads),
    )
    recorded = recorded if keeps_order else Order()
    goes_by_times = goes_by_times and source.has_step(GAP)
    times = Times(source.entries, prepared.timings) if goes_by_times or choices is not None else None
    return Scheduler(
        recorded,
        imposes=imposes,
        notes=notes and request.is_current,
        choices=choices,
        times=times,
        is_paced=tempo is not None,
        is_virtual=choices is not None or is_timed,
    )


def _sink(prepared: Prepared, journal: Journal | None, ignored: Ignored) -> Sink | None:
    if journal is None or prepared.header.payload == "full":
        return journal
    return WithoutContent(journal, ignored)


def _events(prepared: Prepared, run_id: str) -> Events | None:
    """Return the events of a session that surrounds a run, if they are to be sent."""
    option = prepared.request.events or prepared.settings.events
    if option is None or not prepared.request.is_current:
        return None
    from agenttape_core.lifecycle.sinks import sink_of  # most sessions tell no events

    return Events(sink_of(option), run_id, shown_path(prepared.shown), is_replay=not prepared.policy.records)


def _source(prepared: Prepared, ignored: Ignored) -> Source:
    if prepared.cassette is None:
        return EMPTY
    added = [one.interaction for one in prepared.left_over]
    recorded = Extended(prepared.cassette, added) if added else prepared.cassette
    ignore = prepared.cassette.preface.ignore
    source: Source = recorded
    if ignore != prepared.header.ignore:
        source = compared_by(recorded, Ignored.of(ignore), ignored)
    changes = {number: placed.change for number, placed in prepared.changes.items()}
    return Edited(source, changes) if changes else source


def _frozen(prepared: Prepared) -> Frozen | None:
    """Return the frozen state of the session. A replay has it in any case: it skips the waits between attempts."""
    freeze, volatile, policy = prepared.header.freeze, prepared.header.volatile, prepared.policy
    if not prepared.request.is_current or not (freeze.kinds or policy.offline):
        return None
    environment = None
    if "env" in freeze.kinds:
        known: dict[str, str | None] = prepared.redactor.with_places(freeze.environment)
        environment = Environment(known, learns=not policy.offline)
    process = prepared.request.process
    is_observed = not freeze.kinds and prepared.cassette is not None and prepared.cassette.has_step(GAP)
    return Frozen(
        kinds=freeze.kinds,
        seed=f"{freeze.seed}:{process}" if process else freeze.seed,  # or all processes would make the same ids
        clock=volatile.clock if volatile.clock is not None else time.time(),
        scope=current_scope,
        scope_seen=scope_seen,
        environment=environment,
        skips_backoff=policy.offline,
        is_under_way=call_is_under_way,
        readings={} if policy.replaces else volatile.readings,
        was_observed=is_observed,
    )


# The speed of a session, as its settings say it.

_SHOWN = 5


def _tempo_of(
    pace: float | Literal["virtual"],
    rows: Sequence[IndexRow],
    timings: Callable[[], Mapping[int, Timing]],
    policy: Policy,
    *,
    is_held: bool,
) -> Tempo | None:
    """Return the speed of a session; `None` if there are no waits."""
    if pace != "virtual":
        return Tempo(pace, timings()) if pace else None
    if policy.replaces:
        return None  # a recording takes the time that it takes
    if not is_held:
        raise ConfigurationError("pace='virtual': the time of a stand-in, a cache or a fork cannot be held")
    if not policy.offline:
        raise ConfigurationError(
            "pace='virtual': a live call takes real time\n"
            "  leave out `live` and `candidate`, and replay with mode='replay'"
        )
    known = timings()
    if missing := [row.number for row in rows if row.number not in known]:
        which = ", ".join(map(str, missing[:_SHOWN])) + (", …" if len(missing) > _SHOWN else "")
        raise ConfigurationError(
            f"pace='virtual': the cassette does not say how long {counted(len(missing), 'call')} took ({which})\n"
            "  it was observed, imported or written by hand; record it, or leave pace out"
        )
    return Tempo(1.0, known, is_virtual=True)


# The requests that a session with `http` tapes: all of its threads, but to hosts that it leaves alone.

_KIND = "http"


class _TapedHosts:
    """Decides whether requests to a port of a host are taped.

    Not to hosts of tracers, nor from their threads, which report on the run; nor to hosts that a replay may reach
    anyway: unless named as live, they are also reached while recording. Threads that were there before the session, and
    have no context, belong to a server or to telemetry; but a pool's thread may do the session's work. The program may
    reach `allow_hosts` in a replay.
    """

    def __init__(self, policy: Policy, allow_hosts: tuple[str, ...]) -> None:
        self._policy = policy
        self._allow_hosts = allow_hosts
        self._older = WeakSet(threading.enumerate())

    def __call__(self, host: str, port: int | None) -> bool:
        """Return whether a request is taped that the caller makes."""
        if context_session() is None and self._is_older(threading.current_thread()):
            return False
        if in_telemetry():
            return False
        return self._policy.is_live(_KIND, host) or not self._left_alone.allows_host(host, port)

    def _is_older(self, thread: threading.Thread) -> bool:
        return thread in self._older and thread not in pools._threads_queues  # noqa: SLF001 - known nowhere else

    @cached_property
    def _left_alone(self) -> Guard:
        """The hosts that are left alone; tracers' hosts are known once the frameworks are connected."""
        return Guard(name=_KIND, allow_hosts=(*self._allow_hosts, *tracer_hosts()))
