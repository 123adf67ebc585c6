"""`CassetteInUse`: a session that surrounds a block of code, from its opening to its judgement."""

from __future__ import annotations

import atexit
import functools
import os
import sys
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn

from agenttape_core.errors import (
    AgentTapeError,
    AgentTapeHalt,
    CassetteError,
    ChangeNotReachedError,
    ConfigurationError,
    UnmatchedNameWarning,
    UnrecordedCallsError,
    UnrecordedConnectionWarning,
    UnusedInteractionsError,
    UnusedInteractionsWarning,
    counted,
    halt_in,
    shown_path,
)
from agenttape_core.lifecycle.failures_of_children import FAILURES, FailuresOfChildren, watch_draws
from agenttape_core.lifecycle.open_session import open_session
from agenttape_core.lifecycle.project import Project, confine_process
from agenttape_core.lifecycle.remedy import note_missing_key
from agenttape_core.lifecycle.request import SessionRequest
from agenttape_core.lifecycle.running_test import this_test
from agenttape_core.lifecycle.session_stack import SessionStack
from agenttape_core.lifecycle.start_session import Opened
from agenttape_core.named_tuples import NamedTuple
from agenttape_core.schema import asks_model
from agenttape_core.session import Session, Source, runs
from agenttape_core.session.listeners import NAMES
from agenttape_core.settings import Settings

if TYPE_CHECKING:
    from agenttape_core.interventions import Placed


_watchers: list[Callable[[Session], None]] = []


def watch_sessions(watcher: Callable[[Session], None]) -> None:
    """Call this with each session of this process that has ended from now on, before its cassette is written."""
    _watchers.append(watcher)


class CassetteInUse:
    """One use of a cassette: `enter`, `leave`, `settle` and `judge`, in this order. Only `settle` touches files."""

    def __init__(self, opened: Opened) -> None:
        self._opened = opened
        self._source = opened.session.source
        self._stack = SessionStack(opened)
        self._problem: Exception | None = None
        derivation = opened.prepared.request.derivation
        on_reached = derivation.on_reached if derivation is not None else None
        opened.session.diverge = on_reached or self.diverge

    @property
    def session(self) -> Session:
        """The session."""
        return self._opened.session

    @property
    def settings(self) -> Settings:
        """The settings that hold for the session."""
        return self._opened.prepared.settings

    @property
    def failure(self) -> AgentTapeError | AgentTapeHalt | Exception | None:
        """The first failure, whether or not the program caught it."""
        return self.session.failure or self._problem

    def enter(self) -> Session:
        """Make the session the current one, with everything around it."""
        try:
            self._stack.enter()
        except BaseException:
            self._opened.abandon()
            raise
        derivation = self._opened.prepared.request.derivation
        if derivation is not None and derivation.is_begun:
            self.diverge()
        if not self._opened.prepared.request.is_of_process:  # the command reports what ends there
            _watch_end(self._opened.session)
        return self._opened.session

    @property
    def changes(self) -> Mapping[int, Placed]:
        """The changes of the session, by the numbers of the recorded calls."""
        return self._opened.prepared.changes

    def diverge(self) -> None:
        """Continue beyond the recording, as far as the request allows: executed calls may reach the outside."""
        from agenttape_core.interventions import policy_after_change  # most sessions change nothing

        policy = policy_after_change(
            self.session.policy, self._opened.prepared.request.on_new_call, self.session.source.entries
        )
        if policy is not self.session.policy:
            self.session.policy, self.session.only_replays = policy, False
            self.session.recordings.index.match_by(policy.match_on)
            if not policy.offline:
                self._stack.open_up()

    def leave(self) -> None:
        """End the session: everything around it is taken down, and no more calls are replayed or executed."""
        session = self._opened.session
        try:
            self._stack.close()  # which takes the failures of child processes
        except Exception as problem:  # noqa: BLE001 - raised by `judge`, once the journal is settled
            self._problem = problem
        finally:
            _reported(session)
            session.report.close()
            if (test := this_test()) is not None:
                test.reports.append(session.report)
                if test.sessions is not None:
                    test.sessions.append(session)
            for watcher in tuple(_watchers):
                watcher(session)

    def settle(self, error: BaseException | None) -> None:
        """Write the recording, or put it aside if the run failed."""
        session, prepared = self._opened.session, self._opened.prepared
        failed = error or session.latch.error or self._problem
        if failed is None and session.policy.records and not prepared.request.leaves_empty:
            # Of a command, all processes are judged together.
            from agenttape_core.lifecycle.missing import missing_integration

            failed = self._problem = missing_integration(self._opened)
        if self._opened.journal is not None:
            from agenttape_core.lifecycle.commit import settle  # most sessions only replay

            try:
                settle(self._opened, failed)
            except Exception as problem:  # noqa: BLE001 - raised by `judge`, which knows what it must not replace
                failed = self._problem = problem
        if session.events is not None:
            self._opened.tell_end("failed" if failed is not None else "ended")

    def abandon(self) -> None:
        """End the session without touching the cassette, and drop the recorded calls."""
        self.leave()
        self._opened.abandon()

    def judge(self, error: BaseException | None) -> None:
        """Raise the errors that the run didn't raise: a failure that it swallowed, or unused recordings.

        A group of exceptions that only holds halts is replaced by a halt. A failure of the session replaces any other
        exception, which becomes its cause: a test runner's skip, a timeout of gevent, an exit with 0. Only what ends
        the program as a failure stays, with a note: `KeyboardInterrupt`, and an exit with another status.
        """
        failure: BaseException | None = self._opened.session.latch.error or self._problem
        try:
            self._judge(error)
        except BaseException as raised:
            failure = failure or raised
            raise
        finally:
            if failure is not None:
                from agenttape_core.lifecycle.failed_blocks import tell_failed

                tell_failed(self.session.path, self.session, failure)

    def _judge(self, error: BaseException | None) -> None:
        halt = halt_in(error) if error is not None else None
        if halt is not None and halt is not error:
            raise self.session.failure or halt from error
        if isinstance(error, Exception) and self.session.is_replay:
            note = _note_of_unrestored(self.session, self._source)
            if note is not None:
                error.add_note(f"AgentTape: {note}")
            note_missing_key(error)
        failures = [failure for failure in (self._opened.session.latch.error, self._problem) if failure is not None]
        failed = [failure for failure in failures if not _is_same(failure, error)]
        for failure in failed:
            if error is None or not _fails_the_program(error):
                raise failure from error if error is not None else failure.__cause__
            error.add_note(f"AgentTape: {failure}")
        if failed or error is not None:
            return
        judgement = judged(self._opened)
        if judgement.error is not None:
            raise judgement.error
        for warning in judgement.warnings:
            warnings.warn(warning, stacklevel=4)  # the line of the block that ends


