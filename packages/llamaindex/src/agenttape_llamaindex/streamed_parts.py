"""The streamed answers of components that reach outside by themselves: a head without the stream, and its texts."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Generator, Mapping
from typing import Any

from llama_index.core.base.response.schema import AsyncStreamingResponse, Response, StreamingResponse

from agenttape_core.integration import Crossing, ProgramCall, aserve_stream, serve_stream
from agenttape_llamaindex.streamed_chats import chat_answer

_STREAMS = (Generator, AsyncGenerator)
_ASYNC, _RESPONSE, _CHAT = "is_async", "response", "chat"


def followed(call: ProgramCall, value: Any) -> Any:
    """Return what a component that was watched has returned, with its end noted: now, or when its stream ends."""
    is_response = isinstance(value, StreamingResponse | AsyncStreamingResponse)
    if is_response and isinstance(value.response_gen, _STREAMS):
        bare = Response(None, value.source_nodes, value.metadata)
        value.response_gen = _followed(call, value.response_gen, bare)
        return value
    if isinstance(value, _STREAMS):
        return _followed(call, value, None)
    call.returned(value)
    return value


def _followed(call: ProgramCall, stream: Any, bare: Response | None) -> Any:
    is_async = isinstance(stream, AsyncGenerator)
    head = {_ASYNC: is_async, _RESPONSE: bare}
    return call.astreamed(head, stream) if is_async else call.streamed(head, stream)


def is_streamed(crossing: Any) -> bool:
    """Return whether a call is served, and its answer is a stream."""
    return isinstance(crossing, Crossing) and crossing.is_served and crossing.is_stream


def served(crossing: Any) -> Any:
    """Return a recorded streamed answer to a call that is not awaited."""
    chunks = serve_stream(crossing)
    return _answer(next(chunks), chunks)


async def aserved(crossing: Any) -> Any:
    """Return a recorded streamed answer to a call that is awaited: an async stream if it was one."""
    if not next(crossing.replay_chunks())[_ASYNC]:
        return served(crossing)
    chunks = aserve_stream(crossing)
    head = await anext(chunks)
    if _CHAT in head:
        return chat_answer(head[_CHAT], chunks)
    bare = head[_RESPONSE]
    if bare is None:
        return chunks
    return AsyncStreamingResponse(response_gen=chunks, source_nodes=bare.source_nodes, metadata=bare.metadata)


def _answer(head: Mapping[str, Any], chunks: Any) -> Any:
    if _CHAT in head:
        return chat_answer(head[_CHAT], chunks)
    bare = head[_RESPONSE]
    if bare is None:
        return chunks
    return StreamingResponse(response_gen=chunks, source_nodes=bare.source_nodes, metadata=bare.metadata)
