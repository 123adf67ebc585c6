"""Every way of calling LlamaIndex's OpenAI packages, recorded, and replayed with the service stopped."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import contextmanager
from inspect import isawaitable
from typing import Any

import pytest

WHY = "LlamaIndex's OpenAI packages ask for an openai that this environment cannot have: run `make openai`"
openai_llms = pytest.importorskip("llama_index.llms.openai", reason=WHY)
openai_embeddings = pytest.importorskip("llama_index.embeddings.openai", reason=WHY)

from llama_index.core import Document, VectorStoreIndex  # noqa: E402
from llama_index.core.agent.workflow import FunctionAgent  # noqa: E402
from llama_index.core.base.llms.types import ChatMessage, ImageBlock, TextBlock  # noqa: E402
from llama_index.core.instrumentation.event_handlers import BaseEventHandler  # noqa: E402
from llama_index.core.instrumentation.events import BaseEvent  # noqa: E402
from llama_index.core.prompts import PromptTemplate  # noqa: E402
from llama_index.core.tools import FunctionTool  # noqa: E402
from llama_index_instrumentation import get_dispatcher  # noqa: E402
from pydantic import BaseModel, Field  # noqa: E402

from agenttape_core import use_cassette  # noqa: E402
from agenttape_llamaindex import ReplayLLM  # noqa: E402

from .service import KEY, Weather, answered_twice, service  # noqa: E402

called: list[str] = []


def get_weather(city: str) -> str:
    """Tell the weather in a city."""
    called.append(city)
    return f"It is sunny in {city}."


def ask(method: str) -> Callable[[Any, Any], Any]:
    """Return a call of a chat method."""
    return lambda llm, _: finished(getattr(llm, method)([ChatMessage(role="user", content="Why is the sky blue?")]))


def prompt(method: str) -> Callable[[Any, Any], Any]:
    """Return a call of a completion method."""
    return lambda llm, _: finished(getattr(llm, method)("Why is the sky blue?"))


def extract(method: str) -> Callable[[Any, Any], Any]:
    """Return a call that ends in an instance of a class."""
    return lambda llm, _: finished(getattr(llm, method)(Weather, PromptTemplate("{q}"), q="The weather in Paris?"))


def use(method: str) -> Callable[[Any, Any], Any]:
    """Return a call with tools."""
    tools = [FunctionTool.from_defaults(fn=get_weather)]
    return lambda llm, _: finished(getattr(llm, method)(tools, user_msg="The weather in Paris?"))


def embed(method: str, given: Any) -> Callable[[Any, Any], Any]:
    """Return a call of an embedding model."""
    return lambda _, embedding: finished(getattr(embedding, method)(given))


def look(llm: Any, _: Any) -> Any:
    """Show the model a picture."""
    picture = ImageBlock(image=b"\x89PNG\r\n\x1a\n" + b"a" * 16, image_mimetype="image/png")
    return llm.chat([ChatMessage(role="user", content=[TextBlock(text="What is this?"), picture])])


def retrieve(llm: Any, embedding: Any) -> Any:
    """Ask an index."""
    index = VectorStoreIndex.from_documents([Document(text="The sky is blue.", id_="sky")], embed_model=embedding)
    answer = index.as_query_engine(llm=llm).query("Which colour is the sky?")
    return answer.response, [(node.node_id, node.score) for node in answer.source_nodes]


def act(llm: Any, _: Any) -> Any:
    """Run an agent with a tool, and keep what it streams."""

    async def run() -> Any:
        handler = FunctionAgent(tools=[get_weather], llm=llm, timeout=None).run("The weather in Paris?")
        events = [event async for event in handler.stream_events()]
        return str(await handler), [event.model_dump_json() for event in events[:-1]]

    return asyncio.run(run())


WAYS: dict[str, Callable[[Any, Any], Any]] = {
    **{method: ask(method) for method in ("chat", "achat", "stream_chat", "astream_chat")},
    **{method: prompt(method) for method in ("complete", "acomplete", "stream_complete", "astream_complete")},
    **{f"{a}structured_predict": extract(f"{a}structured_predict") for a in ("", "a")},
    **{f"{a}stream_structured_predict": extract(f"{a}stream_structured_predict") for a in ("", "a")},
    "as_structured_llm": lambda llm, _: llm.as_structured_llm(Weather).complete("The weather in Paris?"),
    **{f"{a}{way}": use(f"{a}{way}") for a in ("", "a") for way in ("chat_with_tools", "predict_and_call")},
    **{f"{a}stream_chat_with_tools": use(f"{a}stream_chat_with_tools") for a in ("", "a")},
    "query embedding": embed("get_query_embedding", "Why?"),
    "async query embedding": embed("aget_query_embedding", "Why?"),
    "batch of embeddings": embed("get_text_embedding_batch", ["Why?", "When?"]),
    "async batch of embeddings": embed("aget_text_embedding_batch", ["Why?", "When?"]),
    "picture": look,
    "index": retrieve,
    "agent": act,
}


def finished(result: Any) -> Any:
    """Return what a call comes to, as data taken when it arrives: the client changes chunks that it handed out."""
    if isawaitable(result):
        return asyncio.run(_arrived(result))
    return [as_data(chunk) for chunk in result] if isinstance(result, Iterator) else as_data(result)


async def _arrived(result: Any) -> Any:
    value = await result
    return [as_data(chunk) async for chunk in value] if isinstance(value, AsyncIterator) else as_data(value)


def as_data(value: Any) -> Any:
    """Return a value as data with its type, for classes that are made anew for each call."""
    return (type(value).__name__, value.model_dump()) if isinstance(value, BaseModel) else value


def models(address: str) -> tuple[Any, Any]:
    """Return the LLM and the embedding model of an address."""
    given = {"api_base": address, "api_key": KEY, "max_retries": 0}
    return openai_llms.OpenAI(model="gpt-4o-mini", **given), openai_embeddings.OpenAIEmbedding(**given)


class Ear(BaseEventHandler):
    """Keeps the events of the instrumentation as they arrive, without ids and times."""

    told: list[Any] = Field(default_factory=list)

    def handle(self, event: BaseEvent, **_: Any) -> None:
        data = event.model_dump(exclude={"id_", "timestamp", "span_id", "model_dict", "tags"})
        self.told.append((type(event).__name__, repr(data)))


@contextmanager
def listening() -> Iterator[Ear]:
    """Hear the events of the block."""
    ear, handlers = Ear(), get_dispatcher().event_handlers
    handlers.append(ear)
    try:
        yield ear
    finally:
        handlers[:] = [handler for handler in handlers if handler is not ear]


@pytest.mark.filterwarnings("ignore:.*attribute.*is deprecated")  # the agent reads them
@pytest.mark.parametrize("way", WAYS)
def test_replay_without_the_service_is_equal(way: str, tmp_path: Any) -> None:
    """Values and events are equal when the service is gone; no tool is called."""
    called.clear()
    with service() as server:
        address = server.base_url
        with use_cassette(tmp_path / "calls.yaml", mode="all"), listening() as live:
            recorded = WAYS[way](*models(address))
        asked, calls = len(server.requests), len(called)
    with use_cassette(tmp_path / "calls.yaml") as session, listening() as events:
        replayed = WAYS[way](*models(address))
    assert asked
    assert len(called) == calls
    assert not session.report.recorded
    assert replayed == recorded
    assert events.told == live.told
    assert KEY not in (tmp_path / "calls.yaml").read_text(encoding="utf-8")


WAYS_OF_LLMS = [way for way in WAYS if "embedding" not in way and way != "index"]


@pytest.mark.filterwarnings("ignore:.*attribute.*is deprecated")  # the agent reads them
@pytest.mark.parametrize("way", WAYS_OF_LLMS)
def test_a_stand_in_gives_the_same(way: str, tmp_path: Any) -> None:
    """It asks in the form in which OpenAI's class asked, and takes as many tool calls as that does."""
    with service() as server, use_cassette(tmp_path / "calls.yaml", mode="all"):
        recorded = WAYS[way](*models(server.base_url))
    assert WAYS[way](ReplayLLM(tmp_path / "calls.yaml", is_function_calling_model=True), None) == recorded


@pytest.mark.parametrize("several", [True, False], ids=["parallel", "single"])
def test_a_stand_in_takes_as_many_tool_calls(tmp_path: Any, *, several: bool) -> None:
    """OpenAI's class drops all but one of the tool calls of an answer, where several were not asked for."""

    def call(llm: Any) -> Any:
        tools = [FunctionTool.from_defaults(fn=get_weather)]
        answer = llm.chat_with_tools(tools, user_msg="The weather?", allow_parallel_tool_calls=several)
        return answer.message, str(llm.predict_and_call(tools, "The weather?", allow_parallel_tool_calls=several))

    with service(answered_twice) as server, use_cassette(tmp_path / "calls.yaml", mode="all"):
        recorded = call(models(server.base_url)[0])
    assert len(recorded[0].blocks) == 1 + several
    assert call(ReplayLLM(tmp_path / "calls.yaml")) == recorded
