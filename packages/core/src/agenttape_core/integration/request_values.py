"""The values of a call in the form of its request, which is the same for all frameworks."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from pydantic import BaseModel

from agenttape_core.schema import class_name
from agenttape_core.session import is_written_in_requests

_SCALARS = (str, int, float)


def request_value(value: Any) -> Any:
    """Return a request value as plain data; one without a codec becomes the name of its type, never its address."""
    if value is None or isinstance(value, _SCALARS):
        return value
    if isinstance(value, type):
        return _type(value)
    if isinstance(value, Mapping | list | tuple | set | frozenset):
        return _items(value)
    return value if is_written_in_requests(value) else {"type": class_name(type(value))}


def _items(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {key if isinstance(key, str) else str(key): request_value(item) for key, item in value.items()}
    items = [request_value(item) for item in value]
    if isinstance(value, list | tuple):
        return items
    return sorted(items, key=lambda item: json.dumps(item, sort_keys=True, default=str))


def _type(cls: type) -> Any:
    if issubclass(cls, BaseModel):
        return {"name": cls.__name__, "schema": cls.model_json_schema()}
    return {"name": cls.__qualname__}
