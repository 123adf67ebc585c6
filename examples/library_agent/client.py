"""A small client of OpenAI's protocol: an LLM and an embedding model of LlamaIndex.

It stands for `llama-index-llms-openai` and `llama-index-embeddings-openai`, which ask for an older `openai` than
LangChain's package does and so cannot be installed beside it. With them, `ServiceLLM(...)` reads `OpenAI(...)`.
"""

# ruff: noqa: ARG002 - LlamaIndex names the arguments of these methods

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import httpx
from llama_index.core.base.embeddings.base import BaseEmbedding
from llama_index.core.base.llms.generic_utils import (
    achat_to_completion_decorator,
    astream_chat_to_completion_decorator,
    chat_to_completion_decorator,
    stream_chat_to_completion_decorator,
)
from llama_index.core.base.llms.types import (
    ChatMessage,
    ChatResponse,
    ChatResponseAsyncGen,
    ChatResponseGen,
    CompletionResponse,
    CompletionResponseAsyncGen,
    CompletionResponseGen,
    LLMMetadata,
    MessageRole,
    TextBlock,
    ToolCallBlock,
)
from llama_index.core.llms.callbacks import llm_chat_callback, llm_completion_callback
from llama_index.core.llms.function_calling import FunctionCallingLLM
from llama_index.core.llms.llm import ToolSelection
from llama_index.core.llms.utils import parse_partial_json
from pydantic import Field

TIMEOUT_S = 30


def _base_url() -> str:
    return os.environ.get("OPENAI_BASE_URL", "http://127.0.0.1:8000/v1")


def _headers() -> dict[str, str]:
    return {"Authorization": f"Bearer {os.environ.get('OPENAI_API_KEY', 'any-text')}"}


