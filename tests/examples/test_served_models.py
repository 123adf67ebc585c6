"""Programs whose models are answered by `agenttape serve --as`: with the provider's own package, and no cassette."""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING, Any

import anthropic
import openai
import pytest
from langchain.agents import create_agent
from langchain_anthropic import ChatAnthropic
from langchain_openai import ChatOpenAI, OpenAIEmbeddings

from agenttape_core import use_cassette
from agenttape_core.tools.model_server import Provider, serve_models

if TYPE_CHECKING:
    from examples.weather_agent.server import OpenAILoopback

QUESTION: Any = {"messages": [("user", "What is the weather in Paris?")]}


def get_weather(city: str) -> str:
    """Get the weather in a city."""
    return f"It is sunny in {city}."


def run_agent(model: Any) -> str:
    """Run an agent with a tool, and return its answer."""
    agent = create_agent(model, [get_weather], system_prompt="Be brief.")
    return str(agent.invoke(QUESTION)["messages"][-1].text)


def openai_model(url: str, run: str = "", **options: Any) -> ChatOpenAI:
    """Return a chat model of OpenAI, whose sockets don't stay open."""
    headers = {"Connection": "close", **({"X-Agenttape-Run": run} if run else {})}
    given: dict[str, Any] = {
        "base_url": url,
        "api_key": "any-text",
        "default_headers": headers,
        "max_retries": 0,
        **options,
    }
    return ChatOpenAI(model="gpt-5-mini", **given)


def anthropic_model(url: str, **options: Any) -> ChatAnthropic:
    """Return a chat model of Anthropic, whose sockets don't stay open."""
    given: dict[str, Any] = {
        "base_url": url,
        "api_key": "any-text",
        "default_headers": {"Connection": "close"},
        **options,
    }
    return ChatAnthropic(model="gpt-5-mini", max_retries=0, **given)


MODELS: dict[Provider, Callable[..., Any]] = {"openai": openai_model, "anthropic": anthropic_model}


@pytest.fixture
def recorded(server: OpenAILoopback, tmp_path: Path) -> tuple[Path, str]:
    """A recorded run of the agent, and its answer."""
    with use_cassette(tmp_path / "agent.yaml", mode="record"):
        answer = run_agent(openai_model(server.base_url))
    return tmp_path / "agent.yaml", answer


@pytest.mark.parametrize("streaming", [False, True])
@pytest.mark.parametrize("provider", MODELS)
def test_an_agent_runs_with_either_package(recorded: tuple[Path, str], provider: Provider, streaming: bool) -> None:
    """The agent gets its recorded answers from the package of each provider, streamed or not."""
    path, answer = recorded
    with serve_models(path, provider=provider) as served:
        assert run_agent(MODELS[provider](served.base_url, streaming=streaming)) == answer
        assert (served.answers.answered, served.answers.unknown) == (2, 0)


def test_an_agent_runs_with_responses(recorded: tuple[Path, str]) -> None:
    """The same cassette answers the responses of OpenAI."""
    path, answer = recorded
    for streaming in (False, True):
        with serve_models(path) as served:
            model = openai_model(served.base_url, use_responses_api=True, streaming=streaming)
            assert run_agent(model) == answer


def test_an_unknown_request_gets_the_nearest_recording(recorded: tuple[Path, str]) -> None:
    """A request without a recording gets 409 in the provider's form, with what differs, and isn't tried again."""
    path, _ = recorded
    with serve_models(path) as served:
        client = openai.OpenAI(base_url=served.base_url, api_key="any-text")
        with pytest.raises(openai.ConflictError, match=r"agent.yaml call \d.*\n.*messages\[0\]") as refused:
            client.chat.completions.create(model="gpt-5-mini", messages=[{"role": "user", "content": "Hello"}])
        assert served.answers.unknown == 1
    assert isinstance(refused.value.body, dict)
    with serve_models(path, provider="anthropic") as served:
        claude = anthropic.Anthropic(base_url=served.base_url, api_key="any-text")
        with pytest.raises(anthropic.ConflictError, match=r"isn.+t recorded.*agent.yaml call 1"):
            claude.messages.create(model="gpt-5-mini", max_tokens=9, messages=[{"role": "user", "content": "Hello"}])


def test_each_run_gets_each_recording_once(recorded: tuple[Path, str]) -> None:
    """A client that sends another run begins at the first recording; one that sends none gets each once."""
    path, answer = recorded
    with serve_models(path) as served:
        for run in ("a", "b"):
            model = openai_model(served.base_url, run)
            assert run_agent(model) == answer
            with pytest.raises(openai.ConflictError, match="recorded once"):
                run_agent(model)


