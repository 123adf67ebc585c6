"""The code that draws an id, a number or a time which no session keeps fixed, as in a replay of an observed run."""

from __future__ import annotations

import sys
import types
from collections.abc import Collection

from agenttape_core.freeze.callers import MACHINERY, MAKERS, OURS, STDLIB, WAITING_FOR_OTHERS
from agenttape_core.guard import is_tracer
from agenttape_core.guard.caller import is_library

PROGRAM = "the program"  # the name of the program's own code, where it draws something
_CLOCK = "clock"
_PASSING_ON = frozenset({"pydantic", "pydantic_core"})
"""Installed top-level modules that draw for the classes of others: see `default_factory`."""
_CALLING = frozenset({"asyncio", "concurrent", "functools", "threading"})
"""Top-level modules that call functions given to them by a program."""
_of_runs: set[str] = set()
_makers: set[str] = set()


def register_run_ids(*modules: str, makers: Collection[str] = ()) -> None:
    """Name modules of a framework that draw ids of its runs, spans and events, which only handlers get to see.

    Args:
        *modules: Their full names; the submodules of a package belong to it.
        makers: The full names of modules whose functions draw for others.
    """
    _of_runs.update(modules)
    _makers.update(makers)


def drawer(kind: str) -> str:
    """Return whose code draws something here: `PROGRAM`, or the name of an installed package; empty for no one's.

    A time belongs to the program only if its own code reads it: frameworks read the clock all the time.
    """
    frame: types.FrameType | None = sys._getframe(1)  # noqa: SLF001 - gives the stack without building a list
    while frame is not None:
        file, name = frame.f_code.co_filename, str(frame.f_globals.get("__name__", ""))
        top = name.partition(".")[0]
        if not file.startswith(OURS) and name not in MAKERS and name not in _makers:
            if top in MACHINERY or top in WAITING_FOR_OTHERS or is_tracer(frame) or _is_of_runs(name):
                return ""
            if not is_library(file):
                return PROGRAM
            if kind == _CLOCK and top not in _CALLING:
                return ""
            is_installed = "site-packages" in file or "dist-packages" in file
            passes_on = top in _PASSING_ON or (file.startswith(("<frozen", *STDLIB)) and not is_installed)
            if not passes_on:
                return top
        frame = frame.f_back
    return PROGRAM  # which has given it to a thread


def _is_of_runs(name: str) -> bool:
    return any(name == module or name.startswith(f"{module}.") for module in _of_runs)
