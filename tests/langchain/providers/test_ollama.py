"""Ollama's own client is recorded against a loopback of its API, and replayed without it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

pytest.importorskip("langchain_ollama", reason="langchain-ollama is not installed")

import ollama
from langchain_core.messages import AIMessage
from langchain_core.runnables import RunnableLambda
from langchain_core.tools import tool
from langchain_ollama import ChatOllama, OllamaEmbeddings
from pydantic import BaseModel

from agenttape_core import ReplayedError, use_cassette
from agenttape_langchain import ReplayChatModel, TapeCallbackHandler, tape

from .calls import seen, seen_but_ids, streamed, whole
from .loopback import Loopback
from .ollama_api import OllamaWire

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterator
    from pathlib import Path

QUESTION = "What is the weather in Paris?"


class Forecast(BaseModel):
    """A forecast."""

    city: str
    degrees: int


@tool
def get_weather(city: str) -> str:
    """Get the weather."""
    return f"sunny in {city}"


async def plain(model: Any) -> list[Any]:
    """Whole messages, four ways."""
    (batched,) = model.batch([QUESTION])
    return [model.invoke(QUESTION), await model.ainvoke(QUESTION), batched, *await model.abatch([QUESTION])]


async def in_chunks(model: Any) -> list[Any]:
    """Chunks, synchronous and asynchronous, of the same question."""
    return [streamed(model.stream(QUESTION)), [chunk async for chunk in model.astream(QUESTION)]]


async def thinking(model: Any) -> list[Any]:
    """Reasoning beside the text, plain and streamed, passed back in the history."""
    model = model.bind(reasoning=True)
    first, chunks = model.invoke(QUESTION), streamed(model.stream(QUESTION))
    again = model.invoke([("user", QUESTION), first, ("user", "Why?"), whole(chunks), ("user", "Really?")])
    return [first, chunks, again]


async def tools(model: Any) -> list[Any]:
    """Tool calls, whose ids the client itself draws, and the answer to their results."""
    model = model.bind_tools([get_weather])
    call, chunks = model.invoke(QUESTION), streamed(model.stream(QUESTION))
    answers = [
        model.invoke([("user", QUESTION), asked, get_weather.invoke(asked.tool_calls[0])])
        for asked in (call, whole(chunks))
    ]
    return [call, chunks, *answers]


async def structured(model: Any) -> list[Any]:
    """Structured output by a format, by a forced tool, and as any JSON."""
    return [
        result
        for method in ("json_schema", "function_calling", "json_mode")
        for asking in [model.with_structured_output(Forecast, method=method, include_raw=True)]
        for result in (asking.invoke(QUESTION)["raw"], AIMessage(repr((await asking.ainvoke(QUESTION))["parsed"])))
    ]


CALLS: dict[str, Callable[[Any], Awaitable[list[Any]]]] = {
    call.__name__: call for call in (plain, in_chunks, thinking, tools, structured)
}


@pytest.fixture
def service() -> Iterator[Loopback]:
    """The service."""
    with Loopback(OllamaWire()) as service:
        yield service


def chat(service: Loopback, **options: Any) -> ChatOllama:
    """Ollama's client."""
    return ChatOllama(model="qwen3:0.6b", base_url=service.url, **options)


@pytest.mark.parametrize("output_version", [None, "v1"])
@pytest.mark.parametrize("ambient", [True, False], ids=["ambient", "taped"])
@pytest.mark.parametrize("name", CALLS)
async def test_replays_without_the_service(
    name: str, ambient: bool, output_version: str | None, service: Loopback, tmp_path: Path
) -> None:
    """With the service gone, everything comes back: types, reasoning, chunks, ids, usage, metadata."""
    model = chat(service, output_version=output_version)
    model = model if ambient else tape(model)
    with use_cassette(tmp_path / "o.yaml", mode="all", ambient=ambient) as recording:
        recorded = await CALLS[name](model)
    assert len(service.requests) == len([crossed for crossed in recording.report.executed if crossed.kind == "chat"])
    service.stop()
    with use_cassette(tmp_path / "o.yaml", ambient=ambient) as replay:
        assert seen(await CALLS[name](model)) == seen(recorded)
    assert {crossed.rung for crossed in replay.report.served} == {"exact"}
    assert replay.report.executed == replay.report.unused == ()


@pytest.mark.parametrize("name", CALLS)
async def test_observed_calls_replay(name: str, service: Loopback, tmp_path: Path) -> None:
    """What a handler saw replays the same, and so does a stand-in that knows nothing of Ollama's package.

    Ollama sends no ids, so the framework makes them of the ids of its runs, which a handler does not freeze. The client
    reports its chunks before they have any.
    """
    handler = TapeCallbackHandler(tmp_path / "o.yaml")

    async def run(_: Any) -> list[Any]:
        return await CALLS[name](chat(service))

    calls = RunnableLambda(run)
    observed = await calls.ainvoke({}, config={"callbacks": [handler]})
    assert handler.errors == []
    service.stop()
    with use_cassette(handler.path) as replay:
        assert seen_but_ids(await calls.ainvoke({})) == seen_but_ids(observed)
    assert {crossed.rung for crossed in replay.report.served} == {"exact"}
    stand_in = ReplayChatModel(handler.path)
    assert seen_but_ids(await CALLS[name](stand_in)) == seen_but_ids(observed)
    assert len(stand_in.report.served) == len(service.requests)


async def test_embeddings(service: Loopback, tmp_path: Path) -> None:
    """Its embeddings come back number by number."""
    model = OllamaEmbeddings(model="all-minilm", base_url=service.url)
    seen = []
    for mode in ("all", "none"):
        with use_cassette(tmp_path / "o.yaml", mode=mode) as session:
            seen.append([model.embed_query("a"), model.embed_documents(["a", "b"]), await model.aembed_query("a")])
        service.stop()
    assert seen[0] == seen[1]
    assert seen[0][0] != seen[0][2], "the service never says the same twice"
    assert len(session.report.served) == 3


@pytest.mark.parametrize("way", ["invoke", "ainvoke", "stream"])
async def test_errors(way: str, service: Loopback, tmp_path: Path) -> None:
    """An error of the service is raised again as its own type, with its status."""
    raised = []
    service.fail_next(429, "slow down")
    for mode in ("all", "none"):
        with use_cassette(tmp_path / "o.yaml", mode=mode), pytest.raises(ollama.ResponseError) as caught:
            if way == "ainvoke":
                await chat(service).ainvoke(QUESTION)
            else:
                list([chat(service).invoke(QUESTION)] if way == "invoke" else chat(service).stream(QUESTION))
        service.stop()
        raised.append((type(caught.value), caught.value.args, caught.value.status_code, caught.value.error))
    assert raised[0] == raised[1]
    assert not isinstance(caught.value, ReplayedError)
    assert caught.value.status_code == 429


async def test_interrupted_stream(service: Loopback, tmp_path: Path) -> None:
    """A stream that the service breaks off breaks again after the same chunks."""
    model = chat(service)
    service.interrupt_next(3, "out of memory")
    chunks: dict[str, list[Any]] = {"all": [], "none": []}
    for mode, got in chunks.items():
        with use_cassette(tmp_path / "o.yaml", mode=mode), pytest.raises(ollama.ResponseError, match="out of memory"):
            async for chunk in model.astream(QUESTION):
                got.append(chunk)
        service.stop()
    assert chunks["all"]
    assert seen([chunks["none"]]) == seen([chunks["all"]])
