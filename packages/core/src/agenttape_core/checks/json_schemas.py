"""JSON Schema, by the library `jsonschema`, which comes with the extra `checks`."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from agenttape_core.checks.run import Run
from agenttape_core.checks.values import shown
from agenttape_core.errors import ConfigurationError
from agenttape_core.matching import Difference

_MOST = 8
_VALUES = {"const", "enum"}
"""The keywords that name the values that are expected."""


def validator(schema: Any, where: str) -> Any:
    """Return a validator of a schema, of the draft that it names, by default 2020-12.

    Args:
        schema: The schema.
        where: The place where it stands.

    Raises:
        ConfigurationError: If it is no schema, or the library is missing.
    """
    try:
        from jsonschema import Draft202012Validator, SchemaError, validators
    except ImportError:
        raise ConfigurationError(
            f"{where}: json_schema needs jsonschema\n  pip install 'agenttape-core[checks]'"
        ) from None
    if not isinstance(schema, Mapping):
        raise ConfigurationError(f"{where}: json_schema is a mapping, found {schema!r}")
    kind: Any = validators.validator_for(schema, default=Draft202012Validator)
    try:
        kind.check_schema(schema)
    except SchemaError as error:
        raise ConfigurationError(f"{where}: json_schema is not valid: {error.message}") from None
    return kind(schema)


def problems_of(run: Run, made: Any, value: Any) -> list[Difference]:
    """Return the places where a value does not fit a schema.

    Args:
        run: The run.
        made: A validator.
        value: Plain data.
    """
    errors: list[Any] = []
    for schema in (made.schema, _as_recorded(run, made.schema)):
        errors = sorted(made.evolve(schema=schema).iter_errors(value), key=lambda each: (each.json_path, each.message))
        if not errors:
            break
    return [
        Difference(
            error.json_path.removeprefix("$").removeprefix("."),
            f"{error.validator}: {shown(error.validator_value)}",
            shown(error.instance),
        )
        for error in errors[:_MOST]
    ]


def _as_recorded(run: Run, schema: Any, name: str = "") -> Any:
    """Return a schema with the values that it expects as the recording holds them, also those under a secret name."""
    if isinstance(schema, list):
        return [_as_recorded(run, each, name) for each in schema]
    if not isinstance(schema, Mapping):
        return schema
    found = {key: _as_recorded(run, item, name) for key, item in schema.items() if key not in _VALUES}
    found |= {key: run.as_recorded({name: schema[key]})[name] for key in _VALUES & schema.keys()}
    if isinstance(pattern := schema.get("pattern"), str):
        found["pattern"] = run.as_recorded(re.compile(pattern)).pattern
    properties = schema.get("properties")
    if isinstance(properties, Mapping):
        found["properties"] = {key: _as_recorded(run, item, key) for key, item in properties.items()}
    return found