class ServiceLLM(FunctionCallingLLM):
    """A chat model that speaks Chat Completions. The service and the key are `OPENAI_BASE_URL` and `OPENAI_API_KEY`."""

    model: str = "gpt-5-mini"
    temperature: float = 1.0
    base_url: str = Field(default_factory=_base_url, exclude=True)

    @classmethod
    def class_name(cls) -> str:
        """Return the name that LlamaIndex shows."""
        return "ServiceLLM"

    @property
    def metadata(self) -> LLMMetadata:
        """The properties of the model: a chat model that calls functions."""
        return LLMMetadata(
            model_name=self.model, context_window=128_000, is_chat_model=True, is_function_calling_model=True
        )

    @llm_chat_callback()
    def chat(self, messages: Sequence[ChatMessage], **kwargs: Any) -> ChatResponse:
        """Answer a conversation."""
        return self._chat(messages, **kwargs)

    @llm_chat_callback()
    async def achat(self, messages: Sequence[ChatMessage], **kwargs: Any) -> ChatResponse:
        """Answer it asynchronously."""
        return await self._achat(messages, **kwargs)

    @llm_chat_callback()
    def stream_chat(self, messages: Sequence[ChatMessage], **kwargs: Any) -> ChatResponseGen:
        """Answer it in pieces."""
        return self._stream_chat(messages, **kwargs)

    @llm_chat_callback()
    async def astream_chat(self, messages: Sequence[ChatMessage], **kwargs: Any) -> ChatResponseAsyncGen:
        """Answer it in pieces, asynchronously."""
        return await self._astream_chat(messages, **kwargs)

    @llm_completion_callback()
    def complete(self, prompt: str, formatted: bool = False, **kwargs: Any) -> CompletionResponse:
        """Complete a prompt, as a conversation of one message."""
        return chat_to_completion_decorator(self._chat)(prompt, **kwargs)

    @llm_completion_callback()
    async def acomplete(self, prompt: str, formatted: bool = False, **kwargs: Any) -> CompletionResponse:
        """Complete it asynchronously."""
        return await achat_to_completion_decorator(self._achat)(prompt, **kwargs)

    @llm_completion_callback()
    def stream_complete(self, prompt: str, formatted: bool = False, **kwargs: Any) -> CompletionResponseGen:
        """Complete it in pieces."""
        return stream_chat_to_completion_decorator(self._stream_chat)(prompt, **kwargs)

    @llm_completion_callback()
    async def astream_complete(self, prompt: str, formatted: bool = False, **kwargs: Any) -> CompletionResponseAsyncGen:
        """Complete it in pieces, asynchronously."""
        return await astream_chat_to_completion_decorator(self._astream_chat)(prompt, **kwargs)

    def _chat(self, messages: Sequence[ChatMessage], **kwargs: Any) -> ChatResponse:
        with httpx.Client(timeout=TIMEOUT_S) as client:
            return _answer(client.post(**self._request(messages, kwargs)))

    async def _achat(self, messages: Sequence[ChatMessage], **kwargs: Any) -> ChatResponse:
        async with httpx.AsyncClient(timeout=TIMEOUT_S) as client:
            return _answer(await client.post(**self._request(messages, kwargs)))

    def _stream_chat(self, messages: Sequence[ChatMessage], **kwargs: Any) -> ChatResponseGen:
        request = self._request(messages, {**kwargs, "stream": True})
        with httpx.Client(timeout=TIMEOUT_S) as client, client.stream("POST", **request) as response:
            growing = _Growing()
            for line in response.raise_for_status().iter_lines():
                yield from growing.take(line)

    async def _astream_chat(self, messages: Sequence[ChatMessage], **kwargs: Any) -> ChatResponseAsyncGen:
        async def chunks() -> ChatResponseAsyncGen:
            request = self._request(messages, {**kwargs, "stream": True})
            async with httpx.AsyncClient(timeout=TIMEOUT_S) as client, client.stream("POST", **request) as response:
                growing = _Growing()
                async for line in response.raise_for_status().aiter_lines():
                    for chunk in growing.take(line):
                        yield chunk

        return chunks()

    def _request(self, messages: Sequence[ChatMessage], given: dict[str, Any]) -> dict[str, Any]:
        body = {
            "model": self.model,
            "temperature": self.temperature,
            "messages": [_sent(message) for message in messages],
            **{name: value for name, value in given.items() if value is not None},
        }
        return {"url": f"{self.base_url}/chat/completions", "headers": _headers(), "json": body}

    def _prepare_chat_with_tools(  # noqa: PLR0917 - LlamaIndex names and orders these
        self,
        tools: Sequence[Any],
        user_msg: str | ChatMessage | None = None,
        chat_history: list[ChatMessage] | None = None,
        verbose: bool = False,
        allow_parallel_tool_calls: bool = False,
        tool_required: bool = False,
        **kwargs: Any,
    ) -> dict[str, Any]:
        asked = ChatMessage(role=MessageRole.USER, content=user_msg) if isinstance(user_msg, str) else user_msg
        offered = {
            "tools": [tool.metadata.to_openai_tool() for tool in tools],
            "tool_choice": "required" if tool_required else "auto",
            "parallel_tool_calls": allow_parallel_tool_calls,
        }
        return {
            "messages": [*(chat_history or ()), *([asked] if asked else ())],
            **(offered if tools else {}),
            **kwargs,
        }

    def get_tool_calls_from_response(
        self, response: ChatResponse, error_on_no_tool_call: bool = True, **kwargs: Any
    ) -> list[ToolSelection]:
        """Return the tool calls of an answer, also of half a one that is streamed."""
        calls = [block for block in response.message.blocks if isinstance(block, ToolCallBlock)]
        if not calls and error_on_no_tool_call:
            raise ValueError(f"expected a tool call, found the answer {response.message.content!r}")
        return [
            ToolSelection(
                tool_id=call.tool_call_id or "", tool_name=call.tool_name, tool_kwargs=_arguments(call.tool_kwargs)
            )
            for call in calls
        ]


