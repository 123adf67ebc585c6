"""Whoever watches a run sees the same without AgentTape, in a recording and in a replay."""

# ruff: noqa: D103 - what is no test says by its name what it does

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterator, Sequence
from typing import Any

import pytest
from langchain.agents import create_agent
from langchain_core.callbacks import AsyncCallbackHandler, BaseCallbackHandler
from langchain_core.messages import AIMessage, AIMessageChunk, BaseMessage, ToolMessage
from langchain_core.output_parsers import StrOutputParser
from langchain_core.outputs import ChatGeneration, ChatGenerationChunk, ChatResult
from langchain_core.prompts import ChatPromptTemplate
from langchain_core.tools import tool

from agenttape_core import open_cassette

from ..kit.replaying import Twice
from .fakes import FakeChat, NativeChat, StreamingChat, Verdict, World, by_key, calling
from .masking import masked

pytestmark = pytest.mark.filterwarnings("ignore:.*(is in beta|is experimental)")

# -- what is watched -----------------------------------------------------------------------------------------------

BLOCKS: list[dict[str, Any]] = [
    {"type": "reasoning", "reasoning": "They want much.", "extras": {"signature": "c2ln"}},
    {
        "type": "text",
        "text": "Here it is",
        "annotations": [{"type": "citation", "url": "https://a.example", "title": "A"}],
    },
    {"type": "server_tool_call", "id": "srv_1", "name": "web_search", "args": {"query": "all"}},
    {"type": "server_tool_result", "tool_call_id": "srv_1", "status": "success", "output": {"hits": [1, 2]}},
    {"type": "image", "base64": "aW1n", "mime_type": "image/png"},
    {"type": "audio", "base64": "c25k", "mime_type": "audio/wav", "extras": {"transcript": "hm"}},
    {"type": "file", "base64": "cGRm", "mime_type": "application/pdf", "extras": {"filename": "a.pdf"}},
    {"type": "non_standard", "value": {"own": ["thing"]}},
]


class RichChat(FakeChat):
    """Answers with every sort of content block, in one piece or block by block."""

    def _generate(self, messages: Any, stop: Any = None, run_manager: Any = None, **kwargs: Any) -> ChatResult:
        self.world.reach("model")
        usage: Any = {
            "input_tokens": 5, "output_tokens": 7, "total_tokens": 12, "output_token_details": {"reasoning": 3},
        }  # fmt: skip
        message = AIMessage([*BLOCKS], usage_metadata=usage, response_metadata={"output_version": "v1"})
        return ChatResult(
            generations=[ChatGeneration(message=message, generation_info={"logprobs": {"content": [-1]}})]
        )

    def _stream(
        self, messages: Any, stop: Any = None, run_manager: Any = None, **kwargs: Any
    ) -> Iterator[ChatGenerationChunk]:
        self.world.reach("model")
        for index, block in enumerate(BLOCKS):
            content = [{**block, "index": index}]
            message = AIMessageChunk(content, id="msg_1", response_metadata={"output_version": "v1"})
            chunk = ChatGenerationChunk(message=message)
            if run_manager is not None:
                run_manager.on_llm_new_token(chunk.text, chunk=chunk)
            yield chunk
        last = AIMessageChunk(
            "",
            id="msg_1",
            chunk_position="last",
            usage_metadata={"input_tokens": 5, "output_tokens": 7, "total_tokens": 12},
        )
        yield ChatGenerationChunk(message=last)


@tool
def add(a: int, b: int) -> str:
    """Add."""
    return str(a + b)


def sums(messages: Sequence[BaseMessage], number: int) -> AIMessage:
    if isinstance(messages[-1], ToolMessage):
        return AIMessage(f"it is {messages[-1].text}")
    return calling(("add", {"a": 1, "b": 2}), number=1, text="let me see")


def plain(world: World, **options: Any) -> Any:
    return NativeChat(world=world, reply=lambda messages, _: AIMessage(f"heard {messages[-1].text}"), **options)


def with_tools(world: World, **options: Any) -> Any:
    return StreamingChat(world=world, reply=sums, **options).bind_tools([add])


def rich(world: World, **options: Any) -> Any:
    return RichChat(world=world, **options)


def chain(world: World, **options: Any) -> Any:
    prompt = ChatPromptTemplate.from_messages([("system", "You echo."), ("user", "{input}")])
    return prompt | plain(world, **options) | StrOutputParser()


def agent(world: World, **options: Any) -> Any:
    return create_agent(NativeChat(world=world, reply=sums, **options), [add])


INPUTS: dict[Any, Any] = {agent: {"messages": [("user", "hi")]}, chain: {"input": "hi"}}

# -- who watches ---------------------------------------------------------------------------------------------------

EVENTS = [
    "on_llm_start", "on_chat_model_start", "on_llm_new_token", "on_stream_event", "on_llm_end", "on_llm_error",
    "on_chain_start", "on_chain_end", "on_chain_error", "on_tool_start", "on_tool_end", "on_tool_error",
    "on_retriever_start", "on_retriever_end", "on_retriever_error", "on_text", "on_retry", "on_custom_event",
]  # fmt: skip