def _is_same(failure: BaseException, error: BaseException | None) -> bool:
    """Return whether a failure is an error, which may be a copy of it from another process."""
    if failure is error:
        return True
    return isinstance(failure, AgentTapeHalt) and type(failure) is type(error) and str(failure) == str(error)


def _fails_the_program(error: BaseException) -> bool:
    """Return whether an exception ends the program as a failure whoever catches what, and so hides none of a session.

    Any other one may be an outcome that isn't a failure to whoever catches it, as `pytest.skip` is to pytest: a list of
    those would never be complete.
    """
    if isinstance(error, BaseExceptionGroup):
        return any(not isinstance(inner, AgentTapeHalt) and _fails_the_program(inner) for inner in error.exceptions)
    if isinstance(error, SystemExit):
        return _is_failure_status(error.code)
    return isinstance(error, KeyboardInterrupt | AgentTapeHalt)


# The judgement on a run that ended without an error: unused recordings, and names that no boundary has.


class Judgement(NamedTuple):
    """The judgement on a run that has ended."""

    # The error to raise, if there is one.
    error: UnusedInteractionsError | UnrecordedCallsError | ChangeNotReachedError | ConfigurationError | None = None
    warnings: tuple[Warning, ...] = ()  # the warnings to give if there is none


def judged(opened: Opened) -> Judgement:
    """Judge a run that has ended without a failure, by the settings and its report."""
    unrecorded = opened.session.report.unrecorded
    if unrecorded and opened.prepared.settings.on_unrecorded == "fail":
        return Judgement(_unrecorded_calls(opened, unrecorded))
    if opened.prepared.request.candidate is not None and not _asks_models(opened):
        return Judgement(_untried(opened))
    if opened.prepared.request.judges_changes and opened.prepared.changes:
        from agenttape_core.lifecycle.open_session import unlanded_error  # most sessions change nothing

        unlanded = unlanded_error(opened.session, opened.prepared.changes, opened.prepared.shown)
        if unlanded is not None:
            return Judgement(unlanded)
    warnings: list[Warning] = list(opened.session.warnings.values())
    wanted = opened.prepared.settings.judges_unused if opened.session.report.unused else "ignore"
    if wanted != "ignore" and (unused := _unused(opened)) is not None:
        if wanted == "fail":
            return Judgement(unused)
        warnings.append(UnusedInteractionsWarning(str(unused)))
    if uncovered := opened.session.report.uncovered:
        warnings.append(UnrecordedConnectionWarning(_uncovered(opened, uncovered)))
    policy = opened.session.policy
    is_named = policy.live or policy.replay_only or policy.step_into
    if is_named and (unmatched := opened.session.extension(NAMES).unmatched()):
        names = ", ".join(unmatched)
        where = f"{opened.prepared.shown}: live, replay_only or step_into names {names}"
        warnings.append(UnmatchedNameWarning(f"{where}, but the run called no boundary of that name"))
    return Judgement(warnings=tuple(warnings))


