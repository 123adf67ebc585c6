"""Failures that are AgentTape's: shown by their messages, at the lines of the user's code."""

from __future__ import annotations

import sysconfig
import types
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from agenttape_core.errors import AgentTapeError, AgentTapeHalt

if TYPE_CHECKING:
    from collections.abc import Iterator

    from _pytest._code.code import TerminalRepr  # the type that `ExceptionInfo.getrepr` returns has no public name

_OURS = "agenttape_"
_INSTALLED = tuple(Path(sysconfig.get_path(name)).resolve() for name in ("stdlib", "purelib", "platlib"))


def shown(item: pytest.Item, call: pytest.CallInfo[None]) -> TerminalRepr | None:
    """Return the message of a failure that is ours, and the lines of the project that led to it.

    `None` for any other failure, or if the command line chooses a style of tracebacks.
    """
    option = item.config.option
    if option.tbstyle != "auto" or option.fulltrace or option.usepdb or call.excinfo is None:
        return None
    raised = call.excinfo.value
    error = _ours(raised)
    if error is None:
        return None
    lines = _of_the_project(error.__traceback__) or _of_the_project(raised.__traceback__)
    alone = error.with_traceback(lines or error.__traceback__)
    return pytest.ExceptionInfo.from_exception(alone).getrepr(style="short", funcargs=False, chain=False)


def _ours(error: BaseException) -> AgentTapeError | AgentTapeHalt | None:
    """Return the first of our errors in an exception: itself, or inside the group of a task group."""
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
        if _is_of_the_project(traceback.tb_frame):
            entries.append(traceback)
        traceback = traceback.tb_next
    kept: types.TracebackType | None = None
    for entry in reversed(entries):
        kept = types.TracebackType(kept, entry.tb_frame, entry.tb_lasti, entry.tb_lineno)
    return kept


def _is_of_the_project(frame: types.FrameType) -> bool:
    if str(frame.f_globals.get("__name__")).startswith(_OURS):
        return False
    path = Path(frame.f_code.co_filename).resolve()
    return not any(path.is_relative_to(folder) for folder in _INSTALLED)
