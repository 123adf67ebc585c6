"""The line at which the code of a call begins."""

from __future__ import annotations

import functools
import inspect
import types
from typing import Any

from agenttape_core.guard.caller import is_library
from agenttape_core.side_effects.source_lines import shown_file


def line_of(code: Any) -> str:
    """Return where the code of a call begins, as `desk/tools.py:41`; empty where that is not known.

    It's a function, a method, or an object that runs a function of the program or has a method for it.
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
