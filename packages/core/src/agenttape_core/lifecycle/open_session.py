"""One use of a cassette, from opening to closing: files, freeze, guard and integrations around a session."""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from agenttape_core.engine import Mode, Policy, parse_mode
from agenttape_core.errors import (
    CassetteFormatError,
    CassetteNotFoundError,
    NetworkBlockedError,
    UnmatchedNameWarning,
    UnusedInteractionsWarning,
)
from agenttape_core.freeze import Environment, Frozen, freezing
from agenttape_core.guard import Guard, guarding, tracer_hosts
from agenttape_core.lifecycle.entry_points import integrations
from agenttape_core.lifecycle.header import (
    EMPTY,
    finished_header,
    new_header,
    redactor_for,
    with_environment,
    with_turns,
)
from agenttape_core.lifecycle.remedy import Remedy
from agenttape_core.matching import NOTHING, Ignored
from agenttape_core.redaction import Redactor, Rule
from agenttape_core.schema import Header, Interaction, Outcome, Plain, Step, Timing
from agenttape_core.session import (
    Edited,
    Pace,
    Session,
    Source,
    Turns,
    compared_by,
    context_session,
    current_scope,
    executing,
)
from agenttape_core.settings import Settings, cassette_path, in_project, load_settings, stem_of
from agenttape_core.storage import (
    Cassette,
    Journal,
    Location,
    is_replaceable,
    leftover_journals,
    open_cassette,
    put_aside,
)


def _nothing() -> None:
    pass


def _as_it_is(step: Step) -> Step | None:
    return step


@dataclass(slots=True)
class Derivation:
    """What makes a new cassette of a replay that departs from its own.

    Args:
        target: The cassette to write; the one that is replayed stays as it is.
        origin: What is noted in its header of what was done, as plain data; redacted when it is written.
        outcomes: What calls get instead of what they got, by the number of the interaction; encoded.
        on_served: Called when such an outcome is about to be served.
        revise: Returns a step as it is to be kept, or nothing for one that the departure itself broke off.
    """

    target: Location
    origin: Plain = None
    outcomes: Mapping[int, Outcome] = field(default_factory=dict)
    on_served: Callable[[], None] = _nothing
    revise: Callable[[Step], Step | None] = _as_it_is


