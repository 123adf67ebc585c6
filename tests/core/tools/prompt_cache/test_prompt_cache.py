"""What a run could have read from a provider's prompt cache, on conversations whose answers are known."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from datetime import date
from pathlib import Path
from typing import Any

import pytest

from agenttape_core.schema import Outcome, RecordedError, Usage
from agenttape_core.tools.prompt_cache.analysis import Asked, cache_report
from agenttape_core.tools.prompt_cache.report import CachedCall
from agenttape_core.tools.reading.cache_rules import RULES, CacheRule, rule_for
from agenttape_core.tools.reading.prices import Price, PriceTable

from ....kit import records

MODELS = {
    "openai": "gpt-5-mini",
    "openai-5.6": "gpt-5.6",
    "anthropic": "claude-sonnet-4-5",
    "gcp.gemini": "gemini-2.5-flash",
    "deepseek": "deepseek-chat",
}
PRICES = PriceTable({model: Price(2.0, 8.0, 0.2) for model in MODELS.values()})
LENGTH = 9000
"""The tokens of each request, as its provider counts them."""
RULE_BOOK = "Answer customers of the bookshop politely, and look up each order before you promise anything. " * 380
EXCHANGES = Path(__file__).parents[5] / "shared/data/openai"
Message = dict[str, Any]


def system(text: str) -> Message:
    """Return a system prompt."""
    return {"role": "system", "content": text}


def user(text: str) -> Message:
    """Return a message of the user."""
    return {"role": "user", "content": text}


def assistant(text: str) -> Message:
    """Return an earlier answer."""
    return {"role": "assistant", "content": text}


def tool(name: str, text: str = "Look something up.") -> Message:
    """Return the definition of a tool."""
    return {"type": "function", "function": {"name": name, "description": text, "parameters": {"type": "object"}}}


def asked(number: int, start: float, model: str, messages: Sequence[Message], **given: Any) -> Asked:
    """Return a call that took a second; Anthropic caches all of it, as it's marked at the top."""
    mark = {"cache_control": {"type": "ephemeral"}} if model.startswith("claude") else {}
    tokens, read = given.pop("tokens", LENGTH), given.pop("read", None)
    details = {"input_token_details": {"cache_read": read}} if read is not None else {}
    value = {"$chat_result": {"message": {"type": "ai", "content": "Yes.", "usage_metadata": details}}}
    request = {"model": model, "messages": list(messages), **mark, **given}
    outcome = Outcome(status="returned", value=value, usage=Usage(input_tokens=tokens, output_tokens=1))
    item = records.call(number, f"Model#{number}", kind="chat", request=request, outcome=outcome)
    return Asked(item, "run.yaml", start, start + 1)


def judged(model: str, *requests: Mapping[str, Any], gap: float = 10) -> list[CachedCall]:
    """Return what is said of calls that follow each other."""
    calls = [asked(at, at * gap, model, **{"messages": [], **given}) for at, given in enumerate(requests, 1)]
    return list(cache_report(calls, PRICES).calls)


def blocks(tokens: float, rule: CacheRule) -> int:
    """Return the tokens in whole blocks of a provider."""
    return int(tokens) // rule.block * rule.block


