"""Anthropic's own client is recorded against a loopback Messages API, and replayed without it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

pytest.importorskip("langchain_anthropic", reason="langchain-anthropic is not installed")

import anthropic
from langchain_anthropic import ChatAnthropic
from langchain_core.messages import AIMessage, AIMessageChunk
from langchain_core.runnables import RunnableLambda
from langchain_core.tools import tool
from pydantic import BaseModel

from agenttape_core import use_cassette
from agenttape_langchain import ReplayChatModel, TapeCallbackHandler, tape

from .calls import seen, streamed, whole
from .loopback import Loopback
from .messages_api import MessagesWire

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterator
    from pathlib import Path

THINKING = {"type": "enabled", "budget_tokens": 1024}
SEARCH = {"type": "web_search_20250305", "name": "web_search", "max_uses": 1}
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
    """Thinking blocks with their signatures, plain and streamed, passed back in the history."""
    model = model.bind(thinking=THINKING)
    first, chunks = model.invoke(QUESTION), streamed(model.stream(QUESTION))
    again = model.invoke([("user", QUESTION), first, ("user", "Why?"), whole(chunks), ("user", "Really?")])
    return [first, chunks, again]


async def tools(model: Any) -> list[Any]:
    """Tool calls, plain and with their arguments in pieces, and the answer to their results."""
    model = model.bind_tools([get_weather])
    call, chunks = model.invoke(QUESTION), streamed(model.stream(QUESTION))
    answers = [
        model.invoke([("user", QUESTION), asked, get_weather.invoke(asked.tool_calls[0])])
        for asked in (call, whole(chunks))
    ]
    return [call, chunks, *answers]


async def structured(model: Any) -> list[Any]:
    """Structured output, by a forced tool and by a format."""
    return [
        result
        for method in ("function_calling", "json_schema")
        for asking in [model.with_structured_output(Forecast, method=method, include_raw=True)]
        for result in (asking.invoke(QUESTION)["raw"], AIMessage(repr((await asking.ainvoke(QUESTION))["parsed"])))
    ]


async def searching(model: Any) -> list[Any]:
    """A tool that the provider runs, and citations."""
    model = model.bind_tools([SEARCH])
    return [model.invoke("News?"), streamed(model.stream("News?"))]


CALLS: dict[str, Callable[[Any], Awaitable[list[Any]]]] = {
    call.__name__: call for call in (plain, in_chunks, thinking, tools, structured, searching)
}


@pytest.fixture
def service() -> Iterator[Loopback]:
    """The service."""
    with Loopback(MessagesWire()) as service:
        yield service


def chat(service: Loopback, **options: Any) -> ChatAnthropic:
    """Anthropic's client."""
    return ChatAnthropic(model="claude-sonnet-5", base_url=service.url, api_key="x", max_retries=0, **options)


@pytest.mark.parametrize("output_version", [None, "v1"])
@pytest.mark.parametrize("ambient", [True, False], ids=["ambient", "taped"])
@pytest.mark.parametrize("name", CALLS)
async def test_replays_without_the_service(
    name: str, ambient: bool, output_version: str | None, service: Loopback, tmp_path: Path
) -> None:
    """With the service gone, everything comes back: types, content blocks, chunks, ids, usage, metadata."""
    model = chat(service, output_version=output_version)
    model = model if ambient else tape(model)
    with use_cassette(tmp_path / "a.yaml", mode="all", ambient=ambient) as recording:
        recorded = await CALLS[name](model)
    assert len(service.requests) == len([crossed for crossed in recording.report.executed if crossed.kind == "chat"])
    service.stop()
    with use_cassette(tmp_path / "a.yaml", ambient=ambient) as replay:
        assert seen(await CALLS[name](model)) == seen(recorded)
    assert {crossed.rung for crossed in replay.report.served} == {"exact"}
    assert replay.report.executed == replay.report.unused == ()


@pytest.mark.parametrize("name", CALLS)
async def test_observed_calls_replay(name: str, service: Loopback, tmp_path: Path) -> None:
    """What a handler saw replays the same, and so does a stand-in that knows nothing of Anthropic's package."""
    handler = TapeCallbackHandler(tmp_path / "a.yaml")

    async def run(_: Any) -> list[Any]:
        return await CALLS[name](chat(service))

    calls = RunnableLambda(run)
    observed = await calls.ainvoke({}, config={"callbacks": [handler]})
    assert handler.errors == []
    service.stop()
    with use_cassette(handler.path) as replay:
        assert seen(await calls.ainvoke({})) == seen(observed)
    assert {crossed.rung for crossed in replay.report.served} == {"exact"}
    stand_in = ReplayChatModel(handler.path)
    assert seen(await CALLS[name](stand_in)) == seen(observed)
    assert len(stand_in.report.served) == len(service.requests)


@pytest.mark.parametrize(("status", "named"), [(429, "RateLimit"), (529, "Overloaded"), (400, "InvalidRequest")])
@pytest.mark.parametrize("way", ["invoke", "ainvoke", "stream"])
async def test_errors(status: int, named: str, way: str, service: Loopback, tmp_path: Path) -> None:
    """An error of the service is raised again as its own type, with all that retry policies look at."""
    model = chat(service)
    service.fail_next(status, "slow down")
    with use_cassette(tmp_path / "a.yaml", mode="all"):
        recorded = await _raised(model, way)
    service.stop()
    with use_cassette(tmp_path / "a.yaml"):
        replayed = await _raised(model, way)
    assert named in type(recorded).__name__
    assert _facts(replayed) == _facts(recorded)
    assert replayed.response.headers["retry-after"] == "7"


async def _raised(model: Any, way: str) -> anthropic.APIStatusError:
    with pytest.raises(anthropic.APIStatusError) as raised:
        if way == "ainvoke":
            await model.ainvoke(QUESTION)
        else:
            list([model.invoke(QUESTION)] if way == "invoke" else model.stream(QUESTION))
    return raised.value


def _facts(error: anthropic.APIStatusError) -> Any:
    shown = (error.status_code, error.body, error.message, error.request_id, error.response.json(), str(error))
    return type(error), error.args, type(error.response), *shown


async def test_interrupted_stream(service: Loopback, tmp_path: Path) -> None:
    """A stream in which the service says that it is overloaded breaks again after the same chunks."""
    model = chat(service)
    service.interrupt_next(6, "too much to do")
    chunks: dict[str, list[AIMessageChunk]] = {"all": [], "none": []}
    for mode, got in chunks.items():
        with use_cassette(tmp_path / "a.yaml", mode=mode), pytest.raises(anthropic.APIError, match="too much to do"):
            async for chunk in model.astream(QUESTION):
                got.append(chunk)
        service.stop()
    assert chunks["all"]
    assert seen([chunks["none"]]) == seen([chunks["all"]])


async def test_retries(service: Loopback, tmp_path: Path) -> None:
    """A retry policy that waits for the provider's error finds it on replay too."""
    model = chat(service).with_retry(
        retry_if_exception_type=(anthropic.RateLimitError,), wait_exponential_jitter=False, stop_after_attempt=3
    )
    service.fail_next(429, "slow down")
    answers = []
    for mode in ("all", "none"):
        with use_cassette(tmp_path / "a.yaml", mode=mode) as session:
            answers.append(await model.ainvoke(QUESTION))
        service.stop()
    assert len(session.report.served) == 2
    assert seen(answers[:1]) == seen(answers[1:])
