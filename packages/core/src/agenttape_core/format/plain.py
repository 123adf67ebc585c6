"""The check that a value is plain data: the values that JSON and YAML share (see `schema.values`)."""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Any

from agenttape_core.errors import UnrecordableValueError
from agenttape_core.format.limits import MAX_DEPTH, MAX_INT_DIGITS

_MAX_INT_BITS = int(MAX_INT_DIGITS / math.log10(2))


def check_plain(value: Any, where: str = "$", depth: int = 1) -> None:
    """Refuse what would not come back from a file with its type and value.

    `depth` is its level, counted in lists and dicts from the record (which is level 1). Raises `UnrecordableValueError`
    if something in it is not plain data, or beyond the limits of the format.
    """
    if not is_plain(value, depth):
        _refuse(value, where, depth)


def is_plain(value: Any, depth: int = 1) -> bool:
    """Return whether a value is plain data: the check without the paths, which few values need."""
    return _are_plain((value,), depth)


def _are_plain(values: Iterable[Any], depth: int) -> bool:
    """Return whether all of some values are plain data; in one loop, since each record passes here when it is kept."""
    for value in values:
        kind = type(value)
        if kind is str:
            if not (value.isascii() or _is_text(value)):
                return False
        elif kind is dict:
            if depth > MAX_DEPTH or not _are_texts(value) or not _are_plain(value.values(), depth + 1):
                return False
        elif kind is list:
            if depth > MAX_DEPTH or not _are_plain(value, depth + 1):
                return False
        elif not (value is None or kind is bool or _is_number(value)):
            return False
    return True


def _are_texts(keys: Iterable[Any]) -> bool:
    for key in keys:  # noqa: SIM110 - `all` costs twice as much here
        if type(key) is not str or not (key.isascii() or _is_text(key)):
            return False
    return True


def _is_number(value: Any) -> bool:
    if type(value) is int:
        return value.bit_length() <= _MAX_INT_BITS
    return type(value) is float and math.isfinite(value)


def _is_text(text: str) -> bool:
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def _refuse(value: Any, where: str, depth: int) -> None:
    """Raise the error for the first value that is not plain data."""
    kind = type(value)
    if kind is str:
        _check_text(value, where)
    elif kind is dict:
        _check_depth(value, where, depth)
        for key, item in value.items():
            if type(key) is not str:
                raise UnrecordableValueError(where, type(key), "keys of plain data are strings")
            _check_text(key, where)
            _refuse(item, f"{where}.{key}", depth + 1)
    elif kind is list:
        _check_depth(value, where, depth)
        for position, item in enumerate(value):
            _refuse(item, f"{where}[{position}]", depth + 1)
    elif value is not None and kind is not bool:
        _check_number(value, where)


def _check_text(text: str, where: str) -> None:
    if not _is_text(text):
        raise UnrecordableValueError(where, str, "a lone surrogate must be encoded as a tagged value")


def _check_depth(value: object, where: str, depth: int) -> None:
    if depth > MAX_DEPTH:
        raise UnrecordableValueError(where, type(value), f"nested deeper than {MAX_DEPTH} levels")


def _check_number(value: object, where: str) -> None:
    if type(value) is int:
        if value.bit_length() > _MAX_INT_BITS:
            raise UnrecordableValueError(where, int, f"more than {MAX_INT_DIGITS} decimal digits")
    elif type(value) is float:
        if not math.isfinite(value):
            raise UnrecordableValueError(where, float, "a non-finite float must be encoded as a tagged value")
    else:
        raise UnrecordableValueError(where, type(value), "not plain data: encode it first")
