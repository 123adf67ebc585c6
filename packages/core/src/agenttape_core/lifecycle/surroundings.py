"""The surroundings of a session: freeze, guard and the integrations of the frameworks that are imported."""

from __future__ import annotations

from contextlib import ExitStack

from agenttape_core.errors import NetworkBlockedError
from agenttape_core.freeze import Frozen, freezing
from agenttape_core.guard import Guard, guarding, tracer_hosts
from agenttape_core.lifecycle.entry_points import integrations
from agenttape_core.lifecycle.open_session import Opened
from agenttape_core.session import Session, context_session, executing


class Surroundings:
    """All that holds around a session while it is open. They end in the reverse order in which they began.

    Args:
        opened: The session.
    """

    def __init__(self, opened: Opened) -> None:
        self._opened = opened
        self._around = ExitStack()
        self._guard = ExitStack()
        """The guard, which ends earlier where the run departs from its recording."""

    def enter(self) -> None:
        """Make the session the current one, with everything around it. If that fails, nothing of it stays."""
        try:
            self._enter()
        except BaseException:
            self._around.close()
            raise

    def _enter(self) -> None:
        session, around = self._opened.session, self._around
        if session.frozen is not None:
            session.frozen.begin()
            around.enter_context(freezing(_frozen_here, self._opened.prepared.header.freeze.kinds))
        integrations.connect()
        around.callback(integrations.disconnect)
        session.enter()
        around.callback(session.leave)
        if session.policy.offline:
            self._guard.enter_context(guarding(_guard(self._opened), _may_reach_out))
        around.callback(self._guard.close)

    def open_up(self) -> None:
        """Let the run reach the outside from now on, and wait between attempts as it really would."""
        self._guard.close()
        if self._opened.session.frozen is not None:
            self._opened.session.frozen.skips_backoff = False

    def close(self) -> None:
        """End the session: nothing more is served or executed."""
        self._around.close()


def _guard(opened: Opened) -> Guard:
    settings, session, tracers = opened.prepared.settings, opened.session, tracer_hosts()

    def blocked(error: NetworkBlockedError) -> None:
        session.report.add_failure(blocked=str(error).partition("\n")[0])
        if context_session() is session:
            session.latch(error)

    return Guard(
        name=str(opened.prepared.shown),
        egress=(*settings.egress, *(tracers if settings.tracing else ())),
        on_block=blocked,
        background=tracers,
        in_background=lambda: context_session() is None,
    )


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
    """Return whether the caller belongs to a session that may execute: the guard of another one leaves it alone."""
    session: Session | None = context_session()
    return session is not None and not session.policy.offline
