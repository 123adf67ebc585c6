"""`open_session`: the one composition of settings, cassette, redactor, header, journal and session."""

from __future__ import annotations

import time
from collections.abc import Mapping
from functools import partial
from pathlib import Path
from secrets import token_hex
from time import perf_counter
from typing import NamedTuple

from agenttape_core.engine import Mode, Policy, parse_mode
from agenttape_core.errors import (
    CassetteFormatError,
    CassetteNotFoundError,
    ConfigurationError,
    how_to_recover,
    shown_path,
)
from agenttape_core.freeze import Environment, Frozen
from agenttape_core.interventions import Placed
from agenttape_core.lifecycle.changed import changes_of
from agenttape_core.lifecycle.header import new_header, redactor_for, with_beginning
from agenttape_core.lifecycle.http import TapedHosts
from agenttape_core.lifecycle.ordering import choices_of
from agenttape_core.lifecycle.pace import tempo_of
from agenttape_core.lifecycle.places import places_of_run
from agenttape_core.lifecycle.project import Project, this_project
from agenttape_core.lifecycle.request import SessionRequest, unchanged
from agenttape_core.lifecycle.running_test import this_test
from agenttape_core.lifecycle.sinks import sink_of
from agenttape_core.lifecycle.without_content import WithoutContent, refuse_shape
from agenttape_core.matching import Ignored, Position
from agenttape_core.on_demand import load_late
from agenttape_core.redaction import Redactor
from agenttape_core.schema import PURE_KINDS, Header, Timing
from agenttape_core.session import (
    EMPTY,
    OWN,
    Begun,
    Candidates,
    Edited,
    Events,
    Session,
    Setup,
    Sink,
    Source,
    call_is_under_way,
    compared_by,
    current_scope,
)
from agenttape_core.settings import Settings
from agenttape_core.storage import (
    Cassette,
    Journal,
    Location,
    is_pending,
    is_replaceable,
    leftover_journals,
    open_cassette,
    pending_path,
)
from agenttape_core.storage.location import refuse_read_only

_BESIDE_THE_RUN: Mapping[str, object] = {
    "live": (),
    "frozen": (),
    "through": (),
    "freeze": (),
    "http": False,
    "pending": False,
}
"""Settings of a session that is never current. They are about the calls and the world of a run, which it has not."""


class Prepared(NamedTuple):
    """A session before anything is written: all that is decided by the request, the settings and the file.

    Args:
        request: The request.
        settings: The settings of the project, with the options of the request in their place.
        path: The cassette.
        cassette: Its recordings, if there are any to read.
        is_broken: Whether there is a file that cannot be read, and is to be replaced.
        policy: What the session allows.
        redactor: Replaces secrets.
        header: The header as it is known at the start.
        began: When the run began, in seconds of `perf_counter`.
        candidates: The models that are tried in the place of the program's own.
        changes: What comes of recorded calls instead of what was recorded, by their numbers.
    """

    request: SessionRequest
    settings: Settings
    path: Location
    cassette: Cassette | None
    is_broken: bool
    policy: Policy
    redactor: Redactor
    header: Header
    began: float
    candidates: Candidates | None = None
    changes: Mapping[int, Placed] = {}

    @property
    def shown(self) -> Location:
        """The cassette as messages name it."""
        return self.request.shown_as or self.path

    def timings(self) -> Mapping[int, Timing]:
        """Return the recorded times, by the numbers of their interactions. They are at the end of the file."""
        return self.cassette.header.volatile.timings if self.cassette is not None else {}


class Opened(NamedTuple):
    """A session that is open.

    Args:
        prepared: All that was decided before.
        session: The session.
        journal: The journal of what it records; `None` where it can record nothing.
    """

    prepared: Prepared
    session: Session
    journal: Journal | None

    def abandon(self) -> None:
        """Give up without touching the cassette, and forget what was recorded."""
        if self.journal is not None:
            self.journal.abandon(keep=False)
        self.tell_end("abandoned")

    def tell_end(self, status: str) -> None:
        """Tell that the session has ended, and close the sink of its events.

        Args:
            status: How: `ended`, `failed` or `abandoned`.
        """
        events, report = self.session.events, self.session.report
        if events is None:
            return
        counts = {"served": report.served, "executed": report.executed, "missed": report.missed}
        counts |= {"refused": report.drift, "blocked": report.blocked, "unused": report.unused}
        events.ended({"status": status, **{what: len(items) for what, items in counts.items()}})


