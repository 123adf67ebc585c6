"""The guards that are open in this process, and the hook and wrappers that ask them."""

from __future__ import annotations

import _socket
import contextlib
import socket
import sys
import threading
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, NamedTuple

from agenttape_core.errors import NetworkBlockedError
from agenttape_core.guard.attempts import Attempt, attempt_of, look_up
from agenttape_core.guard.caller import caller, in_socketpair
from agenttape_core.guard.hosts import text

if TYPE_CHECKING:
    import types
    from collections.abc import Callable, Iterator

    from agenttape_core.guard.policy import Guard


class _Opened(NamedTuple):
    guard: Guard
    exempt: Callable[[], bool]


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
                sys.addaudithook(_hook_for(self, attempt_of))
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
        host = text(args[0] if args else kwargs.get("host"))
        for opened in _process.guards:
            opened.guard.remember(host, addresses_in(answer))
        return answer

    return resolve


_NAMING = tuple(name for name in ("connect", "connect_ex", "sendto", "sendmsg") if hasattr(socket.socket, name))
"""Methods that look up a name in their address before they raise their event."""


def _judging(real: Callable[..., Any]) -> Callable[..., Any]:
    """Wrap a method of sockets, whose last argument is the address, so that the name is judged before its look-up."""

    def method(sock: socket.socket, *args: Any) -> Any:
        if args and isinstance(args[-1], tuple) and args[-1] and isinstance(args[-1][0], str | bytes):
            attempt = look_up("socket.getaddrinfo", args[-1][0])
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


def _hook_for(
    process: _Process, recognise: Callable[[str, tuple[Any, ...]], Attempt | None]
) -> Callable[[str, tuple[Any, ...]], None]:
    """Make the hook, with what it needs in its closure: it runs until after this module's globals are gone."""

    def hook(event: str, args: tuple[Any, ...]) -> None:
        if process.guards:
            attempt = recognise(event, args)
            if attempt is not None:
                _judge(attempt)

    return hook


def _judge(attempt: Attempt) -> None:
    """Raise unless every open guard accepts the attempt."""
    objecting = [
        opened.guard for opened in _process.guards if not attempt.allowed(opened.guard) and not opened.exempt()
    ]
    if not objecting or in_socketpair():
        return
    error = NetworkBlockedError(_message(attempt, [guard.name for guard in objecting]))
    for guard in objecting:
        if guard.on_block is not None:
            guard.on_block(error)
    if attempt.sock is not None:
        attempt.sock.close()
    raise error


def _message(attempt: Attempt, names: list[str]) -> str:
    cassettes = " and ".join(f'"{name}"' for name in names)
    return (
        f"blocked an attempt to {attempt.what} while {cassettes} is replayed offline\n"
        f"  tried at {caller()}\n"
        "  tape the object that is called there (model, tool, retriever, ...), so that it is served from the "
        f"cassette,\n  or allow it: egress={{{attempt.remedy!r}}}"
    )


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
