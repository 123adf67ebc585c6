"""The dates on which providers retire models: a table that a project keeps, because providers move them."""

from __future__ import annotations

import json
from collections.abc import Mapping
from datetime import date
from pathlib import Path

from agenttape_core.errors import ConfigurationError
from agenttape_core.tools.reading.prices import names_of


class Retirements:
    """The dates on which models were or will be retired.

    Args:
        table: The dates by model. A key names a model and its dated snapshots, as in a table of prices.
    """

    def __init__(self, table: Mapping[str, date]) -> None:
        self._table = {name.lower(): day for name, day in table.items()}

    def of(self, model: str) -> date | None:
        """Return the first day on which a model is no longer served; None if none is known."""
        return next((self._table[name] for name in names_of(model) if name in self._table), None)


def load_retirements(path: Path | str | None = None) -> Retirements:
    """Return a table of retirements.

    Args:
        path: A JSON file that maps models to dates: `{"gpt-4": "2026-10-23"}`; by default an empty table.

    Raises:
        ConfigurationError: If the file cannot be read, or is no such table.
    """
    if path is None:
        return Retirements({})
    try:
        table: Mapping[str, str] = json.loads(Path(path).read_text(encoding="utf-8"))
        return Retirements({name: date.fromisoformat(day) for name, day in table.items()})
    except (OSError, ValueError, TypeError, AttributeError) as error:
        raise ConfigurationError(
            f'{path}: no table of retirements: {error}\n  expected JSON such as {{"gpt-4": "2026-10-23"}}'
        ) from None
