"""Every way of calling a chat model is recorded, and replayed equal, whichever way it was recorded."""

from __future__ import annotations

import asyncio
import copy
import operator
import pickle
from functools import reduce
from typing import TYPE_CHECKING, Any

import pytest
from langchain.chat_models import init_chat_model
from langchain_core.language_models import BaseChatModel
from langchain_core.messages import AIMessage, AIMessageChunk, HumanMessage
from langchain_core.output_parsers import StrOutputParser
from langchain_core.runnables import ConfigurableField, RunnableBinding
from langchain_openai import ChatOpenAI
from langchain_openai.chat_models.base import BaseChatOpenAI
from pydantic import BaseModel, Field

from agenttape_core import ConfigurationError, use_cassette
from agenttape_langchain import tape

from .fakes import FAKES, AsyncChat, DelegatingChat, FakeChat, NativeChat, PlainChat, StreamingChat, World, calling

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Sequence
    from pathlib import Path

    from examples.weather_agent.server import OpenAILoopback

QUESTION = "how are you?"
pytestmark = pytest.mark.filterwarnings("ignore:astream_events version='v1' is deprecated")


# -- the shapes of a call ----------------------------------------------------------------------------------------


async def invoke(model: Any) -> list[Any]:
    return [model.invoke(QUESTION)]


async def ainvoke(model: Any) -> list[Any]:
    return [await model.ainvoke(QUESTION)]


async def stream(model: Any) -> list[Any]:
    return list(model.stream(QUESTION))


async def astream(model: Any) -> list[Any]:
    return [chunk async for chunk in model.astream(QUESTION)]


async def batch(model: Any) -> list[Any]:
    return list(model.batch([QUESTION]))


async def abatch(model: Any) -> list[Any]:
    return list(await model.abatch([QUESTION]))


async def batch_as_completed(model: Any) -> list[Any]:
    return [answer for _, answer in model.batch_as_completed([QUESTION])]


async def astream_events_v1(model: Any) -> list[Any]:
    return [event async for event in model.astream_events(QUESTION, version="v1")]


async def astream_events_v2(model: Any) -> list[Any]:
    return [event async for event in model.astream_events(QUESTION, version="v2")]


async def in_a_chain(model: Any) -> list[Any]:
    return [event async for event in (model | StrOutputParser()).astream_events(QUESTION, version="v2")]


async def in_a_thread(model: Any) -> list[Any]:
    return [await asyncio.to_thread(model.invoke, QUESTION)]


Shape = "Callable[[Any], Awaitable[list[Any]]]"
SHAPES: list[Any] = [
    invoke, ainvoke, stream, astream, batch, abatch, batch_as_completed,
    astream_events_v1, astream_events_v2, in_a_chain, in_a_thread,
]  # fmt: skip
STREAMED = {stream, astream, astream_events_v1, astream_events_v2, in_a_chain}


def answer_of(seen: Sequence[Any]) -> tuple[str, Any, Any]:
    """The text, tool calls and token counts of what a shape brought, whichever shape it was."""
    if isinstance(seen[0], dict):
        ended = [event for event in seen if event["event"] == "on_chat_model_end"]
        (output,) = (event["data"]["output"] for event in ended)
        # v1 wraps it in a result
        whole = output["generations"][0][0]["message"] if isinstance(output, dict) else output
    else:
        whole = reduce(operator.add, seen)
    return whole.text, whole.tool_calls, whole.usage_metadata


# -- how a model takes part ---------------------------------------------------------------------------------------


def plain(model: Any) -> Any:
    """Leave the model as it is: the session tapes it."""
    return model


WAYS = {"ambient": (plain, True), "taped": (tape, False)}
each_way = pytest.mark.parametrize("way", WAYS)


