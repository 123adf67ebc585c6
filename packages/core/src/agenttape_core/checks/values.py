"""Expected values against found ones: equal data, or a text that a regular expression fits."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from agenttape_core.checks.run import Run
from agenttape_core.errors import ConfigurationError
from agenttape_core.locks import cached_property
from agenttape_core.matching import ABSENT, Difference, spelled
from agenttape_core.redaction import Redactor
from agenttape_core.redaction.everywhere import places_of

_LONGEST = 300
_PART = re.compile(r"\\\W|.", re.DOTALL)  # a character of a regular expression, or an escaped one


class AsRecorded:
    """Returns expected values as a recording holds them: with pseudonyms instead of secrets.

    `open_redactor` returns the redactor of the recording; `None` if its key isn't known.
    """

    def __init__(self, open_redactor: Callable[[], Redactor | None]) -> None:
        self._open = open_redactor

    @cached_property
    def _redactor(self) -> Redactor | None:
        return self._open()

    def __call__(self, value: Any, like: Any = None) -> Any:
        """Return plain data that may contain regular expressions; the same object if it didn't change.

        `like` is the recorded value, if it may have a pseudonym where the expected value shows no sign of a secret.
        """
        redactor = self._redactor
        if redactor is None:
            return value
        recorded = self._patterns(redactor.value(value), redactor)
        return recorded if like is None else redactor.aligned([*places_of(like)], recorded)

    def _patterns(self, value: Any, redactor: Redactor) -> Any:
        if isinstance(value, re.Pattern):
            text = _pattern_as_recorded(value.pattern, redactor)
            return value if text == value.pattern else re.compile(text, value.flags)
        if isinstance(value, Mapping | list | tuple):
            items = value.items() if isinstance(value, Mapping) else enumerate(value)
            changed = {key: self._patterns(item, redactor) for key, item in items}
            if all(changed[key] is value[key] for key in changed):
                return value
            return changed if isinstance(value, Mapping) else list(changed.values())
        return value


def _pattern_as_recorded(pattern: str, redactor: Redactor) -> str:
    """Return a regular expression with pseudonyms instead of the secrets it spells out, escaped or not."""
    parts = list(_PART.finditer(pattern))
    starts = [*(part.start() for part in parts), len(pattern)]
    for span in reversed(redactor.spans("".join(part[0][-1] for part in parts))):
        pattern = pattern[: starts[span.start]] + re.escape(span.replacement) + pattern[starts[span.end] :]
    return pattern


def forms_of(run: Run, expected: Any) -> list[Any]:
    """Return an expected value, and as the last one the form that its recording holds, if that is another one."""
    recorded = run.as_recorded(expected)
    return [expected] if recorded is expected or recorded == expected else [expected, recorded]


def differing(expected: Any, found: Any, path: str = "") -> Iterator[Difference]:
    """Yield the places where a value isn't the expected one; a regular expression fits a text that it's found in."""
    if isinstance(expected, Mapping) and isinstance(found, Mapping):
        for key in [*expected, *(key for key in found if key not in expected)]:
            below = f"{path}.{key}" if path else str(key)
            yield from differing(expected.get(key, ABSENT), found.get(key, ABSENT), below)
    elif isinstance(expected, list | tuple) and isinstance(found, list):
        for index in range(max(len(expected), len(found))):
            ours = expected[index] if index < len(expected) else ABSENT
            theirs = found[index] if index < len(found) else ABSENT
            yield from differing(ours, theirs, f"{path}[{index}]")
    elif not _is_same(expected, found):
        both_texts = isinstance(expected, str) and isinstance(found, str)
        yield spelled(path, expected, found) if both_texts else Difference(path, shown(expected), shown(found))


def differing_arguments(run: Run, expected: Mapping[str, Any], found: Any) -> list[Difference]:
    """Return the places where the arguments of a call differ; those that are not expected may be anything.

    The name of the only argument of a tool that takes one without a name is empty.
    """
    given = found if isinstance(found, Mapping) else {"": found}
    differences: list[Difference] = []
    for form in forms_of(run, expected):
        differences = [each for key, value in form.items() for each in differing(value, given.get(key, ABSENT), key)]
        if not differences:
            break
    return differences


def shown(value: Any) -> str:
    """Return a value as a message shows it."""
    if value is ABSENT:
        return "(absent)"
    if isinstance(value, re.Pattern):
        return f"/{value.pattern}/"
    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, default=_plain)
    return text if len(text) <= _LONGEST else f"{text[: _LONGEST - 1]}…"


def compiled(pattern: Any, where: str) -> re.Pattern[str]:
    """Return a regular expression. `where` is its place, for messages. Raises `ConfigurationError` if it is none."""
    if isinstance(pattern, re.Pattern) and isinstance(pattern.pattern, str):
        return pattern
    if not isinstance(pattern, str):
        raise ConfigurationError(f"{where}: expected a regular expression, found {pattern!r}")
    try:
        return re.compile(pattern)
    except re.error as error:
        raise ConfigurationError(f"{where}: {pattern!r} isn't a regular expression: {error}") from None


def _is_same(expected: Any, found: Any) -> bool:
    """Return True if a leaf is the expected one: `1` is `1.0`, and not `True`."""
    if isinstance(expected, re.Pattern):
        text = found if isinstance(found, str) else json.dumps(found, default=str)
        return found is not ABSENT and expected.search(text) is not None
    return bool(expected == found) and isinstance(expected, bool) == isinstance(found, bool)


def _plain(value: Any) -> str:
    return shown(value) if isinstance(value, re.Pattern) else str(value)


# -- JSON Schema, by the library `jsonschema`, which comes with the extra `checks`.


_MOST = 8
_VALUES = {"const", "enum"}  # the keywords that name the values that are expected


def validator(schema: Any, where: str) -> Any:
    """Return a validator of a schema, of the draft that it names, by default 2020-12.

    `where` is its place, for messages. Raises `ConfigurationError` if it isn't a schema, or the library is missing.
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
    """Return the places where a value does not fit a schema."""
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
