"""Other models on recordings of programs that use the package of a provider by itself, over HTTP."""

from __future__ import annotations

import asyncio
import json
import re
import sys
import urllib.request
from collections.abc import Callable, Iterator
from importlib import import_module
from pathlib import Path
from typing import Any

import anthropic
import openai
import pytest
from examples.weather_agent.server import OpenAILoopback

from agenttape_core import open_cassette, use_cassette
from agenttape_core.cli.app import run
from agenttape_core.errors import ConfigurationError
from agenttape_core.experiments import model
from agenttape_core.experiments.update import plan, update

from ..core.transports.service import JSON, Answer, Service
from ..langchain.providers.loopback import Loopback
from ..langchain.providers.messages_api import MessagesWire

EXAMPLES = Path(__file__).resolve().parents[2] / "examples"
MESSAGES: list[Any] = [{"role": "user", "content": "How are you in Zürich?"}]
pytestmark = pytest.mark.filterwarnings("ignore:The model:DeprecationWarning")  # Anthropic announces the end of each
SHAPES = ["sync", "stream", "async", "async stream"]


class World:
    """The services that a program reaches: two models, and a shop."""

    def __init__(self, by_openai: OpenAILoopback, by_anthropic: Loopback, shop: Service) -> None:
        self.by_openai, self.by_anthropic, self.shop = by_openai, by_anthropic, shop

    @property
    def models(self) -> list[str]:
        """The models that were asked so far."""
        return [body["model"] for body in (*self.by_openai.requests, *self.by_anthropic.requests)]

    def program(self, provider: str, shape: str) -> Callable[[], str]:
        """Return a program that asks a model, then the shop, then the model again."""

        def main() -> str:
            words = [self.ask(provider, shape)]
            with urllib.request.urlopen(f"{self.shop.url}/v1/order") as response:
                words.append(response.read().decode())
            return " ".join([*words, self.ask(provider, shape)])

        return main

    def ask(self, provider: str, shape: str) -> str:
        """Ask a model through the package of its provider."""
        if shape.startswith("async"):
            asked = self._openai_async if provider == "openai" else self._anthropic_async
            return asyncio.run(asked("stream" in shape))
        return (self._openai if provider == "openai" else self._anthropic)(shape == "stream")

    def _openai(self, streamed: bool) -> str:
        with openai.OpenAI(base_url=self.by_openai.base_url, api_key="any", max_retries=1) as client:
            create: Any = client.chat.completions.create
            got = create(model="gpt-5", messages=MESSAGES, stream=streamed, **_usage(streamed))
            return _text(list(got)) if streamed else str(got.choices[0].message.content)

    async def _openai_async(self, streamed: bool) -> str:
        async with openai.AsyncOpenAI(base_url=self.by_openai.base_url, api_key="any") as client:
            create: Any = client.chat.completions.create
            got = await create(model="gpt-5", messages=MESSAGES, stream=streamed, **_usage(streamed))
            return _text([chunk async for chunk in got]) if streamed else str(got.choices[0].message.content)

    def _anthropic(self, streamed: bool) -> str:
        given: Any = {"model": "claude-opus-4-5", "max_tokens": 99, "messages": MESSAGES}
        with anthropic.Anthropic(base_url=self.by_anthropic.url, api_key="any") as client:
            if not streamed:
                return str(client.messages.create(**given).content[0].text)  # type: ignore[union-attr]
            with client.messages.stream(**given) as stream:
                return stream.get_final_text()

    async def _anthropic_async(self, streamed: bool) -> str:
        given: Any = {"model": "claude-opus-4-5", "max_tokens": 99, "messages": MESSAGES}
        async with anthropic.AsyncAnthropic(base_url=self.by_anthropic.url, api_key="any") as client:
            if not streamed:
                return str((await client.messages.create(**given)).content[0].text)  # type: ignore[union-attr]
            async with client.messages.stream(**given) as stream:
                return await stream.get_final_text()


def _usage(streamed: bool) -> dict[str, Any]:
    return {"stream_options": {"include_usage": True}} if streamed else {}


def _text(chunks: list[Any]) -> str:
    return "".join(choice.delta.content or "" for chunk in chunks for choice in chunk.choices)


OTHER = {"openai": "openai:gpt-5-mini", "anthropic": "anthropic:claude-haiku-4-5"}


