"""The guards that are open in this process, and the hook and wrappers that ask them."""

from __future__ import annotations

import contextlib
import errno
import functools
import signal
import socket
import sys
import threading
import warnings
from contextvars import ContextVar
from pathlib import Path
from typing import TYPE_CHECKING, Any

from agenttape_core.errors import AfterReplayWarning, AgentTapeHalt, NetworkBlockedError, shown_path
from agenttape_core.guard.attempts import (
    EVENTS,
    NEW_INTERPRETER,
    Attempt,
    attempt_of,
    hand_over,
    look_up,
    receive_on,
    send_on,
    signal_to,
    start_of,
)
from agenttape_core.guard.caller import caller
from agenttape_core.guard.handovers import HANDOVERS, Handover
from agenttape_core.guard.hosts import is_loopback, normal, text
from agenttape_core.guard.listeners import is_own_server
from agenttape_core.guard.lookups import LOOKUPS
from agenttape_core.guard.patching import Watchers, Wrappers
from agenttape_core.guard.receives import RECEIPTS, Receipt, note_connection
from agenttape_core.guard.sends import SENDS, Send
from agenttape_core.guard.tracers import in_telemetry
from agenttape_core.named_tuples import NamedTuple

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from agenttape_core.guard.policy import Guard


class _Here(threading.local):
    is_let_through = False


_here = _Here()


def exempt_thread() -> None:
    """Exempt the caller's thread until it ends. It must never run code of the program."""
    _here.is_let_through = True


def is_let_through() -> bool:
    """Return whether no guard looks at the caller's thread."""
    return _here.is_let_through


# -- The refusal of work that a replay started and that continues after its end.


_WAIT_FOR_IT = (
    "a thread, task or piece of work of the replay tried this; nothing that a replay has started reaches the outside:\n"
    "  wait for it before the block ends (join the thread, await the task, shut the pool down, read the stream), or "
    "start it outside"
)
_NOT_OF_IT = (
    "the teardown of a fixture isn't part of the session of its test: call it in the test, or give the teardown a\n"
    "  session of its own: with use_cassette(...)"
)
_AFTER_IT: ContextVar[bool] = ContextVar("agenttape_after_replay", default=False)


def note_after_replay(*, follows: bool) -> None:
    """Note whether the caller's context follows the replay of a test, whose fixtures end there and see each refusal."""
    _AFTER_IT.set(follows)


def how_to_end(allowing: str = "") -> str:
    """Return the explanation and the remedy. `allowing` is the option that allows the attempt, if there is one."""
    if not _AFTER_IT.get():
        return _WAIT_FOR_IT
    return f"{_NOT_OF_IT}, or allow it: {allowing}" if allowing else _NOT_OF_IT


def warn_of_late(halt: AgentTapeHalt) -> None:
    """Warn of a refusal that no session is left to fail for.

    The caller is about to raise the refusal. Raises `AgentTapeHalt` where warnings are errors: an `Exception` could be
    taken for an answer.
    """
    if _AFTER_IT.get():
        return
    try:
        warnings.warn(AfterReplayWarning(str(halt)), stacklevel=4)
    except AfterReplayWarning as warning:
        raise halt from warning


try:
    import _posixsubprocess
except ImportError:  # Windows has none
    _posixsubprocess = None  # type: ignore[assignment]


class _Opened(NamedTuple):
    guard: Guard
    exempt: Callable[[], bool]
    answering: Callable[[], Guard | None]


def _install(wrappers: Wrappers) -> None:
    _add_hook()
    LOOKUPS.within(wrappers, _remember)
    for name in ("connect", "connect_ex"):
        wrappers.patch(socket.socket, name, _judging)
    SENDS.within(wrappers, _judge_send)
    RECEIPTS.within(wrappers, _judge_receipt)
    HANDOVERS.within(wrappers, _judge_handover)
    if hasattr(signal, "pidfd_send_signal"):
        wrappers.patch(signal, "pidfd_send_signal", _judging_signal)
    if _posixsubprocess is not None:
        wrappers.patch(_posixsubprocess, "fork_exec", _judging_start)


