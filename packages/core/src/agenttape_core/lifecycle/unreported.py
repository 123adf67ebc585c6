"""Failures of blocks that your code would never see, because the process ends before the block does.

A block raises its failure when it ends, even if your code swallowed it before. But it may never end: after
`os._exit(0)`, in a generator that's still open, after `__enter__` without `__exit__`. Or no caller is left to raise to,
as in a generator that the garbage collector closes. The process then prints the failure and exits with 1.

Nothing is replaced until a session has failed: a replay without a miss pays one entry of a list for this.
"""

from __future__ import annotations

import atexit
import functools
import os
import sys
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any, NamedTuple, NoReturn

from agenttape_core.errors import AgentTapeError, AgentTapeHalt, halt_in, shown_path
from agenttape_core.lifecycle.running_test import this_test
from agenttape_core.session import Session


class _Failure(NamedTuple):
    process: int
    """The process of the block: a fork inherits the entry, and its parent reports for it."""
    line: str


_failures: dict[object, _Failure] = {}
"""The failures that haven't been reported yet, by the numbers of their sessions; those without a caller by their
texts."""
_last: list[_ExitsWithOne] = []


def watch_end(session: Session) -> None:
    """Report a failure of a session if its process ends before `reported`."""
    session.latch.on_first.append(functools.partial(_note, id(session), session.path))


def reported(session: Session) -> None:
    """Leave the failure of a session to its block, which has ended and raises it."""
    _failures.pop(id(session), None)


def is_failure_status(status: object) -> bool:
    """Return True if a process that exits with this status fails: only the low byte of a number reaches its parent."""
    return bool(status & 0xFF) if isinstance(status, int) else status is not None


def _note(key: object, cassette: Path | str, failure: AgentTapeError | AgentTapeHalt) -> None:
    _failures[key] = _Failure(os.getpid(), f"{shown_path(cassette)}: {failure}")
    _watch_exits()


@functools.cache
def _watch_exits() -> None:
    os._exit = _exiting(os._exit)  # type: ignore[assignment]
    sys.unraisablehook = _unraisable(sys.unraisablehook)


def _exiting(real: Callable[[int], NoReturn]) -> Callable[[int], NoReturn]:
    @functools.wraps(real)
    def leave(status: int) -> NoReturn:
        real(1 if _report() and not is_failure_status(status) else status)

    return leave


def _unraisable(real: Callable[[Any], object]) -> Callable[[Any], object]:
    """Wrap the hook that shows an exception which Python cannot raise: pytest makes it a warning of the test itself."""

    def show(shown: Any, is_ending: Callable[[], bool] = sys.is_finalizing) -> None:
        halt = None if is_ending() else halt_in(shown.exc_value)  # the names of this module may be gone by then
        if halt is not None and this_test() is None:
            _failures[str(halt)] = _Failure(os.getpid(), str(halt))
        real(shown)

    return show


def _report() -> bool:
    """Print the failures of this process that are not reported so far; return whether there is one."""
    lines = [failure.line for failure in _failures.values() if failure.process == os.getpid()]
    _failures.clear()
    with suppress(Exception):  # a closed stream must not keep the process from failing
        if lines:
            sys.stdout.flush()
            sys.stderr.write("".join(f"agenttape: the process ends with a failure: {line}\n" for line in lines))
            sys.stderr.flush()
    return bool(lines)


@atexit.register
def _fail_at_exit() -> None:
    if _report():
        _last.append(_ExitsWithOne())


class _ExitsWithOne:
    """Ends the process with 1 when its module is cleared: all other `atexit` functions have run by then."""

    def __del__(self, leave: Callable[[int], NoReturn] = os._exit) -> None:
        leave(1)
