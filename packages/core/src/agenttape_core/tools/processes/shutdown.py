"""How the session of a process ends, however the process does."""

from __future__ import annotations

import os
import signal
import sys
import threading
import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, NoReturn

from agenttape_core.errors import AgentTapeHalt
from agenttape_core.guard.caller import is_library
from agenttape_core.lifecycle.remedy import is_ours

if TYPE_CHECKING:
    from agenttape_core.tools.processes.startup.agenttape_startup import Process

_PATIENCE = 5.0
"""Seconds that a process which is about to die has for its recording: what it holds may be locked for ever."""

die = os._exit


def end_in_any_case(process: Process) -> None:
    """End the session also where Python would not: in a fork, at `os._exit`, with which forks end, when terminated."""

    def leave(status: int) -> NoReturn:
        if not process.is_over:
            _in_time(process.end)
        die(status)

    def terminated(number: int, frame: Any) -> None:  # noqa: ARG001 - the signature of handlers
        if process.is_over:
            return  # it is about to die; who terminates is seldom content with once
        process.is_terminated = True
        _in_time(process.end)
        signal.signal(number, signal.SIG_DFL)
        signal.raise_signal(number)

    sys.excepthook = _short(sys.excepthook)
    os._exit = leave
    if hasattr(os, "register_at_fork"):
        os.register_at_fork(after_in_child=process.taken_again)  # after the locks of files, which were there first
    if threading.current_thread() is threading.main_thread() and signal.getsignal(signal.SIGTERM) is signal.SIG_DFL:
        signal.signal(signal.SIGTERM, terminated)


def _short(shown: Callable[..., Any]) -> Callable[..., Any]:
    """Show where a halt of ours has stopped a program, and no more: it is explained when the command has ended."""

    def show(kind: type[BaseException], error: BaseException, trace: TracebackType | None) -> None:
        if not isinstance(error, AgentTapeHalt):
            shown(kind, error, trace)
            return
        sys.stderr.write(f"agenttape: the program was stopped{_place(trace)}\n")

    return show


def _place(trace: TracebackType | None) -> str:
    """Return the last line of the program's own code that led to an error."""
    lines = [(frame, line) for frame, line in traceback.walk_tb(trace) if not is_ours(frame)]
    for frame, line in reversed(lines):
        file = Path(frame.f_code.co_filename)
        if not is_library(str(file)):
            return f" at {file.relative_to(Path.cwd()) if file.is_relative_to(Path.cwd()) else file}:{line}"
    return ""


def stop_who_waits(process: Process) -> None:
    """Terminate the owner of a `multiprocessing.Pool` whose worker a halt has ended: it would wait for it for ever."""
    multiprocessing: Any = sys.modules.get("multiprocessing.process")
    owner = multiprocessing.parent_process() if multiprocessing is not None else None
    if owner is None or process.is_terminated or "PoolWorker" not in multiprocessing.current_process().name:
        return
    process.note("the pool was stopped: it would have waited for ever for a worker that is gone")
    os.kill(owner.pid, signal.SIGTERM)


@contextmanager
def undisturbed() -> Iterator[None]:
    """Let signals that end the process wait for the end of the block."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    came: list[int] = []
    before = {
        number: signal.signal(number, lambda number, _: came.append(number))
        for number in (signal.SIGINT, signal.SIGTERM)
        if signal.getsignal(number) is not None  # nothing: a handler that Python does not know, and could not put back
    }
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
        if came:
            signal.raise_signal(came[0])


def _in_time(work: Callable[[], None]) -> None:
    """Do something in another thread, and not wait for ever: this one may hold what it needs."""
    worker = threading.Thread(target=work, daemon=True)
    worker.start()
    worker.join(_PATIENCE)