@functools.cache
def _add_hook() -> None:
    """Add the hook, which can never be taken away."""
    sys.addaudithook(_hook_for(_guards, EVENTS, attempt_of))


_guards: Watchers[_Opened] = Watchers(_install)


def _judging(real: Callable[..., Any]) -> Callable[..., Any]:
    """Wrap a method that connects, so that a name is judged before it is looked up, which comes before its event."""

    def method(sock: socket.socket, address: Any) -> Any:
        attempt = _naming(address)
        if attempt is not None:
            _judge(attempt._replace(sock=sock))
        note_connection(sock)
        return real(sock, address)

    return method


def _judge_send(send: Send) -> None:
    """Judge a send on a connection that is open already, or the name that a datagram is sent to."""
    if not send.is_open:
        attempt = _naming(send.to)
        if attempt is not None:
            _judge(attempt)
        return
    attempt = send_on(send)
    if attempt is not None and not _accepted_by_all(attempt):
        _learn_names()
        _judge(attempt)


def _judge_receipt(receipt: Receipt) -> None:
    attempt = receive_on(receipt)
    if attempt is not None and not _accepted_by_all(attempt):
        _learn_names()
        _judge(attempt)


def _accepted_by_all(attempt: Attempt) -> bool:
    return is_let_through() or not _objecting(attempt)


def _objecting(attempt: Attempt) -> list[Guard]:
    """Return the guards that don't accept an attempt. If one answers for the caller alone, the others aren't asked."""
    every = _guards.all
    if len(every) > 1 and (alone := every[0].answering()) is not None:
        every = tuple(opened for opened in every if opened.guard is alone) or every
    return [opened.guard for opened in every if not attempt.allowed(opened.guard) and not opened.exempt()]


def _learn_names() -> None:
    """Look up the names that guards allow: a connection that was opened before has also looked up its address before.

    Once for each guard.
    """
    for opened in _guards.all:
        for name in opened.guard.names_to_learn():
            with contextlib.suppress(OSError):  # a name that means nothing allows nothing
                socket.getaddrinfo(name, None)


def _naming(address: Any) -> Attempt | None:
    """Return the attempt to look up the name in an address, if there is one."""
    if isinstance(address, tuple) and address and isinstance(address[0], str | bytes):
        return look_up("socket.getaddrinfo", address[0])
    return None


def _judge_handover(handover: Handover) -> None:
    _judge(hand_over(handover))


def _judging_start(real: Callable[..., Any]) -> Callable[..., Any]:
    """Wrap the function by which `multiprocessing` and joblib start processes: it raises no event."""

    def fork_exec(words: Any, *args: Any) -> Any:
        attempt = start_of(words)
        if attempt is not None:
            _judge(attempt)
        return real(words, *args)

    return fork_exec


def _judging_signal(real: Callable[..., Any]) -> Callable[..., Any]:
    """Wrap the function that sends a signal by an open file of a process: it raises no event."""

    def pidfd_send_signal(pidfd: int, sent: int, *args: Any) -> Any:
        attempt = signal_to("process", _pid_of(pidfd), sent)
        if attempt is not None:
            _judge(attempt)
        return real(pidfd, sent, *args)

    return pidfd_send_signal


def _pid_of(pidfd: int) -> int:
    """Return the number of the process that an open file refers to; -1 if the system doesn't provide it."""
    with contextlib.suppress(OSError, StopIteration, ValueError):
        lines = Path(f"/proc/self/fdinfo/{pidfd}").read_text().splitlines()
        return int(next(line for line in lines if line.startswith("Pid:")).split()[1])
    return -1


def _remember(host: str, addresses: list[str]) -> None:
    """Give each guard the addresses of the names it allows."""
    for opened in _guards.all:
        opened.guard.remember(host, addresses)


