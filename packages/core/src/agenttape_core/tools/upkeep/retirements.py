"""When providers take models away: a table of dates, which a project can replace.

Providers announce such dates, and move them. Of a model that the table does not name nothing is known.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from datetime import date
from functools import lru_cache
from importlib.resources import files
from pathlib import Path

from agenttape_core.errors import ConfigurationError
from agenttape_core.tools.reading.prices import names_of


class Retirements:
    """When models were or will be taken away.

    Args:
        table: The dates by model. A key names a model and its dated snapshots, as in a table of prices.
    """

    def __init__(self, table: Mapping[str, date]) -> None:
        self._table = {name.lower(): day for name, day in table.items()}

    def of(self, model: str) -> date | None:
        """Return the day from which a model is not served any more; nothing if none is known."""
        return next((self._table[name] for name in names_of(model) if name in self._table), None)


def load_retirements(path: Path | str | None = None) -> Retirements:
    """Return a table of retirements.

    Args:
        path: A JSON file that maps models to dates: `{"gpt-4": "2026-10-23"}`; by default the table that comes with
            this version.

    Raises:
        ConfigurationError: The file cannot be read, or is no such table.
    """
    if path is None:
        return _built_in()
    try:
        return _parsed(json.loads(Path(path).read_text(encoding="utf-8")))
    except (OSError, ValueError, TypeError, AttributeError) as error:
        raise ConfigurationError(
            f'{path}: no table of retirements: {error}\n  expected JSON such as {{"gpt-4": "2026-10-23"}}'
        ) from None


@lru_cache(1)
def _built_in() -> Retirements:
    text = files("agenttape_core.tools.upkeep").joinpath("retirements.json").read_text(encoding="utf-8")
    return _parsed(json.loads(text)["models"])


def _parsed(table: Mapping[str, str]) -> Retirements:
    return Retirements({name: date.fromisoformat(day) for name, day in table.items()})
