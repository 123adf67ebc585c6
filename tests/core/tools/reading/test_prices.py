"""What calls of models cost."""

from __future__ import annotations

from pathlib import Path

import pytest

from agenttape_core.errors import ConfigurationError
from agenttape_core.integration import Usage
from agenttape_core.tools.reading.prices import INSTALL, NoPrices, Price, PriceTable, how_to_price, load_prices

READ = Usage(input_tokens=100_000, output_tokens=0)


@pytest.mark.parametrize(
    ("model", "provider", "cost"),
    [
        ("gpt-5", "", 0.125),
        ("gpt-5-2025-08-07", "ChatOpenAI", 0.125),
        ("openai/gpt-5-mini", "", 0.025),
        ("claude-sonnet-4-20250514", "SomeProxy", 0.3),
        ("gpt-4-0613", "", 3.0),
        ("claude-3-5-sonnet-latest", "", 0.3),
        ("text-embedding-3-small", "OpenAIEmbeddings", 0.002),
    ],
)
def test_list_prices(model: str, provider: str, cost: float) -> None:
    """A dated snapshot costs what its model costs, and a smaller model does not cost what its bigger sister does."""
    assert load_prices().cost(model, provider, READ) == pytest.approx(cost)


@pytest.mark.parametrize("model", ["gpt-5000", "llama3", ""])
def test_unknown_models(model: str) -> None:
    """A model that the library does not know has an unknown cost, not none."""
    assert load_prices().cost(model, "FakeListChatModel", READ) is None


def test_own_prices(tmp_path: Path) -> None:
    """A project's own table takes the place of list prices, whatever the provider is."""
    path = tmp_path / "prices.json"
    path.write_text('{"Llama3": {"input": 0, "output": 2}}')
    prices = load_prices(path)
    assert prices.cost("llama3", "", Usage(input_tokens=5, output_tokens=1_000_000)) == 2.0
    assert prices.cost("gpt-5", "ChatOpenAI", READ) is None


@pytest.mark.parametrize(
    "text", ["", "[]", '{"a": 1}', '{"a": {"in": 1}}', '{"a": {"input": "1"}}', '{"a": {"input": -1}}']
)
def test_broken_prices(tmp_path: Path, text: str) -> None:
    """A file that is no table of prices is refused with its name and an example."""
    path = tmp_path / "prices.json"
    path.write_text(text)
    with pytest.raises(ConfigurationError, match=r"prices\.json: no table of prices"):
        load_prices(path)


def test_how_to_price() -> None:
    """Models that a table lacks are named; a call whose tokens were not counted has no price in any table."""
    table = PriceTable({"known": Price(1)})
    assert how_to_price(["new", "known", "new", "old"], table).startswith("no price is known of new, old: ")
    assert how_to_price(["known"], table).startswith("the tokens of their recordings were not counted")
    assert how_to_price(["new"], NoPrices()) == INSTALL