@each_way
@pytest.mark.parametrize("fake", FAKES)
@pytest.mark.parametrize("shape", SHAPES)
async def test_replays_what_it_recorded(shape: Any, fake: type[FakeChat], way: str, world: World, tmp_path: Path) -> None:
    """Replayed in the shape of the recording, everything is equal: chunks, ids, events; and nothing is executed."""
    wrap, ambient = WAYS[way]
    model = wrap(fake(world=world))
    path = tmp_path / "chat.yaml"
    with use_cassette(path, mode="all", ambient=ambient) as recording:
        recorded = await shape(model)
    assert len(recording.report.executed) == len(world.reached) == 1, "recorded once, however the leaves delegate"
    world.gone = True
    for _ in range(2):
        with use_cassette(path, ambient=ambient) as replay:
            assert await shape(model) == recorded
        assert str(replay.report) == "1 served, 0 executed"


@pytest.mark.parametrize("fake", FAKES)
@pytest.mark.parametrize("recorded_by", SHAPES)
async def test_any_shape_serves_any_other(
    recorded_by: Any, fake: type[FakeChat], world: World, tmp_path: Path
) -> None:
    """A recording serves every other shape with the same text, tool calls and token counts."""

    def reply(messages: Any, number: int) -> AIMessage:
        call = calling(("look_up", {"words": ["a", "b"], "deep": {"n": number}}), number=number, text=f"wait {number}")
        return call.model_copy(update={"usage_metadata": {"input_tokens": 1, "output_tokens": 2, "total_tokens": 3}})

    model = fake(world=world, reply=reply)
    path = tmp_path / "chat.yaml"
    with use_cassette(path, mode="all"):
        recorded = answer_of(await recorded_by(model))
    world.gone = True
    for shape in SHAPES:
        with use_cassette(path):
            assert answer_of(await shape(model)) == recorded


# -- a real provider, and everything that is built around a model --------------------------------------------------


def look_up(word: str) -> str:
    """Look a word up."""
    return word


class Joke(BaseModel):
    """A joke to tell."""

    setup: str = Field(description="how it starts")
    stars: int = 3


JOKE = {
    "title": "joke",
    "description": "A joke.",
    "type": "object",
    "properties": {"setup": {"type": "string"}, "stars": {"type": "integer"}},
    "required": ["setup", "stars"],
    "additionalProperties": False,
}

BUILT: dict[str, Callable[[Any], Any]] = {
    "bare": lambda model: model,
    "bound tools": lambda model: model.bind_tools([look_up]),
    "a forced tool": lambda model: model.bind_tools([look_up, Joke], tool_choice="Joke"),
    "stop words": lambda model: model.bind(stop=["number"]),
    "json schema": lambda model: model.with_structured_output(Joke),
    "json schema as a dict": lambda model: model.with_structured_output(JOKE),
    "function calling": lambda model: model.with_structured_output(Joke, method="function_calling"),
    "json mode": lambda model: model.with_structured_output(JOKE, method="json_mode"),
    "with the raw answer": lambda model: model.with_structured_output(Joke, include_raw=True),
    "fallbacks": lambda model: model.with_fallbacks([model]),
    "fallbacks with tools": lambda model: model.with_fallbacks([model]).bind_tools([look_up]),
    "retries": lambda model: model.with_retry(stop_after_attempt=2, wait_exponential_jitter=False),
    "retries with tools": lambda model: model.bind_tools([look_up]).with_retry(stop_after_attempt=2),
    "listeners": lambda model: model.with_listeners(on_end=lambda _: None),
    "config": lambda model: model.with_config(tags=["t"], run_name="named", metadata={"m": 1}),
}


def chat(server: OpenAILoopback, **options: Any) -> ChatOpenAI:
    """OpenAI's own client, on the loopback."""
    return ChatOpenAI(**{"model": "gpt-5-mini", "base_url": server.base_url, "api_key": "x", "max_retries": 0, **options})


@pytest.mark.parametrize("way", ["ambient", "taped"])
@pytest.mark.parametrize("built", BUILT)
async def test_what_is_built_around_a_model(built: str, way: str, loopback: OpenAILoopback, tmp_path: Path) -> None:
    """Bound tools, structured output, fallbacks and retries give the same on replay, in every shape."""
    wrap, ambient = WAYS[way]
    runnable = BUILT[built](wrap(chat(loopback)))
    calls = [invoke, ainvoke, stream, astream, batch, abatch, astream_events_v2]
    path = tmp_path / "chat.yaml"
    with use_cassette(path, mode="all", ambient=ambient):
        recorded = [await shape(runnable) for shape in calls]
    assert loopback.calls == len(calls)
    loopback.stop()
    with use_cassette(path, ambient=ambient) as replay:
        assert [await shape(runnable) for shape in calls] == recorded
    assert len(replay.report.served) == len(calls)


