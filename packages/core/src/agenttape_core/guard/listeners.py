"""The ports that are listened on, where the system lists them: on Linux."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

_LISTENING = "0A"  # the state of a socket that listens, in `/proc/net/tcp`


def is_listened_on(port: int) -> bool:
    """Return True if anybody listens on a port of this machine, even if that cannot be known."""
    try:
        return any(found == port for found, _ in _listeners())
    except OSError:
        return True


def is_own_server(port: int) -> bool:
    """Return True if this process holds a socket that listens on a port; false if that cannot be known."""
    return _is_held(lambda: (inode for found, inode in _listeners() if found == port))


def is_own_socket(port: int, *, is_datagram: bool) -> bool:
    """Return True if this process holds a socket with its own port; false if that cannot be known."""
    tables = ("udp", "udp6") if is_datagram else ("tcp", "tcp6")
    return _is_held(lambda: (inode for found, inode, _ in _rows(*tables) if found == port))


def _is_held(inodes: Callable[[], Iterable[str]]) -> bool:
    try:
        wanted = {f"socket:[{inode}]" for inode in inodes()}
        return bool(wanted) and any(_target(link) in wanted for link in Path("/proc/self/fd").iterdir())
    except OSError:
        return False


def _listeners() -> Iterator[tuple[int, str]]:
    """Yield the port and the inode of each socket that listens."""
    for port, inode, state in _rows("tcp", "tcp6"):
        if state == _LISTENING:
            yield port, inode


def _rows(*tables: str) -> Iterator[tuple[int, str, str]]:
    """Yield the port, the inode and the state of each socket."""
    for table in [Path(f"/proc/net/{name}").read_text() for name in tables]:
        for row in map(str.split, table.splitlines()[1:]):
            yield int(row[1].rpartition(":")[2], 16), row[9], row[3]


def _target(link: Path) -> str:
    try:
        return str(link.readlink())
    except OSError:  # it was closed meanwhile
        return ""
