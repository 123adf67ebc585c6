"""The prices of tokens: list prices from the library genai-prices, or a table of the project's own.

Prices change, and the bill depends on contracts, caches and tiers: a sum of them is an estimate. A model without a
known price costs *unknown*, never zero.
"""

from __future__ import annotations

import json
import math
import re
import sys
from collections.abc import Iterable, Mapping
from datetime import UTC, datetime
from functools import cache
from importlib.machinery import PathFinder
from pathlib import Path
from typing import Any, Protocol

from agenttape_core.errors import ConfigurationError
from agenttape_core.named_tuples import NamedTuple
from agenttape_core.schema import Usage
from agenttape_core.tools.reading.cache_rules import rule_for

INSTALL = (
    "costs are unknown without prices\n"
    "  pip install 'agenttape-core[prices]', or name a table of your own as `prices` in [tool.agenttape]"
)
LIST = "genai_prices"  # the module of the list prices. To load it takes longer than to replay most tests.
_PER = 1_000_000
_FEW = 1000  # prices of single tokens are made of those of so many: fewer than any from which a price is another
_SNAPSHOT = re.compile(r"-(?:\d{4}-\d\d-\d\d|\d{8}|\d{4}|latest)$")


class Prices(Protocol):
    """The prices of models."""

    @property
    def are_there(self) -> bool:
        """True if there are any."""

    def cost(self, model: str, provider: str, usage: Usage) -> float | None:
        """Return the cost of a call in US dollars; None if the model has no known price.

        `provider` is the class of the model, which identifies the provider if the model's name (`openai/gpt-5`)
        doesn't.
        """

    def rates(self, model: str, provider: str) -> Rates | None:
        """Return the prices of single tokens; None if the model has no known price. See `cost`."""


class Rates(NamedTuple):
    """The prices of single tokens of a request, in US dollars."""

    input: float  # of a token that the model reads
    cache_read: float  # of one that it reads from the prompt cache
    cache_write: float  # of one that it writes into it, as the provider does without further options
    long_write: float  # of one that it writes into it for the long lifetime


class Price(NamedTuple):
    """The price of a model, in US dollars per million tokens."""

    input: float  # the price of tokens that it reads
    output: float = 0.0  # the price of tokens that it writes; zero for embeddings
    cache_read: float | None = None  # the price of tokens that it reads from the prompt cache; by default its share
    cache_write: float | None = None  # the price of tokens that it writes into it; by default its share

    def cost(self, usage: Usage) -> float:
        """Return the cost of a call, in US dollars."""
        return (self.input * (usage.input_tokens or 0) + self.output * (usage.output_tokens or 0)) / _PER


class PriceTable:
    """A table of prices by model.

    A key names a model and its dated snapshots: `gpt-5` is also the price of `gpt-5-2025-08-07`, but not for
    `gpt-5-mini`, which is another model.
    """

    are_there = True

    def __init__(self, table: Mapping[str, Price]) -> None:
        self._table = {name.lower(): price for name, price in table.items()}

    def cost(self, model: str, provider: str, usage: Usage) -> float | None:  # noqa: ARG002 - a model has one price
        """Return the cost of a call. See `Prices`."""
        price = self._price(model)
        return price.cost(usage) if price is not None else None

    def rates(self, model: str, provider: str) -> Rates | None:  # noqa: ARG002 - a model has one price
        """Return the prices of single tokens. See `Prices`."""
        price = self._price(model)
        if price is None:
            return None
        each = (None if one is None else one / _PER for one in (price.cache_read, price.cache_write))
        return _rates(model, price.input / _PER, *each)

    def _price(self, model: str) -> Price | None:
        return next((self._table[name] for name in names_of(model) if name in self._table), None)


class ListPrices:
    """The list prices of genai-prices, which comes with the extra `prices`. It needs no network."""

    are_there = True

    def cost(self, model: str, provider: str, usage: Usage) -> float | None:
        """Return the cost of a call. See `Prices`."""
        return _listed(model, provider, usage.input_tokens or 0, usage.output_tokens or 0)

    def rates(self, model: str, provider: str) -> Rates | None:
        """Return the prices of single tokens. See `Prices`."""
        each = (_listed(model, provider, _FEW, 0, *cached) for cached in ((), (_FEW, 0), (0, _FEW)))
        whole, read, write = (None if one is None else one / _FEW for one in each)
        if whole is None:
            return None
        # The list counts a token as input where it has no other price for it.
        return _rates(model, whole, *(None if one == whole else one for one in (read, write)))