class Use:
    """One use of a cassette, from opening to closing. `prepare` and `settle` touch files, the others do not."""

    def __init__(
        self,
        name_or_path: str | Path,
        options: dict[str, Any],
        *,
        redact: bool | Sequence[Rule],
        ambient: bool,
        remedy: Remedy,
        derivation: Derivation | None = None,
    ) -> None:
        self._name_or_path = name_or_path
        self._options = options
        self._redact = redact
        self._ambient = ambient
        self._remedies = remedy
        # Not looked for on the disk: a cassette at a URL is out of reach in a replay.
        self._remedy: Callable[[], list[str]] = lambda: remedy(self._cassette is not None)
        self._derivation = derivation
        self._around = ExitStack()
        self._bound = ExitStack()
        """What holds until `let_go`: a guard around what must be as it was recorded."""
        self._cassette: Cassette | None = None
        self._is_broken = False
        """Whether there is a file that cannot be read, and is to be replaced."""
        self._journal: Journal | None = None
        self._settings: Settings
        self._path: Location
        self._header: Header
        self._session: Session
        self._problem: Exception | None = None

    def prepare(self) -> None:
        """Read the settings and the cassette, and start the journal of what will be recorded."""
        self._settings = settings = self._chosen()
        self._path = in_project(cassette_path(self._name_or_path, settings.cassette_dir))
        derivation = self._derivation
        mode = parse_mode(settings.mode) if derivation is None else Mode.NONE
        self._cassette = self._read(mode)
        policy = Policy(
            mode,
            recorded=self._cassette is not None,
            live=frozenset(settings.live),
            frozen=frozenset(settings.frozen),
            exhausted=settings.exhausted,
            match_on=settings.match_on,
            on_miss=settings.on_miss,
            lossy=settings.lossy,
        )
        prior = self._cassette.preface if self._cassette is not None else None
        key = prior.redaction.key if prior is not None else self._first_key
        redactor = redactor_for(self._path, prior if policy.serves else None, self._redact, settings, key=key)
        self._header = new_header(self._path, prior, settings, redactor, replaces=policy.replaces)
        if not policy.offline or derivation is not None:
            self._journal = Journal(self._target(policy), self._header)
        ignored = Ignored.of(self._header.ignore)
        source: Source = EMPTY if self._cassette is None else compared_by(self._cassette, _ignored_by(prior), ignored)
        if derivation is not None and derivation.outcomes:
            source = Edited(source, _redacted(derivation.outcomes, redactor), derivation.on_served)
        self._session = Session(
            self._path,
            policy=policy,
            redactor=redactor,
            source=source,
            sink=self._journal,
            revise=derivation.revise if derivation is not None else _as_it_is,
            remedy=self._remedy,
            ambient=self._ambient,
            ignored=ignored,
            opaque=settings.opaque == "keep",
            pace=self._pace(settings.pace),
            tracing=settings.tracing or policy.records,
        )
        self._session.timings = self._timings
        if not policy.replaces:
            self._session.turns = Turns(self._header.volatile.turns)

    @property
    def session(self) -> Session:
        """The session; there is one once this is prepared."""
        return self._session

    def let_go(self, policy: Policy) -> None:
        """Go on under another policy: what comes now departs from what was recorded, and may reach the outside."""
        self._session.permit(policy)
        if not policy.offline:
            self._bound.close()
            if self._session.frozen is not None:
                self._session.frozen.skips_backoff = False

    def enter(self) -> Session:
        """Make the session the current one, with everything around it."""
        try:
            self._enter(self._session.policy)
        except BaseException:
            with ExitStack() as undo:
                undo.callback(self.abandon)
                undo.push(self._around)
            raise
        return self._session

    def abandon(self) -> None:
        """Give up before the session has begun."""
        if self._journal is not None:
            self._journal.abandon(keep=False)

    _first_key: str | None = None
    """The key of pseudonyms of a cassette that is not there yet; by default one that nobody else has."""

    def _chosen(self) -> Settings:
        return load_settings().chosen(self._options)

    def _read(self, mode: Mode) -> Cassette | None:
        try:
            return open_cassette(self._path)
        except CassetteNotFoundError:
            if mode is Mode.NONE:
                remedy = "\n  ".join([*self._remedy(), *map(_recoverable, leftover_journals(self._path))])
                raise CassetteNotFoundError(self._path, "there is no such cassette to replay", remedy=remedy) from None
            return None
        except CassetteFormatError as error:
            if self._derivation is not None or not is_replaceable(self._path):
                raise
            if mode is not Mode.ALL:
                raise self._broken(error) from None
            self._is_broken = True
            return None

    def _broken(self, error: CassetteFormatError) -> CassetteFormatError:
        anew = self._remedies(True)[0]
        remedy = f"restore it from version control, or\n  {anew}\n  which keeps this file as {self._path.name}.broken"
        return CassetteFormatError(error.path, error.problem, remedy=remedy, line=error.line)

    def _pace(self, scale: float) -> Pace | None:
        return Pace(scale, self._timings()) if scale else None

    def _target(self, policy: Policy) -> Location:
        if self._derivation is not None:
            return self._derivation.target
        if policy.records:
            return self._path
        stem = stem_of(self._path)
        return self._path.with_name(f"{stem}.derived{self._path.name.removeprefix(stem)}")

    def _enter(self, policy: Policy) -> None:
        session, frozen, guard = self._session, self._header.freeze, self._guard()
        if frozen.kinds or policy.offline:
            clock = self._header.volatile.clock
            session.frozen = Frozen(
                kinds=frozen.kinds,
                seed=frozen.seed,
                clock=clock if clock is not None else time.time(),
                scope=current_scope,
                environment=Environment(frozen.environment, learns=not policy.offline),
                skips_backoff=policy.offline,
            )
            self._around.enter_context(freezing(_frozen_here, frozen.kinds))
        integrations.connect()
        self._around.callback(integrations.disconnect)
        session.enter()
        self._around.callback(session.leave)
        if policy.offline:
            self._bound.enter_context(guarding(guard, _may_reach_out))
        self._around.callback(self._bound.close)

    def _guard(self) -> Guard:
        tracers = tracer_hosts()
        return Guard(
            name=str(self._path),
            egress=(*self._settings.egress, *(tracers if self._settings.tracing else ())),
            on_block=self._blocked,
            background=tracers,
            in_background=lambda: context_session() is None,
        )

    def _blocked(self, error: NetworkBlockedError) -> None:
        self._session.report.add_failure(blocked=str(error).partition("\n")[0])
        if context_session() is self._session:
            self._session.latch(error)

    # -- the end -----------------------------------------------------------------------------------------------

    def leave(self) -> None:
        """End the session: what surrounds it is taken down, and nothing more is served or executed."""
        try:
            self._around.close()
        except Exception as problem:  # noqa: BLE001 - raised by `judge`, once the journal is settled
            self._problem = problem
        self._session.find_unused()

    def settle(self, error: BaseException | None) -> None:
        """Write what was recorded, or put it aside when the run failed."""
        journal = self._journal
        if journal is None:
            return
        try:
            failures = (error, self._session.failure, self._problem)
            self._settle(journal, next((failed for failed in failures if failed is not None), None))
        except Exception as problem:  # noqa: BLE001 - raised by `judge`, which knows what it must not replace
            self._problem = problem
        finally:
            left = journal.abandon(keep=True)
            if left is not None and self._problem is not None:
                self._problem.add_note(f"AgentTape: {_recoverable(left, journal.unkept)}")

    def judge(self, error: BaseException | None) -> None:
        """Raise what the run did not raise by itself: a failure that it ate, or what it never asked for.

        An exception that must end the program (an interruption, a cancellation, a halt of ours) stays what it is.
        """
        failed = [failure for failure in (self._session.failure, self._problem) if failure not in (None, error)]
        for failure in failed:
            if failure is not None and (error is None or isinstance(error, Exception)):
                raise failure from error
            if error is not None:
                error.add_note(f"AgentTape: {failure}")
        if failed or error is not None:
            return
        if self._derivation is None and not self._session.policy.records:
            self._judge_unused()
        if unmatched := self._session.unmatched():
            names = ", ".join(unmatched)
            what = f"{self._path}: live or frozen names {names}, but the run asked for no boundary of that name"
            warnings.warn(what, UnmatchedNameWarning, stacklevel=3)

    def _settle(self, journal: Journal, failed: BaseException | None) -> None:
        session = self._session
        if self._derivation is None and not session.report.executed and not session.policy.replaces:
            journal.abandon(keep=False)
        elif failed is None or self._settings.on_error == "keep":
            self._commit(journal)
            session.source = open_cassette(journal.target)
            session.written = journal.target
            for superseded in leftover_journals(journal.target):
                superseded.unlink(missing_ok=True)
        else:
            left = journal.abandon(keep=bool(session.report.executed))
            if left is not None and failed is not self._problem:
                kept = _recoverable(left, journal.unkept)
                failed.add_note(f"AgentTape: the run failed, so {journal.target} was left as it was; {kept}")

    def _commit(self, journal: Journal) -> None:
        derivation = self._derivation
        derived = self._path.name if derivation is not None or not self._session.policy.records else None
        frozen: Frozen | None = self._session.frozen
        if frozen is not None and frozen.environment is not None:
            self._header = with_environment(self._header, frozen.environment.learned, self._session.redactor)
        self._header = with_turns(self._header, self._session.turns.groups())
        origin = self._session.redactor.value(derivation.origin) if derivation is not None else None
        header = finished_header(self._header, {}, derived_from=derived, origin=origin)
        source = self._session.source
        if self._is_broken:
            self._session.put_aside = put_aside(journal.target, kept_in=journal.path)
        if self._cassette is None:
            journal.commit(header)
        elif derivation is None and self._session.policy.mode is Mode.NEW_EPISODES:
            again = self._session.executed_live()  # made anew by what is live
            records = (_as_seen_by(source, record) for record in self._cassette.records())
            keep = [record for record in records if isinstance(record, Step) or record.fingerprint not in again]
            steps = self._cassette.header.volatile.steps
            journal.commit(finished_header(self._header, self._timings(), steps), keep)
        else:
            self._carry_over(source, journal)
            journal.commit(header)

    def _timings(self) -> Mapping[int, Timing]:
        return self._cassette.header.volatile.timings if self._cassette is not None else {}

    def _carry_over(self, source: Source, journal: Journal) -> None:
        """Put what was served beside what was executed, each at its place in this run."""
        timings, places = self._timings(), dict(self._session.served_at)
        for number in self._session.used_numbers():
            item = source.interaction(number)
            if number not in places:  # inside a recording that was served
                places[number] = (*places.get(item.parent or 0, ()), (number, (), 0, "", 0))
            # Negative numbers cannot be those of the executed ones.
            parent = -item.parent if item.parent is not None else None
            moved = item.model_copy(update={"number": -number, "parent": parent})
            timing = timings.get(number, Timing(duration_ms=0.0))
            journal.append(moved, timing.model_copy(update={"start_ms": None}), places[number])

    def _judge_unused(self) -> None:
        unused = self._session.unused_error()
        if unused is None or self._settings.judges_unused == "ignore":
            return
        if self._settings.judges_unused == "fail":
            raise unused
        warnings.warn(str(unused), UnusedInteractionsWarning, stacklevel=4)


