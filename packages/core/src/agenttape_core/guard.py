"""The guard: during a replay nothing reaches the outside, from any thread and with any client.

`sys.addaudithook` sees every connection, name look-up and child process that Python code starts, whatever library it
goes through. The hook is installed once per process, at the first use, and only tests one name while no guard is open.

How an allowed *name* opens the addresses behind it: clients ask the resolver for a name and then connect to a number.
The hook sees the name before it is looked up, but not the answer. So while guards are open, the resolver functions of
the `_socket` module (through which `socket.getaddrinfo` goes, however it was imported) are wrapped, and every address
they give for an allowed name may be connected to until the guard closes. No second look-up is made, whose answer could
differ. A socket that is told to connect to a name looks it up before its event, so these methods are wrapped as well.

Looking up a loopback name or a numeric address leaves nothing and is never refused, so servers may bind and listen.

Limits. C code with sockets of its own (grpc, libpq, libcurl, uvloop's) raises no audit events, and neither does
`multiprocessing` when it spawns. A forked child keeps the guard; another child is a process of its own, which is why
starting one needs `egress={"subprocess"}`. `from socket import gethostbyname` from before the first guard is checked,
but the answer for an allowed name is not remembered.
"""

from __future__ import annotations

import _socket
import contextlib
import ipaddress
import os
import socket
import sys
import sysconfig
import threading
import types
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, NamedTuple

from agenttape_core.errors import ConfigurationError, NetworkBlockedError

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterator

LOOPBACK = "loopback"
"""The word in `egress` that allows this machine: 127.0.0.0/8, ::1, localhost and Unix sockets."""

SUBPROCESS = "subprocess"
"""The word in `egress` that allows starting processes."""

_SPAWNING = frozenset(
    {
        *("subprocess.Popen", "os.system", "os.exec", "os.posix_spawn", "os.spawn"),
        *("os.startfile", "os.startfile/2", "pty.spawn"),
    }
)
_CONNECTING = {"socket.connect": "connect to", "socket.sendto": "send to", "socket.sendmsg": "send to"}
_RESOLVING = frozenset({"socket.getaddrinfo", "socket.gethostbyname", "socket.gethostbyaddr", "socket.getnameinfo"})


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
        self._egress = frozenset(_checked(entry) for entry in egress)
        self._suffixes = tuple(entry[1:] for entry in self._egress if entry.startswith("*."))
        self._resolved: set[str] = set()

    def allows_host(self, host: str) -> bool:
        """Whether a name or address may be reached: as listed, or as the answer for a name that is listed."""
        host = _normal(host)
        return (
            host in self._egress
            or host in self._resolved
            or (bool(self._suffixes) and host.endswith(self._suffixes))
            or (LOOPBACK in self._egress and _is_loopback(host))
        )

    def allows_word(self, word: str) -> bool:
        """Whether `loopback` or `subprocess` is allowed."""
        return word in self._egress

    def remember(self, host: str, addresses: Collection[str]) -> None:
        """Allow the addresses that were found for a host, if the host is allowed."""
        if self.allows_host(host):
            self._resolved.update(map(_normal, addresses))


@contextmanager
def guarding(guard: Guard, exempt: Callable[[], bool]) -> Iterator[None]:
    """Keep the process offline during the block.

    Guards may nest and overlap in any threads. What is tried must be acceptable to every open guard, because a guard
    cannot know to which session a thread without context belongs.

    Args:
        guard: What is allowed.
        exempt: Whether the calling context belongs to a session that may execute; asked at each attempt.

    Raises:
        NetworkBlockedError: Not by the block itself, but at the place inside it where something is tried.
    """
    opened = _Opened(guard, exempt)
    _process.open(opened)
    try:
        yield
    finally:
        _process.close(opened)


class _Opened(NamedTuple):
    guard: Guard
    exempt: Callable[[], bool]


class _Attempt(NamedTuple):
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


class _Process:
    """The guards that are open in this process."""

    def __init__(self) -> None:
        self.guards: tuple[_Opened, ...] = ()
        self._lock = threading.RLock()
        self._hooked = False
        self._wrappers = contextlib.ExitStack()

    def open(self, opened: _Opened) -> None:
        with self._lock:
            if not self._hooked:
                sys.addaudithook(_hook)
                self._hooked = True
            if not self.guards:
                self._wrap()
            self.guards = (*self.guards, opened)

    def close(self, opened: _Opened) -> None:
        with self._lock:
            self.guards = tuple(other for other in self.guards if other is not opened)
            if not self.guards:
                self._wrappers.close()

    def _wrap(self) -> None:
        for module, name, addresses_in in _RESOLVERS:
            self._wrappers.enter_context(_replaced(module, name, _remembering(getattr(module, name), addresses_in)))
        for name in _NAMING:
            self._wrappers.enter_context(_replaced(socket.socket, name, _judging(getattr(socket.socket, name))))