class NoPrices:
    """The prices of a project that has none."""

    are_there = False

    def cost(self, model: str, provider: str, usage: Usage) -> float | None:  # noqa: ARG002 - there is no price
        """Return None. See `Prices`."""
        return None

    def rates(self, model: str, provider: str) -> Rates | None:  # noqa: ARG002 - there is no price
        """Return None. See `Prices`."""
        return None


def load_prices(path: Path | str | None = None) -> Prices:
    """Return the prices of a project.

    The file maps models to `{"input": 1.25, "output": 10.0}`, in US dollars per million tokens; without one, the list
    prices of genai-prices count, if that is installed. Raises `ConfigurationError` if the file can't be read, or isn't
    such a table.
    """
    if path is None:
        return _installed()
    try:
        table = json.loads(Path(path).read_text(encoding="utf-8"))
        return PriceTable({name: _price(price) for name, price in table.items()})
    except (OSError, ValueError, TypeError, AttributeError) as error:
        raise ConfigurationError(
            f"{path}: no table of prices: {error}\n"
            '  expected JSON such as {"gpt-5": {"input": 1.25, "output": 10.0}}'
        ) from None


def how_to_price(models: Iterable[str], prices: Prices) -> str:
    """Return how to make the costs of calls known, as the last lines of a message."""
    if not prices.are_there:
        return INSTALL
    one = Usage(input_tokens=1, output_tokens=1)
    unknown = sorted({model for model in models if prices.cost(model, "", one) is None})
    if not unknown:
        return "the tokens of their recordings were not counted, so leave the limit out"
    return f"no price is known of {', '.join(unknown)}: add it to the table that `prices` in [tool.agenttape] names"


def names_of(model: str) -> tuple[str, str]:
    """Return the names that a table may list a model under: its own, and the one without the date of a snapshot."""
    name = model.rpartition("/")[2].lower()
    return name, _SNAPSHOT.sub("", name)


def edition_of_list() -> list[str | int]:
    """Return the inputs of list prices other than the call: the installed list, and the day, as prices have dates."""
    spec = PathFinder.find_spec(LIST)
    files = sorted(Path(spec.origin).parent.glob("*.py")) if spec is not None and spec.origin is not None else []
    changes = [(file.stat().st_mtime_ns, file.stat().st_size) for file in files]
    return [datetime.now(UTC).date().isoformat(), *map(str, changes)]


@cache
def _installed() -> Prices:
    is_there = sys.modules[LIST] is not None if LIST in sys.modules else PathFinder.find_spec(LIST) is not None
    return ListPrices() if is_there else NoPrices()


def _rates(model: str, whole: float, read: float | None, write: float | None) -> Rates:
    """Return the prices of single tokens; those that aren't known are the provider's usual share of the input's."""
    rule = rule_for(model)
    shares = (1.0, 1.0, 1.0) if rule is None else (rule.read, rule.write, rule.long_write)
    read = whole * shares[0] if read is None else read
    write = whole * shares[1] if write is None else write
    return Rates(whole, read, write, write * shares[2] / shares[1])


def _listed(model: str, provider: str, *counts: int) -> float | None:
    hints = (None, provider)  # most models are known by their names; a wrong hint would hide them
    costs = (_list_cost(name, hint, *counts) for hint in hints for name in names_of(model))
    return next((cost for cost in costs if cost is not None), None)


@cache
def _list_cost(model: str, provider: str | None, *counts: int) -> float | None:
    """Return the cost of so many tokens: of the input, of the output, read from a prompt cache and written into it."""
    from genai_prices import Usage as Counts
    from genai_prices import calc_price

    try:
        names = ("input_tokens", "output_tokens", "cache_read_tokens", "cache_write_tokens")
        usage = Counts(**dict(zip(names, counts, strict=False)))
        return float(calc_price(usage, model, provider_id=provider).total_price)
    except (LookupError, ValueError):  # the model is unknown, or the counts are none
        return None


def _price(entry: Any) -> Price:
    price = Price(**entry)
    for value in (each for each in price if each is not None):
        if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value < math.inf:
            raise ValueError(f"{value!r} isn't a price")
    return price
