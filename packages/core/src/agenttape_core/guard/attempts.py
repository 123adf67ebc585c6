"""The attempt behind an audit event, if it could reach the outside."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from agenttape_core.guard.caller import in_multiprocessing
from agenttape_core.guard.hosts import LOOPBACK, SUBPROCESS, as_ip, is_loopback, normal, text

if TYPE_CHECKING:
    import socket
    from collections.abc import Callable

    from agenttape_core.guard.policy import Guard

_SPAWNING = frozenset(
    {
        *("subprocess.Popen", "os.system", "os.exec", "os.posix_spawn", "os.spawn"),
        *("os.startfile", "os.startfile/2", "pty.spawn"),
    }
)
CONNECTING = {"socket.connect": "connect to", "socket.sendto": "send to", "socket.sendmsg": "send to"}
_RESOLVING = frozenset({"socket.getaddrinfo", "socket.gethostbyname", "socket.gethostbyaddr", "socket.getnameinfo"})


class Attempt(NamedTuple):
    """Something that was tried.

    Args:
        what: For the message, without secrets: command lines may hold some.
        remedy: The entry of `egress` that would allow it.
        allowed: Whether a guard allows it.
        sock: The socket that it would have connected, which is of no more use: libraries only close theirs after an
            `OSError`, and a leaked one warns later in somebody else's code.
    """

    what: str
    remedy: str
    allowed: Callable[[Guard], bool]
    sock: socket.socket | None = None


def attempt_of(event: str, args: tuple[Any, ...]) -> Attempt | None:
    """Give what an audit event tries, if it could reach the outside."""
    if event in CONNECTING:
        return _connection(CONNECTING[event], args[0], args[1])
    if event in _RESOLVING:
        return look_up(event, args[0])
    if event in _SPAWNING:
        return Attempt(
            f"start the process {_program(args[0])} ({event})",
            SUBPROCESS,
            lambda guard: guard.allows_word(SUBPROCESS),
        )
    return None


def _connection(verb: str, sock: socket.socket, address: Any) -> Attempt | None:
    if address is None:
        return None  # the socket is connected, which was judged then
    if isinstance(address, tuple) and len(address) > 1 and isinstance(address[0], str | bytes):
        host = text(address[0])
        remedy = LOOPBACK if is_loopback(normal(host)) else host
        place = f"[{host}]:{address[1]}" if ":" in host else f"{host}:{address[1]}"
        leftover = sock if verb == CONNECTING["socket.connect"] else None
        return Attempt(f"{verb} {place}", remedy, lambda guard: guard.allows_host(host), leftover)
    # Unix sockets and the like: they end on this machine, in another process.
    return Attempt(
        f"{verb} {text(address)!r} ({sock.family.name if hasattr(sock.family, 'name') else sock.family})",
        LOOPBACK,
        lambda guard: guard.allows_word(LOOPBACK) or in_multiprocessing(),
    )


def look_up(event: str, asked: Any) -> Attempt | None:
    """Give the attempt to look up a name, or an address when the event says so, unless it stays on this machine."""
    host = text(asked[0] if isinstance(asked, tuple) else asked)
    spelled = normal(host)
    reverse = event in ("socket.gethostbyaddr", "socket.getnameinfo")
    if not spelled or is_loopback(spelled) or (not reverse and as_ip(spelled) is not None):
        return None
    return Attempt(f"look up {host!r}", host, lambda guard: guard.allows_host(host))


def _program(command: Any) -> str:
    """Only the program's name: the arguments may hold secrets."""
    first = command[0] if isinstance(command, list | tuple) and command else command
    words = text(first).split()
    return repr(words[0].rpartition("/")[2] if words else "")
