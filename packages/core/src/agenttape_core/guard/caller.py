"""The caller of an attempt: for the message, and for the one caller that is let through."""

from __future__ import annotations

import os
import socket
import sys
import sysconfig
import threading
import types

_OWN = "agenttape_"
"""The prefix of the names of our own packages."""

_STDLIB = tuple({sysconfig.get_path(name) + os.sep for name in ("stdlib", "platstdlib")})

_MULTIPROCESSING = ("multiprocessing.connection", "multiprocessing.forkserver")

PAIR_MAKERS = {
    function.__code__
    for name in ("socketpair", "_fallback_socketpair")
    if isinstance(function := getattr(socket, name, None), types.FunctionType)
}
"""The code of the standard library's functions that make, or emulate, a socket pair."""


def caller() -> str:
    """Name the nearest frame of the user's own code, or else of a library."""
    library: types.FrameType | None = None
    current: types.FrameType | None = sys._getframe()  # noqa: SLF001 - gives the stack without building a list
    while current is not None:
        filename = current.f_code.co_filename
        own = str(current.f_globals.get("__name__", "")).startswith(_OWN)
        if not own and not filename.startswith("<frozen"):
            if not is_library(filename):
                return _place(current)
            if library is None and _is_installed(filename):
                library = current
        current = current.f_back
    if library is not None:
        return f"{_place(library)} (a library; none of your own code is on this thread's stack)"
    return f"the thread {threading.current_thread().name!r}, with none of your own code on its stack"


def _place(frame: types.FrameType) -> str:
    return f"{frame.f_code.co_filename}:{frame.f_lineno} in {frame.f_code.co_qualname}"


def is_library(filename: str) -> bool:
    """Return True if code was installed, or came with Python."""
    return _is_installed(filename) or filename.startswith(_STDLIB)


def _is_installed(filename: str) -> bool:
    return "site-packages" in filename or "dist-packages" in filename


def in_socketpair() -> bool:
    """Return True if this is the standard library's emulation of a socket pair, which asyncio wakes itself with."""
    frame: types.FrameType | None = sys._getframe(2)  # noqa: SLF001 - see caller
    for _ in range(4):
        if frame is None:
            break
        if frame.f_code in PAIR_MAKERS:
            return True
        frame = frame.f_back
    return False


def in_multiprocessing() -> bool:
    """Return True if the attempt is the standard library's way to a process that this program has started."""
    frame: types.FrameType | None = sys._getframe(2)  # noqa: SLF001 - see caller
    while frame is not None and str(frame.f_globals.get("__name__", "")).startswith(_OWN):
        frame = frame.f_back
    return frame is not None and frame.f_globals.get("__name__") in _MULTIPROCESSING
