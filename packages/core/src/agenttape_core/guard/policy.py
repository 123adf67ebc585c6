"""The attempts that one session allows while it keeps the process offline."""

from __future__ import annotations

from typing import TYPE_CHECKING

from agenttape_core.guard.hosts import LOOPBACK, SUBPROCESS, as_ip, checked, is_loopback, normal

if TYPE_CHECKING:
    from collections.abc import Callable, Collection

    from agenttape_core.errors import NetworkBlockedError


class Guard:
    """One session's wish to keep the process offline.

    Args:
        name: The session's cassette, for the message.
        allow_hosts: What is still allowed: host names, `*.example.com` for all names below, IP addresses, and the words
            `loopback` and `subprocess`.
        besides: More of the same, which does not restrict live calls.
        on_block: Called with each error before it is raised, so that the session fails even if something eats it.
        background: What is allowed to threads that are nobody's, such as those of tracers.
        in_background: Whether the caller is such a thread.
        is_live: Whether the caller runs for a call that is executed because it is live. Such a call may reach
            everything, or what `allow_hosts` names, if it names any host.

    Raises:
        ConfigurationError: An entry of `allow_hosts` is none of these, such as a URL.
    """

    def __init__(
        self,
        *,
        name: str,
        allow_hosts: Collection[str] = (),
        besides: Collection[str] = (),
        on_block: Callable[[NetworkBlockedError], None] | None = None,
        background: Collection[str] = (),
        in_background: Callable[[], bool] = lambda: False,
        is_live: Callable[[], bool] = lambda: False,
    ) -> None:
        self.name = name
        self.is_over = False
        """True if the session has ended, and the guard holds only for what it has started."""
        self.on_block = on_block
        self._allow_hosts = _Hosts((*allow_hosts, *besides))
        self._background = _Hosts(background)
        self._in_background = in_background
        self._is_live = is_live
        single = (name for name in self._allow_hosts.entries - {LOOPBACK, SUBPROCESS} if not name.startswith("*."))
        self._to_learn = frozenset(name for name in single if as_ip(name) is None)
        self._is_restricted = bool(set(allow_hosts) - {SUBPROCESS})

    @property
    def state(self) -> str:
        """The state of the session, as a message about what is refused says it, with a place for names of cassettes."""
        if self.is_over:
            return "after the replay of {} had ended"
        return "by a live call while {} is replayed with other allowed hosts" if self._is_live() else _OFFLINE

    def names_to_learn(self) -> frozenset[str]:
        """Return the host names that are allowed one by one, the first time that they are needed."""
        names, self._to_learn = self._to_learn, frozenset[str]()
        return names

    def allows_host(self, host: str) -> bool:
        """Return True if a name or address may be reached: as listed, or as the answer for a name that is listed."""
        host = normal(host)
        return host in self._allow_hosts or (host in self._background and self._in_background()) or self._is_free()

    def allows_word(self, word: str) -> bool:
        """Return True if `loopback` or `subprocess` is allowed."""
        return word in self._allow_hosts.entries or self._is_free()

    def _is_free(self) -> bool:
        return not self._is_restricted and self._is_live()

    def remember(self, host: str, addresses: Collection[str]) -> None:
        """Allow the addresses that were found for a host, if the host is allowed."""
        host = normal(host)
        for hosts in (self._allow_hosts, self._background):
            if host in hosts:
                hosts.resolved.update(map(normal, addresses))


_OFFLINE = "while {} is replayed offline"


class _Hosts:
    """Hosts as `allow_hosts` spells them, and the addresses that were found for them."""

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
