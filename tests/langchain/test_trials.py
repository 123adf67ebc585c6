"""Candidates on a whole suite and on commands: groups of samples, what they are worth, the table and its files."""

from __future__ import annotations

import contextlib
import json
import os
import re
import shutil
import signal
import sys
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path
from textwrap import dedent
from typing import Any

import langchain.agents  # noqa: F401 - runs in this process forget what only they have imported
import langchain_openai  # noqa: F401
import pytest

import agenttape_langgraph.automatic  # noqa: F401
from agenttape_core import use_cassette
from agenttape_core.cli.app import run

from .conftest import NO_PLUGINS, serving_as_openai

SUITE = """
import pytest
from langchain.agents import create_agent
from langchain_core.tools import tool
from langchain_openai import ChatOpenAI
from notes import keep

ran = []


@tool
def refund(order: str, amount: int) -> str:
    "Refund an order."
    ran.append(order)
    return f"refunded {order}"


@pytest.fixture(autouse=True)
def _nothing_ran():
    ran.clear()


def ask(question):
    agent = create_agent(ChatOpenAI(model="old", max_retries=0), [refund])
    answer = agent.invoke({"messages": [("user", question)]})["messages"][-1].text
    if question == "apart":
        keep(answer)
    return answer


@pytest.mark.cassette
@pytest.mark.parametrize("question", ["same", "other", "fewer", "flaps", "wrong", "apart"])
def test_refund(question, cassette):
    assert "done" in ask(question)
    if not cassette.session.policy.records:
        assert ran == []
"""

NOTES = """
from agenttape_core import boundary, use_cassette


@boundary("tool")
def note(text):
    return text


def keep(text):
    "Keep a text in a session of its own, and go on if that fails."
    try:
        with use_cassette("notes", mode="once"):
            note(text)
    except BaseException:
        pass
"""


class Models:
    """Two models behind one address: how they act depends on the question, and on how often it was asked."""

    def __init__(self) -> None:
        self.asked: dict[tuple[str, str], int] = {}
        self.texts: list[str] = []
        self.fails = False
        self.interrupts_at: tuple[str, int] | None = None

    def __call__(self, turn: Any) -> Any:
        """The next reply."""
        reply = import_module("examples.weather_agent.policy").Reply
        model, question = turn.body["model"], turn.user_text
        self.texts.append(json.dumps(turn.body["messages"]))
        is_new = model == "new"
        if turn.tool_results:
            return reply(self._end(model, question))
        if self.interrupts_at == (model, self.asked.get((model, question), 0) + 1):
            signal.raise_signal(signal.SIGINT)  # as a terminal does: the main thread hears of it
        amount = 25 if is_new and question == "other" else 20
        times = self.asked[model, question] = self.asked.get((model, question), 0) + 1
        if (is_new and question == "fewer") or (question == "flaps" and times % 2 == 0):
            return reply(self._end(model, question))
        return reply(tool_calls=(("refund", {"order": "A1", "amount": amount}),))

    def _end(self, model: str, question: str) -> str:
        if (model, question) == ("new", "apart"):
            return "done in other words"
        if model == "new" and self.fails:
            return "no"
        return "no" if model == "new" and question == "wrong" and self.asked[model, question] % 2 == 0 else "done"


@pytest.fixture
def models(monkeypatch: pytest.MonkeyPatch) -> Iterator[Models]:
    """Serve both models."""
    with serving_as_openai(models := Models(), monkeypatch):
        yield models


