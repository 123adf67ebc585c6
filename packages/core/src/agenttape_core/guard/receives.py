"""Show what sockets of this process receive to whoever watches.

A program may get something from the outside without a send: a subscription, a datagram, a connection that another
process makes. These raise no audit event. So while there is a watcher, the methods that receive are wrapped: those of
the class in C that all classes of sockets inherit from, and those by which `ssl` reads.

Not reported: data that stays in the process (socket pairs), and receipts by code in C with its own sockets, by
the proactor event loop of Windows, and without a connection on a Unix socket.
"""

from __future__ import annotations

import _socket
import functools
import os
import select
import socket
import sys
import types
from collections.abc import Callable
from typing import Any, Literal
from weakref import WeakKeyDictionary

from agenttape_core.guard.caller import is_own
from agenttape_core.guard.handovers import Age, moment
from agenttape_core.guard.hosts import is_loopback
from agenttape_core.guard.immutable import Exchange
from agenttape_core.guard.patching import Watchers, Wrappers
from agenttape_core.guard.sends import was_accepted
from agenttape_core.named_tuples import NamedTuple

_UNIX = getattr(socket, "AF_UNIX", None)
_INET = (socket.AF_INET, socket.AF_INET6)
_family_of: Any = vars(_socket.socket)["family"].__get__  # that of Python makes an object of an enum each time
_reals = dict(vars(_socket.socket))

_LOOP = "asyncio.selector_events"
_TRANSPORT, _TASK = "read_ready", "sock_recv"
"""The beginnings of the names of the functions there that read for a transport, whether or not anybody waits, and for a
task, which waits until something comes."""


class Receipt(NamedTuple):
    """Something that is about to come in."""

    how: Literal["data", "plain text", "datagram", "connection"]  # how it comes
    sock: Any  # the socket, or the TLS connection that has none
    to: Any  # the address of the other end; for such a TLS connection, the name of the host
    reader: str = ""  # the name of the function of an event loop that reads; empty if the program's own code does

    @property
    def is_of_loop(self) -> bool:
        """True if an event loop reads for a transport, in the context in which that was made."""
        return self.reader.startswith(_TRANSPORT)

    @property
    def is_of_server(self) -> bool:
        """True if the other end has connected to this process, which serves it."""
        return self.how == "data" and was_accepted(self.sock)

    @property
    def is_none(self) -> bool:
        """True if there is no data and no waiting reader: the other end has closed an idle connection, for example."""
        if self.how != "data":
            return False
        if not _is_ready(self.sock):
            return self.is_of_loop or (self.sock.gettimeout() == 0 and not self.reader.startswith(_TASK))
        try:
            start: bytes = _reals["recv"](self.sock, 2, _socket.MSG_PEEK)
        except OSError:
            return True  # the real call fails as well
        # An event loop reads records of TLS when it likes; they are shown when something comes out of them.
        return not start or (self.is_of_loop and _is_of_tls(start))

    def is_younger(self, age: Age) -> bool:
        """Return True if an event loop reads from a connection that was made since: that was judged then."""
        return self.is_of_loop and age.precedes(_made.get(self.sock, 0))


Watcher = Callable[[Receipt], object]
"""Called before each receipt, in its thread and context; if it raises, no data is received."""

_made: WeakKeyDictionary[Any, int] = WeakKeyDictionary()
"""By a socket that has connected, and a TLS connection without one: when that was."""


def note_connection(sock: Any) -> None:
    """Note that a socket connects now, and has been judged."""
    if isinstance(sock, socket.socket):
        _made[sock] = moment()


def _install(wrappers: Wrappers) -> None:
    names = ("recv", "recv_into", "recvfrom", "recvfrom_into", "recvmsg", "recvmsg_into")
    shown = ((name, _showing(_reals[name])) for name in names if name in _reals)
    methods = Exchange([(_socket.socket, *each) for each in (*shown, ("_accept", _accepting))])
    wrappers.exchange(methods.swap_in, methods.swap_out)
    try:
        import ssl  # costs some milliseconds, and a Python may be without it
    except ImportError:
        return
    wrappers.patch(ssl.SSLSocket, "read", _showing)
    wrappers.patch(ssl.SSLObject, "read", _showing_tls)
    wrappers.patch(ssl.SSLContext, "wrap_bio", _noting_tls)


