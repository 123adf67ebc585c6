"""Tracers and telemetry: the hosts that they report to, as integrations register them, and the threads that they use.

A replay is not traced unless asked. But tracers send from threads of their own what others of this process did, before
or beside the replay, and one that is refused loses it. So a tracer's host is open to threads that are nobody's. Any
other attempt of a thread that only reports on the program is refused like all, but the run does not fail for it: when
it comes depends on nothing that the program does.
"""

from __future__ import annotations

import sys
import types
from collections.abc import Callable, Collection

from agenttape_core.guard.caller import is_own, is_standard

_providers: list[Callable[[], Collection[str]]] = []

_REPORTERS = frozenset(
    {
        *("ddtrace", "elasticapm", "langfuse", "langgraph_cli", "langsmith", "logfire", "newrelic", "opentelemetry"),
        *("posthog", "sentry_sdk"),
    }
)
"""Packages whose threads only report on the program that they are part of."""


def register_tracer(hosts: Callable[[], Collection[str]]) -> None:
    """Name the hosts that a tracer reports to; asked whenever a replay begins.

    Args:
        hosts: Gives entries as `egress` takes them.
    """
    _providers.append(hosts)


def tracer_hosts() -> frozenset[str]:
    """Return all of them."""
    return frozenset(host for hosts in _providers for host in hosts())


def in_reporting_thread() -> bool:
    """Return True if the code that this thread runs is that of a tracer or of telemetry."""
    outermost: types.FrameType | None = None
    frame: types.FrameType | None = sys._getframe()  # noqa: SLF001 - gives the stack without building a list
    while frame is not None:
        if not is_standard(frame.f_code.co_filename) and not is_own(frame):
            outermost = frame
        frame = frame.f_back
    return outermost is not None and str(outermost.f_globals.get("__name__")).partition(".")[0] in _REPORTERS
