"""The words of checks as plain data: a file has the same names as the functions."""

from __future__ import annotations

import difflib
import re
import sys
from collections.abc import Callable, Iterable, Mapping
from functools import reduce
from importlib import import_module
from pathlib import Path
from typing import Any

from agenttape_core.checks.calls import after, arguments, before, called, confirmed, exactly, never, output, trajectory
from agenttape_core.checks.checking import Check
from agenttape_core.checks.judges import judged
from agenttape_core.checks.limits import at_most, no_errors
from agenttape_core.errors import ConfigurationError


def loaded(name: str, where: str) -> Any:
    """Return the object named `module:function`, from the working folder or an installed package.

    `where` is its place, for messages. Raises `ConfigurationError` if the object doesn't exist.
    """
    module, _, function = name.partition(":")
    if not module or not function:
        raise ConfigurationError(f"{where}: expected a name such as module:function, found {name!r}")
    if str(Path.cwd()) not in sys.path:
        sys.path.insert(0, str(Path.cwd()))
    try:
        return reduce(getattr, function.split("."), import_module(module))
    except Exception as error:  # noqa: BLE001 - importing runs code of the user
        raise ConfigurationError(f"{where}: {name} cannot be loaded: {type(error).__name__}: {error}") from None


def checks_of(word: str, value: Any) -> list[Check]:
    """Return the checks for a word and its value.

    `word` is `never`, `at_most`, …. Raises `ConfigurationError` if the word or a key is unknown, or the value is
    malformed.
    """
    if word not in WORDS:
        raise ConfigurationError(unknown("check", word, WORDS))
    return WORDS[word](word, value)


def unknown(what: str, key: Any, known: Iterable[str]) -> str:
    """Return the message about an unknown key, with the nearest known one. `what` names its sort."""
    names = sorted(known)
    alike = difflib.get_close_matches(str(key), names, n=1, cutoff=0.5)
    return f"unknown {what} {key!r}; " + (
        f"did you mean {alike[0]!r}?" if alike else f"expected one of {', '.join(names)}"
    )


def _named(make: Callable[..., Check], *keys: str) -> Callable[[str, Any], list[Check]]:
    """Return the reader of a word that takes the name of a tool, several, or a mapping with `tool`."""

    def read(word: str, value: Any) -> list[Check]:
        if isinstance(value, list):
            if not value:
                raise ConfigurationError(f"{word}: expected the names of tools, found an empty list")
            return [check for each in value for check in read(word, each)]
        if isinstance(value, Mapping):
            given = _options(word, value, ("tool", *keys))
            if "tool" not in given:
                raise ConfigurationError(f"{word}: expected the name of a tool as `tool`")
            return [make(given.pop("tool"), **_with_patterns(given))]
        return [make(value)]

    return read


def _pair(make: Callable[..., Check], *keys: str) -> Callable[[str, Any], list[Check]]:
    """Return the reader of a word that takes two tools, or a mapping with `first` and `then`."""

    def read(word: str, value: Any) -> list[Check]:
        if isinstance(value, Mapping):
            given = _options(word, value, ("first", "then", *keys))
            if not {"first", "then"} <= given.keys():
                raise ConfigurationError(f"{word}: expected the names of tools as `first` and `then`")
            return [make(given.pop("first"), given.pop("then"), **given)]
        if not isinstance(value, list) or len(value) != 2:  # noqa: PLR2004 - one and the other
            raise ConfigurationError(f"{word}: expected a list of two tools, found {value!r}")
        return [make(*value)]

    return read


def _keyed(make: Callable[..., Check], *keys: str) -> Callable[[str, Any], list[Check]]:
    """Return the reader of a word that takes a mapping."""

    def read(word: str, value: Any) -> list[Check]:
        if not isinstance(value, Mapping):
            raise ConfigurationError(f"{word}: expected a mapping with {', '.join(keys)}; found {value!r}")
        return [make(**_with_patterns(_options(word, value, keys)))]

    return read


