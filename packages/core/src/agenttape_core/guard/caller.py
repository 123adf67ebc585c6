"""The caller of an attempt: for the message, and for the few callers that are let through."""

from __future__ import annotations

import os
import socket
import sys
import sysconfig
import threading
import types

from agenttape_core.errors import shown_path

_OWN = "agenttape_"  # the prefix of the names of our own packages

_STDLIB = tuple({sysconfig.get_path(name) + os.sep for name in ("stdlib", "platstdlib")})

_MULTIPROCESSING = ("multiprocessing.connection", "multiprocessing.forkserver", "multiprocessing.reduction")

_TOOLS = frozenset(
    {
        *("debugpy", "execnet", "pydevd", "_pydevd_bundle", "_pydev_bundle"),
        *("remote_pdb", "rpdb", "web_pdb", "pudb"),
    }
)
"""Packages that connect a process with an editor, a terminal or a test runner."""

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
        if not is_own(current) and not filename.startswith("<frozen"):
            if not is_library(filename):
                return _place(current)
            if library is None and _is_installed(filename):
                library = current
        current = current.f_back
    if library is not None:
        return f"{_place(library)} (a library; none of your own code is on this thread's stack)"
    return f"the thread {threading.current_thread().name!r}, with none of your own code on its stack"


def _place(frame: types.FrameType) -> str:
    function = frame.f_code.co_qualname
    place = f"{shown_path(frame.f_code.co_filename)}:{frame.f_lineno}"
    return place if function == "<module>" else f"{place} in {function}"


def is_own(frame: types.FrameType) -> bool:
    """Return True if the code of a frame is ours."""
    return str(frame.f_globals.get("__name__", "")).startswith(_OWN)


def is_library(filename: str) -> bool:
    """Return True if code was installed, or came with Python."""
    return _is_installed(filename) or filename.startswith(_STDLIB)


def is_standard(filename: str) -> bool:
    """Return True if code came with Python."""
    return filename.startswith((*_STDLIB, "<frozen")) and not _is_installed(filename)


def _is_installed(filename: str) -> bool:
    return "site-packages" in filename or "dist-packages" in filename


def in_socketpair() -> bool:
    """Return True if this is the standard library's emulation of a socket pair, which asyncio wakes itself with."""
    frame: types.FrameType | None = sys._getframe(2)  # noqa: SLF001 - see caller
    for _ in range(8):
        if frame is None:
            break
        if frame.f_code in PAIR_MAKERS:
            return True
        frame = frame.f_back
    return False


def in_debugger() -> bool:
    """Return True if a debugger or test runner speaks to the one that has started it.

    Its own code does so. Farther down it is on the stack of all that it runs.
    """
    frame: types.FrameType | None = sys._getframe(2)  # noqa: SLF001 - see caller
    while frame is not None and (is_own(frame) or is_standard(frame.f_code.co_filename)):
        frame = frame.f_back
    return frame is not None and str(frame.f_globals.get("__name__")).partition(".")[0] in _TOOLS


def closes_tls() -> bool:
    """Return True if an event loop ends a TLS connection: the other end may close an idle one at any time."""
    frame: types.FrameType | None = sys._getframe(2)  # noqa: SLF001 - see caller
    while frame is not None and (is_own(frame) or frame.f_globals.get("__name__") in _CLOSING):
        if frame.f_code.co_name == "_do_shutdown":
            return True
        frame = frame.f_back
    return False


_CLOSING = frozenset({"asyncio.sslproto", "asyncio.selector_events"})


def in_multiprocessing() -> bool:
    """Return True if the attempt is the standard library's way to a process that this program has started."""
    frame: types.FrameType | None = sys._getframe(2)  # noqa: SLF001 - see caller
    while frame is not None and is_own(frame):
        frame = frame.f_back
    return frame is not None and frame.f_globals.get("__name__") in _MULTIPROCESSING
