"""The streams of chat engines that reach outside directly.

LlamaIndex's form of such an answer is read by a thread or its own task, which begins before the engine returns. So
the stream in it is followed from the moment at which the answer is made.
"""

from __future__ import annotations

import functools
from collections.abc import AsyncGenerator, Callable, Generator, Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any

from llama_index.core.base.llms.types import ChatResponse
from llama_index.core.chat_engine.types import StreamingAgentChatResponse

from agenttape_core.integration import ProgramCall
from agenttape_llamaindex.codec import CHATS
from agenttape_llamaindex.codec.streams import ChatChunk

_WRITES, _NODES, _SOURCES = "writes", "source_nodes", "sources"


class Answering:
    """A call of a chat engine that is watched, and will return an answer that streams."""

    def __init__(self, call: ProgramCall) -> None:
        self._call = call
        self.has_stream = False
        """True if it has made an answer: its stream then determines the content and the end of the recording."""

    @contextmanager
    def here(self) -> Iterator[None]:
        """Run the method of the engine inside."""
        before = _ANSWERING.get()
        _ANSWERING.set(self)
        try:
            yield
        finally:
            _ANSWERING.set(before)

    def made(self, answer: StreamingAgentChatResponse) -> None:
        """Follow the stream of an answer, if it is the first that is made."""
        is_async = isinstance(answer.achat_stream, AsyncGenerator)
        if self.has_stream or not (is_async or isinstance(answer.chat_stream, Generator)):
            return
        self.has_stream = True
        head = {"is_async": is_async, "response": None, "chat": _head(answer)}
        chunk_of = CHATS.writer()

        def packed(response: Any) -> Any:
            return chunk_of(response) if isinstance(response, ChatResponse) else response

        if is_async:
            stream: Any = answer.achat_stream
            answer.achat_stream = _aunpacked(self._call.astreamed(head, _apacked(stream, packed)))
        else:
            stream = answer.chat_stream
            answer.chat_stream = _unpacked(self._call.streamed(head, _packed(stream, packed)))


_ANSWERING: ContextVar[Answering | None] = ContextVar("agenttape_answering", default=None)


def following(real: Callable[..., None]) -> Callable[..., None]:
    """Wrap `__post_init__` of the answers that stream, to follow the stream of a watched call."""

    @functools.wraps(real)
    def post_init(self: StreamingAgentChatResponse) -> None:
        real(self)
        answering = _ANSWERING.get()
        if answering is not None:
            answering.made(self)

    return post_init


def chat_answer(head: Mapping[str, Any], chunks: Any) -> StreamingAgentChatResponse:
    """Return a recorded answer. Its stream is read by its reader: what wrote it into a memory is not run.

    `head` is its first chunk, and `chunks` are the others.
    """
    read, writes = CHATS.reader(), head[_WRITES]

    def is_said(response: Any) -> bool:
        return bool(response.delta) or not writes  # what is written into a memory is passed on if it is no empty text

    facts: dict[str, Any] = {_NODES: head[_NODES], _SOURCES: head[_SOURCES], "is_writing_to_memory": False}
    if isinstance(chunks, AsyncGenerator):
        return StreamingAgentChatResponse(
            achat_stream=(response async for chunk in chunks if is_said(response := read(chunk))), **facts
        )
    return StreamingAgentChatResponse(
        chat_stream=(response for chunk in chunks if is_said(response := read(chunk))), **facts
    )


def _head(answer: StreamingAgentChatResponse) -> dict[str, Any]:
    return {_WRITES: answer.is_writing_to_memory, _NODES: answer.source_nodes, _SOURCES: answer.sources}


def _packed(stream: Generator[Any, None, None], pack: Callable[[Any], Any]) -> Generator[Any, None, None]:
    try:
        for response in stream:
            yield pack(response)
    finally:
        stream.close()


def _unpacked(chunks: Any) -> Generator[Any, None, None]:
    try:
        for chunk in chunks:
            yield chunk.response if type(chunk) is ChatChunk else chunk
    finally:
        chunks.close()


async def _apacked(stream: AsyncGenerator[Any, None], pack: Callable[[Any], Any]) -> AsyncGenerator[Any, None]:
    try:
        async for response in stream:
            yield pack(response)
    finally:
        await stream.aclose()


async def _aunpacked(chunks: Any) -> AsyncGenerator[Any, None]:
    try:
        async for chunk in chunks:
            yield chunk.response if type(chunk) is ChatChunk else chunk
    finally:
        await chunks.aclose()