@pytest.mark.parametrize("way", WAYS)
async def test_fallback_steps_in_again(way: str, loopback: OpenAILoopback, tmp_path: Path) -> None:
    """A recorded failure makes the same fallback step in on replay, also behind bound tools."""
    wrap, ambient = WAYS[way]
    first, second = wrap(chat(loopback)), wrap(chat(loopback, model="gpt-5-spare"))
    runnable = first.with_fallbacks([second]).bind_tools([look_up])
    path = tmp_path / "chat.yaml"

    async def run() -> list[Any]:
        return [runnable.invoke(QUESTION), await runnable.ainvoke(QUESTION), list(runnable.stream(QUESTION))]

    with use_cassette(path, mode="all", ambient=ambient) as recording:
        loopback.fail_next(500)
        recorded = [runnable.invoke(QUESTION)]
        loopback.fail_next(500)
        recorded.append(await runnable.ainvoke(QUESTION))
        loopback.fail_next(500)
        recorded.append(list(runnable.stream(QUESTION)))
    assert [row.request["model"] for row in recording.interactions] == ["gpt-5-mini", "gpt-5-spare"] * 3
    assert all(row.request["tools"] for row in recording.interactions)
    loopback.stop()
    with use_cassette(path, ambient=ambient):
        assert await run() == recorded


@pytest.mark.parametrize("way", WAYS)
def test_retry_tries_again(way: str, loopback: OpenAILoopback, tmp_path: Path) -> None:
    """Each attempt of a retry is an interaction of its own, served in the recorded order."""
    wrap, ambient = WAYS[way]
    runnable = wrap(chat(loopback)).with_retry(stop_after_attempt=3, exponential_jitter_params={"initial": 0.001, "max": 0.001})
    path = tmp_path / "chat.yaml"
    with use_cassette(path, mode="all", ambient=ambient) as recording:
        loopback.fail_next(500, times=2)
        recorded = runnable.invoke(QUESTION)
    assert [row.outcome.status for row in recording.interactions] == ["raised", "raised", "returned"]
    loopback.stop()
    with use_cassette(path, ambient=ambient) as replay:
        assert runnable.invoke(QUESTION) == recorded
    assert str(replay.report) == "3 served, 0 executed"


@pytest.mark.filterwarnings("ignore::langchain_core._api.LangChainBetaWarning")
@pytest.mark.parametrize("fake", FAKES)
async def test_protocol_streaming(fake: type[FakeChat], world: World, tmp_path: Path) -> None:
    """The content-block protocol (`version="v3"`) replays event by event, and serves and is served by the others."""
    if not hasattr(BaseChatModel, "_chat_model_stream_v3"):
        pytest.skip("this langchain-core has no protocol streaming")

    async def run(model: Any) -> tuple[list[Any], list[Any], Any]:
        sync = model.stream_events(QUESTION, version="v3")
        events = list(sync)
        aio = await model.astream_events(QUESTION, version="v3")
        return events, [event async for event in aio], (sync.output, await aio.output)

    model = fake(world=world)
    path = tmp_path / "chat.yaml"
    with use_cassette(path, mode="all"):
        recorded = await run(model)
        recorded_plain = model.invoke(QUESTION)
    assert len(world.reached) == 3
    world.gone = True
    with use_cassette(path) as replay:
        assert await run(model) == recorded
        assert model.invoke(QUESTION) == recorded_plain
    assert len(replay.report.served) == 3
    with use_cassette(path):
        assert model.invoke(QUESTION).text == recorded[2][0].text
        assert "".join(chunk.text for chunk in model.stream(QUESTION)) == recorded[2][1].text
        assert model.stream_events(QUESTION, version="v3").output.text == recorded_plain.text