@pytest.mark.parametrize("on_repeat", ["last", "cycle"])
def test_a_repeated_request_may_be_answered_again(recorded: tuple[Path, str], on_repeat: Any) -> None:
    """With `last` or `cycle`, a run may be played any number of times."""
    path, answer = recorded
    with serve_models(path, on_repeat=on_repeat) as served:
        assert [run_agent(openai_model(served.base_url)) for _ in range(3)] == [answer] * 3


def test_fifty_clients_in_parallel(recorded: tuple[Path, str]) -> None:
    """Fifty runs at the same time each get the whole recording."""
    path, answer = recorded
    with serve_models(path) as served, ThreadPoolExecutor(50) as pool:

        def play(run: int) -> str:
            return run_agent(openai_model(served.base_url, str(run)))

        assert list(pool.map(play, range(50))) == [answer] * 50


@pytest.mark.parametrize("streamed", [False, True])
def test_bytes_of_the_same_provider_are_sent_as_recorded(
    server: OpenAILoopback, tmp_path: Path, streamed: bool
) -> None:
    """What an SDK recorded over HTTP comes back as the provider sent it: errors, and each chunk of a stream."""
    asked: dict[str, Any] = {"model": "gpt-5-mini", "messages": [{"role": "user", "content": "Hello"}]}

    def ask(url: str) -> list[Any]:
        client = openai.OpenAI(base_url=url, api_key="any-text", max_retries=0)
        create: Any = client.chat.completions.create
        found: list[Any] = []
        try:
            create(**asked, stream=streamed)
        except openai.RateLimitError as error:
            found.append((error.status_code, str(error)))
        answer = create(**asked, stream=streamed)
        return [*found, *([chunk.to_dict() for chunk in answer] if streamed else [answer.to_dict()])]

    server.fail_next(429, message="Slow down.")
    with use_cassette(tmp_path / "bytes.yaml", mode="record", http=True):
        recorded = ask(server.base_url)
    with serve_models(tmp_path / "bytes.yaml") as served:
        assert ask(served.base_url) == recorded
    assert recorded[0][0] == 429


def test_embeddings_are_served(server: OpenAILoopback, tmp_path: Path) -> None:
    """Recorded vectors are those that the client gets."""

    def embed(url: str) -> list[list[float]]:
        headers = {"Connection": "close"}
        given: dict[str, Any] = {"base_url": url, "api_key": "any-text", "default_headers": headers}
        model = OpenAIEmbeddings(model="text-embedding-3-small", check_embedding_ctx_length=False, **given)
        return model.embed_documents(["One.", "Two."])

    with use_cassette(tmp_path / "vectors.yaml", mode="record"):
        recorded = embed(server.base_url)
    with serve_models(tmp_path / "vectors.yaml") as served:
        assert embed(served.base_url) == recorded


@pytest.fixture
def node(tmp_path: Path) -> Path:
    """A folder in which Node.js finds the package of OpenAI."""
    if "WITH_NODE" not in os.environ:
        pytest.skip("needs Node.js and npm's registry: WITH_NODE=1")
    (tmp_path / "js").mkdir()
    (tmp_path / "js/package.json").write_text('{"type": "module", "dependencies": {"openai": "*"}}')
    subprocess.run(
        ["npm", "install", "--no-audit", "--no-fund", "--ignore-scripts"],
        cwd=tmp_path / "js",
        capture_output=True,
        check=True,
        timeout=120,
    )
    return tmp_path / "js"


def test_a_program_in_node_runs_an_agent(recorded: tuple[Path, str], node: Path) -> None:
    """A loop of tools under Node.js, with the package of OpenAI, gets the recorded answers."""
    path, answer = recorded
    (node / "agent.js").write_text(JAVASCRIPT)
    with serve_models(path) as served:
        done = subprocess.run(
            ["node", "agent.js", served.base_url], cwd=node, capture_output=True, text=True, check=True, timeout=60
        )
    assert json.loads(done.stdout) == answer


JAVASCRIPT = """
import OpenAI from "openai";
const client = new OpenAI({ baseURL: process.argv[2], apiKey: "any-text", maxRetries: 0 });
const tools = [{ type: "function", function: { name: "get_weather", description: "Get the weather in a city.",
  parameters: { properties: { city: { type: "string" } }, required: ["city"], type: "object" } } }];
const messages = [{ role: "system", content: "Be brief." }, { role: "user", content: "What is the weather in Paris?" }];
for (;;) {
  const { choices } = await client.chat.completions.create({ model: "gpt-5-mini", messages, tools });
  const { message } = choices[0];
  if (!message.tool_calls) { console.log(JSON.stringify(message.content)); break; }
  messages.push(message);
  for (const call of message.tool_calls) {
    const { city } = JSON.parse(call.function.arguments);
    messages.push({ role: "tool", tool_call_id: call.id, content: `It is sunny in ${city}.` });
  }
}
"""