def _asks_models(opened: Opened) -> bool:
    return any(asks_model(item.kind, item.request) for item in opened.session.ledger.executed())


def _untried(opened: Opened) -> ConfigurationError:
    """Return the error about a trial without any sample."""
    return ConfigurationError(
        f"{shown_path(opened.prepared.shown)}: the candidate was not tried: the run asked no model\n"
        "  replay it without candidate= to see which of its recorded calls it no longer makes"
    )


def _unrecorded_calls(opened: Opened, unrecorded: Sequence[str]) -> UnrecordedCallsError:
    more = [f"and {len(unrecorded) - _SHOWN} more"] if len(unrecorded) > _SHOWN else []
    first = f"{shown_path(opened.prepared.shown)}: the run made {counted(len(unrecorded), 'unrecorded call')}"
    remedy = 'to only count such calls:  on_unrecorded="report"; to answer them:  fakes={NAME: FUNCTION}'
    return UnrecordedCallsError("\n  ".join([first, *unrecorded[:_SHOWN], *more, remedy]))


_SHOWN = 10


def _uncovered(opened: Opened, lines: Sequence[str]) -> str:
    """Return the message about connections that no boundary covers."""
    more = [f"and {len(lines) - _SHOWN} more"] if len(lines) > _SHOWN else []
    remedies = ["make the function around it a boundary (@boundary), or tape the object that is called there"]
    if not opened.session.http:
        remedies.append("or record what goes through HTTP clients: http=True, or http = true in [tool.agenttape]")
    where = shown_path(opened.prepared.shown)
    first = f"{where}: the run has reached outside where no boundary covers it; a replay will refuse it"
    return "\n  ".join([first, *lines[:_SHOWN], *more, *remedies])


def _unused(opened: Opened) -> UnusedInteractionsError | None:
    """Return the error that lists the calls that weren't made. What diverges or adds is not expected to ask for all."""
    request = opened.prepared.request
    if request.derivation is not None or opened.session.policy.records or not request.judges_unused:
        return None
    if opened.prepared.changes and "on_unused" not in request.options:
        return None
    return runs.unused_error(opened.session)


# Failures of blocks that your code would never see, because the process ends before the block does.
#
# A block raises its failure when it ends, even if your code swallowed it before. But it may never end: after
# `os._exit(0)`, in a generator that's still open, after `__enter__` without `__exit__`. Or no caller is left to raise
# to, as in a generator that the garbage collector closes. The process then prints the failure and exits with 1.
#
# Nothing is replaced until a session has failed: a replay without a miss pays one entry of a list for this.


class _Failure(NamedTuple):
    process: int  # the process of the block: a fork inherits the entry, and its parent reports for it
    line: str


_failures: dict[object, _Failure] = {}
"""The failures that haven't been reported yet, by the numbers of their sessions; those without a caller by their
texts."""
_last: list[_ExitsWithOne] = []


def _watch_end(session: Session) -> None:
    """Report a failure of a session if its process ends before `_reported`."""
    session.latch.on_first.append(functools.partial(_note, id(session), session.path))


def _reported(session: Session) -> None:
    """Leave the failure of a session to its block, which has ended and raises it."""
    _failures.pop(id(session), None)


def _is_failure_status(status: object) -> bool:
    """Return True if a process that exits with this status fails: only the low byte of a number reaches its parent."""
    return bool(status & 0xFF) if isinstance(status, int) else status is not None


