"""The end of a process's session, however the process itself ends."""

from __future__ import annotations

import os
import signal
import sys
import threading
import traceback
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from functools import partial
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, NoReturn

from agenttape_core.errors import halt_in
from agenttape_core.guard.caller import is_library
from agenttape_core.lifecycle.patched_on_import import PatchedOnImport
from agenttape_core.lifecycle.remedy import is_ours

if TYPE_CHECKING:
    from agenttape_core.tools.processes.startup.agenttape_startup import Process

exit_now = os._exit
_to_the_end = ExitStack()


def register_exit_hooks(process: Process) -> None:
    """Register hooks that end the session where `atexit` does not run: in forks, and at `os._exit`."""

    def leave(status: int) -> NoReturn:
        process.end_in_time()
        exit_now(status)

    sys.excepthook = _short(sys.excepthook)
    threading.excepthook = _noting(process, threading.excepthook)
    noting = PatchedOnImport("multiprocessing.process", "BaseProcess.run", partial(_running, process))
    _to_the_end.enter_context(noting)
    os._exit = leave
    if hasattr(os, "register_at_fork"):
        # After the hooks of file locks, which were registered first.
        os.register_at_fork(after_in_child=process.open_after_fork)


def _noting(process: Process, shown: Callable[[threading.ExceptHookArgs], Any]) -> Callable[..., Any]:
    """Return the hook of exceptions of threads, which notes what to do about one for want of a key."""

    def show(args: threading.ExceptHookArgs, /) -> None:
        process.note_missing_key(args.exc_value)
        shown(args)

    return show


def _running(process: Process, run: Callable[[Any], None]) -> Callable[[Any], None]:
    """Return the main function of the processes of `multiprocessing`, which prints exceptions without any hook."""

    def noting(self: Any) -> None:
        try:
            run(self)
        except Exception as error:
            process.note_missing_key(error)
            raise

    return noting


def _short(shown: Callable[..., Any]) -> Callable[..., Any]:
    """Show only the place at which a halt stopped a program: the command explains it at its end."""

    def show(kind: type[BaseException], error: BaseException, trace: TracebackType | None) -> None:
        halt = halt_in(error)
        if halt is None:
            shown(kind, error, trace)
            return
        why = "; the pool was stopped with it, as the call was refused in a worker" if halt.in_worker else ""
        sys.stderr.write(f"agenttape: the program was stopped{_place(trace)}{why}\n")

    return show


def _place(trace: TracebackType | None) -> str:
    """Return the last line of the program's own code that led to an error."""
    lines = [(frame, line) for frame, line in traceback.walk_tb(trace) if not is_ours(frame)]
    for frame, line in reversed(lines):
        file = Path(frame.f_code.co_filename)
        if not is_library(str(file)):
            return f" at {file.relative_to(Path.cwd()) if file.is_relative_to(Path.cwd()) else file}:{line}"
    return ""


def release_waiting_parent(process: Process) -> None:
    """Terminate the owner of a `multiprocessing.Pool` whose worker a halt has ended: it would wait forever."""
    multiprocessing: Any = sys.modules.get("multiprocessing.process")
    owner = multiprocessing.parent_process() if multiprocessing is not None else None
    if owner is None or process.is_terminated or "PoolWorker" not in multiprocessing.current_process().name:
        return
    process.note("the pool was stopped: it would have waited forever for a worker that is gone")
    os.kill(owner.pid, signal.SIGTERM)


@contextmanager
def signals_blocked() -> Iterator[None]:
    """Hold back signals that end the process until the end of the block."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    came: list[int] = []
    before = {
        number: signal.signal(number, lambda number, _: came.append(number))
        for number in (signal.SIGINT, signal.SIGTERM)
        if signal.getsignal(number) is not None  # None: a handler in C, which Python could not restore
    }
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
        if came:
            signal.raise_signal(came[0])
