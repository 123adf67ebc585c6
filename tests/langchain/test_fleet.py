"""Another model on a fleet of recorded runs: samples by class, one limit over all shards, and the verdicts."""

from __future__ import annotations

import json
import re
import shutil
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from importlib import import_module
from pathlib import Path
from typing import Any

import langchain_openai  # noqa: F401 - runs in this process forget what only they have imported
import pytest

from agenttape_core import use_cassette
from agenttape_core.cli.app import run
from agenttape_core.errors import BudgetExceededError
from agenttape_core.fleet import Item, read_plan, work

from ..kit.ended import Ended
from .conftest import serving_as_openai

APP = """
from langchain_openai import ChatOpenAI


def answer(city):
    model = ChatOpenAI(model="old", max_retries=0)
    texts = [model.invoke(f"Weather of {city}?").text]
    if "twice" in city:
        texts.append(model.invoke(f"And tomorrow in {city}?").text)
    assert "no" not in texts, texts
    return texts
"""


class Models:
    """Two models behind one address. The new one can fail."""

    def __init__(self) -> None:
        self.asked: list[str] = []
        self.fails = False

    def __call__(self, turn: Any) -> Any:
        """The next reply."""
        self.asked.append(turn.body["model"])
        reply = import_module("examples.weather_agent.policy").Reply
        return reply("no" if self.fails and turn.body["model"] == "new" else "sunny")


@pytest.fixture
def models(monkeypatch: pytest.MonkeyPatch) -> Iterator[Models]:
    """Serve both models."""
    with serving_as_openai(models := Models(), monkeypatch):
        yield models


Command = Callable[..., Ended]