LONG = [system(RULE_BOOK), user("Where is my order?")]
ONLY_TOOLS = [tool(f"look_up_{name}", RULE_BOOK[:8000]) for name in ("order", "book", "customer", "invoice")]
BROKEN: dict[str, tuple[dict[str, Any], dict[str, Any], str, str]] = {
    "a date at the start": (
        {"messages": [system(f"It is 2026-11-29 10:00. {RULE_BOOK}"), user("Hello")]},
        {"messages": [system(f"It is 2026-11-29 10:05. {RULE_BOOK}"), user("Hello")]},
        "a date or a time",
        "messages[0].content",
    ),
    "an id at the start": (
        {"messages": [system(f"Session 5f2b8c1e9a7d. {RULE_BOOK}"), user("Hello")]},
        {"messages": [system(f"Session c07d11aa94be. {RULE_BOOK}"), user("Hello")]},
        "an id",
        "messages[0].content",
    ),
    "tools in another order": (
        {"messages": [user("Hello")], "tools": ONLY_TOOLS},
        {"messages": [user("Hello")], "tools": ONLY_TOOLS[::-1]},
        "the tools in another order",
        "tools[0]",
    ),
    "another tool in front": (
        {"messages": LONG, "tools": [tool("refund")]},
        {"messages": LONG, "tools": [tool("pay_back"), tool("refund")]},
        "other tools (with pay_back)",
        "tools[0]",
    ),
    "a tool described in other words": (
        {"messages": LONG, "tools": [tool("refund")]},
        {"messages": LONG, "tools": [tool("refund", "Pay back.")]},
        "another definition of the tool refund",
        "tools[0]",
    ),
    "another system prompt": (
        {"messages": [system("You are Ann. "), *LONG]},
        {"messages": [system("You are Bob. "), *LONG]},
        "another system prompt",
        "messages[0].content",
    ),
    "a trimmed history": (
        {"messages": [user("First."), assistant("One."), user(RULE_BOOK), assistant("Two.")]},
        {"messages": [user(RULE_BOOK), assistant("Two."), user("Third.")]},
        "parts before it were removed",
        "messages[0].content",
    ),
    "text inserted in front": (
        {"messages": [user(RULE_BOOK), user("Hello")]},
        {"messages": [user("Found: three books."), user(RULE_BOOK), user("Hello")]},
        "parts were inserted before it",
        "messages[0].content",
    ),
}


@pytest.mark.parametrize("name", BROKEN)
@pytest.mark.parametrize("provider", MODELS)
def test_finds_what_broke_a_prefix(provider: str, name: str) -> None:
    """The call, the place, the cause and the tokens read again are found, for each provider."""
    first, second, why, where = BROKEN[name]
    rule = rule_for(MODELS[provider])
    assert rule is not None
    _, call = judged(MODELS[provider], first, second)
    assert call.possible == 0
    assert call.broken is not None
    assert (call.broken.number, call.broken.why) == (1, why)
    assert call.broken.difference is not None
    assert call.broken.difference.where == where
    assert LENGTH * 0.7 < call.broken.tokens <= LENGTH
    assert call.broken.tokens % rule.block == 0
    assert call.broken.cost == pytest.approx(call.broken.tokens * 2e-6)
    assert call.broken.saving == pytest.approx(call.broken.tokens * 1.8e-6)


def test_a_reordering_saves_what_it_can() -> None:
    """Text that moves behind the rest and tools in one order get a saving; a trimmed history and other tools don't."""
    reports = {}
    for name, (first, second, _, _) in BROKEN.items():
        calls = [
            asked(at, at * 10, MODELS["openai"], **{"messages": [], **given})
            for at, given in enumerate((first, second), 1)
        ]
        reports[name] = cache_report(calls, PRICES)
    never = {name for name, report in reports.items() if not report.reordering}
    assert never == {"a trimmed history", "another tool in front", "a tool described in other words"}
    assert all(report.reordering == report.saving for name, report in reports.items() if name not in never)
    assert "by another order" in list(reports["a date at the start"].lines())[-1]


@pytest.mark.parametrize("provider", MODELS)
def test_no_order_saves_an_expired_prefix(provider: str) -> None:
    """A prefix that was changed and would have expired is reported as expired: another order saves nothing of it."""
    first, second, *_ = BROKEN["a date at the start"]
    given = [
        asked(at, at * 2 * 86_400, MODELS[provider], **{"messages": [], **each})
        for at, each in enumerate((first, second), 1)
    ]
    report = cache_report(given, PRICES)
    assert report.reordering == 0
    assert [broken.why for _, broken in report.breaks if "later" not in broken.why] == []


@pytest.mark.parametrize("provider", MODELS)
def test_a_conversation_that_grows_is_read_from_the_cache(provider: str) -> None:
    """A request that continues the one before could read all of that, and nothing is reported."""
    rule = rule_for(MODELS[provider])
    assert rule is not None
    more = [*LONG, assistant("On its way."), user("Thanks")]
    first, second = judged(MODELS[provider], {"messages": LONG}, {"messages": more, "tokens": LENGTH + 20})
    assert (first.possible, second.possible) == (0, blocks(LENGTH, rule))
    assert first.broken is second.broken is None
    assert second.uncached == LENGTH + 20 - second.possible


