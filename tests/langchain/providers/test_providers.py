"""The clients of other providers are recorded against loopback services, and replayed without them."""

from __future__ import annotations

import importlib
from collections.abc import Awaitable, Callable, Iterable, Iterator
from dataclasses import dataclass
from functools import reduce
from operator import add
from pathlib import Path
from typing import Any

import pytest
from langchain_core.messages import AIMessage, AIMessageChunk
from langchain_core.runnables import RunnableLambda
from langchain_core.tools import tool
from pydantic import BaseModel

from agenttape_core import use_cassette
from agenttape_langchain import ReplayChatModel, TapeCallbackHandler, tape

from ..shapes import seen
from .loopback import Loopback, Wire
from .messages_api import MessagesWire
from .ollama_api import OllamaWire

QUESTION = "What is the weather in Paris?"
SEARCH = {"type": "web_search_20250305", "name": "web_search", "max_uses": 1}


class Forecast(BaseModel):
    """A forecast."""

    city: str
    degrees: int


@tool
def get_weather(city: str) -> str:
    """Get the weather."""
    return f"sunny in {city}"


# -- what a caller sees --------------------------------------------------------------------------------------------


def streamed(chunks: Iterable[AIMessageChunk]) -> list[AIMessageChunk]:
    """Drain a stream."""
    got = list(chunks)
    assert len(got) > 1
    return got


def whole(chunks: list[AIMessageChunk]) -> AIMessageChunk:
    """The message that chunks make together."""
    return reduce(add, chunks)


def seen_but_ids(results: list[Any]) -> list[Any]:
    """The same, without the ids that the framework makes of the ids of its runs."""
    return [
        [
            (cls, {**fields, "id": "" if str(fields["id"]).startswith("lc_run--") else fields["id"]})
            for cls, fields in result
        ]
        for result in seen(results)
    ]


# -- the calls -------------------------------------------------------------------------------------------------------


async def plain(model: Any, _: Provider) -> list[Any]:
    """Whole messages, four ways."""
    (batched,) = model.batch([QUESTION])
    return [model.invoke(QUESTION), await model.ainvoke(QUESTION), batched, *await model.abatch([QUESTION])]


async def in_chunks(model: Any, _: Provider) -> list[Any]:
    """Chunks, synchronous and asynchronous, of the same question."""
    return [streamed(model.stream(QUESTION)), [chunk async for chunk in model.astream(QUESTION)]]


async def thinking(model: Any, provider: Provider) -> list[Any]:
    """Thoughts (Anthropic's with signatures), plain and streamed, passed back in the history."""
    model = model.bind(**provider.thinking)
    first, chunks = model.invoke(QUESTION), streamed(model.stream(QUESTION))
    again = model.invoke([("user", QUESTION), first, ("user", "Why?"), whole(chunks), ("user", "Really?")])
    return [first, chunks, again]


async def tools(model: Any, _: Provider) -> list[Any]:
    """Tool calls, plain and in pieces, and the answer to their results. Ollama's client draws the ids itself."""
    model = model.bind_tools([get_weather])
    call, chunks = model.invoke(QUESTION), streamed(model.stream(QUESTION))
    answers = [
        model.invoke([("user", QUESTION), message, get_weather.invoke(message.tool_calls[0])])
        for message in (call, whole(chunks))
    ]
    return [call, chunks, *answers]


async def structured(model: Any, provider: Provider) -> list[Any]:
    """Structured output, by each method of the provider."""
    return [
        result
        for method in provider.methods
        for asking in [model.with_structured_output(Forecast, method=method, include_raw=True)]
        for result in (asking.invoke(QUESTION)["raw"], AIMessage(repr((await asking.ainvoke(QUESTION))["parsed"])))
    ]


async def searching(model: Any, _: Provider) -> list[Any]:
    """A tool that the provider runs, and citations."""
    model = model.bind_tools([SEARCH])
    return [model.invoke("News?"), streamed(model.stream("News?"))]


