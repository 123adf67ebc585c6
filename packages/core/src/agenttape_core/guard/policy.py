"""What one session allows while it keeps the process offline."""

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

    Raises:
        ConfigurationError: An entry of `egress` is none of these, such as a URL.
    """

    def __init__(
        self,
        *,
        name: str,
        egress: Collection[str] = (),
        on_block: Callable[[NetworkBlockedError], None] | None = None,
    ) -> None:
        self.name = name
        self.on_block = on_block
        self._egress = frozenset(checked(entry) for entry in egress)
        self._suffixes = tuple(entry[1:] for entry in self._egress if entry.startswith("*."))
        self._resolved: set[str] = set()

    def allows_host(self, host: str) -> bool:
        """Whether a name or address may be reached: as listed, or as the answer for a name that is listed."""
        host = normal(host)
        return (
            host in self._egress
            or host in self._resolved
            or (bool(self._suffixes) and host.endswith(self._suffixes))
            or (LOOPBACK in self._egress and is_loopback(host))
        )

    def allows_word(self, word: str) -> bool:
        """Whether `loopback` or `subprocess` is allowed."""
        return word in self._egress

    def remember(self, host: str, addresses: Collection[str]) -> None:
        """Allow the addresses that were found for a host, if the host is allowed."""
        if self.allows_host(host):
            self._resolved.update(map(normal, addresses))
