"""Long texts of interactions, to which the steps around them refer instead of repeating them.

The answer of a model or a tool stands once more in the output of the node that called it. In such a step, a text of a
hundred characters or more that is part of the answer of an earlier interaction is replaced by a reference:
`{"$ref": {"at": ADDRESS, "chars": 1200}}`.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from agenttape_core.schema import Interaction, Plain

REFERENCE = "$ref"  # the tag of a reference to a text of an interaction

_LONG = 100
_DEEP = 12


class SharedTexts:
    """The long texts of the interactions of one session, each with the address where it stood first."""

    def __init__(self) -> None:
        self._addresses: dict[str, str] = {}

    def note(self, interaction: Interaction) -> None:
        """Note the texts of an interaction's answer."""
        for text in _long_texts(interaction.outcome.value, _DEEP):
            self._addresses.setdefault(text, interaction.address)

    def referred_to(self, value: Plain) -> Plain:
        """Return plain data with references instead of the long texts of interactions."""
        if isinstance(value, str):
            at = self._addresses.get(value) if len(value) >= _LONG else None
            return {REFERENCE: {"at": at, "chars": len(value)}} if at is not None else value
        if isinstance(value, dict):
            return {key: self.referred_to(item) for key, item in value.items()}
        if isinstance(value, list):
            return [self.referred_to(item) for item in value]
        return value


def _long_texts(value: Any, deep: int) -> Iterator[str]:
    if isinstance(value, str):
        if len(value) >= _LONG:
            yield value
    elif deep and isinstance(value, dict | list):
        for item in value.values() if isinstance(value, dict) else value:
            if isinstance(item, str | dict | list):
                yield from _long_texts(item, deep - 1)
