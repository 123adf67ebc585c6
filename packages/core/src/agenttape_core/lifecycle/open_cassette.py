"""`CassetteInUse`: a session that surrounds a block of code, from its opening to its judgement."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

from agenttape_core.errors import AgentTapeError, AgentTapeHalt, halt_in
from agenttape_core.lifecycle.judgement import judged
from agenttape_core.lifecycle.remedy import note_missing_key
from agenttape_core.lifecycle.running_test import this_test
from agenttape_core.lifecycle.session_stack import Surroundings
from agenttape_core.lifecycle.start_session import Opened
from agenttape_core.lifecycle.unreported import is_failure_status, reported, watch_end
from agenttape_core.session import Session, runs
from agenttape_core.settings import Settings

if TYPE_CHECKING:  # most sessions change nothing
    from agenttape_core.interventions import Placed


_watchers: list[Callable[[Session], None]] = []


def watch_sessions(watcher: Callable[[Session], None]) -> None:
    """Call this with each session of this process that has ended from now on, before its cassette is written."""
    _watchers.append(watcher)


class CassetteInUse:
    """One use of a cassette: `enter`, `leave`, `settle` and `judge`, in this order. Only `settle` touches files.

    Args:
        opened: The session, just opened.
    """

    def __init__(self, opened: Opened) -> None:
        self._opened = opened
        self._source = opened.session.source
        self._surroundings = Surroundings(opened)
        self._problem: Exception | None = None
        derivation = opened.prepared.request.derivation
        on_landed = derivation.on_landed if derivation is not None else None
        opened.session.depart = on_landed or self.depart

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
            self._surroundings.enter()
        except BaseException:
            self._opened.abandon()
            raise
        derivation = self._opened.prepared.request.derivation
        if derivation is not None and derivation.is_begun:
            self.depart()
        if not self._opened.prepared.request.is_of_process:  # the command reports what ends there
            watch_end(self._opened.session)
        return self._opened.session

    @property
    def changes(self) -> Mapping[int, Placed]:
        """The changes of the session, by the numbers of the recorded calls."""
        return self._opened.prepared.changes

    def depart(self) -> None:
        """Continue beyond the recording, as far as the request allows: executed calls may reach the outside."""
        from agenttape_core.interventions import policy_after_change  # most sessions change nothing

        policy = policy_after_change(
            self.session.policy, self._opened.prepared.request.on_new_call, self.session.source.entries
        )
        if policy is not self.session.policy:
            self.session.policy, self.session.only_replays = policy, False
            self.session.recordings.index.match_by(policy.match_on)
            if not policy.offline:
                self._surroundings.open_up()

    def leave(self) -> None:
        """End the session: its surroundings are taken down, and no more calls are replayed or executed."""
        session = self._opened.session
        reported(session)
        try:
            self._surroundings.close()
        except Exception as problem:  # noqa: BLE001 - raised by `judge`, once the journal is settled
            self._problem = problem
        runs.find_unused(session)
        if (test := this_test()) is not None:
            test.reports.append(session.report)
            if test.sessions is not None:
                test.sessions.append(session)
        for watcher in tuple(_watchers):
            watcher(session)

    def settle(self, error: BaseException | None) -> None:
        """Write the recording, or put it aside if the run failed.

        Args:
            error: What the block raised, if it did.
        """
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
        """End without touching the cassette, and drop the recorded calls."""
        self._opened.abandon()

    def judge(self, error: BaseException | None) -> None:
        """Raise the errors that the run didn't raise: a failure that it swallowed, or unused recordings.

        A group of exceptions that only holds halts is replaced by a halt. A failure of the session replaces any other
        exception, which becomes its cause: a test runner's skip, a timeout of gevent, an exit with 0. Only what ends
        the program as a failure stays, with a note: `KeyboardInterrupt`, and an exit with another status.

        Args:
            error: What the block raised, if it did.
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
            from agenttape_core.lifecycle.pseudonym_hint import note_of_unrestored

            note = note_of_unrestored(self.session, self._source)
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
        return is_failure_status(error.code)
    return isinstance(error, KeyboardInterrupt | AgentTapeHalt)
