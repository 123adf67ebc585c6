"""The fields that pydantic objects were given, which `==` and `repr` do not show."""

from __future__ import annotations

from typing import Any

from pydantic import BaseModel


def fields_given(value: Any) -> list[Any]:
    """Return `model_fields_set` of each pydantic object in a value, from the outermost on."""
    if isinstance(value, BaseModel):
        return [value.model_fields_set, *(fields_given(item) for item in vars(value).values())]
    if isinstance(value, dict):
        return [fields_given(item) for item in value.values()]
    return [fields_given(item) for item in value] if isinstance(value, list | tuple) else []
