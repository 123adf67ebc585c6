"""The caller, where the answer depends on it: its code, and whether the session layer is answering it.

Then the clock and the ids of its thread are the real ones: a lookup or a scope may log, lock or make an id itself, and
would be asked again, forever.
"""

from __future__ import annotations

import os
import sys
import sysconfig
import threading
import types
from collections.abc import Callable, Collection
from pathlib import Path
from typing import TypeVar

from agenttape_core.guard.caller import is_library

MACHINERY = frozenset(
    {
        *("agenttape_core", "tempfile", "subprocess", "multiprocessing", "unittest", "_pytest", "pytest"),
        *("hypothesis", "coverage", "bdb", "pdb", "pydevd", "debugpy"),
    }
)
"""Top-level modules whose draws aren't part of the run: the names of temporary files must differ between processes, and
a test tool must put back the real functions."""

MAKERS = frozenset({"datetime", "random", "uuid", "uuid6", "uuid_utils", "uuid_utils.compat"})
"""The modules whose functions draw for others."""

WAITING_FOR_OTHERS = frozenset({"agenttape_core", "anyio", "async_timeout", "sniffio", "tenacity"})
"""Installed top-level modules whose waits count as their callers', like those of the standard library."""
STDLIB = tuple({sysconfig.get_path(name) + os.sep for name in ("stdlib", "platstdlib")})
OURS = str(Path(__file__).parents[1]) + os.sep
"""The files of this package. Code of ours also runs as code of the standard library, with its globals: see `ids`."""
_IMPORTING = "importlib._bootstrap"


Answer = TypeVar("Answer")


class _Asking(threading.local):
    now: bool = False


ASKING = _Asking()  # its `now` is True if this thread is in the middle of such a question


def ask(question: Callable[[], Answer]) -> Answer:
    """Call the question; whatever it calls in turn is not frozen."""
    before = ASKING.now
    ASKING.now = True
    try:
        return question()
    finally:
        ASKING.now = before


def calling_module(passing: Collection[str]) -> str:
    """Return the top-level name of the module that asks, skipping the modules in `passing`, ours too."""
    frame = calling_frame(passing)
    return str(frame.f_globals.get("__name__", "")).partition(".")[0] if frame is not None else ""


def calling_frame(passing: Collection[str]) -> types.FrameType | None:
    """Like `calling_module`, return the frame that asks, from the caller of the function that calls this."""
    frame: types.FrameType | None = sys._getframe(2)  # noqa: SLF001 - gives the stack without building a list
    while frame is not None and frame.f_globals.get("__name__", "") in passing:
        frame = frame.f_back
    return frame


def is_of_a_library() -> bool:
    """Return True if a wait that begins here belongs to an installed package, and not to the program's own code."""
    frame: types.FrameType | None = sys._getframe(1)  # noqa: SLF001 - see calling_module
    while frame is not None:
        file = frame.f_code.co_filename
        is_installed = "site-packages" in file or "dist-packages" in file
        top = str(frame.f_globals.get("__name__", "")).partition(".")[0]
        passes_on = file.startswith(OURS) or (file.startswith(("<frozen", *STDLIB)) and not is_installed)
        if not passes_on and top not in WAITING_FOR_OTHERS:
            return is_installed
        frame = frame.f_back
    return False


def is_drawn_by_program() -> bool:
    """Return True if the code that draws an id, a number or a time here is the program's own, not a library's."""
    frame = _drawing_frame()
    return frame is not None and not is_library(frame.f_code.co_filename) and _is_of_run(frame)


def is_drawn_for_run() -> bool:
    """Return True if the code that draws here belongs to the program, or to a library which may draw for it."""
    frame = _drawing_frame()
    return frame is not None and _is_of_run(frame)


def _drawing_frame() -> types.FrameType | None:
    frame: types.FrameType | None = sys._getframe(2)  # noqa: SLF001 - see calling_module
    while frame is not None:
        if not frame.f_code.co_filename.startswith(OURS) and frame.f_globals.get("__name__") not in MAKERS:
            return frame
        frame = frame.f_back
    return None


def _is_of_run(frame: types.FrameType) -> bool:
    return str(frame.f_globals.get("__name__", "")).partition(".")[0] not in MACHINERY


def imports_under_way() -> int:
    """Return how deep this thread's stack is in the import of modules; 0 when it imports none."""
    depth = 0
    frame: types.FrameType | None = sys._getframe(1)  # noqa: SLF001 - see calling_module
    while frame is not None:
        depth += frame.f_globals.get("__name__") == _IMPORTING
        frame = frame.f_back
    return depth
