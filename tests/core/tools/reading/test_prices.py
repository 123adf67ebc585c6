"""What calls of models cost, and what prompt caches make of it, in each form in which counts are recorded."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from agenttape_core.errors import ConfigurationError
from agenttape_core.integration import Usage
from agenttape_core.schema import OWN, Interaction, Outcome
from agenttape_core.schema import Usage as Counts
from agenttape_core.tools.reading.prices import (
    INSTALL,
    ListPrices,
    NoPrices,
    Price,
    Prices,
    PriceTable,
    how_to_price,
    load_prices,
)
from agenttape_core.tools.reading.provider_calls import model_call
from agenttape_core.tools.reading.summary import cost_of, tried_with

from ....kit.records import call

ALL_INPUT = Usage(input_tokens=100_000, output_tokens=0)


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
    assert load_prices().cost(model, provider, ALL_INPUT) == pytest.approx(cost)


@pytest.mark.parametrize("model", ["gpt-5000", "llama3", ""])
def test_unknown_models(model: str) -> None:
    """A model that the library does not know has an unknown cost, not none."""
    assert load_prices().cost(model, "FakeListChatModel", ALL_INPUT) is None


def test_own_prices(tmp_path: Path) -> None:
    """A project's own table takes the place of list prices, whatever the provider is."""
    path = tmp_path / "prices.json"
    path.write_text('{"Llama3": {"input": 0, "output": 2}}')
    prices = load_prices(path)
    assert prices.cost("llama3", "", Usage(input_tokens=5, output_tokens=1_000_000)) == 2.0
    assert prices.cost("gpt-5", "ChatOpenAI", ALL_INPUT) is None


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


CLAUDE, GPT = "claude-sonnet-4-5", "gpt-5"
# Of the input, 100 tokens are plain, 1,000 are read, 2,000 written for five minutes, and 3,000 for an hour.
READ, SHORT, LONG = 1000, 2000, 3000
ALL = 100 + READ + SHORT + LONG
RAW = {
    "input_tokens": 100,
    "output_tokens": 1,
    "cache_read_input_tokens": READ,
    "cache_creation_input_tokens": SHORT + LONG,
    "cache_creation": {"ephemeral_5m_input_tokens": SHORT, "ephemeral_1h_input_tokens": LONG},
}
LANGCHAIN = {
    "input_tokens": ALL,
    "output_tokens": 1,
    "total_tokens": ALL + 1,
    "input_token_details": {
        "cache_read": READ,
        "cache_creation": 0,  # LangChain doesn't count those here that it lists by lifetime
        "ephemeral_5m_input_tokens": SHORT,
        "ephemeral_1h_input_tokens": LONG,
    },
}
PRICES: Prices = PriceTable({CLAUDE: Price(3.0, 15.0), GPT: Price(1.25, 10.0, cache_read=0.125)})


def chat(value: Any, model: str = CLAUDE, tokens: int = ALL) -> Interaction:
    """Return a recorded call of a model."""
    outcome = Outcome(status="returned", value=value, usage=Counts(input_tokens=tokens, output_tokens=1))
    return call(kind="chat", request={"model": model, "messages": []}, outcome=outcome)


def over_http(usage: Any, model: str) -> Interaction:
    """Return the call of a model that an SDK makes."""
    body = {"id": "1", "model": model, "role": "assistant", "content": [{"type": "text", "text": "Hi"}], "usage": usage}
    url = {"scheme": "https", "host": "api.example.com", "path": "/v1/messages"}
    request = {"method": "POST", "url": url, "messages": [], "body": {"model": model}}
    chunks = [{"status": 200, "headers": []}, {"text": json.dumps(body)}]
    return model_call(call(kind="http", request=request, outcome=Outcome(status="streamed", chunks=chunks)))


FORMS = {
    "langchain": chat({"$chat_result": {"message": {"content": "Hi", "usage_metadata": LANGCHAIN}}}),
    "sdk": over_http(RAW, CLAUDE),
    "llamaindex": chat({"$chat_response": {"message": {"content": "Hi"}, "raw": {"usage": RAW}}}, tokens=100),
    "llamaindex, further": chat(
        {"$chat_response": {"message": {"content": "Hi"}, "additional_kwargs": {"usage": RAW}}}, tokens=100
    ),
}


@pytest.mark.parametrize("prices", [PRICES, ListPrices()], ids=["table", "list"])
@pytest.mark.parametrize("form", FORMS)
def test_reads_and_writes(form: str, prices: Prices) -> None:
    """A read token costs a tenth, one that is written 1.25 times as much, and twice as much for an hour."""
    weighted = 100 + 0.1 * READ + 1.25 * SHORT + 2 * LONG
    assert cost_of(FORMS[form], prices) == pytest.approx((3.0 * weighted + 15.0) / 1e6)


def test_without_lifetimes() -> None:
    """Writes whose lifetime isn't recorded are priced as the shorter one, the default."""
    counts = {"input_token_details": {"cache_read": 0, "cache_creation": SHORT}}
    item = chat({"$chat_result": {"message": {"content": "Hi", "usage_metadata": counts}}}, tokens=100 + SHORT)
    assert cost_of(item, PRICES) == pytest.approx((3.0 * (100 + 1.25 * SHORT) + 15.0) / 1e6)


def test_of_openai() -> None:
    """OpenAI's cached tokens, which are part of the input, cost less, and without any the cost is unchanged."""
    counts = {"prompt_tokens": ALL, "completion_tokens": 1, "prompt_tokens_details": {"cached_tokens": READ}}
    item = chat({"$chat_response": {"message": {"content": "Hi"}, "raw": {"usage": counts}}}, GPT)
    assert cost_of(item, PRICES) == pytest.approx((1.25 * (ALL - READ) + 0.125 * READ + 10.0) / 1e6)
    assert cost_of(chat("Hi", GPT), PRICES) == pytest.approx((1.25 * ALL + 10.0) / 1e6)


def test_counts_that_do_not_fit() -> None:
    """Cached tokens that can't be part of the counted input change no cost."""
    item = chat({"$chat_response": {"message": {"content": "Hi"}, "raw": {"usage": RAW}}}, GPT, tokens=10)
    assert cost_of(item, PRICES) == pytest.approx((1.25 * 10 + 10.0) / 1e6)


def test_an_own_price_of_writes() -> None:
    """A table's own price of writes goes before the provider's usual share, also for an hour."""
    table = PriceTable({CLAUDE: Price(3.0, 15.0, cache_write=6.0)})
    rates = table.rates(CLAUDE, "")
    assert rates is not None
    assert [each * 1e6 for each in rates] == pytest.approx([3.0, 0.3, 6.0, 9.6])


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("candidate", [OWN, "openai:gpt-5"])
def test_a_call_that_is_made_again(form: str, candidate: str) -> None:
    """The plan of a trial counts on no cache: another run may come later, and another model reads none of it."""
    price, answer = (3.0, 15.0) if candidate == OWN else (1.25, 10.0)
    assert cost_of(tried_with(FORMS[form], candidate), PRICES) == pytest.approx((price * ALL + answer) / 1e6)