def _exactly(word: str, value: Any) -> list[Check]:
    if not isinstance(value, Mapping):
        return [exactly(_patterns(value))]
    given = _options(word, value, ("calls", "strict", "kind"))
    if "calls" not in given:
        raise ConfigurationError("exactly: expected a list of calls as `calls`")
    return [exactly(_patterns(given.pop("calls")), **given)]


def _no_errors(word: str, value: Any) -> list[Check]:
    if isinstance(value, Mapping):
        return [no_errors(**_options(word, value, ("allow",)))]
    if value is not True:
        raise ConfigurationError(f"no_errors: expected true, or a mapping with allow; found {value!r}")
    return [no_errors()]


def _arguments(word: str, value: Any) -> list[Check]:
    given = _options(word, value, ("tool", "equals", "json_schema")) if isinstance(value, Mapping) else {}
    equals = given.get("equals", {})
    if "tool" not in given or not isinstance(equals, Mapping):
        raise ConfigurationError("arguments: expected a mapping with tool, and equals (a mapping) or json_schema")
    return [arguments(given["tool"], json_schema=given.get("json_schema"), **_with_patterns(equals))]


def _judged(word: str, value: Any) -> list[Check]:
    given = {"evaluator": value} if isinstance(value, str) else value
    if not isinstance(given, Mapping):
        raise ConfigurationError(f"judged: expected the name of an evaluator, module:function; found {value!r}")
    options = _options(word, given, ("evaluator", "name", "reference", "of", "at_least"))
    if not isinstance(options.get("evaluator"), str):
        raise ConfigurationError("judged: expected the name of an evaluator as `evaluator`, module:function")
    return [judged(loaded(options.pop("evaluator"), "judged"), **options)]


WORDS: dict[str, Callable[[str, Any], list[Check]]] = {
    "after": _pair(after, "within", "kind"),
    "arguments": _arguments,
    "at_most": _keyed(
        at_most, "calls", "tokens", "seconds", "dollars", "steps", "uncached_tokens", "cache_miss_dollars", "uncounted"
    ),
    "before": _pair(before, "kind"),
    "called": _named(called, "times", "kind", "arguments"),
    "confirmed": _named(confirmed),
    "exactly": _exactly,
    "judged": _judged,
    "never": _named(never, "kind", "arguments"),
    "no_errors": _no_errors,
    "output": _keyed(output, "equals", "contains", "regex", "json_schema"),
    "trajectory": _keyed(trajectory, "strict", "unordered", "subset", "superset", "kind"),
}
"""The reader of each word: what makes checks of its value."""


def _options(word: str, value: Mapping[Any, Any], known: tuple[str, ...]) -> dict[str, Any]:
    for key in value:
        if key not in known:
            raise ConfigurationError(f"{word}: {unknown('key', key, known)}")
    if isinstance(value.get("arguments", {}), Mapping) and isinstance(value.get("kind", "tool"), str):
        return dict(value)
    raise ConfigurationError(f"{word}: `arguments` is a mapping, and `kind` a word; found {dict(value)!r}")


def _with_patterns(options: Mapping[str, Any]) -> dict[str, Any]:
    """Return options with regular expressions in their values; a JSON Schema is unchanged."""
    return {key: item if key == "json_schema" else _patterns(item) for key, item in options.items()}


def _patterns(value: Any) -> Any:
    """Return a value with `{regex: ...}` replaced by the regular expression."""
    if isinstance(value, Mapping):
        (key,) = value if len(value) == 1 else ("",)
        if key == "regex" and isinstance(value[key], str):
            return _pattern(value[key])
        if key != "regex" and difflib.get_close_matches(str(key), ["regex"], cutoff=0.75):
            raise ConfigurationError(unknown("key", key, ["regex"]))  # as data it would never match
        return {key: _patterns(item) for key, item in value.items()}
    return [_patterns(item) for item in value] if isinstance(value, list) else value


def _pattern(text: str) -> re.Pattern[str]:
    try:
        return re.compile(text)
    except re.error as error:
        raise ConfigurationError(f"{text!r} isn't a regular expression: {error}") from None