def open_session(request: SessionRequest) -> Opened:
    """Open a session: read the settings and the cassette, and start the journal of what will be recorded.

    Raises:
        CassetteError: If there is nothing to replay, the file cannot be read, or it is being recorded elsewhere.
        ConfigurationError: If an option, a rule or a setting is not valid.
    """
    return start(prepare(request))


def prepare(request: SessionRequest) -> Prepared:
    """Read the settings and the cassette, and decide all that follows from them. Raises as `open_session` does."""
    load_late()
    project = request.project or this_project()
    settings = _settings(project, request)
    path = _path(project, request, settings)
    mode = request.mode or _unforced(project, request, path) or parse_mode(settings.mode)
    cassette, is_broken = _recorded(request, path, mode)
    candidates = None
    if request.candidate is not None and request.changes:
        raise ConfigurationError(
            "candidate= and changes= are two questions: another model, and the recorded one after a change\n"
            "  give one of them; fakes= and live= say what a candidate may reach"
        )
    given = request.candidate if request.candidate is not None else settings.candidate
    if given is not None and request.is_current and request.derivation is None and request.changes is None:
        from agenttape_core.lifecycle.candidates import candidates_of, with_candidate

        candidates = candidates_of(given, path, cassette, mode)
        settings = with_candidate(settings, candidates, request.options)
    policy = Policy(
        mode,
        recorded=cassette is not None,
        live=frozenset(settings.live),
        frozen=frozenset(settings.frozen),
        through=frozenset(settings.through) if request.is_current else None,
        exhausted=settings.exhausted,
        match_on=settings.match_on,
        on_miss=settings.on_miss,
        lossy=settings.lossy,
        repeats=PURE_KINDS if request.is_current else frozenset(),
        unrecorded=_unrecorded(candidates),
    )
    request = _changed_by_test(request, path, policy)
    prior = cassette.preface if cassette is not None else None
    key = prior.redaction.key if prior is not None else request.key
    matched = prior if policy.serves else None
    if matched is not None:
        refuse_shape(path, matched)
    writes = not policy.offline or request.derivation is not None
    places = places_of_run(request.places, matched)
    redactor = redactor_for(path, matched, request.redact, settings, key=key, places=places, writes=writes)
    header = new_header(path, prior, settings, redactor, replaces=policy.replaces, clock=request.clock)
    header = header.model_copy(update={"payload": request.payload}) if policy.replaces else header
    changes = changes_of(request.changes, cassette, policy) if request.changes and cassette is not None else {}
    began = perf_counter()
    return Prepared(request, settings, path, cassette, is_broken, policy, redactor, header, began, candidates, changes)


def start(prepared: Prepared, *, run_id: str = "", events: Events | None = None) -> Opened:
    """Start the journal of what will be recorded, and make the session.

    Args:
        prepared: The session before anything is written.
        run_id: The id of the run, where it is known already.
        events: Where what happens is told, where that is open already.

    Raises:
        CassetteError: If the cassette is being recorded elsewhere, or its folder cannot be written to.
        ConfigurationError: If what is to be kept fixed is not known.
    """
    policy, request = prepared.policy, prepared.request
    journal = None
    if not policy.offline or request.derivation is not None:
        target = _target(prepared)
        refuse_read_only(target)
        journal = Journal(target, prepared.header)
    try:
        opened = Opened(prepared, _session(prepared, journal, run_id, events), journal)
        if journal is not None:
            opened.session.first_input.tell(partial(_note_beginning, prepared, opened.session, journal))
    except BaseException:
        if journal is not None:
            journal.abandon(keep=False)
        raise
    if opened.session.events is not None and events is None:
        opened.session.events.tell("session.started", mode=policy.mode.value)
    return opened


def _note_beginning(prepared: Prepared, session: Session, journal: Journal, begun: Begun) -> None:
    run_id, anew = session.report.run_id, session.policy.updates
    journal.note_header(with_beginning(prepared.header, run_id, begun, prepared.redactor, anew=anew))


