"""The costs of replayed calls, remembered from run to run.

A replayed suite needs the same costs each time, and loading the list of prices takes longer than most tests.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping
from typing import Any

import pytest

from agenttape_core.lifecycle.project import project_settings
from agenttape_core.schema import Usage
from agenttape_core.settings import Settings
from agenttape_core.tools.reading.prices import LIST, ListPrices, Prices, Rates, edition_of_list, load_prices

_KEY = "agenttape/costs"
_COSTS: pytest.StashKey[RememberedPrices] = pytest.StashKey()


class RememberedPrices:
    """List prices, looked up once, and kept in pytest's cache, if that is on, until the list changes."""

    are_there = True

    def __init__(self, cache: pytest.Cache | None, prices: Prices) -> None:
        self._cache = cache
        self._prices = prices
        self._edition = edition_of_list()
        kept: Any = cache.get(_KEY, None) if cache is not None else None
        is_current = isinstance(kept, dict) and kept.get("edition") == self._edition
        self._costs: dict[str, float | None] = _numbers(kept.get("costs")) if is_current else {}
        self._has_asked = False

    def cost(self, model: str, provider: str, usage: Usage) -> float | None:
        """Return the cost of a call. See `Prices`."""
        if LIST in sys.modules and not self._has_asked:  # the program has it, and may have put in prices of its own
            return self._prices.cost(model, provider, usage)
        key = f"{model} {provider} {usage.input_tokens} {usage.output_tokens}"
        if key not in self._costs:
            self._has_asked = True
            self._costs[key] = self._prices.cost(model, provider, usage)
        return self._costs[key]

    def rates(self, model: str, provider: str) -> Rates | None:
        """Return the prices of single tokens, which aren't kept: few tests ask. See `Prices`."""
        return self._prices.rates(model, provider)

    def keep(self) -> None:
        """Keep the looked-up prices."""
        if self._cache is not None and self._has_asked:
            self._cache.set(_KEY, {"edition": self._edition, "costs": self._costs})


def prices_of(config: pytest.Config, settings: Settings | None = None) -> Prices:
    """Return the prices of the project, with what earlier runs have asked of a list."""
    prices = load_prices((settings or project_settings()).prices)
    if not isinstance(prices, ListPrices):
        return prices
    if _COSTS not in config.stash:
        config.stash[_COSTS] = RememberedPrices(getattr(config, "cache", None), prices)
    return config.stash[_COSTS]


def keep_costs(config: pytest.Config) -> None:
    """Keep the costs that the run had to look up."""
    if (remembered := config.stash.get(_COSTS, None)) is not None:
        remembered.keep()


def _numbers(kept: object) -> dict[str, float | None]:
    """Return the content of a cache file, if it's intact."""
    plain = kept if isinstance(kept, Mapping) else {}
    return {key: cost for key, cost in plain.items() if cost is None or isinstance(cost, float)}
