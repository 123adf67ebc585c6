"""Each check, over a run that passes and one that does not, wherever the run is read from."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

from agenttape_core import open_cassette, use_cassette
from agenttape_core.checks import (
    AnyCheck,
    Call,
    Finding,
    Run,
    after,
    arguments,
    at_most,
    before,
    called,
    check,
    check_run,
    confirmed,
    exactly,
    never,
    no_errors,
    output,
    run_of,
    trajectory,
)
from agenttape_core.errors import ConfigurationError

from .conftest import ANSWER, QUESTION, SOURCES, ask, look_up, support

SCHEMA = {"type": "object", "required": ["refunded"], "properties": {"refunded": {"type": "integer"}}}
PASSING: list[AnyCheck] = [
    called("look_up"),
    called("look_up", times=2),
    called("refund", order=re.compile("^A-"), amount=5.0),
    called("Model", kind="chat", times=2),
    never("drop_table"),
    never("refund", amount=6),
    before("look_up", "refund"),
    before("refund", "close"),
    after("look_up", "refund", within=2),
    after("close", "refund"),
    exactly(["look_up", "look_up", "refund"]),
    exactly(["refund", "look_up", "look_up"], strict=False),
    trajectory(strict=["look_up", {"tool": "look_up", "arguments": {"order": "A-7"}}, "refund"]),
    trajectory(unordered=["refund", "look_up", "look_up"]),
    trajectory(subset=["look_up", "look_up", "look_up", "refund"]),
    trajectory(superset=["refund"]),
    at_most(calls=5, tokens=350, seconds=60),
    no_errors(allow=["look_up"]),
    arguments("refund", amount=5, json_schema={"required": ["order"]}),
    output(equals=ANSWER),
    output(contains=["refunded", "Paris"], regex=r"\bParis\b", json_schema=SCHEMA),
]
FAILING: list[tuple[AnyCheck, str, str]] = [
    (called("close"), "close was not called", ""),
    (called("look_up", times=3), "look_up was called 2 times, and not 3", "look_up"),
    (called("refund", amount=6), "refund was not called with these arguments", "refund"),
    (never("look_up"), "look_up was called", "look_up"),
    (never("delete_user"), "a model asked for delete_user, which was not called", "Model"),
    (before("close", "refund"), "refund was called without close before it", "refund"),
    (after("refund", "look_up"), "refund was not followed by look_up", "refund"),
    (after("look_up", "refund", within=1), "look_up was not followed by refund within 1 call", "look_up"),
    (exactly(["look_up", "refund"]), "call 2 is look_up, and not refund", "look_up"),
    (exactly(["look_up", "look_up", "refund", "close"]), "the calls end before close", ""),
    (exactly(["refund", "look_up"], strict=False), "look_up is one call too many", "look_up"),
    (trajectory(unordered=["refund"]), "look_up is one call too many", "look_up"),
    (trajectory(subset=["look_up"]), "look_up is one call too many", "look_up"),
    (trajectory(superset=["close"]), "close is missing", ""),
    (
        trajectory(strict=["look_up", "look_up", {"tool": "refund", "arguments": {"amount": 6}}]),
        "call 3, of refund, has other arguments",
        "refund",
    ),
    (at_most(calls=4), "5 calls, and at most 4 calls", ""),
    (at_most(tokens=349), "350 tokens, and at most 349 tokens", ""),
    (at_most(seconds=0), " seconds, and at most 0.000 seconds", ""),
    (no_errors(), "tool look_up failed", "look_up"),
    (arguments("refund", amount=6), "the arguments of refund are not the expected ones", "refund"),
    (
        arguments("refund", json_schema={"properties": {"amount": {"type": "string"}}}),
        "the arguments of refund are not the expected ones",
        "refund",
    ),
    (output(equals="No."), "the output is another one", "Model"),
    (output(contains="Oslo"), "the output lacks a text", "Model"),
    (output(regex="^Paris"), "the output does not fit", "Model"),
    (output(json_schema={"required": ["when"]}), "the output does not fit the schema", "Model"),
]


def place(path: str, line: int | None) -> str:
    """Return the line of a file that a finding names."""
    assert line is not None
    return Path(path).read_text(encoding="utf-8").splitlines()[line - 1]


@pytest.mark.parametrize("source", list(SOURCES))
def test_each_check_passes_and_fails(source: str, recorded: Path) -> None:
    """Every check passes over a run that is as it should be, fails over another, and says which call it is about."""
    with SOURCES[source](recorded) as run:
        assert check(run, *PASSING).findings == ()
        for failing, message, about in FAILING:
            with pytest.raises(AssertionError, match=re.escape(message)):
                check(run, failing)
            first = check_run(run_of(run), [failing]).findings[0]
            assert (message in first.message, first.address.rpartition("/")[2].rstrip("#0123456789")) == (True, about)


@pytest.mark.parametrize("source", ["replaying", "opened", "named", "lines"])
def test_findings_say_where(source: str, recorded: Path) -> None:
    """A finding about a recorded call has the number of the interaction, and the line in the file where it begins."""
    with SOURCES[source](recorded) as run:
        (found,) = check_run(run_of(run), [never("refund")]).findings
        assert found.interaction == 4
        assert re.search(r'"?interaction"?: ?4\b', place(found.path, found.line))
        assert str(found).startswith(f"{found.path}:{found.line}: never: refund was called (interaction 4 at refund)")


def test_words_that_differ(recorded: Path) -> None:
    """A text that is another one is shown by the words that differ."""
    (found,) = check_run(run_of(recorded), [output(equals=ANSWER.replace("5", "6"))]).findings
    assert [(each.recorded, each.asked) for each in found.differences] == [
        ('{"refunded": [-6-], "to": "Paris"}', '{"refunded": {+5+}, "to": "Paris"}')
    ]


def test_the_facts_of_a_run(recorded: Path) -> None:
    """A run has its prompt, its answer, its conversation in OpenAI's form, and what it took."""
    run = run_of(open_cassette(recorded))
    assert (run.name, run.path, run.prompt, run.answer) == ("support", "support.yaml", QUESTION, ANSWER)
    assert (run.interactions, run.models, run.tokens, run.uncounted) == (5, 2, 350, ())
    assert [message["role"] for message in run.conversation()] == ["user", "assistant", "assistant"]
    assert [call.name for call in run.asked] == ["delete_user"]