def _redacted(outcomes: Mapping[int, Outcome], redactor: Redactor) -> dict[int, Outcome]:
    return {
        number: Outcome.model_validate(redactor.value(outcome.model_dump())) for number, outcome in outcomes.items()
    }


def _as_seen_by(source: Source, record: Interaction | Step) -> Interaction | Step:
    return record if isinstance(record, Step) else source.interaction(record.number)


def _ignored_by(header: Header | None) -> Ignored:
    return Ignored.of(header.ignore) if header is not None else NOTHING


def _recoverable(journal: Path, unkept: int = 0) -> str:
    lost = f"; {unkept} records had no room anywhere and are lost" if unkept else ""
    command = f"agenttape_core.recover(Path({str(journal)!r}))"
    return f"an unfinished recording is kept: {command} makes a cassette of it{lost}"


def _frozen_here() -> Frozen | None:
    """Return what is frozen for the caller.

    Inside a boundary that is really executed, time and ids are real. So they are in threads without a context: a
    server that the test runs beside the agent must not draw from the agent's ids.
    """
    session = context_session()
    if session is None or executing() is not None:
        return None
    frozen: Frozen | None = session.frozen
    return frozen


def _may_reach_out() -> bool:
    """Whether the caller belongs to a session that may execute, so that another session's guard leaves it alone."""
    session = context_session()
    return session is not None and not session.policy.offline
