"""The exceptions that one session allows while it keeps the process offline."""

from __future__ import annotations

from typing import TYPE_CHECKING

from agenttape_core.guard.hosts import LOOPBACK, checked, is_loopback, normal

if TYPE_CHECKING:
    from collections.abc import Callable, Collection

    from agenttape_core.errors import NetworkBlockedError


class Guard:
    """One session's wish to keep the process offline.

    Args:
        name: The session's cassette, for the message.
        egress: What is allowed all the same: host names, `*.example.com` for all names below, IP addresses, and the
            words `loopback` and `subprocess`.
        on_block: Called with each error before it is raised, so that the session fails even if something eats it.
        background: What is allowed to threads that are nobody's, such as those of tracers.
        in_background: Whether the caller is such a thread.

    Raises:
        ConfigurationError: An entry of `egress` is none of these, such as a URL.
    """

    def __init__(
        self,
        *,
        name: str,
        egress: Collection[str] = (),
        on_block: Callable[[NetworkBlockedError], None] | None = None,
        background: Collection[str] = (),
        in_background: Callable[[], bool] = lambda: False,
    ) -> None:
        self.name = name
        self.on_block = on_block
        self._egress = _Hosts(egress)
        self._background = _Hosts(background)
        self._in_background = in_background

    def allows_host(self, host: str) -> bool:
        """Return True if a name or address may be reached: as listed, or as the answer for a name that is listed."""
        host = normal(host)
        return host in self._egress or (host in self._background and self._in_background())

    def allows_word(self, word: str) -> bool:
        """Return True if `loopback` or `subprocess` is allowed."""
        return word in self._egress.entries

    def remember(self, host: str, addresses: Collection[str]) -> None:
        """Allow the addresses that were found for a host, if the host is allowed."""
        host = normal(host)
        for hosts in (self._egress, self._background):
            if host in hosts:
                hosts.resolved.update(map(normal, addresses))


class _Hosts:
    """Hosts as `egress` spells them, and the addresses that were found for them."""

    def __init__(self, entries: Collection[str]) -> None:
        self.entries = frozenset(checked(entry) for entry in entries)
        self.resolved: set[str] = set()
        self._suffixes = tuple(entry[1:] for entry in self.entries if entry.startswith("*."))

    def __contains__(self, host: str) -> bool:
        return (
            host in self.entries
            or host in self.resolved
            or (bool(self._suffixes) and host.endswith(self._suffixes))
            or (LOOPBACK in self.entries and is_loopback(host))
        )