def test_what_is_unknown_does_not_pass(recorded: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """A limit fails unless all is known of what it limits; you can allow a model that counts nothing, by its name."""
    (tmp_path / "prices.json").write_text("{}")
    monkeypatch.setenv("AGENTTAPE_PRICES", "prices.json")
    with pytest.raises(
        AssertionError, match="dollars cannot be judged: 2 of 2 calls of models had no counted tokens or known price"
    ):
        check(recorded, at_most(dollars=1))
    (tmp_path / "prices.json").write_text('{"gpt-5": {"input": 1, "output": 10}}')
    assert check(recorded, at_most(dollars=0.0008)).findings == ()
    with pytest.raises(AssertionError, match=re.escape("$0.0008, and at most $0.0007")):
        check(recorded, at_most(dollars=0.0007))
    run = Run(name="partly", models=3, uncounted=("Embedder",), tokens=5)
    with pytest.raises(AssertionError, match="tokens cannot be judged: 1 of 3 calls of models counted no tokens"):
        check(run, at_most(tokens=9))
    with pytest.raises(AssertionError, match="5 tokens, and at most 4 tokens"):
        check(run, at_most(tokens=4))
    (warning,) = check(run, at_most(tokens=9, uncounted=["Embedder"])).findings
    assert (warning.level, warning.message) == (
        "warning",
        "1 of 3 calls of models counted no tokens (Embedder); tokens are a lower bound",
    )


@pytest.mark.parametrize("step", [called("plan", kind="node"), exactly(["plan"], kind="node"), confirmed("refund")])
def test_steps_of_an_open_session(recorded: Path, step: AnyCheck) -> None:
    """What a session does not keep of a run is said, and is no reason to pass."""
    with use_cassette(recorded) as session:
        support()
        with pytest.raises(AssertionError, match="cannot be judged: the steps of a run are known under pytest"):
            check(session, step)


def test_side_by_side_is_not_before() -> None:
    """Of two calls of one superstep, which run at the same time, neither is before the other."""
    at = ("g/tools@2[0]/look_up", "g/tools@2[1]/refund", "g/tools@4[0]/refund")
    calls = [Call("tool", place.rpartition("/")[2], number=n, address=place) for n, place in enumerate(at, 1)]
    (found,) = check_run(Run(name="g", happened=calls[:2]), [before("look_up", "refund")]).findings
    assert found.message == "refund was called beside look_up, not after it"
    assert check(Run(name="g", happened=[calls[0], calls[2]]), before("look_up", "refund")).findings == ()


def asked(tool: str) -> Call:
    """Return an interrupt of a human in the loop about a tool."""
    data = [{"action_requests": [{"name": tool, "args": {}}]}]
    return Call("node", "ask", address="g/ask@2", is_step=True, error="GraphInterrupt: …", data=data)


PAID = Call("tool", "refund", {"amount": 5}, number=2, address="g#2/tools@3/refund")
MODEL = Call("chat", "Model", number=1, address="g/model@1")


@pytest.mark.parametrize(
    ("happened", "wrong"),
    [
        ([MODEL, asked("refund"), PAID], 0),
        ([MODEL, asked("refund"), PAID, PAID], 0),
        ([MODEL, asked("refund"), PAID, MODEL, PAID], 1),
        ([MODEL, asked("close"), PAID], 1),
        ([MODEL, PAID, asked("refund")], 1),
        ([MODEL, asked("refund"), Call("tool", "refund", address="g/tools@2/refund")], 1),
        ([Call("interrupt", "wait", is_step=True), PAID], 0),
        ([MODEL], 0),
    ],
)
def test_confirmed(happened: list[Call], wrong: int) -> None:
    """A call is confirmed by an interrupt before it that is not about other tools, was answered, and not used up."""
    assert len(check_run(Run(name="g", happened=happened), [confirmed("refund")]).findings) == wrong


def test_a_function_is_a_check(recorded: Path) -> None:
    """A function from a run to findings is a check, with its name as its word."""

    def short(run: Run) -> list[Finding]:
        return [run.finding("the answer is long")] if len(run.answer) > 5 else []

    with pytest.raises(AssertionError, match=r"support\.yaml: short: the answer is long"):
        check(recorded, short)


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        (lambda: called(""), "called: expected the name of a tool, found ''"),
        (lambda: called("a", times=0), "called: times is a number of calls from 1 on, found 0; see never"),
        (lambda: after("a", "b", within=True), "after: within is a number of calls from 1 on, found True"),
        (at_most, "at_most: expected a limit: calls, tokens, seconds, dollars, steps"),
        (lambda: at_most(calls=1.5), "at_most: calls is a whole number from 0 on, found 1.5"),  # type: ignore[arg-type]
        (lambda: at_most(dollars=-1), "at_most: dollars is a number from 0 on, found -1"),
        (lambda: exactly("look_up"), "exactly: expected a list of calls, found 'look_up'"),
        (lambda: exactly([{"name": "x"}]), "exactly: {'name': 'x'} is not a call"),
        (trajectory, "trajectory: expected one of strict, unordered, subset, superset; found 0"),
        (lambda: arguments("a"), "arguments: expected values, or a json_schema"),
        (output, "output: expected one of equals, contains, regex, json_schema"),
        (lambda: output(contains=[]), "output: contains is a text or a list of texts, found []"),
        (lambda: output(regex="("), "output: '(' isn't a regular expression: missing )"),
        (lambda: output(json_schema={"type": "txt"}), "output: json_schema is not valid: 'txt' is not valid"),
        (lambda: confirmed(3), "confirmed: expected the name of a tool, found 3"),  # type: ignore[arg-type]
        (lambda: no_errors(allow="look_up"), "no_errors: allow is a list of names, found 'look_up'"),
        (lambda: check(Run(name="x")), "check: no checks were given, so that nothing can fail"),
        (lambda: check(Run(name="x"), "never"), "'never' isn't a check"),  # type: ignore[arg-type]
        (lambda: check(3, no_errors()), "int isn't a run"),
    ],
)
def test_malformed_checks_are_refused(wrong: Any, said: str) -> None:
    """A check that is malformed is refused when it is made, with what was expected and found."""
    with pytest.raises(ConfigurationError, match=f"^{re.escape(said)}"):
        wrong()


def test_a_tool_that_is_not_recorded_itself(tmp_path: Path) -> None:
    """A tool that a model asked for counts as called if a model has read its result, though it was not recorded."""
    wanted = {"role": "assistant", "content": "", "tool_calls": [{"name": "search", "args": {"q": "x"}, "id": "c9"}]}
    user, result = {"role": "user", "content": "Find."}, {"role": "tool", "tool_call_id": "c9", "content": "found"}
    with use_cassette(tmp_path / "bare.yaml", mode="all") as session:
        ask("gpt-5", [user], wanted)
        ask("gpt-5", [user, wanted, result], "Done.")
        look_up("A-7")
        check(session, called("search", q="x", times=1), exactly(["search", "look_up"]))
