"""The audit hook and the patched functions that report side effects to their watchers."""

from __future__ import annotations

import contextlib
import functools
import sys
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any, Literal

from agenttape_core.guard.attempts import CONNECTING, NEW_INTERPRETER
from agenttape_core.guard.caller import in_socketpair
from agenttape_core.guard.handovers import HANDOVERS, Handover, to_interpreter
from agenttape_core.guard.hosts import is_loopback, normal, text
from agenttape_core.guard.lookups import LOOKUPS
from agenttape_core.guard.patching import Watchers, Wrappers
from agenttape_core.guard.sends import SENDS, Send
from agenttape_core.named_tuples import NamedTuple
from agenttape_core.side_effects.handles import side_effect_count
from agenttape_core.side_effects.source_lines import SourceLine, innermost, source_line_of
from agenttape_core.side_effects.words import DRAWING, EVENTS, IN_MEMORY, WITHIN_SHUTIL, draw, words_of

if TYPE_CHECKING:
    import socket


EventKind = Literal["reach", "change", "private"]


class SideEffectEvent(NamedTuple):
    """Something that is about to be done outside the process."""

    what: str  # the words for it
    place: SourceLine  # where it is done
    # `reach` for a connection, or sending on one; `change` for the rest; `private` for a database in memory, which
    # isn't a side effect.
    kind: EventKind
    # The names and the address of the host at the other end of a connection; empty for the processes that
    # `multiprocessing` has started.
    to: tuple[str, ...] = ()
    port: int = 0  # the port there; 0 where there are none
    handover: Handover | None = None  # what's handed to another process or interpreter, if it is that


Watcher = Callable[[SideEffectEvent], object]
"""Called before something is done, in its thread and context; it is not done if the watcher raises."""


_THIS_MACHINE = ("localhost",)


class _Names:
    """The names behind addresses, from look-ups."""

    _MOST = 1000

    def __init__(self) -> None:
        self._names: dict[str, str] = {}

    def learn(self, host: str, addresses: list[str]) -> None:
        for address in addresses:
            if address != host:
                self._names[address] = host
        while len(self._names) > self._MOST:
            self._names.pop(next(iter(self._names)), None)

    def of(self, address: str) -> str:
        return self._names.get(address, address)


class _Watching:
    """The watchers of this process, and the hooks installed for them."""

    def __init__(self) -> None:
        self.watchers: Watchers[Watcher] = Watchers(self._install)
        self.names = _Names()

    def _install(self, wrappers: Wrappers) -> None:
        from multiprocessing.process import BaseProcess  # costs some milliseconds, once

        _add_hook()
        LOOKUPS.within(wrappers, self.names.learn)
        SENDS.within(wrappers, self._sent)
        HANDOVERS.within(wrappers, functools.partial(self.handed_over, depth=3))
        wrappers.patch(BaseProcess, "start", functools.partial(_starting, self))

    def _sent(self, send: Send) -> None:
        if send.is_open and not send.is_answer:
            self.reached(send.sock, send.to, depth=3)

    def handed_over(self, handover: Handover, depth: int) -> None:
        """Report a handover to another process or interpreter."""
        self._show(SideEffectEvent(f"reached {handover.to}", _UNKNOWN, "reach", handover=handover), depth + 1)

    def reached(self, sock: socket.socket, address: Any, depth: int) -> None:
        """Tell of a connection, or of sending on one."""
        shown, to = self._other_end(sock, address)
        port = address[1] if isinstance(address, tuple) and len(address) > 1 and isinstance(address[1], int) else 0
        self.done(f"reached {shown}", depth + 1, "reach", to, port)

    def _other_end(self, sock: socket.socket, address: Any) -> tuple[str, tuple[str, ...]]:
        """Return the words for the other end, and the names and the address of the host."""
        if isinstance(address, tuple) and len(address) > 1 and isinstance(address[0], str | bytes):
            host = text(address[0])
            name = getattr(sock, "server_hostname", None) or self.names.of(host)
            if is_loopback(normal(host)):
                return host, (host,)  # a server of a test has another port in each run
            return (f"[{name}]:{address[1]}" if ":" in name else f"{name}:{address[1]}"), (name, host)
        if isinstance(address, str | bytes):
            path = text(address).replace("\0", "@")
            if "/pymp-" in path:
                return "another process of Python", ()
            return f"the socket {path.rpartition('/')[2]}", _THIS_MACHINE
        return f"the system ({getattr(sock.family, 'name', sock.family)})", _THIS_MACHINE

    def done(self, what: str, depth: int, kind: EventKind = "change", to: tuple[str, ...] = (), port: int = 0) -> None:
        """Report an imminent side effect. `depth` is how many calls lie between this and the code that does it."""
        self._show(SideEffectEvent(what, _UNKNOWN, kind, to, port), depth + 1)

    def _show(self, event: SideEffectEvent, depth: int) -> None:
        side_effect_count.number += 1
        place = source_line_of(innermost(depth))
        if place is not None:
            event = event._replace(place=place)
            for watcher in self.watchers.all:
                watcher(event)


_UNKNOWN = SourceLine(inside="", anywhere="")


_watching = _Watching()


@functools.cache
def _add_hook() -> None:
    """Add the hook, which can never be taken away."""
    sys.addaudithook(_hook_for(_watching))


@contextlib.contextmanager
def watching_side_effects(watcher: Watcher) -> Iterator[None]:
    """Show all that the process does outside to a watcher during the block.

    Watchers may nest and overlap in any threads. The watcher is called with each event before it is done, in its thread
    and context; it is not done if the watcher raises. One event may be shown more than once.
    """
    with _watching.watchers.including(watcher):
        yield


def _hook_for(watching: _Watching) -> Callable[[str, tuple[Any, ...]], None]:
    """Make the hook, with its dependencies in its closure: it runs until after this module's globals are gone."""
    events, drawing, connecting, within_shutil = EVENTS, DRAWING, frozenset(CONNECTING), WITHIN_SHUTIL

    def hook(event: str, args: tuple[Any, ...]) -> None:
        if not watching.watchers.all:
            return
        if event in events:
            what = words_of(event, args)
            if what is not None and not (event in within_shutil and _is_of_shutil(1)):
                watching.done(what, 2, "change" if what != IN_MEMORY else "private")
        elif event in connecting:
            if args[1] is not None and not in_socketpair():
                watching.reached(args[0], args[1], depth=2)
        elif event in drawing:
            draw(args[0])
        elif event == NEW_INTERPRETER:
            watching.handed_over(to_interpreter("start"), depth=2)

    return hook


def _is_of_shutil(depth: int) -> bool:
    return innermost(depth + 1).f_globals.get("__name__") == "shutil"


def _starting(watching: _Watching, real: Callable[..., Any]) -> Callable[..., Any]:
    """Wrap the method by which `multiprocessing` starts a process: not each way of it raises an event."""

    @functools.wraps(real)
    def start(self: Any) -> Any:
        if watching.watchers.all:
            watching.done("started a process of Python", 2)
        return real(self)

    return start