RECEIPTS: Watchers[Watcher] = Watchers(_install)
"""Each receipt of the process is shown to these. It is refused with what one raises; one may be shown more than once.
"""


def show_receipt(sock: socket.socket) -> None:
    """Show a receipt by code that doesn't use the methods of the socket."""
    receipt = _receipt_of(sock)
    if receipt is not None:
        _show(receipt)


def _show(receipt: Receipt) -> None:
    for watcher in RECEIPTS.all:
        watcher(receipt)


def _showing(real: Callable[..., Any]) -> Callable[..., Any]:
    """Wrap a method that receives."""

    def method(sock: Any, *args: Any, **kwargs: Any) -> Any:
        if RECEIPTS.all:
            receipt = _receipt_of(sock)
            if receipt is not None:
                _show(receipt)
        return real(sock, *args, **kwargs)

    return method


def _receipt_of(sock: Any) -> Receipt | None:
    """Return the receipt, unless it stays in this process."""
    try:
        to = sock.getpeername()
    except OSError:
        return _datagram(sock)
    if _family_of(sock) == _UNIX:
        return Receipt("data", sock, to, _reader()) if to else None  # a socket pair has no name
    if _wakes_a_loop() and is_loopback(str(to[0])):
        return None
    return Receipt("data", sock, to, _reader())


def _datagram(sock: Any) -> Receipt | None:
    """Return the datagram that comes next to a socket without a connection; it is waited for as the call would."""
    if sock.type != socket.SOCK_DGRAM or _family_of(sock) not in _INET:
        return None
    try:
        return Receipt("datagram", sock, _reals["recvfrom"](sock, 1, _socket.MSG_PEEK)[1])
    except OSError:
        return None  # the real call fails as well


def _accepting(sock: Any) -> tuple[int, Any]:
    """Accept a connection, as the method in C does."""
    number, address = _reals["_accept"](sock)
    if RECEIPTS.all and _family_of(sock) in _INET:
        try:
            _show(Receipt("connection", sock, address))
        except BaseException:
            os.close(number)
            raise
    return number, address


def _showing_tls(real: Callable[..., Any]) -> Callable[..., Any]:
    """Wrap the method that reads from a TLS connection without a socket, as event loops have it."""

    def read(self: Any, *args: Any, **kwargs: Any) -> Any:
        found = real(self, *args, **kwargs)
        if RECEIPTS.all and found and not self.server_side and self.server_hostname:
            _show(Receipt("plain text", self, (self.server_hostname, 0), _TRANSPORT))
        return found

    return read


def _noting_tls(real: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(real)
    def wrap_bio(self: Any, *args: Any, **kwargs: Any) -> Any:
        made = real(self, *args, **kwargs)
        _made[made] = moment()
        return made

    return wrap_bio


def _is_ready(sock: Any) -> bool:
    if hasattr(select, "poll"):
        looking = select.poll()
        looking.register(sock.fileno(), select.POLLIN)
        return bool(looking.poll(0))
    return bool(select.select([sock.fileno()], [], [], 0)[0])


def _is_of_tls(start: bytes) -> bool:
    return start[0] in range(20, 24) and start[1:] == b"\x03"


def _reader() -> str:
    """Return the function of an event loop that receives; empty if other code does."""
    frame: types.FrameType | None = sys._getframe(3)  # noqa: SLF001 - the caller of the method
    while frame is not None and is_own(frame):
        frame = frame.f_back
    is_loop = frame is not None and frame.f_globals.get("__name__") == _LOOP
    return frame.f_code.co_name.lstrip("_") if frame is not None and is_loop else ""


def _wakes_a_loop() -> bool:
    """Return True if an event loop is woken by a socket pair that is emulated, as on Windows."""
    caller = sys._getframe(3)  # noqa: SLF001 - the caller of the method
    return caller.f_code.co_name == "_read_from_self" and str(caller.f_globals.get("__name__")).startswith("asyncio.")