@pytest.fixture(scope="module")
def cassettes(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of the cassettes of the suite; the first test that needs them records them."""
    return tmp_path_factory.mktemp("recorded") / "cassettes"


@pytest.fixture
def suite(pytester: pytest.Pytester, models: Models, cassettes: Path) -> pytest.Pytester:
    """A suite that is recorded with the old model."""
    settled(pytester)
    pytester.makepyfile(test_shop=SUITE, notes=NOTES)
    pytester.syspathinsert()
    if cassettes.exists():
        shutil.copytree(cassettes, pytester.path / "cassettes")
    else:
        pytester.runpytest_inprocess("--cassette-mode=once").assert_outcomes(passed=6)
        shutil.copytree(pytester.path / "cassettes", cassettes)
    models.asked.clear()
    models.texts.clear()
    return pytester


@pytest.fixture
def single(suite: pytest.Pytester) -> pytest.Pytester:
    """The same, of which one test is run."""
    settled(suite, "-k same")
    return suite


def settled(pytester: pytest.Pytester, options: str = "") -> None:
    """Write the options of all runs, which load no plugin that takes longer than they do."""
    always = f"addopts = {NO_PLUGINS} {options}"
    pytester.makefile(".ini", pytest=f"[pytest]\n{always}\nasyncio_default_fixture_loop_scope = function\n")


def trials(folder: Path) -> dict[str, dict[str, Any]]:
    """Return the trials of the report, by the question of their test."""
    found = json.loads((folder / "report.json").read_text(encoding="utf-8"))["trials"]
    return {trial["name"].partition("[")[2].rstrip("]"): trial for trial in found}


def test_options_of_samples(single: pytest.Pytester) -> None:
    """With tests as targets, a tool can be live, and samples have a folder."""
    lab = "--cassette-lab=model:openai:new,live=refund,to=kept"
    result = single.runpytest_inprocess(lab, "--cassette-samples=1/0", "--cassette-report=report.json")
    result.assert_outcomes(passed=1, errors=1)
    (sample,) = trials(single.path)["same"]["samples"]
    assert "['A1'] == []" in sample["problem"], "the tool has run"
    assert sample["cassette"].startswith("kept")


def test_a_suite(suite: pytest.Pytester, models: Models) -> None:
    """Other runs are told apart from failing ones, those that leave the recording do not count; no tool runs."""
    tree = sorted(path.name for path in (suite.path / "cassettes").rglob("*"))
    result = suite.runpytest_inprocess(
        "--cassette-lab=model:openai:new",
        "--cassette-samples=3",
        "--cassette-fail-under=0.7",
        "--cassette-report=report.json",
    )
    result.assert_outcomes(passed=6, errors=2)
    found = trials(suite.path)
    assert {name: (*trial["pairs"].values(), trial["not_counted"]) for name, trial in found.items()} == {
        "same": (0, 3, 0, {}),
        "other": (0, 0, 0, {"made an unrecorded call": 3}),
        "fewer": (0, 3, 0, {}),
        "flaps": (0, 3, 0, {}),
        "wrong": (0, 2, 1, {}),
        "apart": (0, 0, 0, {"made an unrecorded call": 3}),
    }
    assert {trial["verdict"] for trial in found.values()} == {"UNCLEAR"}
    assert found["fewer"]["diverges_at"] == 'refund(order="A1", amount=20) → the end'
    assert found["flaps"]["groups"]["candidate"] == {"samples": 3, "counted": 3, "passed": 3}
    assert found["wrong"]["groups"]["candidate"] == {"samples": 3, "counted": 3, "passed": 2}
    unrecorded = found["other"]["samples"][-1]["unrecorded"][0]
    assert (unrecorded["name"], unrecorded["request"]["arguments"]["amount"]) == ("refund", 25)
    assert found["apart"]["samples"][-1]["unrecorded"][0]["name"] == "cassettes/notes.yaml"
    assert not any("cassette" in text or "recorded" in text or "LangGraph" in text for text in models.texts)
    result.stdout.fnmatch_lines(
        [
            "*candidate openai:new*",
            "run  *verdict *",
            "*same]*UNCLEAR*3/3*3/3*0*",
            "*other]*UNCLEAR*0/0*3/3*3*",
            "*wrong]*UNCLEAR*2/3*3/3*0*",
            "*same]: UNCLEAR after 3 pairs of samples: * pairs more would settle it*",
            "*other]: not counted: 3 made an unrecorded call",
        ]
    )
    for name in ("other", "apart"):
        result.stdout.fnmatch_lines(
            [f"*ERROR*test_refund[[]{name}[]]*", "*nothing to judge: no sample of openai:new counts (3 made an*"]
        )
    assert sorted(path.name for path in (suite.path / "cassettes").rglob("*")) == tree
    derived = list((suite.path / ".agenttape").rglob("*.yaml"))
    assert (suite.path / ".agenttape" / ".gitignore").read_text(encoding="utf-8") == "*\n"
    assert len(derived) == 6 * 6


CANDIDATE = "--cassette-lab=model:openai:new"


def test_a_trial_stops_at_its_verdict(single: pytest.Pytester, models: Models) -> None:
    """A test with which the candidate always fails is WORSE, costs no more samples than that takes, and fails."""
    models.fails = True
    result = single.runpytest_inprocess(CANDIDATE, "--cassette-samples=40", "--cassette-report=report.json")
    result.assert_outcomes(passed=1, errors=1, deselected=5)
    result.stdout.fnmatch_lines(["*WORSE: 0 of 6 samples passed with openai:new, 6 of 6 of the baseline*"])
    assert trials(single.path)["same"]["verdict"] == "WORSE"
    assert models.asked == {("old", "same"): 6, ("new", "same"): 6}


def test_tests_are_judged_together(suite: pytest.Pytester, models: Models) -> None:
    """Two tests that are both worse need no more samples than one, though each alone is not certain: the run fails."""
    settled(suite, "-k 'same or fewer'")
    models.fails = True
    result = suite.runpytest_inprocess(CANDIDATE, "--cassette-samples=6")
    result.assert_outcomes(passed=2, deselected=4)
    assert result.ret == pytest.ExitCode.TESTS_FAILED
    result.stdout.fnmatch_lines(["*same]*WORSE*0/6*6/6*", "*fewer]*WORSE*0/6*6/6*"])


def priced(suite: pytest.Pytester, **prices: float) -> None:
    """Give models their prices, in US dollars per million tokens that they read."""
    table = {name: {"input": price} for name, price in prices.items()}
    (suite.path / "prices.json").write_text(json.dumps(table), encoding="utf-8")
    (suite.path / "pyproject.toml").write_text('[tool.agenttape]\nprices = "prices.json"\n', encoding="utf-8")


def test_the_plan(single: pytest.Pytester, models: Models) -> None:
    """A plan says what the samples would take, test by test, and asks nobody; several candidates share a baseline."""
    priced(single, old=1.0, new=2.0)
    result = single.runpytest_inprocess(
        CANDIDATE, "--cassette-lab=model:openai:newer", "--cassette-dry-run", "--cassette-report=plan.json"
    )
    result.assert_outcomes(passed=1, deselected=5)
    result.stdout.fnmatch_lines(
        [
            "*dry run*",
            "*same]  openai:new * 40 calls, about $*",
            "*same]  openai:newer * 20 calls, at an unknown price",
            "60 calls of models at most, about $* and more, if each sample asks what the recording did",
        ]
    )
    assert models.asked == {}
    plan = json.loads((single.path / "plan.json").read_text(encoding="utf-8"))
    assert [one["calls"] for one in plan["plans"]] == [
        {"baseline": 20, "candidate": 20},
        {"baseline": 0, "candidate": 20},
    ]
    assert (plan["calls"], plan["all_priced"]) == (60, False)
    assert single.runpytest_inprocess(CANDIDATE, "--cassette-dry-run").ret == 0
    assert models.asked == {}


def test_a_limit(single: pytest.Pytester, models: Models) -> None:
    """No call is made that would cost more than is left; what was done is kept, and the run is no success."""
    priced(single, old=0.0, new=1e6)  # a dollar for each token
    result = single.runpytest_inprocess(CANDIDATE, "--cassette-max-usd=250", "--cassette-report=report.json")
    result.assert_outcomes(passed=1, errors=1, deselected=5)
    result.stdout.fnmatch_lines(["*openai:new was not tried to the end: chat at * wasn't made: *of $250 is spent*"])
    samples = trials(single.path)["same"]["samples"]
    assert [one["group"] for one in samples[:4]] == ["baseline", "candidate"] * 2
    spent = sum(one["trajectory"]["dollars"] for one in samples)
    assert 0 < spent <= 250
    assert models.asked["new", "same"] < 3


def test_a_limit_that_cannot_be_kept(single: pytest.Pytester, models: Models) -> None:
    """Where a price is not known, a limit is refused before anybody is asked."""
    priced(single, old=1.0)
    result = single.runpytest_inprocess(CANDIDATE, "--cassette-max-usd=5")
    result.assert_outcomes(passed=1, errors=1, deselected=5)
    result.stdout.fnmatch_lines(["*the cost of new is not known, so $5 cannot be kept; nothing was asked*"])
    assert models.asked == {}


@pytest.mark.usefixtures("interruptible")
def test_an_interruption(single: pytest.Pytester, models: Models) -> None:
    """Ctrl-C keeps the samples that were taken, and a later run goes on with them."""
    models.interrupts_at = ("new", 2)
    words = (CANDIDATE, "--cassette-samples=4", "--cassette-report=report.json")
    with contextlib.suppress(KeyboardInterrupt):
        single.runpytest_inprocess(*words, "-p", "no:terminal")
    kept = trials(single.path)["same"]
    assert [(one["group"], one["number"]) for one in kept["samples"]][-2:] == [("candidate", 1), ("baseline", 2)]
    assert kept["verdict"] == "UNCLEAR"
    models.interrupts_at = None
    before = dict(models.asked)
    result = single.runpytest_inprocess(*words, "--cassette-resume=report.json")
    assert result.ret == 0
    assert trials(single.path)["same"]["pairs"] == {"better": 0, "equal": 4, "worse": 0}
    assert models.asked["old", "same"] - before["old", "same"] == 2  # no sample is taken again
    assert models.asked["new", "same"] - before["new", "same"] == 3
    with pytest.raises(pytest.UsageError, match="it holds samples of openai:new only"):
        single.parseconfigure("--cassette-lab=model:openai:newer", "--cassette-resume=report.json")


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (
            ("--cassette-lab=model:openai:new", "--cassette-mode=all"),
            "excludes --rerecord and a --cassette-mode that records",
        ),
        (("--cassette-lab=model:openai:new", "--rerecord"), "excludes --rerecord and a --cassette-mode that records"),
        (("--cassette-lab=model:openai:new", "--cassette-fail-under=80"), "--cassette-fail-under=80: expected a share"),
        (
            ("--cassette-lab=model:openai:new", "--cassette-resume=none.json"),
            "not a report of this experiment as JSON",
        ),
        (("--cassette-lab=model:openai:new", "--cassette-max-usd=-1"), "expected a limit in US dollars"),
        (("--cassette-resume=report.json",), "--cassette-resume needs --cassette-lab=model"),
        (("--cassette-lab=model:openai:new", "--cassette-samples=0"), "expected a number from 1"),
    ],
    ids=lambda part: "-".join(part) if isinstance(part, tuple) else "",
)
def test_options_that_say_nothing(options: tuple[str, ...], said: str, pytester: pytest.Pytester) -> None:
    """Options that do not go together, or name no file, are refused before a test runs."""
    settled(pytester)
    with pytest.raises(pytest.UsageError, match=re.escape(said)):
        pytester.parseconfigure(*options)


def test_few_samples(single: pytest.Pytester) -> None:
    """Few samples are UNCLEAR, which is no failure, and the table, also in Markdown, says how many it takes."""
    result = single.runpytest_inprocess(CANDIDATE, "--cassette-samples=2", "--cassette-report=out/report.md")
    assert result.ret == 0
    lines = (single.path / "out" / "report.md").read_text(encoding="utf-8").splitlines()
    assert lines[0] == "### AgentTape: 1 run, 1 check: all passed"
    table = lines[lines.index("```text") :]
    assert table[1].split()[:4] == ["run", "verdict", "passed", "baseline"]
    assert table[2].split()[1:5] == ["UNCLEAR", "2/2", "2/2", "0"]
    assert table[3].endswith("36 pairs more would settle it if they are like these, at an unknown price")


def test_a_candidate_that_cannot_be_tried(single: pytest.Pytester, models: Models) -> None:
    """A name that means no model fails each test with what to do, and nothing is asked."""
    result = single.runpytest_inprocess(CANDIDATE, "--cassette-lab=model:nobody:new")
    result.assert_outcomes(passed=1, errors=1, deselected=5)
    assert models.asked == {}  # neither the baseline nor the other candidate
    result.stdout.fnmatch_lines(["*candidate='nobody:new': ValueError*"])
    result.stdout.no_fnmatch_line("*During handling*")


@pytest.mark.process
def test_a_command(
    pytester: pytest.Pytester,
    models: Models,
    python: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """`agenttape lab model` tries a model on a command within a limit, and continues from what it did."""
    program = dedent("""
        from agenttape_core import boundary, use_cassette
        from langchain_core.tools import tool
        from langchain_openai import ChatOpenAI


        @tool
        def refund(order: str, amount: int) -> str:
            "Refund an order."
            with open("ran", "a") as file:
                file.write(order)
            return f"refunded {order}"


        @boundary("tool")
        def note(text):
            with open("ran", "a") as file:
                file.write(text)


        def main():
            with use_cassette("notes", mode="all"):  # of its own: with a candidate it only replays
                note("began")
            model = ChatOpenAI(model="old", max_retries=0).bind_tools([refund])
            asked = [("user", "other")]
            answer = model.invoke(asked)
            result = refund.invoke(answer.tool_calls[0])
            print(model.invoke([*asked, answer, result]).text)


        if __name__ == "__main__":
            main()
    """)

    def tried(model: str, *args: str) -> int:
        capsys.readouterr()
        return run(["lab", "model", model, "--run", "app", *args, "--", "python", "app.py"])

    monkeypatch.setenv("PATH", f"{python}{os.pathsep}{os.environ['PATH']}")
    priced(pytester, old=0.0, new=1e6)  # a dollar for each token
    pytester.makepyfile(app=program)
    pytester.syspathinsert()
    with use_cassette("app", mode="all"):
        import_module("app").main()
    before = Path("ran").read_text(encoding="utf-8")
    models.asked.clear()

    assert tried("openai:new", "--samples", "5", "--dry-run", "--json") == 0
    (plan,) = json.loads(capsys.readouterr().out)["plans"]
    assert (plan["calls"], plan["dollars"] > 0) == ({"baseline": 10, "candidate": 10}, True)
    of_one = plan["dollars"] / 5
    assert models.asked == {}

    how = ("-o", "kept", "--report", "out.json")
    assert tried("openai:new", "--samples", "2/0", "--max-usd", str(of_one * 1.5), *how) == 1
    assert "$138 is spent, and it may cost more than is left" in capsys.readouterr().out
    (found,) = json.loads(Path("out.json").read_text(encoding="utf-8"))["trials"]  # it left the recorded world
    assert [(one["group"], one["passed"], len(one["unrecorded"])) for one in found["samples"]] == [
        ("candidate", True, 1)
    ]
    assert found["samples"][0]["answer"] == "done"
    assert found["samples"][0]["cassette"] == "kept/app.openai-new.1.yaml"
    assert Path("ran").read_text(encoding="utf-8") == before
    asked = dict(models.asked)

    assert tried("openai:new", "--samples", "1/0", *how, "--resume", "out.json", "--json") == 1  # none counts
    (again,) = json.loads(capsys.readouterr().out)["trials"]
    assert again["samples"] == found["samples"]
    assert tried("openai:newer", "--resume", "out.json") == 2
    assert "its samples are of openai:new, so each would be taken again" in capsys.readouterr().err
    assert models.asked == asked


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (("--max-usd", "-1"), "-1"),
        (("--resume", "app.py"), "app.py: not a report of this experiment as JSON"),
        (("--resume", "none.json"), "none.json: not a report of this experiment"),
        (("--run", "none"), "none: there is no such file or folder"),
    ],
    ids=lambda part: "-".join(part) if isinstance(part, tuple) else "",
)
def test_commands_that_say_nothing(
    options: tuple[str, ...], said: str, pytester: pytest.Pytester, capsys: pytest.CaptureFixture[str]
) -> None:
    """Options that don't go together, or name no result, are refused before anything runs."""
    pytester.makepyfile(app="raise SystemExit('it ran')")
    assert run(["lab", "model", "openai:new", *options, "--", sys.executable, "app.py"]) != 0
    said_by_it = capsys.readouterr().err
    assert said in said_by_it
    assert "it ran" not in said_by_it