@pytest.mark.parametrize("provider", MODELS)
def test_a_short_prefix_is_no_loss(provider: str) -> None:
    """A prompt that is shorter than what a provider caches is never reported."""
    rule = rule_for(MODELS[provider])
    assert rule is not None
    given = [{"messages": [user(f"At {at}:00: hello")], "tokens": rule.minimum - 1} for at in (1, 2)]
    assert all(call.possible == 0 and call.broken is None for call in judged(MODELS[provider], *given))


@pytest.mark.parametrize("provider", MODELS)
def test_an_expired_prefix_is_named(provider: str) -> None:
    """A prefix that wasn't used for longer than its lifetime counts as lost, and the time is named."""
    _, call = judged(MODELS[provider], {"messages": LONG}, {"messages": [*LONG, user("And?")]}, gap=2 * 86_400)
    assert call.possible == 0
    assert call.broken is not None
    assert call.broken.difference is None
    assert call.broken.why.startswith("it came 48 hours later")


@pytest.mark.parametrize("provider", MODELS)
def test_calls_side_by_side_read_nothing_of_each_other(provider: str) -> None:
    """A request that was sent before the other was answered couldn't read its prefix, and lost nothing."""
    calls = judged(MODELS[provider], {"messages": LONG}, {"messages": LONG}, gap=0.5)
    assert [(call.possible, call.broken) for call in calls] == [(0, None), (0, None)]


@pytest.mark.parametrize("provider", MODELS)
def test_other_agents_lose_nothing(provider: str) -> None:
    """Two agents with other prompts, in turns, aren't taken for broken prefixes of each other."""
    ann, bob = RULE_BOOK.replace("customers", "readers"), "Check the invoices of suppliers, line by line. " * 800
    given = [{"messages": [system(text), user("Go")]} for text in (ann, bob, ann, bob)]
    calls = judged(MODELS[provider], *given)
    assert [call.broken for call in calls] == [None] * 4
    assert [call.possible > 0 for call in calls] == [False, False, True, True]


MARK = {"cache_control": {"type": "ephemeral"}}


def marked(text: str, **mark: Any) -> Message:
    """Return a block of text, with a mark if one is given."""
    return {"type": "text", "text": text, **mark}


def claude(*contents: Sequence[Message], gap: float = 10) -> list[CachedCall]:
    """Return what is said of requests to Anthropic whose marks are all in them."""
    calls = []
    for at, blocks_ in enumerate(contents, 1):
        each = asked(at, at * gap, "claude-sonnet-4-5", [{"role": "user", "content": list(blocks_)}])
        each.item.request.pop("cache_control")
        calls.append(each)
    return list(cache_report(calls, PRICES).calls)


STEPS = [marked(f"Step {at}.") for at in range(25)]


@pytest.mark.parametrize(
    ("one", "two", "why"),
    [
        ([marked(RULE_BOOK), marked("One?")], [marked(RULE_BOOK), marked("Two?")], "no part is marked"),
        (
            [marked(RULE_BOOK), marked("One?", **MARK)],
            [marked(RULE_BOOK), marked("Two?", **MARK)],
            "no mark at the end of the prefix that both share",
        ),
        (
            [marked(RULE_BOOK, **MARK)],
            [marked(RULE_BOOK), *STEPS, marked("Go on.", **MARK)],
            "no mark in the 20 parts after the cached prefix",
        ),
        ([marked(RULE_BOOK, **MARK), marked("One?")], [marked(RULE_BOOK, **MARK), marked("Two?")], ""),
    ],
    ids=["none", "behind what varies", "too many parts later", "on what stays"],
)
def test_where_a_mark_must_be(one: list[Message], two: list[Message], why: str) -> None:
    """Anthropic caches up to a mark, at the end of what both requests share; a mark elsewhere, or none, is reported."""
    _, found = claude(one, two)
    assert (found.broken is not None, found.possible > LENGTH * 0.95) == (bool(why), not why)
    assert found.broken is None or why in found.broken.why


@pytest.mark.parametrize(("ttl", "is_read"), [("5m", False), ("1h", True)])
def test_a_longer_lifetime_counts(ttl: str, is_read: bool) -> None:
    """A prefix that is marked for an hour is still there after twenty minutes."""
    mark = {"cache_control": {"type": "ephemeral", "ttl": ttl}}
    one, two = ([marked(RULE_BOOK, **mark), marked(text)] for text in ("One?", "Two?"))
    _, call = claude(one, two, gap=1200)
    assert (call.possible > 0) is is_read


