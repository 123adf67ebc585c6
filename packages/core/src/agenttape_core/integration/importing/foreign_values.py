"""Values as other tools have written them: scalars, arguments, errors."""

from __future__ import annotations

import ast
import keyword
import re
from collections.abc import Mapping
from typing import Any

_SCALARS = (str, int, float, bool, bytes, type(None))
AS_JSON = "agenttape 0.1 made JSON of the result, so its types may be lost"
"""The loss of a value that isn't a scalar."""


def is_scalar(value: Any) -> bool:
    """Return whether a value keeps its type when it is written as JSON."""
    return isinstance(value, _SCALARS)


def literal_arguments(text: str) -> Any:
    """Return the arguments from the text that Python's `str` made of them, or the text if it is none.

    Only literals are read (`ast.literal_eval`); no code is evaluated.
    """
    try:
        value = ast.literal_eval(text)
    except (ValueError, SyntaxError, MemoryError, RecursionError):
        return text
    return value if isinstance(value, dict) and all(isinstance(key, str) for key in value) else text


def error_named(module: str, name: str, message: str, attributes: Mapping[str, Any] | None = None) -> Exception:
    """Return an exception of a new class with this name, to be recorded under it. Nothing is imported.

    Args:
        module: The module of the class.
        name: The class.
        message: Its message.
        attributes: Its attributes.
    """
    safe = name if name.isidentifier() and not keyword.iskeyword(name) else "Exception"
    place = module if re.fullmatch(r"\w+(\.\w+)*", module) else "builtins"
    error: Exception = type(safe, (Exception,), {"__module__": place, "__qualname__": safe})(message)
    for key, value in (attributes or {}).items():
        if key.isidentifier() and not key.startswith("_"):
            setattr(error, key, value)
    return error
