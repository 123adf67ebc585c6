"""The line of the program that a side effect happens at."""

from __future__ import annotations

import functools
import inspect
import sys
import types
from typing import Any

from agenttape_core.guard.caller import is_library
from agenttape_core.guard.tracers import REPORTING, in_telemetry
from agenttape_core.named_tuples import NamedTuple
from agenttape_core.side_effects.words import shown

_OURS = "agenttape_"
_STORING = tuple(
    f"agenttape_core.{room}" for room in ("storage", "lifecycle", "format", "settings", "redaction", "tools")
)
"""The rooms of ours that write files for themselves; the others only call what belongs to the program."""
_IMPORT = "<frozen importlib"
_TELEMETRY = (
    *REPORTING,
    *("langsmith.client", "langsmith._internal", "langsmith.async_client", "posthog.client", "posthog.request"),
    "langfuse.request",
)
"""Modules that send reports on a program from inside it, and aren't part of its work. Modules between the program and
its calls, which report them, aren't among them."""
_RECORDERS = ("vcr.", "betamax.")  # modules that record the requests they send, and answer them in a replay
_ASKING = frozenset({"platform", "ctypes.util", "uuid", "sysconfig", "_osx_support", "_aix_support", "locale"})
"""Modules of the standard library that start processes only to learn about the machine."""
_INSTALLED = ("site-packages/", "dist-packages/")


class SourceLine(NamedTuple):
    """The place of a side effect."""

    inside: str  # the nearest line of the program in the call that runs; empty if there is none
    anywhere: str  # the nearest line of the program on the stack of the thread, or else of a library


def source_line_of(frame: types.FrameType | None) -> SourceLine | None:
    """Return where a side effect happens, or `None` if it is none of the program's.

    An import, our storage and telemetry are not, nor is a request that another recorder will answer in a replay.
    `frame` is the innermost frame that may belong to it.
    """
    library = ""
    is_inside, met = True, False
    while frame is not None:
        filename, module = frame.f_code.co_filename, str(frame.f_globals.get("__name__", ""))
        if module.startswith(_OURS):
            if not met and module.startswith(_STORING):
                return None
            is_inside = is_inside and not met
        elif _is_installed(filename):
            if module.startswith((*_TELEMETRY, *_RECORDERS)):
                return None
            met, library = True, library or _line(frame)
        elif filename.startswith(_IMPORT) or (module in _ASKING and is_library(filename)):
            return None
        elif not is_library(filename) and not filename.startswith("<frozen"):
            own = _line(frame)
            return SourceLine(own if is_inside else "", own)
        frame = frame.f_back
    return None if in_telemetry() else SourceLine("", library)


def _is_installed(filename: str) -> bool:
    return any(part[:-1] in filename for part in _INSTALLED)


def _line(frame: types.FrameType) -> str:
    return f"{shown_file(frame.f_code.co_filename)}:{frame.f_lineno}"


def shown_file(filename: str) -> str:
    """Return the name of a file of code: from the working folder, or from the folder that packages are installed in."""
    if filename.startswith("<"):
        return filename
    spelled = filename.replace("\\", "/")
    for part in _INSTALLED:
        if part in spelled:
            return spelled.rpartition(part)[2]
    return shown(filename)


def innermost(depth: int) -> types.FrameType:
    """Return the frame so many calls above the caller."""
    return sys._getframe(depth + 1)  # noqa: SLF001 - gives the stack without building a list


def line_of(code: Any) -> str:
    """Return where the code of a call begins, as `desk/tools.py:41`; empty where that is not known.

    The code is a function, a method, or an object that runs a function of the program or has a method for it.
    """
    found = function_of(code)
    return f"{shown_file(found.co_filename)}:{found.co_firstlineno}" if found is not None else ""


def function_of(code: Any) -> types.CodeType | None:
    """Return the code that an object runs: its own, or the first of the program's among its attributes."""
    while isinstance(code, functools.partial | types.MethodType):
        code = code.func if isinstance(code, functools.partial) else code.__func__
    code = inspect.unwrap(code) if isinstance(code, types.FunctionType) else code
    found = getattr(code, "__code__", None)
    if isinstance(found, types.CodeType):
        return found
    held = list(getattr(code, "__dict__", {}).values()) + list(vars(type(code)).values())
    functions = (inspect.unwrap(value).__code__ for value in held if isinstance(value, types.FunctionType))
    return next((found for found in functions if not is_library(found.co_filename)), None)
