"""The user's own rules, their spelling in settings, and the kinds of secrets that they can keep."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from agenttape_core.errors import ConfigurationError
from agenttape_core.lazy_patterns import Lazy
from agenttape_core.locks import cached_property
from agenttape_core.redaction.path_placeholders import ALL_PLACES, KINDS_OF_PLACES

if TYPE_CHECKING:
    from collections.abc import Iterator

    from agenttape_core.redaction.detection.findings import Finding
    from agenttape_core.redaction.detection.views import View


_NAME = Lazy(r"[a-z0-9_-]{1,32}")


@dataclass(frozen=True)
class Rule:
    """A secret beyond the built-in ones, by `pattern`, `keys` or `literal`; or, with `keep`, one to store unchanged.

    Args:
        name: Of `a-z`, `0-9`, `_` and `-`, at most 32 characters; becomes the kind in the pseudonym.
        pattern: A regular expression. The group named `secret`, or else group 1, or else the whole match is secret.
        keys: Names whose values are secret; case, `-`, `_` and camel case do not matter.
        literal: A text that is secret wherever it stands.
        keep: Store secrets of the built-in kind `name` unchanged: `Rule("email", keep=True)`. Also for a placeholder of
            paths, such as `home`, or all of them: `places`.

    Raises:
        ConfigurationError: The rule is not valid; the message names it and says why.
    """

    name: str
    pattern: str | None = None
    keys: tuple[str, ...] = ()
    literal: str | None = field(default=None, repr=False)
    keep: bool = False

    def __post_init__(self) -> None:
        """Refuse a rule that cannot work."""
        if not isinstance(self.name, str) or not _NAME.fullmatch(self.name):
            raise self._invalid("its name must be 1 to 32 characters of a-z, 0-9, _ and -")
        if self.keep:
            self._check_kept()
        elif self.pattern is None and not self.keys and self.literal is None:
            raise self._invalid("it says nothing: give a pattern, keys or a literal")
        if self.literal is not None and not (isinstance(self.literal, str) and self.literal):
            raise self._invalid("its literal is empty, so it would match everywhere")
        if (
            not isinstance(self.keys, tuple)
            or not all(isinstance(key, str) for key in self.keys)
            or () in self.key_words
        ):
            raise self._invalid(f"its keys must be a tuple of names, found {self.keys!r}")
        if self.pattern is not None:
            self._check_pattern(self.pattern)

    def _check_kept(self) -> None:
        if self.pattern is not None or self.keys or self.literal is not None:
            raise self._invalid("it finds secrets and keeps them: give `keep` alone")
        known = sorted({*kinds_of_secrets(), ALL_PLACES, *KINDS_OF_PLACES})
        if self.name not in known:
            import difflib  # for a kind that doesn't exist

            near = difflib.get_close_matches(self.name, known, 1)
            meant = f"did you mean {near[0]!r}?" if near else f"the kinds are {', '.join(known)}"
            raise self._invalid(f"no kind of secret has this name; {meant}")

    def _check_pattern(self, pattern: str) -> None:
        try:
            compiled = re.compile(pattern)
        except (re.error, TypeError, RecursionError, OverflowError) as error:
            raise self._invalid(f"its pattern {pattern!r} is not a regular expression: {error}") from error
        if compiled.match(""):
            raise self._invalid(f"its pattern {pattern!r} matches the empty string, so it would match everywhere")

    def _invalid(self, why: str) -> ConfigurationError:
        return ConfigurationError(
            f"the redaction rule {self.name!r} is not valid: {why}\n"
            "  correct it where the rule is made: Rule(name, pattern=..., keys=(...), literal=..., keep=...)"
        )

    @cached_property
    def key_words(self) -> frozenset[tuple[str, ...]]:
        """The keys, split into words."""
        from agenttape_core.redaction.detection.names import words_of  # most sessions have no rules

        return frozenset(map(words_of, self.keys))

    @cached_property
    def _compiled(self) -> re.Pattern[str] | None:
        return re.compile(self.pattern) if self.pattern is not None else None

    def find(self, view: View) -> Iterator[Finding]:
        """Find what the literal and the pattern say is secret in a text."""
        if self.literal:
            at = view.text.find(self.literal)
            while at >= 0:
                yield view.finding(at, at + len(self.literal), self.name)
                at = view.text.find(self.literal, at + len(self.literal))
        if self._compiled:
            group = "secret" if "secret" in self._compiled.groupindex else min(1, self._compiled.groups)
            for match in self._compiled.finditer(view.text):
                start, end = match.span(group)
                if start < end:
                    yield view.finding(start, end, self.name)


_KEYS = ("name", "pattern", "keys", "literal", "env", "keep")
_NEVER = r"(?!)"
"""Matches nothing: a variable that is not set leaves a rule with a name and without work."""
_SHORTEST = 4
"""A shorter value of a variable would be found in every other word."""


def rules_of(spelled: object, origin: str, environment: Mapping[str, str]) -> tuple[Rule, ...]:
    """Return the rules that a table of settings, or JSON in an environment variable, spells.

    Args:
        spelled: A list of tables with the keys `name`, `pattern`, `keys`, `literal`, `env` and `keep`, or JSON of one.
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
        raise ConfigurationError(f"{origin}: expected a table with a name, and pattern, keys, literal, env or keep")
    if unknown := table.keys() - set(_KEYS):
        raise ConfigurationError(f"{origin}: unknown key {min(unknown)!r}; known keys: {', '.join(_KEYS)}")
    if not isinstance(keys := table.get("keys", []), list | tuple):
        raise ConfigurationError(f"{origin}: keys: expected a list of names, found {keys!r}")
    fields: dict[str, Any] = {**table, "keys": tuple(keys)}
    if variable := fields.pop("env", None):
        fields |= _hidden(variable, fields, origin, environment)
    try:
        return Rule(**fields)
    except ConfigurationError as error:
        raise ConfigurationError(f"{origin}: {str(error).splitlines()[0]}") from None


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


def kinds_of_secrets() -> list[str]:
    """Return the names of all kinds that our detectors find, sorted."""
    from agenttape_core.redaction.detection.findings import NUMBER, SECRET
    from agenttape_core.redaction.detection.provider_keys import PROVIDER_KEYS  # which loads all of them

    others = ("email", "phone", "card", "ssn", "iban", "pem", "discord", SECRET, NUMBER)
    return sorted({*others, *(detector.kind for detector in PROVIDER_KEYS)})


def keeping(kinds: Iterable[str]) -> str:
    """Return the option that keeps kinds of secrets, for a message."""
    return f"redact=[{', '.join(f'Rule({kind!r}, keep=True)' for kind in kinds)}]".replace("'", '"')
