"""Show what AgentTape has to say of a failed test as it says it, at the lines of the user's code."""

from __future__ import annotations

import sysconfig
import types
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from agenttape_core.errors import AgentTapeError, AgentTapeHalt

if TYPE_CHECKING:
    from collections.abc import Iterator

_OURS = Path(__file__).resolve().parents[1]
_INSTALLED = tuple(Path(sysconfig.get_path(name)).resolve() for name in ("stdlib", "purelib", "platlib"))


def shortened(item: pytest.Item, call: pytest.CallInfo[None]) -> None:
    """Cut a failure that is ours to what a user needs: the message, and the lines of the project that led to it.

    A style of tracebacks that was asked for on the command line is kept.
    """
    option = item.config.option
    if option.tbstyle != "auto" or option.fulltrace or option.usepdb or call.excinfo is None:
        return
    error = _ours(call.excinfo.value)
    if error is None:
        return
    lines = _of_the_project(error.__traceback__) or _of_the_project(call.excinfo.value.__traceback__)
    error.__cause__ = error.__context__ = None  # what the agent made of it says nothing more
    call.excinfo = pytest.ExceptionInfo.from_exception(error.with_traceback(lines or error.__traceback__))


def _ours(error: BaseException) -> AgentTapeError | AgentTapeHalt | None:
    """Return the first of our errors in what a test raised: itself, or inside a group of a task group."""
    return next((found for found in _leaves(error) if isinstance(found, AgentTapeError | AgentTapeHalt)), None)


def _leaves(error: BaseException) -> Iterator[BaseException]:
    if isinstance(error, BaseExceptionGroup):
        for inner in error.exceptions:
            yield from _leaves(inner)
    else:
        yield error


def _of_the_project(traceback: types.TracebackType | None) -> types.TracebackType | None:
    """Return those entries of a traceback that are lines of the project."""
    entries = []
    while traceback is not None:
        if _is_of_the_project(Path(traceback.tb_frame.f_code.co_filename)):
            entries.append(traceback)
        traceback = traceback.tb_next
    kept: types.TracebackType | None = None
    for entry in reversed(entries):
        kept = types.TracebackType(kept, entry.tb_frame, entry.tb_lasti, entry.tb_lineno)
    return kept


def _is_of_the_project(path: Path) -> bool:
    path = path.resolve()
    return not path.is_relative_to(_OURS) and not any(path.is_relative_to(folder) for folder in _INSTALLED)
