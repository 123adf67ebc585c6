"""The attempts that one session allows while it keeps the process offline."""

from __future__ import annotations

from typing import TYPE_CHECKING

from agenttape_core.guard.descriptors import look
from agenttape_core.guard.handovers import Age
from agenttape_core.guard.hosts import LOOPBACK, OF_PROGRAM, SUBPROCESS, Entry, as_ip, is_loopback, normal, parsed

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable

    from agenttape_core.errors import NetworkBlockedError


class Guard:
    """One session's wish to keep the process offline.

    Args:
        name: The session's cassette, for the message.
        allow_hosts: What is still allowed: host names, `*.example.com` for all names below, IP addresses, each with or
            without a port, and the words `loopback` and `subprocess`. While calls are live, they are open inside
            these, and to the rest of the program only with `program:` before them.
        besides: More entries, for the whole program, which don't restrict live calls.
        on_block: Called with each error before it is raised, so that the session fails even if something eats it.
        background: The hosts open to threads outside the program, such as those of tracers.
        in_background: Whether the caller is such a thread.
        is_live: Whether the caller runs for a call that is executed because it is live. Such a call may reach
            everything, or what `allow_hosts` names, if it names any host for live calls.
        has_live: Whether calls of the session are live at all.
        owns_caller: Returns True if the caller is surely part of the session's program: a server beside it may accept
            connections.

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
        has_live: bool = False,
        owns_caller: Callable[[], bool] = lambda: False,
    ) -> None:
        self.name = name
        look()
        self.age = Age(owns_caller)
        """The moment at which the session began."""
        self.is_over = False
        """True if the session has ended, and the guard only covers work that it started."""
        self.on_block = on_block
        self.owns_caller = owns_caller
        entries = [parsed(entry) for entry in allow_hosts]
        self._named = _Hosts([one for one in entries if not one.is_of_program]) if entries else _NO_HOSTS
        of_program = [*[one for one in entries if one.is_of_program], *map(parsed, besides)]
        self._of_program = _Hosts(of_program) if of_program else _NO_HOSTS
        self._background = _Hosts(map(parsed, background)) if background else _NO_HOSTS
        self._in_background = in_background
        self._is_live = is_live
        self._has_live = has_live
        self._has_learned = False
        self._is_restricted = bool(self._named.listed.keys() - {SUBPROCESS})

    @property
    def state(self) -> str:
        """The state of the session for the message of a refusal, with a placeholder for names of cassettes."""
        if self.is_over:
            return "after the replay of {} had ended"
        if self._is_live():
            return "by a live call while {} is replayed with other allowed hosts"
        return "by code outside of the live calls while {} is replayed" if self._has_live else _OFFLINE

    def entry_for(self, host: str, port: int | None) -> str:
        """Return the entry of `allow_hosts` that would allow the caller what this guard refuses.

        `port` is `None` if it isn't known.
        """
        entry = LOOPBACK if is_loopback(normal(host)) else host
        if port is not None and (self._named.ports(normal(host)) | self._of_program.ports(normal(host))) - {None, port}:
            entry = f"[{entry}]:{port}" if ":" in entry else f"{entry}:{port}"  # other ports of it are open already
        return f"{OF_PROGRAM}{entry}" if self._has_live and not self._is_live() else entry

    def names_to_learn(self) -> frozenset[str]:
        """Return the host names that are allowed one by one, the first time that they are needed."""
        if self._has_learned:
            return frozenset()
        self._has_learned = True
        return self._named.single() | self._of_program.single()

    def allows_host(self, host: str, port: int | None = None) -> bool:
        """Return True if the caller may reach a name or address: as listed, or as the answer for a name that is listed.

        `port` is `None` to look up a name, for which the port of an entry does not count.
        """
        host = normal(host)
        if self._of_program.allows(host, port):
            return True
        if self._background.allows(host, port) and self._in_background():
            return True
        return self._lets_pass(is_named=self._named.allows(host, port))

    def allows_word(self, word: str) -> bool:
        """Return True if the caller may use what `loopback` or `subprocess` allows."""
        return self._of_program.has_word(word) or self._lets_pass(is_named=self._named.has_word(word))

    def _lets_pass(self, *, is_named: bool) -> bool:
        if is_named and not self._has_live:
            return True
        return (is_named or not self._is_restricted) and self._is_live()

    def remember(self, host: str, addresses: Collection[str]) -> None:
        """Allow the addresses that were found for a host, if the host is allowed."""
        for hosts in (self._named, self._of_program, self._background):
            hosts.remember(normal(host), addresses)


_OFFLINE = "during an offline replay of {}"


class _Hosts:
    """Hosts with their ports, and the addresses that were found for them."""

    def __init__(self, entries: Iterable[Entry]) -> None:
        self.listed: dict[str, set[int | None]] = {}
        """The ports by the hosts and words."""
        self._resolved: dict[str, set[int | None]] = {}
        for entry in entries:
            self.listed.setdefault(entry.host, set()).add(entry.port)
        self._below = [(name[1:], ports) for name, ports in self.listed.items() if name.startswith("*.")]

    def single(self) -> frozenset[str]:
        """Return the names of single hosts."""
        names = self.listed.keys() - {LOOPBACK, SUBPROCESS}
        return frozenset(name for name in names if not name.startswith("*.") and as_ip(name) is None)

    def has_word(self, word: str) -> bool:
        """Return True if a word is listed without a port."""
        return None in self.listed.get(word, ())

    def ports(self, host: str) -> set[int | None]:
        """Return the ports of a host that are open; `None` among them means all."""
        found = self.listed.get(host, set()) | self._resolved.get(host, set())
        for suffix, ports in self._below:
            if host.endswith(suffix):
                found = found | ports
        if LOOPBACK in self.listed and is_loopback(host):
            found = found | self.listed[LOOPBACK]
        return found

    def allows(self, host: str, port: int | None) -> bool:
        """Return True if a host is open at a port; with `None`, at any."""
        if not self.listed:
            return False
        ports = self.ports(host)
        return None in ports or (bool(ports) if port is None else port in ports)

    def remember(self, host: str, addresses: Collection[str]) -> None:
        """Open the addresses that were found for a host, in the same way as the host."""
        if self.listed and (ports := self.ports(host)):
            for address in map(normal, addresses):
                self._resolved.setdefault(address, set()).update(ports)


_NO_HOSTS = _Hosts(())
"""Nothing is ever added to it."""
