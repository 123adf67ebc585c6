"""`CassetteInUse`: a session that surrounds a block of code, from its opening to its judgement."""

from __future__ import annotations

import warnings

from agenttape_core.engine import Policy
from agenttape_core.errors import AgentTapeError, AgentTapeHalt
from agenttape_core.lifecycle.commit import settle
from agenttape_core.lifecycle.judgement import judged
from agenttape_core.lifecycle.open_session import Opened
from agenttape_core.lifecycle.surroundings import Surroundings
from agenttape_core.session import Session


class CassetteInUse:
    """One use of a cassette: `enter`, `leave`, `settle` and `judge`, in this order. Only `settle` touches files.

    Args:
        opened: The session, just opened.
    """

    def __init__(self, opened: Opened) -> None:
        self._opened = opened
        self._surroundings = Surroundings(opened)
        self._problem: Exception | None = None

    @property
    def session(self) -> Session:
        """The session."""
        return self._opened.session

    @property
    def failure(self) -> AgentTapeError | AgentTapeHalt | Exception | None:
        """The first failure, whether or not somebody caught it."""
        return self.session.failure or self._problem

    def enter(self) -> Session:
        """Make the session the current one, with everything around it."""
        try:
            self._surroundings.enter()
        except BaseException:
            self._opened.abandon()
            raise
        return self.session

    def allow_execution(self, policy: Policy) -> None:
        """Go on under another policy: what comes now departs from what was recorded, and may reach the outside."""
        self.session.permit(policy)
        if not policy.offline:
            self._surroundings.open_up()

    def leave(self) -> None:
        """End the session: what surrounds it is taken down, and nothing more is served or executed."""
        try:
            self._surroundings.close()
        except Exception as problem:  # noqa: BLE001 - raised by `judge`, once the journal is settled
            self._problem = problem
        self.session.find_unused()

    def settle(self, error: BaseException | None) -> None:
        """Write what was recorded, or put it aside where the run failed.

        Args:
            error: What the block raised, if it did.
        """
        failures = (error, self.session.failure, self._problem)
        try:
            settle(self._opened, next((failed for failed in failures if failed is not None), None))
        except Exception as problem:  # noqa: BLE001 - raised by `judge`, which knows what it must not replace
            self._problem = problem

    def abandon(self) -> None:
        """End without touching the cassette, and forget what was recorded."""
        self._opened.abandon()

    def judge(self, error: BaseException | None) -> None:
        """Raise what the run did not raise by itself: a failure that it ate, or what it never asked for.

        An exception that must end the program (an interruption, a cancellation, a halt of ours) stays what it is.

        Args:
            error: What the block raised, if it did.
        """
        failed = [failure for failure in (self.session.failure, self._problem) if failure not in (None, error)]
        for failure in failed:
            if failure is not None and (error is None or isinstance(error, Exception)):
                raise failure from error
            if error is not None:
                error.add_note(f"AgentTape: {failure}")
        if failed or error is not None:
            return
        judgement = judged(self._opened)
        if judgement.error is not None:
            raise judgement.error
        for warning in judgement.warnings:
            warnings.warn(warning, stacklevel=3)  # the line of the block that ends
