"""The commands that show and judge what a run could have read from a prompt cache."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest

from agenttape_core import boundary, use_cassette
from agenttape_core.integration import Boundary, Usage

from ..session.world import call

LENGTH = 9000
"""The tokens of each request, as its provider counts them."""
RULE_BOOK = "Answer customers of the bookshop politely, and look up each order before you promise anything. " * 380
REQUESTS = [
    {"messages": [{"role": "system", "content": f"It is {time}. {RULE_BOOK}"}, {"role": "user", "content": "Hello"}]}
    for time in ("10:00", "10:05")
]


@pytest.fixture
def run(folder: Path) -> Callable[..., Path]:
    """Return what records requests as a run."""

    def record(name: str, *requests: Mapping[str, Any]) -> Path:
        chat = Boundary("chat", usage=lambda _: Usage(input_tokens=LENGTH, output_tokens=1))
        with use_cassette(folder / name, mode="record"):
            for request in requests:
                call("Model", lambda: "Yes.", chat, model="gpt-5-mini", **request)
        return Path(name)

    return record


@pytest.fixture
def broken_run(run: Callable[..., Path]) -> Path:
    """A run of two requests whose system prompt holds the time."""
    return run("shop.yaml", *REQUESTS)


def test_show_tells_what_broke(broken_run: Path, command: Any) -> None:
    """`show --cache` names the calls, the place, the words that differ, and what it cost; `check` warns of it."""
    done = command("check", "--only", "cache", broken_run)
    assert done.code == 0
    assert "cache: doesn't continue the prefix of call 1 at messages[0].content" in done.out
    out = command("show", "--cache", broken_run).out
    assert "call 2 doesn't continue the prefix of call 1 at messages[0].content: a date or a time" in out
    assert "[-00-]" in out
    assert "{+05+}" in out
    assert "tokens were read again" in out
    plain = command("show", "--cache", broken_run, "--json").json
    assert plain["calls"][1]["broken"]["number"] == 1
    assert plain["again"] > LENGTH * 0.9


def test_several_runs_of_a_program_are_one_sequence(run: Callable[..., Path], command: Any) -> None:
    """A run could read what an earlier run of the program had sent, and its report names both."""
    one, two = (run(f"{name}.yaml", request) for name, request in zip(("one", "two"), REQUESTS, strict=True))
    out = command("show", "--cache", one, two).out
    assert "two.yaml call 1 doesn't continue the prefix of" in out.replace("\n", "")
    assert "one.yaml call 1" in out


@pytest.mark.parametrize(("limit", "code"), [("uncached_tokens: 17999", 1), ("uncached_tokens: 18000", 0)])
def test_a_rule_limits_uncached_tokens(broken_run: Path, command: Any, folder: Path, limit: str, code: int) -> None:
    """`at_most` in a file of rules judges the tokens that weren't read from a cache."""
    rules = folder / "rules.yaml"
    rules.write_text(f"checks: 1\nevery:\n- at_most: {{{limit}}}\n")
    assert command("check", broken_run, "--checks", rules).code == code


@pytest.mark.parametrize(
    ("kind", "request_", "code"),
    [("embeddings", {"model": "small", "input": ["Hello"]}, 0), ("chat", {"arguments": {"question": "Hello"}}, 1)],
)
def test_a_call_without_a_prompt_is_no_miss(
    folder: Path, command: Any, kind: str, request_: dict[str, Any], code: int
) -> None:
    """Embeddings have no prompt cache, so a limit passes; a model whose prompt can't be read makes it fail."""
    with use_cassette(folder / "one.yaml", mode="record"):
        call("Model", lambda: [[1.0]], kind, **request_)
    (folder / "rules.yaml").write_text("checks: 1\nevery:\n- at_most: {uncached_tokens: 9, cache_miss_dollars: 1}\n")
    assert command("check", "one.yaml", "--checks", "rules.yaml").code == code


def test_runs_without_times_have_no_gap(run: Callable[..., Path], command: Any) -> None:
    """A run of which it isn't known when it was recorded isn't taken for one that came years later."""
    one, two = (run(f"{name}.yaml", REQUESTS[0]) for name in ("one", "two"))
    text = re.sub(r"\n +(?:created|clock):.*", "", one.read_text())
    assert text != one.read_text()
    one.write_text(text)
    assert "hours later" not in command("show", "--cache", one, two).out


@pytest.mark.parametrize("way", [(), ("--by", "model")])
def test_stats_add_up_what_providers_read_from_their_caches(folder: Path, command: Any, way: tuple[str, ...]) -> None:
    """`show --stats` has the tokens that providers say they read from their caches, in all and for each group."""
    answer = {"role": "assistant", "content": "Yes.", "usage_metadata": {"input_token_details": {"cache_read": 1024}}}
    with use_cassette(folder / "read.yaml", mode="record"):
        for request in REQUESTS:
            call("Model", lambda: {"message": answer}, "chat", model="gpt-5-mini", **request)
    plain = command("show", "--stats", "read.yaml", *way, "--json").json
    assert (plain["groups"][0] if way else plain)["cached_tokens"] == 2048
    assert "cached_tokens" not in command("ls", "read.yaml", "--json").json[0]


@pytest.mark.parametrize("way", [(), ("--by", "model")])
def test_cached_tokens_that_are_counted_apart_are_input(
    folder: Path, command: Any, monkeypatch: pytest.MonkeyPatch, way: tuple[str, ...]
) -> None:
    """Anthropic's count of input leaves out cached tokens: statistics, costs and the tree add them, at their price."""
    prices = folder / "prices.json"
    prices.write_text(json.dumps({"claude-sonnet-4-5": {"input": 1000, "output": 2000, "cache_read": 100}}))
    monkeypatch.setenv("AGENTTAPE_PRICES", str(prices))
    usage = {"input_tokens": 10, "output_tokens": 5, "cache_read_input_tokens": 900, "cache_creation_input_tokens": 90}

    @boundary("chat")
    def ask(model: str, messages: list[Any]) -> dict[str, Any]:
        return {"content": [{"type": "text", "text": "Yes."}], "usage": usage}

    with use_cassette(folder / "apart.yaml", mode="record"):
        for model in ("claude-sonnet-4-5", "gpt-5-mini"):
            ask(model, [])
    plain = command("show", "--stats", "apart.yaml", *way, "--json").json
    found = plain["groups"][0] if way else plain
    assert found["input_tokens"] == 1000 + (0 if way else 10)
    assert found["cached_tokens"] == 900 * (1 if way else 2)
    assert found["dollars"] == pytest.approx(((10 + 90 * 1.25) * 1000 + 900 * 100 + 5 * 2000) / 1e6)
    assert command("ls", "apart.yaml", "--json").json[0]["input_tokens"] == 1010
    assert "1000 + 5 tokens" in command("show", "apart.yaml").out