def _noting(name: str) -> Callable[..., None]:
    def note(self: Any, *args: Any, **kwargs: Any) -> None:
        self.seen.append((name, repr(args), repr(sorted(kwargs.items(), key=lambda item: item[0]))))

    return note


def _anoting(name: str) -> Callable[..., Awaitable[None]]:
    note = _noting(name)

    async def anote(self: Any, *args: Any, **kwargs: Any) -> None:
        note(self, *args, **kwargs)

    return anote


Noting: Any = type("Noting", (BaseCallbackHandler,), {name: _noting(name) for name in EVENTS})
AsyncNoting: Any = type("AsyncNoting", (AsyncCallbackHandler,), {name: _anoting(name) for name in EVENTS})


def _config(handler: Any) -> Any:
    handler.seen = []
    return {"callbacks": [handler], "tags": ["t"], "metadata": {"m": 1}, "run_name": "watched"}


async def callbacks_of_invoke(subject: Any, asked: Any) -> Any:
    handler = Noting()
    return subject.invoke(asked, _config(handler)), handler.seen


async def callbacks_of_stream(subject: Any, asked: Any) -> Any:
    handler = Noting()
    return list(subject.stream(asked, _config(handler))), handler.seen


async def callbacks_of_ainvoke(subject: Any, asked: Any) -> Any:
    handler = AsyncNoting()
    return await subject.ainvoke(asked, _config(handler)), handler.seen


async def callbacks_of_astream(subject: Any, asked: Any) -> Any:
    handler = AsyncNoting()
    return [chunk async for chunk in subject.astream(asked, _config(handler))], handler.seen


async def events_v2(subject: Any, asked: Any) -> Any:
    return [event async for event in subject.astream_events(asked, version="v2")]


async def events_v3(subject: Any, asked: Any) -> Any:
    return list(subject.stream_events(asked, version="v3"))


async def async_events_v3(subject: Any, asked: Any) -> Any:
    return [event async for event in await subject.astream_events(asked, version="v3")]


WATCHERS = [
    callbacks_of_invoke, callbacks_of_stream, callbacks_of_ainvoke, callbacks_of_astream,
    events_v2, events_v3, async_events_v3,
]  # fmt: skip


SUBJECTS = [
    (plain, "v0"), (with_tools, "v0"), (rich, "v0"), (rich, "v1"), (chain, "v0"), (agent, "v1"),
]  # fmt: skip
CASES = [
    (make, version, watch)
    for make, version in SUBJECTS
    for watch in WATCHERS
    if make is not chain or watch not in {events_v3, async_events_v3}  # a method of chat models and graphs
]


@pytest.mark.sweep
@pytest.mark.parametrize(("make", "output_version", "watch"), CASES)
async def test_the_same_is_seen(make: Any, output_version: str, watch: Any, world: World, twice: Twice) -> None:
    """Every event of a run, with all its arguments, is the same without a session, recording and replayed."""
    asked = INPUTS.get(make, "hi")
    plain_run = masked(await watch(make(World(), output_version=output_version), asked))
    subject = make(world, output_version=output_version)
    with twice.records():
        recorded = masked(await watch(subject, asked))
    with twice.replays():
        replayed = masked(await watch(subject, asked))
    assert recorded == plain_run
    assert replayed == recorded


@pytest.mark.parametrize("include_raw", [False, True])
@pytest.mark.parametrize("schema", [Verdict, Verdict.model_json_schema()])
async def test_structured_output(schema: Any, include_raw: bool, world: World, twice: Twice) -> None:
    """Structured output is an object of its class, as without a session."""

    def verdict(messages: Sequence[BaseMessage], number: int) -> AIMessage:
        return calling(("Verdict", {"good": True, "why": "it is"}), number=1)

    def structured(world: World) -> Any:
        return StreamingChat(world=world, reply=verdict).with_structured_output(schema, include_raw=include_raw)

    async def read(model: Any) -> list[Any]:
        chunks = list(model.stream("hi"))
        return [model.invoke("hi"), await model.ainvoke("hi"), by_key(chunks) if include_raw else chunks]

    plain_run = masked(await read(structured(World())))
    recorded = await twice.awaited(lambda: read(structured(world)))
    assert masked(recorded) == plain_run
    answer = recorded[0]["parsed"] if include_raw else recorded[0]
    assert isinstance(answer, Verdict if schema is Verdict else dict)


async def test_nothing_that_readers_change_is_recorded(world: World, twice: Twice) -> None:
    """Changes of a reader to a message or a chunk reach neither the cassette nor the next reader."""

    def spoil(message: Any) -> str:
        text = repr(message)
        message.content.clear()
        message.response_metadata["spoilt"] = True
        message.usage_metadata = None
        message.id = "spoilt"
        return text

    def read() -> list[str]:
        model = rich(world)
        return [spoil(model.invoke("hi")), *(spoil(chunk) for chunk in model.stream("ho") if chunk.content)]

    recorded = twice.record(read)
    assert "spoilt" not in repr(list(open_cassette(twice.path).interactions()))
    with twice.replays(on_repeat="cycle"):
        assert read() == recorded
        assert masked(read()) == masked(recorded)
