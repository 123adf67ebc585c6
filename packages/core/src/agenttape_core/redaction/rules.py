"""The user's own rules."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from agenttape_core.errors import ConfigurationError
from agenttape_core.locks import cached_property
from agenttape_core.redaction.detection.lazy import Lazy
from agenttape_core.redaction.detection.names import words_of

if TYPE_CHECKING:
    from collections.abc import Iterator

    from agenttape_core.redaction.detection.findings import Finding
    from agenttape_core.redaction.detection.views import View

_NAME = Lazy(r"[a-z0-9_-]{1,32}")


@dataclass(frozen=True)
class Rule:
    """A secret beyond the built-in ones. At least one of `pattern`, `keys` and `literal` is given.

    Args:
        name: Of `a-z`, `0-9`, `_` and `-`, at most 32 characters; becomes the kind in the pseudonym.
        pattern: A regular expression. The group named `secret`, or else group 1, or else the whole match is secret.
        keys: Names whose values are secret; case, `-`, `_` and camel case do not matter.
        literal: A text that is secret wherever it stands.

    Raises:
        ConfigurationError: The rule is not valid; the message names it and says why.
    """

    name: str
    pattern: str | None = None
    keys: tuple[str, ...] = ()
    literal: str | None = field(default=None, repr=False)

    def __post_init__(self) -> None:
        """Refuse a rule that cannot work."""
        if not isinstance(self.name, str) or not _NAME.fullmatch(self.name):
            raise self._invalid("its name must be 1 to 32 characters of a-z, 0-9, _ and -")
        if self.pattern is None and not self.keys and self.literal is None:
            raise self._invalid("it says nothing: give a pattern, keys or a literal")
        if self.literal is not None and not (isinstance(self.literal, str) and self.literal):
            raise self._invalid("its literal is empty, so it would match everywhere")
        if not isinstance(self.keys, tuple) or not all(isinstance(key, str) and words_of(key) for key in self.keys):
            raise self._invalid(f"its keys must be a tuple of names, found {self.keys!r}")
        if self.pattern is not None:
            self._check_pattern(self.pattern)

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
            "  correct it where the rule is made: Rule(name, pattern=..., keys=(...), literal=...)"
        )

    @cached_property
    def key_words(self) -> frozenset[tuple[str, ...]]:
        """The keys, split into words."""
        return frozenset(words_of(key) for key in self.keys)

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
