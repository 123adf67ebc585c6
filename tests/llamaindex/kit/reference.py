"""A correct LLM and a correct embedding model, which the tests of the kit break in one place at a time."""

from __future__ import annotations

import json
import math
from collections.abc import AsyncIterator, Iterator, Sequence
from typing import Any, ClassVar

from llama_index.core.base.embeddings.base import BaseEmbedding
from llama_index.core.base.llms.types import (
    ChatMessage,
    ChatResponse,
    ChatResponseAsyncGen,
    ChatResponseGen,
    CompletionResponse,
    CompletionResponseAsyncGen,
    CompletionResponseGen,
    ImageBlock,
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

from .conformance import EmbeddingConformance, LLMConformance

SECRET = "sk-of-the-reference"


class OutOfOrderError(Exception):
    """The error of the pretended service."""


class ReferenceLLM(FunctionCallingLLM):
    """An LLM that repeats its question. Each behavior that the tests break is a method of its own."""

    api_key: str = Field(default=SECRET, exclude=True, repr=False)
    fails: bool = False
    breaks: bool = False

    @classmethod
    def class_name(cls) -> str:
        return "ReferenceLLM"

    @property
    def metadata(self) -> LLMMetadata:
        return LLMMetadata(model_name="reference", is_chat_model=True, is_function_calling_model=True)

    # -- what it says ----------------------------------------------------------------------------------------------

    def text(self, messages: Sequence[ChatMessage]) -> str:
        """Return the text of the answer."""
        asked = " ".join(block.text for block in messages[-1].blocks if isinstance(block, TextBlock))
        return f"Of {len(messages)} messages the last one says: {asked}"

    def answer(self, messages: Sequence[ChatMessage], tools: Sequence[Any], call: str) -> ChatMessage:
        """Return the whole answer: a text, or a tool call."""
        if self.fails:
            raise OutOfOrderError("the service is out of order")
        if tools and messages[-1].role != MessageRole.TOOL:
            return message(tool_call(tools[0], json.dumps(filled(tools[0]))))
        return message(TextBlock(text=self.text(messages)))

    def chunks(self, messages: Sequence[ChatMessage], tools: Sequence[Any], call: str) -> Iterator[ChatResponse]:
        """Yield the answer in pieces."""
        (block,) = self.answer(messages, tools, call).blocks
        if isinstance(block, ToolCallBlock):
            half = str(block.tool_kwargs)[:5]
            yield ChatResponse(message=message(block.model_copy(update={"tool_kwargs": half})), delta="")
            yield ChatResponse(message=message(block), delta="")
            return
        assert isinstance(block, TextBlock)
        for number, (sofar, delta) in enumerate(growing(block.text)):
            if number and self.breaks:
                raise OutOfOrderError("the service is out of order")
            yield ChatResponse(message=message(TextBlock(text=sofar)), delta=delta)

    # -- LlamaIndex's calls ----------------------------------------------------------------------------------------

    @llm_chat_callback()
    def chat(self, messages: Sequence[ChatMessage], tools: Sequence[Any] = (), **kwargs: Any) -> ChatResponse:
        return ChatResponse(message=self.answer(messages, tools, "chat"))

    @llm_chat_callback()
    async def achat(self, messages: Sequence[ChatMessage], tools: Sequence[Any] = (), **kwargs: Any) -> ChatResponse:
        return ChatResponse(message=self.answer(messages, tools, "achat"))

    @llm_chat_callback()
    def stream_chat(self, messages: Sequence[ChatMessage], tools: Sequence[Any] = (), **kwargs: Any) -> ChatResponseGen:
        yield from self.chunks(messages, tools, "stream_chat")

    @llm_chat_callback()
    async def astream_chat(
        self, messages: Sequence[ChatMessage], tools: Sequence[Any] = (), **kwargs: Any
    ) -> ChatResponseAsyncGen:
        return eventually(self.chunks(messages, tools, "astream_chat"))

    @llm_completion_callback()
    def complete(self, prompt: str, formatted: bool = False, **kwargs: Any) -> CompletionResponse:
        return completed(self.answer(asked(prompt), (), "complete"))

    @llm_completion_callback()
    async def acomplete(self, prompt: str, formatted: bool = False, **kwargs: Any) -> CompletionResponse:
        return completed(self.answer(asked(prompt), (), "acomplete"))

    @llm_completion_callback()
    def stream_complete(self, prompt: str, formatted: bool = False, **kwargs: Any) -> CompletionResponseGen:
        yield from self.text_chunks(prompt, "stream_complete")

    @llm_completion_callback()
    async def astream_complete(self, prompt: str, formatted: bool = False, **kwargs: Any) -> CompletionResponseAsyncGen:
        return eventually(self.text_chunks(prompt, "astream_complete"))

    def text_chunks(self, prompt: str, call: str) -> Iterator[CompletionResponse]:
        """Yield a completion in pieces."""
        for chunk in self.chunks(asked(prompt), (), call):
            yield CompletionResponse(text=chunk.message.content or "", delta=chunk.delta)

    # -- tools -----------------------------------------------------------------------------------------------------

    def _prepare_chat_with_tools(
        self, tools: Sequence[Any], user_msg: Any = None, chat_history: Any = None, **kwargs: Any
    ) -> dict[str, Any]:
        last = [ChatMessage(role=MessageRole.USER, content=user_msg)] if isinstance(user_msg, str) else [user_msg]
        return {"messages": [*(chat_history or ()), *(last if user_msg else ())], "tools": tools}

    def get_tool_calls_from_response(
        self, response: ChatResponse, error_on_no_tool_call: bool = True, **kwargs: Any
    ) -> list[ToolSelection]:
        calls = [block for block in response.message.blocks if isinstance(block, ToolCallBlock)]
        if not calls and error_on_no_tool_call:
            raise ValueError("expected a tool call, found none")
        return [
            ToolSelection(tool_id=call.tool_call_id or "", tool_name=call.tool_name, tool_kwargs=self.arguments(call))
            for call in calls
        ]

    def arguments(self, call: ToolCallBlock) -> dict[str, Any]:
        """Return the arguments of a tool call, also of half a one."""
        given = call.tool_kwargs
        return parse_partial_json(given) if isinstance(given, str) else given


def message(*blocks: Any) -> ChatMessage:
    """Return a message of the assistant."""
    return ChatMessage(role=MessageRole.ASSISTANT, blocks=list(blocks))


def tool_call(tool: Any, arguments: str) -> ToolCallBlock:
    """Return a call of a tool."""
    return ToolCallBlock(tool_call_id="call-1", tool_name=tool.metadata.name, tool_kwargs=arguments)


def filled(tool: Any) -> dict[str, Any]:
    """Return the arguments that a tool has by default."""
    return {name: field.default for name, field in tool.metadata.fn_schema.model_fields.items()}


def asked(prompt: str) -> list[ChatMessage]:
    """Return a prompt as messages."""
    return [ChatMessage(role=MessageRole.USER, content=prompt)]


def completed(answer: ChatMessage) -> CompletionResponse:
    """Return an answer as a completion."""
    return CompletionResponse(text=answer.content or "")


def growing(text: str) -> Iterator[tuple[str, str]]:
    """Yield what was said so far, and what is new in it."""
    words = text.split(" ")
    for number, word in enumerate(words):
        yield " ".join(words[: number + 1]), f" {word}" if number else word


async def eventually(chunks: Iterator[Any]) -> AsyncIterator[Any]:
    """Yield the same asynchronously."""
    for chunk in chunks:
        yield chunk


class ReferenceLLMConformance(LLMConformance):
    """The suite of the reference LLM."""

    llm: ClassVar[type[ReferenceLLM]] = ReferenceLLM
    blocks = (ImageBlock(image=b"a picture"),)
    secrets = (SECRET,)

    def make(self) -> ReferenceLLM:
        return self.llm()

    def make_failing(self) -> ReferenceLLM:
        return self.llm(fails=True)

    def make_breaking(self) -> ReferenceLLM:
        return self.llm(breaks=True)


class ReferenceEmbedding(BaseEmbedding):
    """An embedding model that counts letters."""

    model_name: str = "reference"
    api_key: str = Field(default=SECRET, exclude=True, repr=False)
    fails: bool = False

    @classmethod
    def class_name(cls) -> str:
        return "ReferenceEmbedding"

    def vector(self, text: str, call: str) -> list[float]:
        """Return the vector of a text."""
        if self.fails:
            raise OutOfOrderError("the service is out of order")
        raw = [1.0 + text.count(letter) for letter in "aeiou st"]
        return [number / math.hypot(*raw) for number in raw]

    def _get_query_embedding(self, query: str) -> list[float]:
        return self.vector(query, "query")

    async def _aget_query_embedding(self, query: str) -> list[float]:
        return self.vector(query, "aquery")

    def _get_text_embedding(self, text: str) -> list[float]:
        return self.vector(text, "text")

    async def _aget_text_embedding(self, text: str) -> list[float]:
        return self.vector(text, "atext")

    def _get_text_embeddings(self, texts: list[str]) -> list[list[float]]:
        return [self.vector(text, "batch") for text in texts]

    async def _aget_text_embeddings(self, texts: list[str]) -> list[list[float]]:
        return [self.vector(text, "abatch") for text in texts]


class ReferenceEmbeddingConformance(EmbeddingConformance):
    """The suite of the reference embedding model."""

    model: ClassVar[type[ReferenceEmbedding]] = ReferenceEmbedding
    secrets = (SECRET,)

    def make(self) -> ReferenceEmbedding:
        return self.model()

    def make_failing(self) -> ReferenceEmbedding:
        return self.model(fails=True)
