"""JSON Schema, by the library `jsonschema`, which comes with the extra `checks`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from agenttape_core.checks.values import shown
from agenttape_core.errors import ConfigurationError
from agenttape_core.matching import Difference

_MOST = 8


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


def problems_of(made: Any, value: Any) -> list[Difference]:
    """Return the places where a value does not fit a schema.

    Args:
        made: A validator.
        value: Plain data.
    """
    errors = sorted(made.iter_errors(value), key=lambda error: (error.json_path, error.message))
    return [
        Difference(
            error.json_path.removeprefix("$").removeprefix("."),
            f"{error.validator}: {shown(error.validator_value)}",
            shown(error.instance),
        )
        for error in errors[:_MOST]
    ]
