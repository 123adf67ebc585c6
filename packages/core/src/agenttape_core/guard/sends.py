"""The sends on sockets of this process, shown to whoever watches.

Audit events tell of a connection when it is made, and never again: a client that keeps its connections goes out on one
that was open before anybody looked. So while there is a watcher, the methods that send are wrapped: those of the class
in C that all classes of sockets inherit from, to which `makefile`, `http.client` and the event loops of asyncio come
down, and those of `ssl.SSLSocket`, which writes directly. Nothing is wrapped while no one watches.

Not reported: data that stays in the process (a socket pair, such as the one by which an event loop is woken), and sends
of C code with its own sockets, and of the proactor event loop of Windows.
"""

from __future__ import annotations

import _socket
import socket
import sys
import weakref
from collections.abc import Callable
from contextlib import AbstractContextManager
from functools import partial
from typing import Any

from agenttape_core.guard.hosts import is_loopback
from agenttape_core.guard.immutable import Exchange
from agenttape_core.guard.listeners import is_listened_on
from agenttape_core.guard.patching import Watchers, Wrappers
from agenttape_core.named_tuples import NamedTuple

_UNIX = getattr(socket, "AF_UNIX", None)


class Send(NamedTuple):
    """A send that is about to happen."""

    sock: socket.socket
    to: Any  # the address of the other end, as `getpeername` gives it, or as the call does
    # True if the socket was connected before; false if the call gave the address, which is an audit event.
    is_open: bool

    @property
    def is_answer(self) -> bool:
        """True if the other end has connected to this process, which answers it as a server."""
        return was_accepted(self.sock)


Watcher = Callable[[Send], object]
"""Called before each send, in its thread and context; the send does not happen if it raises."""


_accepted: weakref.WeakKeyDictionary[socket.socket, bool] = weakref.WeakKeyDictionary()


def watching_sends(watcher: Watcher) -> AbstractContextManager[None]:
    """Show each send of the process to a watcher during the block.

    Watchers may nest and overlap in any threads. The watcher is called with each send before it happens, in its thread
    and context; if it raises, the send is refused with that exception. One send of a library may be shown more than
    once.
    """
    return SENDS.including(watcher)


def _no_address(_: tuple[Any, ...]) -> Any:
    return None


def _of_sendto(args: tuple[Any, ...]) -> Any:
    return args[-1] if len(args) > 1 else None


def _of_sendmsg(args: tuple[Any, ...]) -> Any:
    return args[3] if len(args) > 3 else None  # noqa: PLR2004 - buffers, ancillary data, flags, address


_METHODS = {"send": _no_address, "sendall": _no_address, "sendto": _of_sendto, "sendmsg": _of_sendmsg}
"""The methods in C that send, and how to find the address in their arguments."""


def _wrap(wrappers: Wrappers) -> None:
    reals = vars(_socket.socket)
    shown = ((name, _showing(address_in, reals[name])) for name, address_in in _METHODS.items() if name in reals)
    methods = Exchange([(_socket.socket, *each) for each in shown])
    wrappers.exchange(methods.swap_in, methods.swap_out)
    wrappers.patch(socket.socket, "sendfile", partial(_showing, _no_address))  # by `os.sendfile`
    wrappers.patch(socket.socket, "accept", _noting)
    try:
        import ssl  # costs some milliseconds, and a Python may be without it
    except ImportError:
        return
    for name in ("send", "write"):  # the others come down to these
        wrappers.patch(ssl.SSLSocket, name, partial(_showing, _no_address))


SENDS: Watchers[Watcher] = Watchers(_wrap)


def show_send(sock: socket.socket) -> None:
    """Show a send on an open connection by code that doesn't use its methods."""
    send = _send_of(sock, None)
    if send is not None:
        for watcher in SENDS.all:
            watcher(send)


def _showing(address_in: Callable[[tuple[Any, ...]], Any], real: Callable[..., Any]) -> Callable[..., Any]:
    """Wrap a method that sends."""

    def method(sock: socket.socket, *args: Any, **kwargs: Any) -> Any:
        watchers = SENDS.all
        if watchers:
            send = _send_of(sock, address_in(args))
            if send is not None:
                for watcher in watchers:
                    watcher(send)
        return real(sock, *args, **kwargs)

    return method


def _send_of(sock: socket.socket, address: Any) -> Send | None:
    """Return the send, unless it stays in this process, or fails because there is no connection."""
    if address is not None:
        return Send(sock, address, is_open=False)
    try:
        to = sock.getpeername()
    except OSError:
        return None
    if sock.family == _UNIX:
        return Send(sock, to, is_open=True) if to else None  # a socket pair has no name
    if _wakes_a_loop() and is_loopback(str(to[0])):
        return None
    return Send(sock, to, is_open=True)


def _wakes_a_loop() -> bool:
    """Return True if an event loop wakes itself by a socket pair that is emulated, as on Windows."""
    caller = sys._getframe(3)  # noqa: SLF001 - the caller of the method
    return caller.f_code.co_name == "_write_to_self" and str(caller.f_globals.get("__name__")).startswith("asyncio.")


def _noting(real: Callable[..., Any]) -> Callable[..., Any]:
    """Wrap `accept` so that the sockets of a server are known as such."""

    def accept(listener: socket.socket) -> Any:
        answer = real(listener)
        _accepted[answer[0]] = True
        return answer

    return accept


def was_accepted(sock: Any) -> bool:
    """Return True if the other end of a connection has connected to this process."""
    if getattr(sock, "server_side", False):
        return True
    if not isinstance(sock, socket.socket):
        return _is_at_a_listener(sock)  # nothing can be noted of an object of the class in C
    known = _accepted.get(sock)
    if known is None:
        known = _accepted[sock] = _is_at_a_listener(sock)
    return known


def _is_at_a_listener(sock: socket.socket) -> bool:
    """Return True if a socket that no one saw begin has the port of a server.

    It inherits from the one that listens that its address may be used again, which clients have no use for. That is all
    that can be known where the system does not list its ports.
    """
    try:
        if not sock.getsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR):
            return False
        port = sock.getsockname()[1]
    except (OSError, IndexError, TypeError):
        return False
    return is_listened_on(port)