def _settings(project: Project, request: SessionRequest) -> Settings:
    options = request.options if request.is_current else {**_BESIDE_THE_RUN, **request.options}
    settings = project.settings(options)
    if request.is_current and (test := this_test()) is not None:
        given = {"pending": test.leaves_pending or None, "pace": None if project.replays_only else test.pace}
        settings = settings.chosen({name: value for name, value in given.items() if value is not None})
    return settings.chosen({name: (*(getattr(settings, name) or ()), *more) for name, more in request.added.items()})


def _path(project: Project, request: SessionRequest, settings: Settings) -> Location:
    if request.reads:
        path = project.recording(request.cassette, settings.cassette_dir)
        # What was just recorded is what a proof replays, wherever it is.
        return test.pending.get(path, path) if project.replays_only and (test := this_test()) is not None else path
    return project.written(request.cassette, settings.cassette_dir)


def _unforced(project: Project, request: SessionRequest, path: Location) -> Mode | None:
    """Return the mode that a command line gives, where the session was given none."""
    return project.forced_mode(path) if "mode" not in request.options else None


def _changed_by_test(request: SessionRequest, path: Location, policy: Policy) -> SessionRequest:
    """Return a request with the changes that a run of the test makes of a replay, such as a fault."""
    test = this_test()
    changes = test.changes.get(str(path)) if test is not None and request.is_current else None
    if changes is None or not policy.recorded or policy.records or request.changes is not None:
        return request
    return request._replace(changes=changes, judges_changes=False)


def _recorded(request: SessionRequest, path: Location, mode: Mode) -> tuple[Cassette | None, bool]:
    """Return the recordings, and whether there is a file instead that cannot be read and is to be replaced."""
    if not request.reads:
        return None, False
    try:
        return open_cassette(path), False
    except CassetteNotFoundError:
        if mode is Mode.NONE and not request.may_be_missing:
            remedy = "\n  ".join([*request.remedy(False), *map(recoverable, leftover_journals(path))])
            raise CassetteNotFoundError(path, "there is no such cassette to replay", remedy=remedy) from None
        return None, False
    except CassetteFormatError as error:
        if request.mode is not None or not is_replaceable(path):
            raise
        if mode is not Mode.ALL:
            raise _broken(request, path, error) from None
        return None, True


def _broken(request: SessionRequest, path: Location, error: CassetteFormatError) -> CassetteFormatError:
    remedy = "restore it from version control"
    if lines := request.remedy(True):
        remedy = f"{remedy}, or\n  {lines[0]}\n  which keeps this file as {path.name}.broken"
    return CassetteFormatError(error.path, error.problem, remedy=remedy, line=error.line)


def recoverable(journal: Path, unkept: int = 0) -> str:
    """Return how to make a cassette of a journal that was left.

    Args:
        journal: The journal.
        unkept: How many records it could not hold.
    """
    lost = f"; {unkept} records had no room anywhere and are lost" if unkept else ""
    return f"an unfinished recording is kept; to make a cassette of it:  {how_to_recover(journal)}{lost}"


def _target(prepared: Prepared) -> Location:
    if prepared.request.write_to is not None:
        return prepared.request.write_to
    if not prepared.policy.records:
        return _derived(prepared)
    if not prepared.settings.pending or prepared.cassette is None or is_pending(prepared.path.name):
        return prepared.path
    if not isinstance(prepared.path, Path):
        raise ConfigurationError(
            f"pending: {prepared.path} is no local file, beside which its new recording could wait for review\n"
            "  leave the option out, or record to a local cassette"
        )
    return pending_path(prepared.path)


def _derived(prepared: Prepared) -> Location:
    """Return the file of the derived cassette.

    Raises:
        ConfigurationError: If it is the cassette itself.
    """
    request = prepared.request
    if request.derived_as is None:
        return request.derive_to(prepared.path)
    project = request.project or this_project()
    target = project.recording(request.derived_as, prepared.settings.cassette_dir)
    if target == prepared.path:
        raise ConfigurationError(f"to={request.derived_as!r}: {prepared.path} cannot be derived from itself")
    return target


def _unrecorded(candidates: Candidates | None) -> frozenset[str]:
    """Return the kinds that are executed for want of a recording."""
    if candidates is None:
        return frozenset()
    # No kind is called so: it only says that not all is served.
    return frozenset({OWN} if candidates.only_at else {"chat"})


