"""The hosts that outside tracers report to, as integrations register them.

A replay is not traced unless asked. But tracers send from threads of their own what others of this process did, before
or beside the replay, and one that is refused loses it.
"""

from __future__ import annotations

from collections.abc import Callable, Collection

_providers: list[Callable[[], Collection[str]]] = []


def register_tracer(hosts: Callable[[], Collection[str]]) -> None:
    """Name the hosts that a tracer reports to; asked whenever a replay begins.

    Args:
        hosts: Gives entries as `egress` takes them.
    """
    _providers.append(hosts)


def tracer_hosts() -> frozenset[str]:
    """Return all of them."""
    return frozenset(host for hosts in _providers for host in hosts())
