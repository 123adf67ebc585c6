"""The requests that a session with `http` tapes: all of its threads, but to hosts that it leaves alone."""

from __future__ import annotations

import concurrent.futures.thread as pools
import threading
from weakref import WeakSet

from agenttape_core.engine import Policy
from agenttape_core.guard import Guard, in_telemetry, tracer_hosts
from agenttape_core.locks import cached_property
from agenttape_core.session import context_session

_KIND = "http"


class TapedHosts:
    """Decides whether requests to a port of a host are taped.

    Not to hosts of tracers, nor from their threads, which report on the run; nor to hosts that a replay may reach
    anyway: unless named as live, they are also reached while recording. Threads that were there before the session, and
    have no context, belong to a server or to telemetry; but a pool's thread may do the session's work.

    Args:
        policy: The permissions of the session.
        allow_hosts: The hosts that the program may reach in a replay.
    """

    def __init__(self, policy: Policy, allow_hosts: tuple[str, ...]) -> None:
        self._policy = policy
        self._allow_hosts = allow_hosts
        self._older = WeakSet(threading.enumerate())

    def __call__(self, host: str, port: int | None) -> bool:
        """Return whether a request is taped that the caller makes.

        Args:
            host: The host that it is sent to.
            port: The port there; `None` if it is not known.
        """
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