def test_the_extended_retention_counts() -> None:
    """OpenAI keeps a prefix for a day if the request asks for that."""
    more = [*LONG, user("And?")]
    given = [{"messages": messages, "prompt_cache_retention": "24h"} for messages in (LONG, more)]
    assert judged("gpt-5-mini", *given, gap=7200)[1].possible > 0
    assert judged("gpt-5-mini", {"messages": LONG}, {"messages": more}, gap=7200)[1].possible == 0


@pytest.mark.parametrize(("read", "said"), [(0, "less"), (8960, "")])
def test_a_provider_that_read_less_is_reported(read: int, said: str) -> None:
    """The count of the provider is compared with the estimate, and a difference is reported."""
    _, call = judged("gpt-5-mini", {"messages": LONG}, {"messages": [*LONG, user("And?")], "read": read})
    assert (f"the provider read {read:,} tokens" in call.disagreement and said in call.disagreement) is bool(said)
    assert call.uncached == LENGTH - read


def test_a_provider_that_read_it_all_the_same_lost_nothing() -> None:
    """Where the provider says that it read the prefix, nothing is reported as broken."""
    first, second, *_ = BROKEN["a date at the start"]
    _, call = judged("gpt-5-mini", first, {**second, "read": 8960})
    assert call.broken is None


def test_an_unknown_model_is_counted_as_nothing() -> None:
    """Of a model without a rule, nothing is counted, and the report says why."""
    report = cache_report([asked(1, 1, "llama-4", LONG), asked(2, 20, "llama-4", LONG)], PRICES)
    assert report.unknown == {"no rule of a prompt cache is known for llama-4": 2}
    assert report.to_dict()["input_tokens"] == report.again == 0


def test_a_request_whose_start_the_provider_holds_is_not_judged() -> None:
    """A request that continues a stored conversation holds only its end, so nothing is said of its prefix."""
    call = asked(1, 1, "gpt-5-mini", LONG, previous_response_id="resp_1")
    assert "previous_response_id" in next(iter(cache_report([call], PRICES).unknown))


def test_a_price_that_is_not_known_is_said() -> None:
    """Tokens of a model without a price are counted, and its price is said to be unknown."""
    first, second, *_ = BROKEN["a date at the start"]
    calls = [asked(at, at * 10, "gpt-5-nano", **given) for at, given in enumerate((first, second), 1)]
    report = cache_report(calls, PRICES)
    assert report.again > 0
    assert report.cost == 0
    assert report.unpriced == ["gpt-5-nano"]


def test_uncounted_tokens_are_marked_as_estimates() -> None:
    """Where no provider counted the tokens, the length of the request is an estimate and is marked as one."""
    call = asked(1, 1, "gpt-5-mini", LONG, tokens=None)
    (found,) = cache_report([call], PRICES).calls
    assert not found.is_counted
    assert found.input_tokens == pytest.approx(len(RULE_BOOK) / 4, rel=0.01)


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.models.pattern)
def test_each_rule_has_its_source(rule: CacheRule) -> None:
    """Each row of the table names the page that it's from, and the day on which that was read."""
    assert rule.source.startswith("https://")
    assert date.fromisoformat(rule.checked) <= date(2100, 1, 1)
    assert 0 < rule.read < 1 <= rule.write
    assert rule.lifetime > 0
    assert rule.minimum >= rule.block


@pytest.mark.parametrize(
    ("model", "minimum"),
    [
        ("gpt-4o-mini", 1024),
        ("openai/gpt-5.6", 1024),
        ("claude-opus-5", 512),
        ("claude-haiku-4-5-20251001", 4096),
        ("us.anthropic.claude-3-5-haiku-20241022-v1:0", 2048),
        ("models/gemini-3.8-flash", 4096),
        ("deepseek-chat", 64),
    ],
)
def test_rules_are_found_by_the_name_of_the_model(model: str, minimum: int) -> None:
    """A model is found whatever stands before its name."""
    rule = rule_for(model)
    assert rule is not None
    assert rule.minimum == minimum


