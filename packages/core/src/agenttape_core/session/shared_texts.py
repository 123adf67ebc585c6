"""Long texts that interactions hold, which the steps around them name and do not repeat.

What a model or a tool said is said again by the node that it was called in. Of such a step, a text of a hundred
characters or more that an earlier interaction came to is told as `{"$said": {"at": ADDRESS, "chars": 1200}}`.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from agenttape_core.schema import Interaction, Plain

TEXT = "$said"
"""The tag of a text that an interaction holds."""

_LONG = 100
_DEEP = 12


class Texts:
    """The long texts of the interactions of one session, and where they were said first."""

    def __init__(self) -> None:
        self._said: dict[str, str] = {}

    def note(self, interaction: Interaction) -> None:
        """Note what an interaction came to."""
        for text in _long_texts(interaction.outcome.value, _DEEP):
            self._said.setdefault(text, interaction.address)

    def named(self, value: Plain) -> Plain:
        """Return plain data with the long texts of interactions named; what has none of them as it is."""
        if isinstance(value, str):
            at = self._said.get(value) if len(value) >= _LONG else None
            return {TEXT: {"at": at, "chars": len(value)}} if at is not None else value
        if isinstance(value, dict):
            return {key: self.named(item) for key, item in value.items()}
        if isinstance(value, list):
            return [self.named(item) for item in value]
        return value


def _long_texts(value: Any, deep: int) -> Iterator[str]:
    if isinstance(value, str):
        if len(value) >= _LONG:
            yield value
    elif deep and isinstance(value, dict | list):
        for item in value.values() if isinstance(value, dict) else value:
            if isinstance(item, str | dict | list):
                yield from _long_texts(item, deep - 1)