def _note(key: object, cassette: Path | str, failure: AgentTapeError | AgentTapeHalt) -> None:
    _failures[key] = _Failure(os.getpid(), f"{shown_path(cassette)}: {failure}")
    _watch_exits()


@functools.cache
def _watch_exits() -> None:
    os._exit = _exiting(os._exit)  # type: ignore[assignment]
    sys.unraisablehook = _unraisable(sys.unraisablehook)


def _exiting(real: Callable[[int], NoReturn]) -> Callable[[int], NoReturn]:
    @functools.wraps(real)
    def leave(status: int) -> NoReturn:
        real(1 if _report() and not _is_failure_status(status) else status)

    return leave


def _unraisable(real: Callable[[Any], object]) -> Callable[[Any], object]:
    """Wrap the hook that shows an exception which Python cannot raise: pytest makes it a warning of the test itself."""

    def show(shown: Any, is_ending: Callable[[], bool] = sys.is_finalizing) -> None:
        halt = None if is_ending() else halt_in(shown.exc_value)  # the names of this module may be gone by then
        if halt is not None and this_test() is None:
            _failures[str(halt)] = _Failure(os.getpid(), str(halt))
        real(shown)

    return show


def _report() -> bool:
    """Print the failures of this process that are not reported so far; return whether there is one."""
    lines = [failure.line for failure in _failures.values() if failure.process == os.getpid()]
    _failures.clear()
    with suppress(Exception):  # a closed stream must not keep the process from failing
        if lines:
            sys.stdout.flush()
            sys.stderr.write("".join(f"agenttape: the process ends with a failure: {line}\n" for line in lines))
            sys.stderr.flush()
    return bool(lines)


@atexit.register
def _fail_at_exit() -> None:
    if _report():
        _last.append(_ExitsWithOne())


class _ExitsWithOne:
    """Ends the process with 1 when its module is cleared: all other `atexit` functions have run by then."""

    def __del__(self, leave: Callable[[int], NoReturn] = os._exit) -> None:
        leave(1)


# A hint for a program that fails: pseudonyms that a replay has used and could not put back.

_ENOUGH = 1000  # so many replayed calls are looked at: the note is a hint


def _note_of_unrestored(session: Session, source: Source) -> str | None:
    """Return a note for an exception that leaves a replay; `None` if the program has seen no pseudonym."""
    kinds: set[str] = set()
    for call_record in session.report.replayed[:_ENOUGH]:
        try:
            outcome = source.outcome(call_record.number)
        except CassetteError:
            continue  # of which the program has been told
        parts = [outcome.value, outcome.chunks, outcome.error and dict(outcome.error)]
        kinds.update(_kinds(session.redactor.rehydrate(parts), ""))
    if not kinds:
        return None
    from agenttape_core.redaction.rules import keeping

    return (
        f"this replay has returned pseudonyms that it could not put back ({', '.join(sorted(kinds))}), since no request"
        " of this run held what they stand for; if the program fails on one of them, record with made-up data, or"
        f" keep secrets of that kind: {keeping(sorted(kinds))}"
    )


def _kinds(value: Any, name: str) -> Iterator[str]:
    from agenttape_core.redaction.pseudonyms import kind_of_formed, kinds_in

    if isinstance(value, dict):
        for key, item in value.items():
            yield from _kinds(item, key)
    elif isinstance(value, list):
        for item in value:
            yield from _kinds(item, name)
    elif formed := kind_of_formed(value, name):
        yield formed
    elif isinstance(value, str):
        yield from kinds_in(value)


_begun: list[CassetteInUse] = []  # the session of this process, which ends with it


def begin(options: Mapping[str, Any]) -> None:
    """Open the session, for the rest of this process. Its calls are replayed or missed, and none is made for real.

    `options` are those of `SessionRequest` that the parent has given, and where failures are kept for it. Raises
    `CassetteError` if the cassette cannot be read; the process does not begin then.
    """
    confine_process(Project(Path.cwd(), replays_only=True))  # for the sessions that its code opens itself
    request = {name: value for name, value in options.items() if name != "failures"}
    opened = open_session(SessionRequest(**request, may_be_missing=True))
    opened.session.extend(FAILURES, FailuresOfChildren(*options["failures"]))
    watch_draws(opened.session, is_new=True)
    in_use = CassetteInUse(opened)
    in_use.enter()
    _begun.append(in_use)
