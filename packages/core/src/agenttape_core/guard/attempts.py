"""The attempt behind an audit event, if it could reach the outside."""

from __future__ import annotations

import os
import sys
import types
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from agenttape_core.guard.caller import closes_tls, in_debugger, in_multiprocessing, in_socketpair, is_library
from agenttape_core.guard.handovers import ends_workers, to_interpreter
from agenttape_core.guard.hosts import LOOPBACK, SUBPROCESS, as_ip, is_loopback, normal, text
from agenttape_core.guard.listeners import is_own_socket
from agenttape_core.named_tuples import NamedTuple

if TYPE_CHECKING:
    import socket
    from collections.abc import Callable

    from agenttape_core.guard.handovers import Handover
    from agenttape_core.guard.policy import Guard
    from agenttape_core.guard.receives import Receipt
    from agenttape_core.guard.sends import Send


_SPAWNING = frozenset(
    {
        *("subprocess.Popen", "os.system", "os.exec", "os.posix_spawn", "os.spawn"),
        *("os.startfile", "os.startfile/2", "pty.spawn"),
    }
)
CONNECTING = {"socket.connect": "connect to", "socket.sendto": "send to", "socket.sendmsg": "send to"}
_MULTIPROCESSING = tuple(
    f"{first}from multiprocessing.{module} import "
    for module in ("spawn", "forkserver", "resource_tracker")
    for first in ("", "import sys; ")  # before Python 3.14, and since then
)
"""The beginnings of the code that the processes of `multiprocessing` run."""
_RESOLVING = frozenset({"socket.getaddrinfo", "socket.gethostbyname", "socket.gethostbyaddr", "socket.getnameinfo"})
_SIGNALLING = {"os.kill": "process", "os.killpg": "process group"}
NEW_INTERPRETER = "cpython.PyInterpreterState_New"
EVENTS = _SPAWNING | CONNECTING.keys() | _RESOLVING | _SIGNALLING.keys() | {NEW_INTERPRETER}
"""The events behind which an attempt may be."""


class Attempt(NamedTuple):
    """Something that was tried."""

    what: str  # for the message, without secrets: command lines may hold some
    host: str  # the host that it would have reached, or the word in `allow_hosts` that would allow it
    allowed: Callable[[Guard], bool]  # whether a guard allows it
    # The socket that it would have used, which is of no more use: libraries only close theirs after an `OSError`, and
    # a leaked one warns later in someone else's code.
    sock: socket.socket | None = None
    is_open: bool = False  # whether that was connected before
    # Whether it is none of the program's own; asked last, as the answer costs time.
    excused: Callable[[], bool] = in_socketpair
    to: Any = None  # the address at the other end, for a connection
    port: int | None = None  # the port at the host, if it is known
    advice: str = ""  # what else the user can do, where no boundary would help


def attempt_of(event: str, args: tuple[Any, ...]) -> Attempt | None:
    """Return the attempt behind an audit event, if it could reach the outside."""
    if event in CONNECTING:
        return _connection(CONNECTING[event], args[0], args[1])
    if event in _RESOLVING:
        return look_up(event, args[0])
    if event in _SIGNALLING:
        return signal_to(_SIGNALLING[event], args[0], args[1])
    if event == NEW_INTERPRETER:
        return hand_over(to_interpreter("start"))
    if event in _SPAWNING:
        return (
            None
            if looks_at_machine()
            else Attempt(
                f"start the process {_program(args[0])} ({event})",
                SUBPROCESS,
                lambda guard: guard.allows_word(SUBPROCESS),
                advice=_TO_PROCESS,
            )
        )
    return None


_TO_PROCESS = (
    "Nothing records what the process does. Decorate this function with @boundary, then record again,\n"
    "  or let replays start processes:  "
)


def _connection(verb: str, sock: socket.socket, address: Any) -> Attempt | None:
    if address is None:
        return None  # the socket is connected, which was judged then
    if isinstance(address, tuple) and len(address) > 1 and isinstance(address[0], str | bytes):
        host, port = text(address[0]), address[1] if isinstance(address[1], int) else None
        place = f"[{host}]:{address[1]}" if ":" in host else f"{host}:{address[1]}"
        leftover = sock if verb == CONNECTING["socket.connect"] else None
        return Attempt(
            f"{verb} {place}", host, lambda guard: guard.allows_host(host, port or 0), leftover, to=address, port=port
        )
    # Unix sockets and the like: they end on this machine, in another process.
    return Attempt(
        f"{verb} {text(address)!r} ({sock.family.name if hasattr(sock.family, 'name') else sock.family})",
        LOOPBACK,
        lambda guard: guard.allows_word(LOOPBACK) or in_multiprocessing(),
    )


def start_of(words: Any) -> Attempt | None:
    """Return the attempt to start a process from within the standard library, unless that replays as well.

    `multiprocessing` starts a tracker of its resources, a server that forks, and children that get the session from
    their parent.
    """
    if any(text(word).startswith(_MULTIPROCESSING) for word in words or ()):
        return None
    what = f"start the process {_program(list(words))} (fork_exec)"
    return Attempt(what, SUBPROCESS, lambda guard: guard.allows_word(SUBPROCESS), advice=_TO_PROCESS)


def send_on(send: Send) -> Attempt | None:
    """Return the attempt to send on a connection that was open before, judged as if it were made now."""
    attempt = _connection("send on the open connection to", send.sock, send.to)
    if attempt is None:
        return None
    return attempt._replace(
        sock=send.sock, is_open=True, excused=lambda: send.is_answer or closes_tls() or in_debugger()
    )


