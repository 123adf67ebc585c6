"""The objects of a provider's client in `raw` and in `additional_kwargs`.

Such an object comes back with its own type where its class is loaded, and as a dict elsewhere: a stand-in needs no
provider package, and LlamaIndex reads both.
"""

from __future__ import annotations

from typing import Any

from pydantic import BaseModel

from agenttape_core.errors import UnreadableValueError, UnrecordableValueError
from agenttape_core.integration import Plain
from agenttape_core.integration.codecs import Nested, expect_dict


def write_raw(value: Any, nested: Nested) -> Plain:
    """Return a provider's object as plain data. Raises `UnrecordableValueError` if it has no form as plain data."""
    try:
        return nested(value)
    except UnrecordableValueError:
        plainer = _plainer(value)
        if plainer is None:
            raise
        return write_raw(plainer, nested)


def _plainer(value: Any) -> Any:
    """Return the data of an object that has no codec, by its own methods; `None` if it has none."""
    if isinstance(value, dict):
        items_by_key = {key: _item(item) for key, item in value.items()}
        return items_by_key if any(items_by_key[key] is not item for key, item in value.items()) else None
    if isinstance(value, list | tuple):
        items = [_item(item) for item in value]
        return items if any(new is not old for new, old in zip(items, value, strict=True)) else None
    if isinstance(value, BaseModel):
        return value.model_dump(mode="json")
    for name in ("to_dict", "model_dump"):
        if callable(method := getattr(value, name, None)):
            data = method()
            return data if isinstance(data, dict) else None
    return None


def _item(value: Any) -> Any:
    if isinstance(value, str | int | float | bool | bytes | None):
        return value
    plainer = _plainer(value)
    return value if plainer is None else plainer


def read_raw(plain: Plain, nested: Nested) -> Any:
    """Return the object that was written, or a dict of its fields where its class is not loaded."""
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