def _hook_for(
    guards: Watchers[_Opened], events: frozenset[str], recognise: Callable[[str, tuple[Any, ...]], Attempt | None]
) -> Callable[[str, tuple[Any, ...]], None]:
    """Make the hook, with its dependencies in its closure: it runs until after this module's globals are gone.

    Python reports hundreds of events in each test, nearly all of them none of ours.
    """

    def hook(event: str, args: tuple[Any, ...]) -> None:
        if event in events and guards.all:
            attempt = recognise(event, args)
            if attempt is not None:
                try:
                    _judge(attempt)
                except NetworkBlockedError:
                    if event not in _UNSTOPPABLE:
                        raise  # else the session has been told, and fails

    return hook


_UNSTOPPABLE = frozenset({NEW_INTERPRETER} if sys.version_info[:2] == (3, 12) else ())
"""The events that must not be refused: Python 3.12 uses the interpreter that it did not get, and crashes. Its modules
are wrapped, so only code in C and functions that were imported by name come here."""


def _judge(attempt: Attempt) -> None:
    """Raise unless every open guard accepts the attempt."""
    if is_let_through():
        return
    objecting = _objecting(attempt)
    if not objecting or attempt.excused():
        return
    is_telemetry = in_telemetry()
    if is_telemetry and _is_own_server(attempt.to):
        return  # a command line that looks at the server that it has started
    error = NetworkBlockedError(_message(attempt, objecting))
    try:
        for guard in objecting:
            if guard.on_block is not None:
                guard.on_block(error)
    finally:
        if attempt.sock is not None:
            _end(attempt.sock, is_open=attempt.is_open)
    if is_telemetry:
        raise ConnectionRefusedError(errno.ECONNREFUSED, str(error).partition("\n")[0]) from None
    raise error


def _is_own_server(address: Any) -> bool:
    return address is not None and is_loopback(normal(text(address[0]))) and is_own_server(address[1])


def _end(sock: socket.socket, *, is_open: bool) -> None:
    """Let no one wait for an answer. An event loop that watches a socket must not find it closed by someone else."""
    if not is_open:
        sock.close()
        return
    with contextlib.suppress(OSError):  # the other end was faster
        socket.socket.shutdown(sock, socket.SHUT_RDWR)


def _message(attempt: Attempt, objecting: Sequence[Guard]) -> str:
    states: dict[str, list[str]] = {}
    for guard in objecting:
        states.setdefault(guard.state, []).append(shown_path(guard.name))
    state = " and ".join(state.format(" and ".join(names)) for state, names in states.items())
    entry = f"allow_hosts={{{objecting[0].entry_for(attempt.host, attempt.port)!r}}}"
    remedy = how_to_end(entry) if all(guard.is_over for guard in objecting) else f"{attempt.advice or _REMEDY}{entry}"
    return f"{caller()} tried to {attempt.what} {state}\n\n  {remedy}"


_REMEDY = (
    "Nothing records this call yet. One of these will:\n"
    "    all HTTP clients:   use_cassette(..., http=True), then record again\n"
    "    this function:      decorate it with @boundary, then record again\n"
    "  Or let replays reach the real host:  "
)


def guarding(
    guard: Guard, exempt: Callable[[], bool], answering: Callable[[], Guard | None] = lambda: None
) -> contextlib.AbstractContextManager[None]:
    """Keep the process offline during a block.

    Guards may nest and overlap in any threads. What is tried must be acceptable to every open guard, because a guard
    cannot know to which session a thread without context belongs. `exempt`, called at each attempt, returns True if the
    guard leaves the caller alone, as another session answers for it; `answering` returns the guard of that session, so
    that many open guards take no longer than one.

    Raises `NetworkBlockedError` inside the block, where something is tried; where that is telemetry,
    `ConnectionRefusedError`.
    """
    return _guards.including(_Opened(guard, exempt, answering))