@pytest.fixture(scope="module")
def recorded(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of the ten runs; the first test that needs them records them."""
    return tmp_path_factory.mktemp("recorded") / "runs"


@pytest.fixture
def fleet(pytester: pytest.Pytester, models: Models, recorded: Path, capsys: pytest.CaptureFixture[str]) -> Command:
    """Record ten runs of two classes, and return the command in their folder. Each token costs a cent."""
    pytester.makepyfile(app=APP)
    pytester.syspathinsert()
    price = {"input": 10_000, "output": 10_000}
    Path("prices.json").write_text(json.dumps({"old": price, "new": price}))
    Path("pyproject.toml").write_text('[tool.agenttape]\nprices = "prices.json"\n')
    for number in () if recorded.exists() else range(10):
        with use_cassette(recorded / f"{number}.yaml", mode="record") as cassette:
            city = f"{number} twice" if number % 5 == 0 else str(number)
            cassette.note_input({"city": city})
            import_module("app").answer(city)
    shutil.copytree(recorded, "runs")
    models.asked.clear()

    def run_it(*words: object) -> Ended:
        capsys.readouterr()
        code = run(["fleet", *map(str, words)])
        captured = capsys.readouterr()
        return Ended(code, captured.out, captured.err)

    return run_it


def plan(fleet: Command, *words: str) -> Ended:
    """Plan the trial of the new model."""
    trial = ("--experiment", "model", "--model", "openai:new", "--app", "app:answer", "--revision", "r")
    ended = fleet("plan", "runs", *trial, *words)
    assert ended.code == 0, ended.err
    Path("items.jsonl").write_text(ended.out)
    return ended


def test_the_bill_and_the_verdict(fleet: Command, models: Models) -> None:
    """The bill is what the samples take, and a model that fails is WORSE over all runs."""
    ended = plan(fleet, "--samples", "20")
    assert models.asked == []
    (calls, tokens, dollars) = re.fullmatch(
        r"at most (\d+) calls of models, about ([\d,]+) tokens, about \$([\d.]+)\n", ended.err
    ).groups()  # type: ignore[union-attr] # else the test fails
    assert int(calls) == 2 * (16 + 2 * 4)
    models.fails = True
    assert fleet("work", "items.jsonl", "--output", "out", "--max-usd", "1000").code == 0
    assert {name: models.asked.count(name) for name in ("old", "new")} == {"old": 24, "new": 24}
    merged = fleet("merge", "out", "--json")
    overall, *_ = json.loads(merged.out)["candidates"]
    assert (merged.code, overall["verdict"], overall["runs"]) == (1, "WORSE", 10)
    assert float(dollars) == pytest.approx(int(tokens.replace(",", "")) / 100)


def test_a_model_that_passes(fleet: Command) -> None:
    """A sample that fails isn't a finding, nor is a model that isn't worse; another round adds to the first."""
    plan(fleet, "--samples", "4")
    assert fleet("work", "items.jsonl", "--output", "out").code == 0
    assert fleet("merge", "out").code == 0
    assert len(Path("items.jsonl").read_text().splitlines()) == 1 + 8
    plan(fleet, "--samples", "6", "--after", "out")
    assert len(Path("items.jsonl").read_text().splitlines()) == 1 + 20
    assert "8 done before, 12 now" in fleet("work", "items.jsonl", "--output", "out").out


def test_one_limit_over_all_shards(fleet: Command, models: Models) -> None:
    """Shards that work one after the other share the limit; with more money, only what is missing is done."""
    tokens = plan(fleet, "--samples", "10").err.partition("about ")[2].partition(" ")[0]
    total = int(tokens) / 100
    ends = [
        fleet("work", "items.jsonl", "--output", "out", "--shard", f"{n}/2", "--max-usd", total / 3) for n in (1, 2)
    ]
    assert [ended.code for ended in ends] == [1, 1]
    assert "wasn't made" in ends[1].err
    assert 0 < len(models.asked) <= 24 / 3 + 2
    before = len(list(Path("out").glob("results/*/*.json")))
    again = fleet("work", "items.jsonl", "--output", "out", "--max-usd", total * 2)
    assert (again.code, f"{before} done before, {20 - before} now" in again.out) == (0, True)


def test_a_limit_that_cannot_be_kept(fleet: Command, models: Models) -> None:
    """Without the price of a model, a limit is refused before anything is paid."""
    Path("prices.json").write_text('{"old": {"input": 1}}')
    assert "and more" in plan(fleet).err
    ended = fleet("work", "items.jsonl", "--output", "out", "--max-usd", "1")
    assert (ended.code, models.asked) == (2, [])
    assert "the cost of new isn't known" in ended.err


def test_one_limit_over_the_workers_of_an_engine(fleet: Command, models: Models) -> None:
    """Where an engine maps `work` over the items, its workers share the limit, too."""
    tokens = plan(fleet, "--samples", "10").err.partition("about ")[2].partition(" ")[0]
    found = read_plan(Path("items.jsonl").read_text(), "items.jsonl")
    limit: dict[str, Any] = {
        "output": "out",
        "settings": found.settings,
        "max_usd": int(tokens) / 300,
        "plan": found.id,
    }

    def is_done(item: Item) -> bool:
        try:
            return work(item, **limit).passed is True
        except BudgetExceededError:
            return False

    with ThreadPoolExecutor(4) as pool:
        done = sum(pool.map(is_done, found.items))
    assert 4 <= done < 20
    assert len(models.asked) <= 24 / 3 + 4


def test_one_limit_over_runs_in_parallel(fleet: Command, models: Models, monkeypatch: pytest.MonkeyPatch) -> None:
    """With 64 in parallel and money for ten calls, ten are made, even if the recordings don't tell what they cost."""
    calls, tokens = re.findall(r"\d[\d,]*", plan(fleet, "--samples", "8").err)[:2]
    monkeypatch.setattr("agenttape_core.tools.budget.Budget._recorded", lambda *_: None)
    money = 10.5 * int(tokens.replace(",", "")) / 100 / int(calls)
    ended = fleet("work", "items.jsonl", "--output", "out", "--concurrency", "64", "--max-usd", money)
    assert (ended.code, "wasn't made" in ended.err) == (1, True)
    assert 9 <= len(models.asked) <= 11