def _session(prepared: Prepared, journal: Journal | None, run_id: str, events: Events | None) -> Session:
    request, settings, policy, header = prepared.request, prepared.settings, prepared.policy, prepared.header
    derivation, recorded = request.derivation, prepared.cassette is not None
    ignored = Ignored.of(header.ignore)
    root = Position()
    run_id = run_id or settings.run_id or token_hex(16)
    source = _source(prepared, ignored)
    choices = None
    if request.is_current:
        path, redactor = str(prepared.path), prepared.redactor
        choices = choices_of(request.order, path, header, source.entries, policy=policy, redactor=redactor)
    rows = prepared.cassette.entries if prepared.cassette is not None else ()
    is_held = request.is_current and derivation is None
    tempo = tempo_of(settings.pace, rows, prepared.timings, policy, is_held=is_held)
    is_timed = tempo is not None and tempo.is_virtual
    keeps_order = request.is_current and not policy.replaces and choices is None and not is_timed
    return Session(
        Setup(
            path=prepared.shown,
            policy=policy,
            redactor=prepared.redactor,
            source=source,
            sink=_sink(prepared, journal, ignored),
            keeps_input=header.payload == "full",
            # Not looked for on the disk: a cassette at a URL is out of reach in a replay.
            remedy=lambda: request.remedy(recorded),
            ambient=request.ambient and request.is_current,
            ignored=ignored,
            opaque=settings.opaque == "keep",
            pace=tempo,
            tracing=settings.tracing or policy.records,
            tapes_http=TapedHosts(policy, settings.egress) if header.http and request.is_current else None,
            frozen=_frozen(prepared),
            timings=prepared.timings,
            threads=header.volatile.threads if keeps_order else "",
            loose=header.volatile.loose if keeps_order else "",
            imposes_threads=derivation is None,
            scheduled=header.volatile.scheduled() if keeps_order else (),
            is_current=request.is_current,
            takes_strays=request.takes_strays,
            root=root.child(f"process {request.process}") if request.process else root,
            hash_seed=header.volatile.hash_seed,
            began=prepared.began,
            run_id=run_id,
            events=events if events is not None else _events(prepared, run_id),
            revise=derivation.revise if derivation is not None else unchanged,
            candidates=prepared.candidates,
            fakes=request.fakes,
            unavailable=settings.unavailable,
            notes_departures=request.changes is not None,
            choices=choices,
        )
    )


def _sink(prepared: Prepared, journal: Journal | None, ignored: Ignored) -> Sink | None:
    if journal is None or prepared.header.payload == "full":
        return journal
    return WithoutContent(journal, ignored)


def _events(prepared: Prepared, run_id: str) -> Events | None:
    """Return the events of a session that surrounds a run, if they are to be told."""
    option = prepared.request.events or prepared.settings.events
    if option is None or not prepared.request.is_current:
        return None
    return Events(sink_of(option), run_id, shown_path(prepared.shown), is_replay=not prepared.policy.records)


def _source(prepared: Prepared, ignored: Ignored) -> Source:
    if prepared.cassette is None:
        return EMPTY
    source = compared_by(prepared.cassette, Ignored.of(prepared.cassette.preface.ignore), ignored)
    changes = {number: placed.change for number, placed in prepared.changes.items()}
    return Edited(source, changes) if changes else source


def _frozen(prepared: Prepared) -> Frozen | None:
    """Return what is kept fixed for the session. A replay has it in any case: it skips the waits between attempts."""
    freeze, volatile, policy = prepared.header.freeze, prepared.header.volatile, prepared.policy
    environment: dict[str, str | None] = prepared.redactor.with_places(freeze.environment)
    if not prepared.request.is_current or not (freeze.kinds or policy.offline):
        return None
    process = prepared.request.process
    return Frozen(
        kinds=freeze.kinds,
        seed=f"{freeze.seed}:{process}" if process else freeze.seed,  # or all processes would make the same ids
        clock=volatile.clock if volatile.clock is not None else time.time(),
        scope=current_scope,
        environment=Environment(environment, learns=not policy.offline),
        skips_backoff=policy.offline,
        is_under_way=call_is_under_way,
        readings={} if policy.replaces else volatile.readings,
    )
