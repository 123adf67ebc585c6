"""Validation errors of pydantic as records and back. Their class is written in Rust: it can't be subclassed."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from typing import Any

from pydantic_core import PydanticCustomError, ValidationError

from agenttape_core.schema import Plain

_USUAL: dict[str, Any] = {"input_type": "python", "hide_input": False}
PARTS = frozenset({"title", "line_errors", *_USUAL})
"""The attributes of a validation error; all others belong to the program."""
_TEXTS = frozenset({"type", "msg"})
_MISFITS = (AttributeError, KeyError, TypeError, ValueError)
"""The errors with which pydantic refuses an object of another version, or one that isn't a validation error."""


def is_validation_error(cls: type | None) -> bool:
    """Return True for the class of validation errors."""
    return cls is ValidationError


def parts_of(error: ValidationError, encode: Callable[[Any], Plain]) -> dict[str, Plain]:
    """Return the fields of a validation error.

    `encode` encodes the input that wasn't valid, and the subject of an error.
    """
    reduced: Any = error.__reduce__()
    others = dict(zip(_USUAL, reduced[1][2:], strict=False))
    lines: Any = error.errors(include_url=False)
    return {
        "title": error.title,
        "line_errors": [{k: item if k in _TEXTS else encode(item) for k, item in line.items()} for line in lines],
        **{name: part for name, part in others.items() if part != _USUAL[name]},
    }


def validation_error(parts: dict[str, Plain], decode: Callable[[Plain], Any]) -> ValidationError | None:
    """Return the validation error of a record; `None` if there is none in these parts.

    `decode` decodes the input, and the subject of an error.
    """
    lines = parts.get("line_errors")
    if not isinstance(lines, list):
        return None
    options = {name: parts.get(name, usual) for name, usual in _USUAL.items()}
    with suppress(*_MISFITS):
        made = [_line({key: item if key in _TEXTS else decode(item) for key, item in line.items()}) for line in lines]
        return ValidationError.from_exception_data(parts["title"], made, **options)
    return None


def _line(line: dict[str, Any]) -> Any:
    """Return a line of an error, in the recorded words where this version of pydantic has others or none."""
    words = line.pop("msg")
    with suppress(*_MISFITS):  # one of a validator of the program, or of another version
        if ValidationError.from_exception_data("", [line]).errors()[0]["msg"] == words:  # type: ignore[list-item]
            return line
    return {**line, "type": PydanticCustomError(line["type"], words, line.pop("ctx", None))}
