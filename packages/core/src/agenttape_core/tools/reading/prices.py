"""What tokens cost: a table of list prices, which a project can replace.

Prices change, and what a provider bills depends on contracts, caches and tiers: a sum made of them is an estimate. A
model that the table does not name costs *unknown*, never nothing.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Mapping
from functools import lru_cache
from importlib.resources import files
from pathlib import Path
from typing import Any, NamedTuple

from agenttape_core.errors import ConfigurationError
from agenttape_core.schema import Usage

_PER = 1_000_000
_SNAPSHOT = re.compile(r"-(?:\d{4}-\d\d-\d\d|\d{8}|\d{4}|latest)$")


class Price(NamedTuple):
    """What a model costs, in US dollars per million tokens.

    Args:
        input: For what it reads.
        output: For what it writes; nothing for embeddings.
    """

    input: float
    output: float = 0.0

    def of(self, usage: Usage) -> float:
        """Return what a call costs, in US dollars."""
        return (self.input * (usage.input_tokens or 0) + self.output * (usage.output_tokens or 0)) / _PER


class Prices:
    """A table of prices by model.

    Args:
        table: The prices. A key names a model and its dated snapshots: `gpt-5` is also the price of
            `gpt-5-2025-08-07`, and not that of `gpt-5-mini`, which is another model.
    """

    def __init__(self, table: Mapping[str, Price]) -> None:
        self._table = dict(table)

    def of(self, model: str | None) -> Price | None:
        """Return the price of a model; nothing if the table does not name it.

        Args:
            model: Its name as the provider is asked for it, also with the provider before it: `openai/gpt-5`.
        """
        if model is None:
            return None
        return next((self._table[name] for name in names_of(model) if name in self._table), None)


def load_prices(path: Path | str | None = None) -> Prices:
    """Return a table of prices.

    Args:
        path: A JSON file that maps models to `{"input": 1.25, "output": 10.0}`, in US dollars per million tokens; by
            default the table that comes with this version.

    Raises:
        ConfigurationError: The file cannot be read, or is no such table.
    """
    if path is None:
        return _built_in()
    try:
        return _parsed(Path(path).read_text(encoding="utf-8"))
    except (OSError, ValueError, TypeError, AttributeError) as error:
        raise ConfigurationError(
            f"{path}: no table of prices: {error}\n"
            '  expected JSON such as {"gpt-5": {"input": 1.25, "output": 10.0}}'
        ) from None


@lru_cache(1)
def _built_in() -> Prices:
    return _parsed(files("agenttape_core.tools.reading").joinpath("prices.json").read_text(encoding="utf-8"))


def _parsed(text: str) -> Prices:
    return Prices({name.lower(): _price(price) for name, price in json.loads(text).items()})


def _price(entry: Any) -> Price:
    price = Price(**entry)
    for value in price:
        if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value < math.inf:
            raise ValueError(f"{value!r} is no price")
    return price


def names_of(model: str) -> tuple[str, str]:
    """Return under which names a table may know a model: its own, and without the date of a snapshot.

    Args:
        model: As the provider is asked for it, also with the provider before it.
    """
    name = model.rpartition("/")[2].lower()
    return name, _SNAPSHOT.sub("", name)