@pytest.fixture
def world(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[World]:
    """Services that answer differently every time, and a shop."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(EXAMPLES))
    loopback = import_module("weather_agent.server").OpenAILoopback()
    with loopback as by_openai, Loopback(MessagesWire()) as by_anthropic, Service() as shop:
        shop.answers["/v1/order"] = Answer(b"one order", JSON)
        yield World(by_openai, by_anthropic, shop)


def recorded(world: World, main: Callable[[], object], path: str = "run.yaml") -> Path:
    """Record a program, and take the shop away."""
    with use_cassette(Path(path), mode="record", http=True):
        main()
    world.shop.answers["/v1/order"] = Answer(b"another order", JSON)
    return Path(path)


@pytest.mark.sweep
@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("provider", ["openai", "anthropic"])
def test_another_model_answers(world: World, provider: str, shape: str) -> None:
    """The other model is asked by the program's own package, all else is replayed, and the new run replays."""
    main = world.program(provider, shape)
    path = recorded(world, main)
    own = world.models[0]
    with use_cassette(path, candidate=OTHER[provider], to=Path("derived.yaml").resolve()) as session:
        said = main()
    asked, other = world.models, OTHER[provider].partition(":")[2]
    assert asked == [own, own, other, other]
    assert "one order" in said
    assert str(session.report) == "1 replayed, 2 recorded"
    derived = open_cassette(Path("derived.yaml"))
    tried = [
        item.metadata.get("candidate") for item in derived.interactions() if "model" in (item.request.get("body") or {})
    ]
    assert tried == [OTHER[provider]] * 2
    with use_cassette(Path("derived.yaml")):
        assert main() == said
    assert world.models == asked


@pytest.mark.parametrize("provider", ["openai", "anthropic"])
def test_samples_with_a_verdict(world: World, provider: str) -> None:
    """Samples of both models have tokens, money and answers, and the plan has counted their calls."""
    main = world.program(provider, "sync")
    path = recorded(world, main)
    before = len(world.models)
    (plan,) = model(main, OTHER[provider], path, samples=2, dry_run=True).plans
    assert (plan.baseline, plan.calls, plan.unpriced) == (4, 4, ())
    assert plan.dollars > 0
    assert len(world.models) == before
    (trial,) = model(main, OTHER[provider], path, samples=2, max_usd=1).trials
    own, other = world.models[0], OTHER[provider].partition(":")[2]
    assert sorted(world.models[before:]) == sorted([own, other] * 4)
    assert trial.recorded.tokens > 0
    for group in ("baseline", "candidate"):
        samples = trial.group(group)  # type: ignore[arg-type]
        assert [(sample.passed, sample.left_out) for sample in samples] == [(True, "")] * 2
        assert all(sample.trajectory.tokens and sample.trajectory.dollars and sample.answer for sample in samples)
    cheap, dear = trial.group("candidate")[0].trajectory.dollars, trial.group("baseline")[0].trajectory.dollars
    assert cheap < dear
    assert not trial.diverges_at


def test_a_limit_holds(world: World) -> None:
    """No call is made that may cost more than is left of the limit."""
    main = world.program("openai", "sync")
    path = recorded(world, main)
    (plan,) = model(main, OTHER["openai"], path, samples=1, baseline=0, dry_run=True).plans
    before = len(world.models)
    found = model(main, OTHER["openai"], path, samples=1, baseline=0, max_usd=plan.dollars * 0.75)
    assert "limit" in found.stopped or "$" in found.stopped
    assert len(world.models) == before + 1


def test_the_plan_of_an_update(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """An update of calls over HTTP has a price, and isn't begun if that's more than is allowed."""
    main = world.program("openai", "sync")
    path = recorded(world, main)
    monkeypatch.setitem(MESSAGES[0], "content", "Who are you?")
    found = plan(main, path)
    assert found.dollars > 0
    before = len(world.models)
    with pytest.raises(ConfigurationError, match="nothing was recorded"):
        update(main, path, max_usd=found.dollars / 2)
    assert len(world.models) == before


def test_failures_of_an_endpoint(world: World) -> None:
    """A sample whose provider refuses the key doesn't count; one that is tried again does."""
    main = world.program("openai", "sync")
    path = recorded(world, main)
    world.by_openai.fail_next(401)
    (trial,) = model(main, OTHER["openai"], path, samples=1, baseline=0).trials
    assert trial.left_out == {"lost its endpoint": 1}
    world.by_openai.fail_next(503)
    (trial,) = model(main, OTHER["openai"], path, samples=1, baseline=0).trials
    assert not trial.left_out


def test_some_calls(world: World) -> None:
    """A candidate for one recorded call leaves the others replayed."""
    main = world.program("openai", "sync")
    path = recorded(world, main)
    second = [row.address for row in open_cassette(path).entries][-1]
    before = len(world.models)
    with use_cassette(path, candidate={second: OTHER["openai"]}, to=Path("derived.yaml").resolve()):
        main()
    assert world.models[before:] == ["gpt-5-mini"]


@pytest.mark.parametrize(
    ("provider", "candidate", "place", "why"),
    [
        ("openai", "anthropic:claude-haiku-4-5", "", "is in the wire format of openai, which anthropic doesn't read"),
        ("anthropic", "openai:gpt-5-mini", "", "is in the wire format of anthropic, which openai doesn't read"),
        (
            "openai",
            "openai:gpt-5-mini",
            "host: api.groq.com",
            "goes to api.groq.com, which doesn't serve models of openai",
        ),
        ("openai", "openai:gpt-5-mini", "path: /deployments/own/completions", "doesn't say which model of"),
        ("openai", "openai:gpt-5-mini", "path: /v1beta/models/gemini:generateContent", "wire format of google"),
        ("openai", "gpt-5-mini", "", "expected PROVIDER:MODEL, with a provider of anthropic"),
    ],
)
def test_a_model_of_elsewhere(world: World, provider: str, candidate: str, place: str, why: str) -> None:
    """A candidate that the recorded requests can't ask is refused before anything is asked, with the reason."""
    main = world.program(provider, "sync")
    path = recorded(world, main)
    key, _, value = place.partition(": ")
    old = {"host": r"127\.0\.0\.1", "path": "/v1/chat/completions"}.get(key, "-")
    text = path.read_text("utf-8")
    path.write_text(re.sub(f'{key or "-"}: "?{old}"?\n', f"{key}: {json.dumps(value)}\n", text), "utf-8")
    before = len(world.models)
    with pytest.raises(ConfigurationError, match=why):
        model(main, candidate, path, samples=1)
    assert len(world.models) == before


@pytest.fixture
def asking(world: World, monkeypatch: pytest.MonkeyPatch) -> World:
    """A module `asking` that knows no framework, and the recording `run.yaml` of it."""
    Path("asking.py").write_text(
        "import httpx\n"
        "def main():\n"
        f"    body = dict(model='gpt-5', messages={MESSAGES!r})\n"
        "    headers = {'Authorization': 'Bearer any'}\n"
        f"    answer = httpx.post('{world.by_openai.base_url}/chat/completions', json=body, headers=headers)\n"
        "    assert answer.json()['choices'][0]['message']['content']\n"
        "if __name__ == '__main__':\n"
        "    main()\n",
        "utf-8",
    )
    monkeypatch.syspath_prepend(".")
    monkeypatch.delitem(sys.modules, "asking", raising=False)
    recorded(world, import_module("asking").main)
    return world


@pytest.mark.process
@pytest.mark.parametrize("command", ["function", "command"])
def test_the_command(asking: World, capsys: pytest.CaptureFixture[str], command: str) -> None:
    """`agenttape lab model` tries a model on a recorded function or command that knows no framework."""
    given = ["lab", "model", "openai:gpt-5-mini"]
    options = ["--samples", "1", "--max-usd", "1", "--report", "out.json"]
    if command == "command":
        assert run(["record", "--http", "--cassette", "apart", "--", sys.executable, "asking.py"]) == 0
        program = ["--run", "cassettes/apart.yaml", *options, "--", sys.executable, "asking.py"]
    else:
        program = ["asking:main", "--run", "run.yaml", *options]
    before = len(asking.models)
    assert run([*given, *program]) == 0, capsys.readouterr().err
    assert asking.models[before:] == ["gpt-5", "gpt-5-mini"]
    (trial,) = json.loads(Path("out.json").read_text("utf-8"))["trials"]
    assert [sample["passed"] for sample in trial["samples"]] == [True, True]


def test_a_fleet(asking: World, capsys: pytest.CaptureFixture[str]) -> None:
    """A fleet bills and takes samples of recordings that know no framework."""
    trial = ["--experiment", "model", "--model", "openai:gpt-5-mini", "--program", "asking:main", "--revision", "r"]
    capsys.readouterr()
    assert run(["fleet", "plan", "run.yaml", *trial]) == 0
    planned = capsys.readouterr()
    Path("items.jsonl").write_text(planned.out, "utf-8")
    assert planned.err.startswith("at most 2 calls of models, about ")
    before = len(asking.models)
    assert run(["fleet", "work", "items.jsonl", "--output", "out", "--max-usd", "1"]) == 0, capsys.readouterr().err
    assert sorted(asking.models[before:]) == ["gpt-5", "gpt-5-mini"]
    capsys.readouterr()
    assert run(["fleet", "merge", "out", "--json"]) == 0
    overall, *_ = json.loads(capsys.readouterr().out)["candidates"]
    assert (overall["model"], overall["runs"]) == ("openai:gpt-5-mini", 1)