@pytest.mark.skipif(not EXCHANGES.is_dir(), reason="the recorded exchanges are not here")
@pytest.mark.parametrize("name", ["agent_loop", "function_calling", "code_interpreter", "reasoning"])
def test_real_exchanges_agree_with_their_provider(name: str) -> None:
    """Of exchanges as a live provider answered them, the estimate is what the provider reported."""
    calls = []
    for number, line in enumerate((EXCHANGES / f"{name}.jsonl").read_text().splitlines(), 1):
        row = json.loads(line)
        if row["content_type"].startswith("application/json"):
            value = json.loads(row["body"])
            usage = Usage(input_tokens=value["usage"]["input_tokens"], output_tokens=value["usage"]["output_tokens"])
            outcome = Outcome(status="returned", value=value, usage=usage)
            item = records.call(number, "Model", kind="chat", request=row["request"], outcome=outcome)
            calls.append(Asked(item, name, None, None))
    found = cache_report(calls, PRICES).calls
    assert [(call.read, call.possible, call.disagreement) for call in found] == [(0, 0, "")] * len(calls)


def test_a_call_that_raised_is_not_judged() -> None:
    """A request that no model has read put nothing into the cache, and isn't judged."""
    failed = asked(1, 1, "gpt-5-mini", LONG)
    error = RecordedError(type="openai:RateLimitError", message="Slow down.")
    item = failed.item.model_copy(update={"outcome": Outcome(status="raised", error=error)})
    (call,) = cache_report([failed._replace(item=item), asked(2, 20, "gpt-5-mini", LONG, read=0)], PRICES).calls
    assert (call.number, call.possible, call.disagreement) == (2, 0, "")


def test_a_request_that_a_call_of_a_framework_sent_is_not_counted_twice() -> None:
    """A request inside the call of a model isn't another call."""
    outer, inner = (asked(at, at, "gpt-5-mini", LONG) for at in (1, 2))
    inner = inner._replace(item=inner.item.model_copy(update={"parent": 1}))
    assert [call.number for call in cache_report([outer, inner], PRICES).calls] == [1]


@pytest.mark.parametrize(
    ("before", "now", "why"),
    [
        ("You help Jane.", "You help Mark.", "another system prompt"),
        ("Look at the market.", "Look at each decision.", "another system prompt"),
        ("On Monday, 3 March.", "On Tuesday, 4 Sept.", "a date or a time"),
    ],
)
def test_names_are_no_dates(before: str, now: str, why: str) -> None:
    """A word that only begins like a month isn't a date."""
    _, call = judged("gpt-5-mini", *({"messages": [system(f"{text} {RULE_BOOK}")]} for text in (before, now)))
    assert call.broken is not None
    assert call.broken.why == why


def test_the_instructions_of_google_are_part_of_the_prefix() -> None:
    """The instructions of a request to Google come before its contents, and a change in them breaks its prefix."""
    contents = [{"role": "user", "parts": [{"text": "Hello"}]}]
    given = [
        {"contents": contents, "systemInstruction": {"parts": [{"text": f"At {at}:00. {RULE_BOOK}"}]}}
        for at in (10, 11)
    ]
    _, call = judged("gemini-2.5-flash", *given)
    assert call.broken is not None
    assert call.broken.place == " at systemInstruction[0]"
    held = asked(1, 1, "gemini-2.5-flash", LONG, cachedContent="cachedContents/1")
    assert "cachedContent" in next(iter(cache_report([held], PRICES).unknown))


def test_written_tokens_cost_what_writing_costs() -> None:
    """Tokens that the provider says it wrote into the cache again cost its price of writing."""
    first, second, *_ = BROKEN["a date at the start"]
    calls = [asked(at, at * 10, "claude-sonnet-4-5", **given) for at, given in enumerate((first, second), 1)]
    message = {"type": "ai", "content": "Yes.", "usage_metadata": {"input_token_details": {"cache_creation": LENGTH}}}
    for call in calls:
        assert isinstance(call.item.outcome.value, dict)
        call.item.outcome.value["$chat_result"] = {"message": message}
    broken = cache_report(calls, PRICES).calls[1].broken
    assert broken is not None
    assert broken.cost == pytest.approx(broken.tokens * 2e-6 * 1.25)
    assert broken.saving == pytest.approx(broken.tokens * (2e-6 * 1.25 - 0.2e-6))
