"""A case is for the turn whose prompt it names, and a budget passes only where all is counted that it limits."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from agenttape_core import boundary, record_call, use_cassette
from agenttape_core.checks import at_most, check
from agenttape_core.cli.app import run
from agenttape_core.integration import Boundary, Usage
from agenttape_core.integration.answers import usage_in

from ..session.world import call, stream
from .conftest import ask

pytestmark = pytest.mark.usefixtures("project")

MAIL = "bob.smith" + "@" + "weather-desk.org"


FOUR = Usage(input_tokens=3, output_tokens=1)


def asked(question: str, answer: str, usage: Usage | None = FOUR) -> None:
    """Ask a model one question by itself."""
    ask("gpt-5", [{"role": "user", "content": question}], answer, usage)


def checked(*words: str, cases: str) -> int:
    """Return the exit code of `agenttape check` with these cases."""
    Path("c.yaml").write_text(f"checks: 1\ncases:\n{cases}")
    return run(["check", *words, "--checks", "c.yaml"])


@pytest.mark.parametrize(
    ("case", "code"),
    [
        ("- prompt: Capital of France?\n  output: {contains: prime}\n", 1),
        ("- prompt: Capital of France?\n  output: {contains: Paris}\n", 0),
        ("- prompt: Is 7 prime?\n  output: {contains: prime}\n", 0),
        ("- prompt: Is 7 prime?\n  at_most: {calls: 1, tokens: 4}\n", 0),
        ("- prompt: Is 7 prime?\n  at_most: {tokens: 3}\n", 1),
        ("- prompt: Is 8 prime?\n  at_most: {calls: 9}\n", 1),
    ],
)
def test_a_case_judges_the_turn_whose_prompt_it_names(case: str, code: int) -> None:
    """A case finds its turn wherever that is in a run, judges it alone, and says the same of the trace."""

    def two_turns() -> str:
        """Record a conversation of two turns; return the name of its file."""
        with use_cassette("two", mode="all"):
            asked("Capital of France?", "Paris.")
            asked("Is 7 prime?", "Yes, it is prime.")
        assert run(["export", "two", "--format", "jsonl-trace", "-o", "t.jsonl"]) == 0
        return "cassettes/two.yaml"

    assert checked(two_turns(), cases=case) == code
    assert checked("--trace", "t.jsonl", cases=case) == code


def test_a_case_for_a_prompt_that_is_said_twice(capsys: pytest.CaptureFixture[str]) -> None:
    """Each turn with the prompt of a case must pass it; a finding leads to the line of its turn."""
    with use_cassette("again", mode="all"):
        asked("Go on?", "sure")
        asked("And now?", "later")
        asked("Go on?", "never")
    case = "- prompt: Go on?\n  output: {equals: %s}\n"
    assert checked("cassettes/again.yaml", cases=case % "sure") == 1
    lines = Path("cassettes/again.yaml").read_text().splitlines()
    assert f"again.yaml:{lines.index('interaction: 3') + 1}: output" in capsys.readouterr().out
    assert checked("cassettes/again.yaml", cases=case % "later") == 1
    assert checked("cassettes/again.yaml", cases="- prompt: Go on?\n  output: {regex: 'sure|never'}\n") == 0


@pytest.mark.parametrize("prompt", [f"Write to {MAIL}", "Say sk-proj-" + "A1b2C3d4" * 6])
def test_a_case_whose_prompt_holds_a_secret_finds_its_run(prompt: str, capsys: pytest.CaptureFixture[str]) -> None:
    """The prompt of a case is compared as the cassette holds it, with the pseudonyms of its key; also in its trace."""
    secret = prompt.rpartition(" ")[2]
    with use_cassette("secret", mode="all"):
        asked("Hello?", "Hello.")
        asked(prompt, "Done.")
    assert prompt not in Path("cassettes/secret.yaml").read_text()
    case = f"- prompt: {prompt}\n  output: {{contains: Done}}\n"
    assert checked("cassettes/secret.yaml", cases=case) == 0
    assert checked("cassettes/secret.yaml", cases=case.replace("Write", "Wrote").replace("Say", "Said")) == 1
    assert "no run has exactly this prompt" in (said := capsys.readouterr().out)
    assert secret not in said
    assert run(["export", "cassettes/secret.yaml", "--format", "jsonl-trace", "-o", "t.jsonl"]) == 0
    assert checked("--trace", "t.jsonl", cases=case) == 0
    Path("cassettes/secret.yaml").unlink()
    assert checked("--trace", "t.jsonl", cases=case) == 1, "the key is in the cassette alone"


def plain_http(path: str, method: str = "POST", status: int = 200) -> Any:
    """Make a request over plain HTTP, as a client of our transports records it."""
    request = {"method": method, "url": {"scheme": "https", "host": "api.test", "path": path}, "headers": {}}
    answer = ({"status": status, "headers": []}, "{}")
    return list(stream("api.test", lambda: iter(answer), "http", **request))


@pytest.mark.parametrize(
    "path",
    [
        "/v1/chat/completions",
        "/v1/completions",
        "/v1/responses",
        "/v1/messages",
        "/v1/embeddings",
        "/v1beta/models/gemini-3:generateContent",
        "/v1beta/models/gemini-3:streamGenerateContent",
        "/v1beta/models/e:batchEmbedContents",
        "/model/anthropic.claude/converse",
        "/model/anthropic.claude/invoke-with-response-stream",
        "/openai/deployments/gpt/chat/completions",
        "/api/chat",
        "/api/generate",
        "/v2/chat",
    ],
)
@pytest.mark.parametrize("limit", [{"tokens": 10}, {"dollars": 0.01}])
def test_a_model_over_plain_http_is_not_counted(path: str, limit: dict[str, Any]) -> None:
    """A request to a model that was recorded as bytes has no tokens, so no limit of them passes; you can allow it."""
    with use_cassette("plain", mode="all"):
        asked("Hello?", "Hello.")
        plain_http(path)
    with pytest.raises(AssertionError, match=rf"cannot be judged: .*api\.test{path}"):
        check("plain", at_most(**limit))
    if "tokens" in limit:
        (warning,) = check("plain", at_most(**limit, uncounted=[f"api.test{path}"])).findings
        assert warning.level == "warning"


@pytest.mark.parametrize(
    "request_",
    [
        ("/v1/orders", "POST", 200),
        ("/v1/chat/completions", "GET", 200),
        ("/v1/messages", "POST", 429),
        ("/v1/messages/count_tokens", "POST", 200),
    ],
)
def test_other_requests_cost_nothing(request_: tuple[str, str, int]) -> None:
    """A request that no model answered does not keep a budget from being judged."""
    with use_cassette("other", mode="all"):
        asked("Hello?", "Hello.")
        plain_http(*request_)
    assert check("other", at_most(tokens=4)).findings == ()


USAGES = [
    {"usage": {"prompt_tokens": 20, "completion_tokens": 3, "total_tokens": 23}},
    {"usage": {"input_tokens": 20, "output_tokens": 3}},
    {"usage_metadata": {"prompt_token_count": 20, "candidates_token_count": 3}},
    {"prompt_eval_count": 20, "eval_count": 3},
]


@pytest.mark.parametrize("answer", USAGES)
@pytest.mark.parametrize("how", ["decorated", "called", "streamed"])
def test_the_usage_in_the_answer_of_a_boundary_counts(answer: dict[str, Any], how: str) -> None:
    """What a function of the kind chat returns is counted if it has the usage of its provider, also as a stream."""

    @boundary("chat")
    def decorated(model: str) -> Any:
        return {"text": "hi", "model": model, **answer}

    @boundary("chat")
    def streamed(model: str) -> Any:
        yield {"delta": "hi", "model": model}
        yield answer

    with use_cassette("made", mode="all"):
        if how == "streamed":
            list(streamed("gpt-5"))
        elif how == "decorated":
            decorated("gpt-5")
        else:
            record_call("chat", lambda: {"text": "hi", **answer})
    assert check("made", at_most(tokens=23)).findings == ()
    with pytest.raises(AssertionError, match="23 tokens, and at most 22 tokens"):
        check("made", at_most(tokens=22))


def test_the_model_of_a_boundary_is_priced(monkeypatch: pytest.MonkeyPatch) -> None:
    """A boundary whose argument names its model costs what that model costs."""
    Path("prices.json").write_text('{"gpt-5": {"input": 1, "output": 10}}')
    monkeypatch.setenv("AGENTTAPE_PRICES", "prices.json")

    @boundary("chat")
    def planner(model: str) -> Any:
        return USAGES[0]

    with use_cassette("priced", mode="all"):
        planner(model="gpt-5")
    with pytest.raises(AssertionError, match=r"\$0.0001, and at most \$0.0000"):
        check("priced", at_most(dollars=0.00001))


def test_a_boundary_without_usage_is_not_counted() -> None:
    """A function of the kind chat that returns a text counts nothing, and neither does one among others that do."""
    with use_cassette("text", mode="all"):
        record_call("chat", lambda: "hi")
        asked("Hello?", "Hello.")
    with pytest.raises(AssertionError, match="tokens cannot be judged: 1 of 2 calls of models counted no tokens"):
        check("text", at_most(tokens=10))


def test_a_call_that_raised_is_free_and_one_that_was_cut_is_not() -> None:
    """An error of the provider costs nothing; a stream that broke may have cost anything."""

    def refuse() -> Any:
        raise TimeoutError("busy")

    with use_cassette("retried", mode="all"):
        with pytest.raises(TimeoutError):
            call("Model", refuse, Boundary("chat", usage=lambda _: None), messages=[])
        asked("Hello?", "Hello.")
    assert check("retried", at_most(tokens=4)).findings == ()

    @boundary("chat")
    def broken() -> Any:
        yield "half an"
        raise TimeoutError("cut")

    with use_cassette("cut", mode="all"), pytest.raises(TimeoutError):
        list(broken())
    with pytest.raises(AssertionError, match="tokens cannot be judged"):
        check("cut", at_most(tokens=10))


def test_a_baseline_does_not_pass_what_is_not_counted(capsys: pytest.CaptureFixture[str]) -> None:
    """A run that no longer counts its tokens is no run that takes fewer."""
    with use_cassette("run", mode="all"):
        asked("Hello?", "Hello.")
    assert run(["check", "cassettes", "--write-baseline"]) == 0
    assert run(["check", "cassettes", "--baseline", "baseline.json"]) == 0
    with use_cassette("run", mode="all"):
        asked("Hello?", "Hello.", usage=None)
    capsys.readouterr()
    assert run(["check", "cassettes", "--baseline", "baseline.json"]) == 1
    assert "tokens cannot be judged, as in the baseline: 1 of 1 call of models" in capsys.readouterr().out


def test_an_object_with_usage_counts() -> None:
    """The usage of an SDK's object is read as that of a mapping is."""
    usage = SimpleNamespace(prompt_tokens=20, completion_tokens=3)
    assert usage_in(SimpleNamespace(usage=usage)) == Usage(input_tokens=20, output_tokens=3)
    assert usage_in([0.1] * 10_000) is usage_in("text") is None
