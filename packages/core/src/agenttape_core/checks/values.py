"""Expected values against found ones: equal data, or a text that a regular expression fits."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from typing import Any

from agenttape_core.errors import ConfigurationError
from agenttape_core.matching import ABSENT, Difference, spelled

_LONGEST = 300


def differing(expected: Any, found: Any, path: str = "") -> Iterator[Difference]:
    """Yield the places where a value is not the expected one.

    Args:
        expected: Plain data; a regular expression in it fits a text that it is found in.
        found: Plain data.
        path: The place of both.
    """
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


def differing_arguments(expected: Mapping[str, Any], found: Any) -> list[Difference]:
    """Return the places where the arguments of a call differ; those that are not expected may be anything.

    Args:
        expected: The arguments by name; the name of the only one of a tool that takes none is empty.
        found: The arguments of the call.
    """
    given = found if isinstance(found, Mapping) else {"": found}
    return [each for key, value in expected.items() for each in differing(value, given.get(key, ABSENT), key)]


def shown(value: Any) -> str:
    """Return a value as a message shows it."""
    if value is ABSENT:
        return "(absent)"
    if isinstance(value, re.Pattern):
        return f"/{value.pattern}/"
    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, default=_plain)
    return text if len(text) <= _LONGEST else f"{text[: _LONGEST - 1]}…"


def compiled(pattern: Any, where: str) -> re.Pattern[str]:
    """Return a regular expression.

    Args:
        pattern: The expression, or its text.
        where: The place where it stands.

    Raises:
        ConfigurationError: If it is none.
    """
    if isinstance(pattern, re.Pattern) and isinstance(pattern.pattern, str):
        return pattern
    if not isinstance(pattern, str):
        raise ConfigurationError(f"{where}: expected a regular expression, found {pattern!r}")
    try:
        return re.compile(pattern)
    except re.error as error:
        raise ConfigurationError(f"{where}: {pattern!r} is no regular expression: {error}") from None


def _is_same(expected: Any, found: Any) -> bool:
    """Return True if a leaf is the expected one: `1` is `1.0`, and not `True`."""
    if isinstance(expected, re.Pattern):
        text = found if isinstance(found, str) else json.dumps(found, default=str)
        return found is not ABSENT and expected.search(text) is not None
    return bool(expected == found) and isinstance(expected, bool) == isinstance(found, bool)


def _plain(value: Any) -> str:
    return shown(value) if isinstance(value, re.Pattern) else str(value)
