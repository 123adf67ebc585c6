"""Streamed answers of engines and synthesizers that ask a service by themselves: recorded as streams, and replayed."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import AsyncGenerator, Callable, Generator, Iterator
from contextlib import suppress
from contextvars import copy_context
from pathlib import Path
from threading import Thread
from typing import Any

import pytest
from llama_index.core import QueryBundle
from llama_index.core.base.llms.types import ChatMessage, ChatResponse
from llama_index.core.base.response.schema import AsyncStreamingResponse, StreamingResponse
from llama_index.core.chat_engine.types import StreamingAgentChatResponse
from llama_index.core.memory import ChatMemoryBuffer
from llama_index.core.schema import NodeWithScore, TextNode

from agenttape_core import boundary, use_cassette
from agenttape_core.errors import CassetteMissError, UnrecordedConnectionWarning
from agenttape_llamaindex import tape

from .acceptance import FRAMEWORK_WARNINGS
from .scripted import ScriptedLLM
from .test_program_parts import OUTSIDE, Chat, Engine, Synthesizer

pytestmark = FRAMEWORK_WARNINGS

NODE = NodeWithScore(node=TextNode(id_="a", text="Oslo"), score=0.5)


@pytest.fixture(autouse=True)
def _outside() -> Iterator[None]:
    OUTSIDE.__init__()  # type: ignore[misc]  # a new world
    with socket.create_server(("127.0.0.1", 0)) as server:
        OUTSIDE.address = server.getsockname()
        yield


def words(question: str) -> Generator[str, None, None]:
    """Stream an answer: the service is asked for each word of it."""
    for word in ("in", question):
        yield OUTSIDE.ask(word)
    if question == "Atlantis":
        raise LookupError("no such place")


async def awords(question: str) -> AsyncGenerator[str, None]:
    """Stream an answer; see `words`."""
    for word in words(question):
        yield word


class Streaming(Engine):
    """An engine whose answers stream, with the nodes that they are made of."""

    def _query(self, query_bundle: QueryBundle) -> Any:
        return StreamingResponse(words(query_bundle.query_str), source_nodes=[NODE], metadata={"a": 1})

    async def _aquery(self, query_bundle: QueryBundle) -> Any:
        if query_bundle.query_str == "Rome":
            return self._query(query_bundle)
        return AsyncStreamingResponse(awords(query_bundle.query_str), source_nodes=[NODE])


class Synthesizing(Synthesizer):
    """A synthesizer whose answers stream."""

    def get_response(self, query_str: str, text_chunks: Any, **_: Any) -> Any:
        return words(query_str)

    async def aget_response(self, query_str: str, text_chunks: Any, **_: Any) -> Any:
        return awords(query_str)


class Chatting(Chat):
    """A chat engine whose answers are read by a thread or a task, which writes them into its memory."""

    def __init__(self, *, writes: bool = True) -> None:
        self.writes = writes
        self.memory = ChatMemoryBuffer.from_defaults(token_limit=1000)

    def stream_chat(self, message: str, chat_history: Any = None) -> StreamingAgentChatResponse:
        stream = _responses(words(message))
        answer = StreamingAgentChatResponse(chat_stream=stream, source_nodes=[NODE], is_writing_to_memory=self.writes)
        if self.writes:
            answer.write_response_to_history_thread = Thread(target=self._written, args=(answer,))
            answer.write_response_to_history_thread.start()
        return answer

    def _written(self, answer: StreamingAgentChatResponse) -> None:
        with suppress(LookupError):  # which the reader gets, too
            answer.write_response_to_history(self.memory)

    async def astream_chat(self, message: str, chat_history: Any = None) -> StreamingAgentChatResponse:
        stream = _aresponses(awords(message))
        answer = StreamingAgentChatResponse(achat_stream=stream, source_nodes=[NODE])
        answer.awrite_response_to_history_task = asyncio.create_task(answer.awrite_response_to_history(self.memory))
        return answer


def _responses(words: Iterator[str]) -> Generator[ChatResponse, None, None]:
    said = _Said()
    yield said.with_word("")
    for word in words:
        yield said.with_word(word)


async def _aresponses(words: AsyncGenerator[str, None]) -> AsyncGenerator[ChatResponse, None]:
    said = _Said()
    async for word in words:
        yield said.with_word(word)


class _Said:
    """What an assistant has said so far."""

    text = ""

    def with_word(self, word: str) -> ChatResponse:
        self.text += word
        return ChatResponse(message=ChatMessage(role="assistant", content=self.text), delta=word)


async def _read(stream: Any) -> list[str]:
    return [word async for word in stream] if isinstance(stream, AsyncGenerator) else [*stream]


async def _response(answer: Any) -> Any:
    return type(answer).__name__, await _read(answer.response_gen), answer.source_nodes, answer.metadata


async def _query(make: Callable[[Any], Any]) -> Any:
    return await _response(make(Streaming()).query("Oslo"))


async def _aquery(make: Callable[[Any], Any]) -> Any:
    return await _response(await make(Streaming()).aquery("Oslo"))


async def _aquery_that_is_plain(make: Callable[[Any], Any]) -> Any:
    return await _response(await make(Streaming()).aquery("Rome"))


async def _get_response(make: Callable[[Any], Any]) -> Any:
    return await _read(make(Synthesizing()).get_response("Oslo", ["a"]))


async def _aget_response(make: Callable[[Any], Any]) -> Any:
    return await _read(await make(Synthesizing()).aget_response("Oslo", ["a"]))


async def _stream_chat(make: Callable[[Any], Any]) -> Any:
    answer = make(Chatting()).stream_chat("Oslo")
    return [*answer.response_gen], answer.response, answer.source_nodes


async def _stream_chat_unwritten(make: Callable[[Any], Any]) -> Any:
    answer = make(Chatting(writes=False)).stream_chat("Oslo")
    return [*answer.response_gen], str(answer), answer.source_nodes


async def _astream_chat(make: Callable[[Any], Any]) -> Any:
    answer = await make(Chatting()).astream_chat("Oslo")
    return [word async for word in answer.async_response_gen()], answer.response, answer.source_nodes


CALLS = [
    _query,
    _aquery,
    _aquery_that_is_plain,
    _get_response,
    _aget_response,
    _stream_chat,
    _stream_chat_unwritten,
    _astream_chat,
]


@pytest.mark.sweep
@pytest.mark.parametrize("auto", [True, False])
@pytest.mark.parametrize("call", CALLS)
async def test_a_stream_is_replayed(call: Any, tmp_path: Path, *, auto: bool) -> None:
    """A replay streams the same texts, with all else that was returned, and nothing is asked."""
    make = tape if not auto else lambda part: part
    with use_cassette(tmp_path / "c.yaml", mode="all", auto=auto):
        recorded = await call(make)
    assert OUTSIDE.world.reached == ["service"] * 2
    OUTSIDE.world.gone = True
    with use_cassette(tmp_path / "c.yaml", auto=auto) as replay:
        assert await call(make) == recorded
    assert OUTSIDE.world.trespasses == []
    assert [(row.kind, row.outcome.status) for row in replay.interactions] == [("call", "streamed")]
    assert str(replay.report) == "1 replayed, 0 recorded"


@pytest.mark.sweep
@pytest.mark.parametrize("call", CALLS)
@pytest.mark.parametrize("way", ["model", "itself"])
async def test_a_stream_of_the_program_runs(call: Any, way: str, tmp_path: Path) -> None:
    """An engine that streams by a model, or computes, is program: nothing of its own is recorded."""
    OUTSIDE.way = way
    with use_cassette(tmp_path / "c.yaml", mode="all"):
        recorded = await call(lambda part: part)
    OUTSIDE.world.gone = True
    with use_cassette(tmp_path / "c.yaml") as replay:
        assert await call(lambda part: part) == recorded
    assert {row.name for row in replay.interactions} == ({ScriptedLLM.__name__} if way == "model" else set())


def test_a_stream_that_is_left_early(tmp_path: Path) -> None:
    """It is recorded up to there: one that reads as far is replayed, and one that reads further is a miss."""
    with use_cassette(tmp_path / "c.yaml", mode="all"):
        stream = Streaming().query("Oslo").response_gen
        first = next(stream)
        stream.close()
    with use_cassette(tmp_path / "c.yaml"):
        assert next(Streaming().query("Oslo").response_gen) == first
    with pytest.raises(CassetteMissError, match="closed by its reader"), use_cassette(tmp_path / "c.yaml"):
        list(Streaming().query("Oslo").response_gen)


def test_a_stream_that_breaks(tmp_path: Path) -> None:
    """It breaks again at the same place, with the same error."""
    for mode in ("all", "none"):
        got: list[str] = []
        with use_cassette(tmp_path / "c.yaml", mode=mode), pytest.raises(LookupError, match="no such place"):
            got.extend(Streaming().query("Atlantis").response_gen)
        OUTSIDE.world.gone = True
    assert OUTSIDE.world.reached == ["service"] * 2


def test_a_chat_that_breaks(tmp_path: Path) -> None:
    """The thread that reads its stream passes the error on, and so does a replay, which has no thread."""
    for mode in ("all", "none"):
        with use_cassette(tmp_path / "c.yaml", mode=mode), pytest.raises(LookupError, match="no such place"):
            list(Chatting().stream_chat("Atlantis").response_gen)
        OUTSIDE.world.gone = True
    assert OUTSIDE.world.reached == ["service"] * 2


def test_a_stream_that_is_never_read(tmp_path: Path) -> None:
    """What had reached outside before the session ended is recorded, and replayed unread."""

    class Eager(Streaming):
        def _query(self, query_bundle: QueryBundle) -> Any:
            OUTSIDE.ask("first")
            return super()._query(query_bundle)

    with use_cassette(tmp_path / "c.yaml", mode="all"):
        Eager().query("Oslo")
    with use_cassette(tmp_path / "c.yaml") as replay:
        assert Eager().query("Oslo").source_nodes == [NODE]
    assert len(replay.report.replayed) == len(OUTSIDE.world.reached) == 1


def test_a_stream_that_cannot_be_recorded_is_reported(tmp_path: Path) -> None:
    """The run goes on, and the recording warns of the connection that a replay cannot serve."""

    class Odd(Streaming):
        def _query(self, query_bundle: QueryBundle) -> Any:
            def odd() -> Generator[Any, None, None]:
                yield (OUTSIDE.ask("Oslo") for _ in range(1))
                OUTSIDE.ask("Oslo")

            return StreamingResponse(odd())

    with (
        pytest.warns(UnrecordedConnectionWarning, match="reached 127.0.0.1"),
        use_cassette(tmp_path / "c.yaml", mode="all") as session,
    ):
        assert len(list(Odd().query("Oslo").response_gen)) == 1
    assert session.interactions == []


@boundary
def tokens(question: str) -> Iterator[str]:
    """Stream tokens of a service."""
    yield from words(question)


def test_a_chat_engine_that_streams_from_a_boundary(tmp_path: Path) -> None:
    """The stream of a chat engine is replayed if the function that asks the service is a boundary."""

    class ChatStreams(Chat):
        """A chat engine that streams from a thread of its own, as LlamaIndex's engines do."""

        def stream_chat(self, message: str, chat_history: Any = None) -> StreamingAgentChatResponse:
            def chunks() -> Iterator[ChatResponse]:
                text = ""
                for token in tokens(message):
                    text += token
                    yield ChatResponse(message=ChatMessage(role="assistant", content=text), delta=token)

            answer = StreamingAgentChatResponse(chat_stream=chunks())
            memory = ChatMemoryBuffer.from_defaults(token_limit=1000)
            Thread(target=copy_context().run, args=(answer.write_response_to_history, memory)).start()
            return answer

    said = []
    for mode in ("all", "none"):
        with use_cassette(tmp_path / "c.yaml", mode=mode) as session:
            said.append("".join(ChatStreams().stream_chat("Oslo").response_gen))
        OUTSIDE.world.gone = True
    assert said[0] == said[1] == "in 1Oslo 2"
    assert OUTSIDE.world.trespasses == []
    assert [(row.kind, row.name) for row in session.interactions] == [("call", "tokens")]