class _Growing:
    """Makes chunks, each with all that was said so far, of the deltas of the protocol."""

    def __init__(self) -> None:
        self._text = ""
        self._calls: dict[int, dict[str, str]] = {}

    def take(self, line: str) -> Iterator[ChatResponse]:
        """Yield the chunk of a server-sent event, if it has one."""
        data = line.removeprefix("data: ")
        if data in {line, "[DONE]"}:
            return
        event = json.loads(data)
        for choice in event["choices"]:
            delta = choice["delta"]
            piece = delta.get("content") or ""
            self._text += piece
            for call in delta.get("tool_calls") or ():
                known = self._calls.setdefault(call["index"], {"id": "", "name": "", "arguments": ""})
                known["id"] += call.get("id") or ""
                known["name"] += call["function"].get("name") or ""
                known["arguments"] += call["function"].get("arguments") or ""
            yield ChatResponse(message=_message(self._text, self._calls.values()), delta=piece, raw=event)


class ServiceEmbedding(BaseEmbedding):
    """An embedding model that speaks the same protocol."""

    model_name: str = "text-embedding-3-small"
    base_url: str = Field(default_factory=_base_url, exclude=True)

    @classmethod
    def class_name(cls) -> str:
        """Return the name that LlamaIndex shows."""
        return "ServiceEmbedding"

    def _get_query_embedding(self, query: str) -> list[float]:
        return self._get_text_embeddings([query])[0]

    def _get_text_embedding(self, text: str) -> list[float]:
        return self._get_text_embeddings([text])[0]

    def _get_text_embeddings(self, texts: list[str]) -> list[list[float]]:
        with httpx.Client(timeout=TIMEOUT_S) as client:
            return _vectors(client.post(**self._request(texts)))

    async def _aget_query_embedding(self, query: str) -> list[float]:
        return (await self._aget_text_embeddings([query]))[0]

    async def _aget_text_embedding(self, text: str) -> list[float]:
        return (await self._aget_text_embeddings([text]))[0]

    async def _aget_text_embeddings(self, texts: list[str]) -> list[list[float]]:
        async with httpx.AsyncClient(timeout=TIMEOUT_S) as client:
            return _vectors(await client.post(**self._request(texts)))

    def _request(self, texts: list[str]) -> dict[str, Any]:
        body = {"model": self.model_name, "input": texts}
        return {"url": f"{self.base_url}/embeddings", "headers": _headers(), "json": body}


def _answer(response: httpx.Response) -> ChatResponse:
    content = response.raise_for_status().json()
    said = content["choices"][0]["message"]
    calls = [{"id": call["id"], **call["function"]} for call in said.get("tool_calls") or ()]
    return ChatResponse(message=_message(said["content"] or "", calls), raw=content)


def _vectors(response: httpx.Response) -> list[list[float]]:
    return [item["embedding"] for item in response.raise_for_status().json()["data"]]


def _message(text: str, calls: Iterable[dict[str, str]]) -> ChatMessage:
    blocks: list[Any] = [
        ToolCallBlock(tool_call_id=call["id"], tool_name=call["name"], tool_kwargs=call["arguments"]) for call in calls
    ]
    # Streamed structured output looks for tool calls in the older place only.
    older = {"tool_calls": [block.model_dump() for block in blocks]} if blocks else {}
    said = [TextBlock(text=text), *blocks] if text else blocks
    return ChatMessage(role=MessageRole.ASSISTANT, blocks=said, additional_kwargs=older)


def _sent(message: ChatMessage) -> dict[str, Any]:
    sent: dict[str, Any] = {"role": message.role.value, "content": message.content or ""}
    if "tool_call_id" in message.additional_kwargs:
        sent["tool_call_id"] = message.additional_kwargs["tool_call_id"]
    calls = [block for block in message.blocks if isinstance(block, ToolCallBlock)]
    if calls:
        sent["tool_calls"] = [
            {
                "id": call.tool_call_id,
                "type": "function",
                "function": {"name": call.tool_name, "arguments": json.dumps(_arguments(call.tool_kwargs))},
            }
            for call in calls
        ]
    return sent


def _arguments(given: dict[str, Any] | str) -> dict[str, Any]:
    if isinstance(given, dict):
        return given
    try:
        return parse_partial_json(given or "{}")
    except ValueError:  # a stream that stopped in the middle of a name
        return {}