@contextmanager
def _replaced(owner: Any, name: str, wrapper: Callable[..., Any]) -> Iterator[None]:
    """Give an attribute another value, unless somebody else replaces it meanwhile."""
    absent = object()
    before = vars(owner).get(name, absent)
    setattr(owner, name, wrapper)
    try:
        yield
    finally:
        if vars(owner).get(name) is wrapper:
            if before is absent:
                delattr(owner, name)
            else:
                setattr(owner, name, before)


_process = _Process()


def _remembering(real: Callable[..., Any], addresses_in: Callable[[Any], list[str]]) -> Callable[..., Any]:
    """Wrap a resolver function so that each guard learns what is behind the names it allows."""

    def resolve(*args: Any, **kwargs: Any) -> Any:
        answer = real(*args, **kwargs)
        host = _text(args[0] if args else kwargs.get("host"))
        for opened in _process.guards:
            opened.guard.remember(host, addresses_in(answer))
        return answer

    return resolve


_NAMING = ("connect", "connect_ex", "sendto")
"""Methods that look up a name in their address before they raise their event."""


def _judging(real: Callable[..., Any]) -> Callable[..., Any]:
    """Wrap a method of sockets, whose last argument is the address, so that the name is judged before its look-up."""

    def method(sock: socket.socket, *args: Any) -> Any:
        if args and isinstance(args[-1], tuple) and args[-1] and isinstance(args[-1][0], str | bytes):
            attempt = _resolution("socket.getaddrinfo", args[-1][0])
            if attempt is not None:
                _judge(attempt._replace(sock=sock if len(args) == 1 else None))
        return real(sock, *args)

    return method


def _in_infos(infos: list[tuple[Any, ...]]) -> list[str]:
    return [str(info[4][0]) for info in infos]


_RESOLVERS: tuple[tuple[types.ModuleType, str, Callable[[Any], list[str]]], ...] = (
    (_socket, "getaddrinfo", _in_infos),
    (socket, "gethostbyname", lambda address: [address]),
    (socket, "gethostbyname_ex", lambda answer: list(answer[2])),
)


def _hook(event: str, args: tuple[Any, ...]) -> None:
    if _process.guards:
        attempt = _attempt(event, args)
        if attempt is not None:
            _judge(attempt)


def _judge(attempt: _Attempt) -> None:
    """Raise unless every open guard accepts the attempt."""
    objecting = [
        opened.guard for opened in _process.guards if not attempt.allowed(opened.guard) and not opened.exempt()
    ]
    if not objecting or _in_socketpair():
        return
    error = NetworkBlockedError(_message(attempt, [guard.name for guard in objecting]))
    for guard in objecting:
        if guard.on_block is not None:
            guard.on_block(error)
    if attempt.sock is not None:
        attempt.sock.close()
    raise error


def _attempt(event: str, args: tuple[Any, ...]) -> _Attempt | None:
    """Give what an audit event tries, if it could reach the outside."""
    if event in _CONNECTING:
        return _connection(_CONNECTING[event], args[0], args[1])
    if event in _RESOLVING:
        return _resolution(event, args[0])
    if event in _SPAWNING:
        return _Attempt(
            f"start the process {_program(args[0])} ({event})",
            SUBPROCESS,
            lambda guard: guard.allows_word(SUBPROCESS),
        )
    return None


def _connection(verb: str, sock: socket.socket, address: Any) -> _Attempt | None:
    if address is None:
        return None  # the socket is connected, which was judged then
    if isinstance(address, tuple) and len(address) > 1 and isinstance(address[0], str | bytes):
        host = _text(address[0])
        remedy = LOOPBACK if _is_loopback(_normal(host)) else host
        place = f"[{host}]:{address[1]}" if ":" in host else f"{host}:{address[1]}"
        leftover = sock if verb == _CONNECTING["socket.connect"] else None
        return _Attempt(f"{verb} {place}", remedy, lambda guard: guard.allows_host(host), leftover)
    # Unix sockets and the like: they end on this machine, in another process.
    return _Attempt(
        f"{verb} {_text(address)!r} ({sock.family.name if hasattr(sock.family, 'name') else sock.family})",
        LOOPBACK,
        lambda guard: guard.allows_word(LOOPBACK),
    )


