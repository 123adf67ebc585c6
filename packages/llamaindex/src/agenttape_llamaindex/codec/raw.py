"""What a provider's client returned, beside what LlamaIndex makes of it: `raw`, and what is put in `additional_kwargs`.

An object of a provider's class comes back as such where that class is loaded, and else as a dict: a stand-in needs no
provider package, and LlamaIndex reads either.
"""

from __future__ import annotations

from typing import Any

from pydantic import BaseModel

from agenttape_core import UnreadableValueError, UnrecordableValueError
from agenttape_core.integration import Plain
from agenttape_core.integration.codecs import Nested, expect_dict


def write_raw(value: Any, nested: Nested) -> Plain:
    """Return a provider's object as plain data.

    Raises:
        UnrecordableValueError: If it is no plain data and cannot be made such.
    """
    try:
        return nested(value)
    except UnrecordableValueError:
        told = _told(value)
        if told is None:
            raise
        return write_raw(told, nested)


def _told(value: Any) -> Any:
    """Return what an object says of itself that has no codec; nothing if it says nothing."""
    if isinstance(value, dict):
        told = {key: _plainer(item) for key, item in value.items()}
        return told if any(told[key] is not item for key, item in value.items()) else None
    if isinstance(value, list | tuple):
        items = [_plainer(item) for item in value]
        return items if any(new is not old for new, old in zip(items, value, strict=True)) else None
    if isinstance(value, BaseModel):
        return value.model_dump(mode="json")
    for name in ("to_dict", "model_dump"):
        if callable(method := getattr(value, name, None)):
            told = method()
            return told if isinstance(told, dict) else None
    return None


def _plainer(value: Any) -> Any:
    if isinstance(value, str | int | float | bool | bytes | None):
        return value
    told = _told(value)
    return value if told is None else told


def read_raw(plain: Plain, nested: Nested) -> Any:
    """Return the object that was written, or a dict of what it held where its class is not loaded."""
    try:
        return nested(plain)
    except UnreadableValueError:
        return nested(_without_classes(plain))


def _without_classes(plain: Plain) -> Plain:
    if type(plain) is list:
        return [_without_classes(item) for item in plain]
    if type(plain) is not dict:
        return plain
    if plain.keys() <= {"$model", "$dataclass"} and len(plain) == 1:
        body = expect_dict(next(iter(plain.values())), "$model")
        return _without_classes({**expect_dict(body.get("fields"), "$model"), **body.get("extra", {})})
    if plain.keys() == {"$enum"}:
        return plain["$enum"][-1]
    return {key: _without_classes(item) for key, item in plain.items()}
