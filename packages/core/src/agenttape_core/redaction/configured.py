"""The rules of a project, as its settings spell them."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from agenttape_core.errors import ConfigurationError
from agenttape_core.redaction.rules import Rule

_KEYS = ("name", "pattern", "keys", "literal", "env")
_NEVER = r"(?!)"
"""Matches nothing: a variable that is not set leaves a rule with a name and without work."""
_SHORTEST = 4
"""A shorter value of a variable would be found in every other word."""


def rules_of(spelled: object, origin: str, environment: Mapping[str, str]) -> tuple[Rule, ...]:
    """Return the rules that a table of settings, or JSON in an environment variable, spells.

    Args:
        spelled: A list of tables with the keys `name`, `pattern`, `keys`, `literal` and `env`, or JSON of one.
        origin: Where it stands, for the error.
        environment: The variables that `env` names.

    Raises:
        ConfigurationError: It is not such a list, or a rule in it is not valid. The error tells no literal.
    """
    tables = _from_json(spelled, origin) if isinstance(spelled, str) else spelled
    if not isinstance(tables, list):
        raise ConfigurationError(f"{origin}: expected a list of tables such as {{name = 'ticket', pattern = '…'}}")
    rules = tuple(_rule(table, f"{origin}[{number}]", environment) for number, table in enumerate(tables))
    twice = {rule.name for rule in rules if sum(other.name == rule.name for other in rules) > 1}
    if twice:
        raise ConfigurationError(f"{origin}: two rules have the name {min(twice)!r}; give each its own")
    return rules


def _from_json(text: str, origin: str) -> Any:
    try:
        return json.loads(text)
    except ValueError as error:
        raise ConfigurationError(f"{origin}: expected a list of rules as JSON: {error}") from None


def _rule(table: object, origin: str, environment: Mapping[str, str]) -> Rule:
    if not isinstance(table, dict) or "name" not in table:
        raise ConfigurationError(f"{origin}: expected a table with a name, and pattern, keys, literal or env")
    if unknown := table.keys() - set(_KEYS):
        raise ConfigurationError(f"{origin}: unknown key {min(unknown)!r}; known keys: {', '.join(_KEYS)}")
    fields = {**table, "keys": _names(table.get("keys", []), origin)}
    if variable := fields.pop("env", None):
        fields |= _hidden(variable, fields, origin, environment)
    try:
        return Rule(**fields)
    except ConfigurationError as error:
        raise ConfigurationError(f"{origin}: {str(error).splitlines()[0]}") from None


def _names(keys: object, origin: str) -> tuple[Any, ...]:
    if not isinstance(keys, list | tuple):
        raise ConfigurationError(f"{origin}: keys: expected a list of names, found {keys!r}")
    return tuple(keys)


def _hidden(variable: object, fields: Mapping[str, Any], origin: str, environment: Mapping[str, str]) -> dict[str, Any]:
    """Return the field of a rule whose literal is the value of a variable."""
    if not isinstance(variable, str) or fields.get("literal") is not None:
        raise ConfigurationError(f"{origin}: env: expected the name of a variable, and no literal beside it")
    value = environment.get(variable)
    if not value:
        return {} if fields.get("pattern") or fields["keys"] else {"pattern": _NEVER}
    if len(value) < _SHORTEST:
        problem = f"the value of {variable} has less than {_SHORTEST} characters, so it would match everywhere"
        raise ConfigurationError(f"{origin}: {problem}")
    return {"literal": value}