def _resolution(event: str, asked: Any) -> _Attempt | None:
    host = _text(asked[0] if isinstance(asked, tuple) else asked)
    normal = _normal(host)
    reverse = event in ("socket.gethostbyaddr", "socket.getnameinfo")
    if not normal or _is_loopback(normal) or (not reverse and _as_ip(normal) is not None):
        return None
    return _Attempt(f"look up {host!r}", host, lambda guard: guard.allows_host(host))


def _message(attempt: _Attempt, names: list[str]) -> str:
    cassettes = " and ".join(f'"{name}"' for name in names)
    return (
        f"blocked an attempt to {attempt.what} while {cassettes} is replayed offline\n"
        f"  tried at {_caller()}\n"
        "  tape the object that is called there (model, tool, retriever, ...), so that it is served from the "
        f"cassette,\n  or allow it: egress={{{attempt.remedy!r}}}"
    )


def _caller() -> str:
    """Name the nearest frame of the user's own code, or else of a library."""
    library: types.FrameType | None = None
    frame = sys._getframe()  # noqa: SLF001 - the documented way to a stack without building one
    current: types.FrameType | None = frame
    while current is not None:
        filename = current.f_code.co_filename
        if not filename.startswith((*_OWN, "<frozen")):
            if not _is_installed(filename) and not filename.startswith(_STDLIB):
                return _place(current)
            if library is None and _is_installed(filename):
                library = current
        current = current.f_back
    if library is not None:
        return f"{_place(library)} (a library; none of your own code is on this thread's stack)"
    return f"the thread {threading.current_thread().name!r}, with none of your own code on its stack"


def _place(frame: types.FrameType) -> str:
    return f"{frame.f_code.co_filename}:{frame.f_lineno} in {frame.f_code.co_qualname}"


_OWN = (os.path.dirname(__file__) + os.sep,)  # noqa: PTH120 - compared with co_filename, which is a string
_STDLIB = tuple({sysconfig.get_path(name) + os.sep for name in ("stdlib", "platstdlib")})


def _is_installed(filename: str) -> bool:
    return "site-packages" in filename or "dist-packages" in filename


_PAIR_MAKERS = {
    function.__code__
    for name in ("socketpair", "_fallback_socketpair")
    if isinstance(function := getattr(socket, name, None), types.FunctionType)
}


def _in_socketpair() -> bool:
    """Whether the attempt is the standard library's emulation of a socket pair, which asyncio wakes itself with."""
    frame: types.FrameType | None = sys._getframe(2)  # noqa: SLF001 - see _caller
    for _ in range(4):
        if frame is None:
            break
        if frame.f_code in _PAIR_MAKERS:
            return True
        frame = frame.f_back
    return False


def _program(command: Any) -> str:
    """Only the program's name: the arguments may hold secrets."""
    first = command[0] if isinstance(command, list | tuple) and command else command
    words = _text(first).split()
    return repr(words[0].rpartition("/")[2] if words else "")


def _text(value: Any) -> str:
    if value is None:
        return ""
    if isinstance(value, bytes | bytearray):
        return value.decode("utf-8", "replace")
    return os.fsdecode(value) if isinstance(value, os.PathLike) else str(value)


def _normal(host: str) -> str:
    """One spelling per host: lower case, no root dot, no zone, IPv4 out of its IPv6 mapping."""
    host = host.strip().lower().rstrip(".")
    address = _as_ip(host)
    return host if address is None else str(address)


def _as_ip(host: str) -> ipaddress.IPv4Address | ipaddress.IPv6Address | None:
    try:
        address = ipaddress.ip_address(host.strip("[]").partition("%")[0])
    except ValueError:
        return None
    mapped = getattr(address, "ipv4_mapped", None)
    return mapped if isinstance(mapped, ipaddress.IPv4Address) else address


def _is_loopback(normal: str) -> bool:
    """Whether a normal host is this machine; connecting to the unspecified address means it too."""
    address = _as_ip(normal)
    if address is None:
        return normal == "localhost" or normal.endswith(".localhost")  # RFC 6761, section 6.3
    return address.is_loopback or address.is_unspecified


def _checked(entry: str) -> str:
    normal = _normal(entry)
    name = normal.removeprefix("*.")
    if not name or (_as_ip(name) is None and any(sign in name for sign in "*/:@ ")):
        raise ConfigurationError(
            f"egress entry {entry!r} is not a host; expected a name, '*.' and a name, an IP address, "
            f"{LOOPBACK!r} or {SUBPROCESS!r}\n  give the host alone, without scheme, port or path"
        )
    return normal