# -- the providers ---------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Provider:
    """A provider's package.

    Args:
        package: The package of LangChain.
        cls: The class of its model.
        model: The name of a model.
        options: Other arguments of the class.
        wire: Makes its loopback service.
        thinking: Arguments of a call for which the model thinks.
        methods: The methods of structured output.
        calls: The calls that it can make.
        sdk: The package of its client.
        error: The class of its errors, in that package.
        facts: The attributes of an error.
        shown: Returns all that a caller sees of observed results and that a handler can replay.
    """

    package: str
    cls: str
    model: str
    options: dict[str, Any]
    wire: Callable[[], Wire]
    thinking: dict[str, Any]
    methods: tuple[str, ...]
    calls: tuple[Callable[..., Awaitable[list[Any]]], ...]
    sdk: str
    error: str
    facts: tuple[str, ...]
    shown: Callable[[list[Any]], list[Any]]

    def chat(self, service: Loopback, **options: Any) -> Any:
        """Return its chat model, connected to the service."""
        cls = getattr(importlib.import_module(self.package), self.cls)
        return cls(model=self.model, base_url=service.url, **self.options, **options)

    def error_class(self) -> type[Exception]:
        """Return the class of its errors."""
        cls: type[Exception] = getattr(importlib.import_module(self.sdk), self.error)
        return cls


COMMON = (plain, in_chunks, thinking, tools, structured)
PROVIDERS = {
    "anthropic": Provider(
        package="langchain_anthropic",
        cls="ChatAnthropic",
        model="claude-sonnet-5",
        options={"api_key": "x", "max_retries": 0},
        wire=MessagesWire,
        thinking={"thinking": {"type": "enabled", "budget_tokens": 1024}},
        methods=("function_calling", "json_schema"),
        calls=(*COMMON, searching),
        sdk="anthropic",
        error="APIError",
        facts=("status_code", "body", "message", "request_id"),
        shown=seen,
    ),
    # Ollama sends no ids, so LangChain makes them of the ids of its runs, which a handler does not freeze. The client
    # reports its chunks before they have any.
    "ollama": Provider(
        package="langchain_ollama",
        cls="ChatOllama",
        model="qwen3:0.6b",
        options={},
        wire=OllamaWire,
        thinking={"reasoning": True},
        methods=("json_schema", "function_calling", "json_mode"),
        calls=COMMON,
        sdk="ollama",
        error="ResponseError",
        facts=("status_code", "error"),
        shown=seen_but_ids,
    ),
}
CALLS = [
    pytest.param(name, call, id=f"{name}-{call.__name__}")
    for name, provider in PROVIDERS.items()
    for call in provider.calls
]


@pytest.fixture
def provider(name: str) -> Provider:
    """The provider of that name, whose package is installed."""
    pytest.importorskip(PROVIDERS[name].package, reason=f"{PROVIDERS[name].package} is not installed")
    return PROVIDERS[name]


@pytest.fixture
def service(provider: Provider) -> Iterator[Loopback]:
    """Its service."""
    with Loopback(provider.wire()) as service:
        yield service


# -- the promises ----------------------------------------------------------------------------------------------------


@pytest.mark.sweep
@pytest.mark.parametrize("output_version", [None, "v1"])
@pytest.mark.parametrize("automatic", [True, False], ids=["automatic", "taped"])
@pytest.mark.parametrize(("name", "call"), CALLS)
async def test_replays_without_the_service(
    *, provider: Provider, call: Any, automatic: bool, output_version: str | None, service: Loopback, tmp_path: Path
) -> None:
    """With the service gone, everything comes back: types, content blocks, chunks, ids, usage, metadata."""
    model = provider.chat(service, output_version=output_version)
    model = model if automatic else tape(model)
    with use_cassette(tmp_path / "a.yaml", mode="all", auto=automatic) as recording:
        recorded = await call(model, provider)
    assert len(service.requests) == len(
        [call_record for call_record in recording.report.recorded if call_record.kind == "chat"]
    )
    service.stop()
    with use_cassette(tmp_path / "a.yaml", auto=automatic) as replay:
        assert seen(await call(model, provider)) == seen(recorded)
    assert {call_record.match_rule for call_record in replay.report.replayed} == {"exact"}
    assert replay.report.recorded == replay.report.unused == ()


@pytest.mark.parametrize(("name", "call"), CALLS)
async def test_observed_calls_replay(provider: Provider, call: Any, service: Loopback, tmp_path: Path) -> None:
    """An observed run replays the same, and so does a stand-in that knows nothing of the provider's package."""
    handler = TapeCallbackHandler(tmp_path / "a.yaml")

    async def run(_: Any) -> list[Any]:
        results: list[Any] = await call(provider.chat(service), provider)
        return results

    calls = RunnableLambda(run)
    observed = await calls.ainvoke({}, config={"callbacks": [handler]})
    assert handler.errors == []
    service.stop()
    with use_cassette(handler.path) as replay:
        assert provider.shown(await calls.ainvoke({})) == provider.shown(observed)
    assert {call_record.match_rule for call_record in replay.report.replayed} == {"exact"}
    stand_in = ReplayChatModel(handler.path)
    assert provider.shown(await call(stand_in, provider)) == provider.shown(observed)
    assert len(stand_in.report.replayed) == len(service.requests)