_COMING = {
    **dict.fromkeys(("data", "plain text"), "receive from the open connection to"),
    "datagram": "receive a datagram from",
    "connection": "accept a connection from",
}
_FROM_OTHERS = (
    "what another process sends is not in the recording: record the object that gets it, start a server before the\n"
    "  session, or allow it: "
)


def receive_on(receipt: Receipt) -> Attempt | None:
    """Return the attempt to receive something, judged as if the connection to whoever sends it were made now."""
    is_stream = receipt.how == "data"
    attempt = _connection(_COMING[receipt.how], receipt.sock, receipt.to)
    if attempt is None:
        return None

    def is_allowed(guard: Guard) -> bool:
        if receipt.how == "connection" and not guard.owns_caller():
            return True
        # The port at the other end is known and means something only for a connection of a client.
        is_named = attempt.allowed(guard) if is_stream else guard.allows_host(attempt.host)
        return is_named or receipt.is_younger(guard.age)

    def is_excused() -> bool:
        if receipt.is_of_server or receipt.is_none or in_debugger() or in_socketpair():
            return True
        if receipt.how in ("datagram", "connection"):
            return is_own_socket(receipt.to[1], is_datagram=receipt.how == "datagram")
        return False

    return attempt._replace(
        what=attempt.what if receipt.how != "plain text" else f"{_COMING[receipt.how]} {attempt.host}",
        allowed=is_allowed,
        excused=is_excused,
        sock=receipt.sock if is_stream else None,
        is_open=True,
        port=attempt.port if is_stream else None,
        advice=_FROM_OTHERS if receipt.how in ("datagram", "connection") else "",
    )


def hand_over(handover: Handover) -> Attempt:
    """Return the attempt to hand work to a process or an interpreter that has no session."""

    def is_allowed(guard: Guard) -> bool:
        return guard.allows_word(SUBPROCESS) or not handover.is_older(guard.age)

    return Attempt(f"{handover.verb} {handover.to}", SUBPROCESS, is_allowed, advice=handover.advice)


def signal_to(what: str, number: int, sent: int) -> Attempt | None:
    """Return the attempt to send a signal, unless it's for this process, or only looks if there is a process.

    `what` is the word for the receiver, and `number` the system's number of it.
    """
    if not sent or (what == "process" and number == os.getpid()):
        return None

    def is_allowed(guard: Guard) -> bool:
        return guard.allows_word(SUBPROCESS) or guard.age.precedes_process(number)

    def is_excused() -> bool:
        return ends_workers() or in_debugger()

    return Attempt(
        f"send signal {int(sent)} to the {what} {number}", SUBPROCESS, is_allowed, excused=is_excused, advice=_TO_OWN
    )


_TO_OWN = "a replay sends signals only to processes that it has started itself; to allow all: "


def look_up(event: str, asked: Any) -> Attempt | None:
    """Return the attempt to look up a name, or an address if the event has one, unless it stays on this machine."""
    host = text(asked[0] if isinstance(asked, tuple) else asked)
    spelled = normal(host)
    reverse = event in ("socket.gethostbyaddr", "socket.getnameinfo")
    if not spelled or is_loopback(spelled) or (not reverse and as_ip(spelled) is not None):
        return None
    return Attempt(f"look up {host}" if reverse else f"reach {host}", host, lambda guard: guard.allows_host(host))


def _program(command: Any) -> str:
    """Only the program's name: the arguments may hold secrets."""
    first = command[0] if isinstance(command, list | tuple) and command else command
    words = text(first).split()
    return repr(words[0].rpartition("/")[2] if words else "")


# Processes that libraries start to look at the machine: `uname`, `ldconfig`, `lscpu`. A replay lets them through.
#
# They don't reach the outside, change any state, or depend on the run. A program that calls `platform.platform()`, as
# the SDKs of the providers do for their headers, starts a process without knowing it.

_ANY = frozenset[str]()

_LOOKING: Mapping[str, frozenset[str]] = {
    # The standard library.
    "platform": _ANY,  # uname -p, file -b, ver: the processor, the system and its version
    "uuid": _ANY,  # ip, ifconfig, arp, lanscan, netstat: the hardware address, for uuid1 and getnode
    "ctypes.util": _ANY,  # ldconfig, gcc, ld, objdump: where a library of C is
    "ctypes._aix": _ANY,  # dump: the same
    "webbrowser": frozenset({"register_standard_browsers"}),  # xdg-settings: which browser is the default one
    "_osx_support": _ANY,  # sw_vers, xcrun: for sysconfig and platform, on macOS
    "_aix_support": _ANY,  # lslpp: the same, on AIX
    # Packages that do the same, at import or at first use.
    "distro.distro": _ANY,  # lsb_release, uname, oslevel: the distribution
    "git.cmd": frozenset({"Git.refresh"}),  # git version, when GitPython is imported
    "joblib.externals.loky.backend.utils": frozenset({"_posix_recursive_kill"}),  # pgrep: the children of a worker
    "joblib.externals.loky.backend.context": _ANY,  # lscpu, sysctl: the number of physical cores, for scikit-learn
    "matplotlib.font_manager": frozenset({"_get_fontconfig_fonts", "_get_macos_fonts"}),  # fc-list, system_profiler
    "numexpr.cpuinfo": _ANY,  # uname -m, at import
}
"""By module: the functions, by their qualified names, or all of them."""


def looks_at_machine() -> bool:
    """Return True if the process that is about to start is one of those: its starter is on this thread's stack."""
    frame: types.FrameType | None = sys._getframe(1)  # noqa: SLF001 - gives the stack without building a list
    while frame is not None:
        functions = _LOOKING.get(str(frame.f_globals.get("__name__")))
        if functions is not None and (not functions or frame.f_code.co_qualname in functions):
            # A module of the user's may have the same name.
            return is_library(frame.f_code.co_filename)
        frame = frame.f_back
    return False
