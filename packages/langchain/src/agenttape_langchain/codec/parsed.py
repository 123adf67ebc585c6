"""The parsed object that structured output leaves in `additional_kwargs["parsed"]`.

Providers put an instance of the user's schema there. It comes back as such if its class can be found by name. A schema
that is local to a function cannot, so its data are written under `$parsed` and come back as a dict. So does a model
whose class is gone or changed at replay. LangChain's parsers take either: from a dict they build the schema of *their*
process.
"""

from __future__ import annotations

from typing import Any

from pydantic import BaseModel

from agenttape_core.errors import UnreadableValueError, UnrecordableValueError
from agenttape_core.integration import Plain, TypeCodec
from agenttape_core.integration.codecs import Nested, expect_dict


def write_additional(kwargs: dict[Any, Any], nested: Nested) -> Plain:
    """Return `additional_kwargs` as plain data."""
    parsed = kwargs.get("parsed")
    if not isinstance(parsed, BaseModel):
        return nested(kwargs)
    rest = nested({**kwargs, "parsed": None})
    if "parsed" not in rest:  # not all keys are strings, so it was written pair by pair
        return nested(kwargs)
    return {**rest, "parsed": _write_parsed(parsed, nested)}


def _write_parsed(parsed: BaseModel, nested: Nested) -> Plain:
    try:
        return nested(parsed)
    except UnrecordableValueError:
        try:
            return {"$parsed": nested(parsed.model_dump(by_alias=True))}
        except UnrecordableValueError:  # JSON is the provider's form, and a parser takes it again
            return {"$parsed": nested(parsed.model_dump(mode="json", by_alias=True))}


def read_additional(plain: Plain, nested: Nested) -> Any:
    """Return `additional_kwargs` from plain data."""
    if type(plain) is not dict or type(plain.get("parsed")) is not dict:
        return nested(plain)
    kwargs = nested({**plain, "parsed": None})
    try:
        kwargs["parsed"] = nested(plain["parsed"])
    except UnreadableValueError:
        kwargs["parsed"] = nested(_without_classes(plain["parsed"]))
    return kwargs


def _without_classes(plain: Plain) -> Plain:
    if type(plain) is list:
        return [_without_classes(item) for item in plain]
    if type(plain) is not dict:
        return plain
    if plain.keys() == {"$model"}:
        model = expect_dict(plain["$model"], "$model")
        return _without_classes({**expect_dict(model.get("fields"), "$model"), **model.get("extra", {})})
    return {key: _without_classes(item) for key, item in plain.items()}


CODEC = TypeCodec("$parsed", lambda _: False, lambda value, nested: nested(value), lambda plain, nested: nested(plain))
"""Reads the marked dict; only `write_additional` writes it, so it handles no objects."""