@pytest.mark.sweep
@pytest.mark.parametrize(
    ("name", "status", "named"),
    [
        ("anthropic", 429, "RateLimit"),
        ("anthropic", 529, "Overloaded"),
        ("anthropic", 400, "Request"),  # bad or invalid, by its version
        ("ollama", 429, "ResponseError"),
    ],
)
@pytest.mark.parametrize("way", ["invoke", "ainvoke", "stream"])
async def test_errors(
    *, provider: Provider, status: int, named: str, way: str, service: Loopback, tmp_path: Path
) -> None:
    """An error of the service is raised again as its own type, with all the attributes that retry policies read."""

    def _facts(provider: Provider, error: Any) -> Any:
        return type(error), error.args, str(error), [getattr(error, name) for name in provider.facts]

    async def _raised(provider: Provider, model: Any, way: str) -> Any:
        with pytest.raises(provider.error_class()) as raised:
            if way == "ainvoke":
                await model.ainvoke(QUESTION)
            else:
                list([model.invoke(QUESTION)] if way == "invoke" else model.stream(QUESTION))
        return raised.value

    model = provider.chat(service)
    service.fail_next(status, "slow down")
    errors = []
    for mode in ("all", "none"):
        with use_cassette(tmp_path / "a.yaml", mode=mode):
            errors.append(await _raised(provider, model, way))
        service.stop()
    recorded, replayed = errors
    assert named in type(recorded).__name__
    assert _facts(provider, replayed) == _facts(provider, recorded)
    assert replayed.status_code == status
    if provider.sdk == "anthropic":
        assert (type(replayed.response), replayed.response.json()) == (
            type(recorded.response),
            recorded.response.json(),
        )
        assert replayed.response.headers["retry-after"] == "7"


@pytest.mark.parametrize(("name", "after", "why"), [("anthropic", 6, "too much to do"), ("ollama", 3, "out of memory")])
async def test_interrupted_stream(provider: Provider, after: int, why: str, service: Loopback, tmp_path: Path) -> None:
    """A stream that the service breaks off breaks again after the same chunks."""
    model = provider.chat(service)
    service.interrupt_next(after, why)
    chunks: dict[str, list[AIMessageChunk]] = {"all": [], "none": []}
    for mode, got in chunks.items():
        with use_cassette(tmp_path / "a.yaml", mode=mode), pytest.raises(provider.error_class(), match=why):
            async for chunk in model.astream(QUESTION):
                got.append(chunk)
        service.stop()
    assert chunks["all"]
    assert seen([chunks["none"]]) == seen([chunks["all"]])


@pytest.mark.parametrize("name", ["anthropic"])
async def test_retries(provider: Provider, service: Loopback, tmp_path: Path) -> None:
    """A retry policy that waits for the provider's error finds it on replay, too."""
    anthropic = importlib.import_module("anthropic")
    model = provider.chat(service).with_retry(
        retry_if_exception_type=(anthropic.RateLimitError,), wait_exponential_jitter=False, stop_after_attempt=3
    )
    service.fail_next(429, "slow down")
    answers = []
    for mode in ("all", "none"):
        with use_cassette(tmp_path / "a.yaml", mode=mode) as session:
            answers.append(await model.ainvoke(QUESTION))
        service.stop()
    assert len(session.report.replayed) == 2
    assert seen(answers[:1]) == seen(answers[1:])


@pytest.mark.parametrize("name", ["ollama"])
async def test_embeddings(provider: Provider, service: Loopback, tmp_path: Path) -> None:
    """Embeddings come back number by number."""
    model = importlib.import_module(provider.package).OllamaEmbeddings(model="all-minilm", base_url=service.url)
    vectors = []
    for mode in ("all", "none"):
        with use_cassette(tmp_path / "a.yaml", mode=mode) as session:
            vectors.append([model.embed_query("a"), model.embed_documents(["a", "b"]), await model.aembed_query("a")])
        service.stop()
    assert vectors[0] == vectors[1]
    assert vectors[0][0] != vectors[0][2], "the service never answers the same twice"
    assert len(session.report.replayed) == 3
