"""A scripted world for agents and engines of LlamaIndex: a model and an embedding that count how they are reached.

Everything that answers here says how many calls were made before, so no two answers are alike and an equal one was
replayed. A world that is `gone` refuses, and remembers who tried: a framework that eats the error does not hide it.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Sequence
from typing import Any, TypeAlias

from llama_index.core.base.llms.types import (
    ChatMessage,
    ChatResponse,
    CompletionResponse,
    LLMMetadata,
    ToolCallBlock,
)
from llama_index.core.bridge.pydantic import PrivateAttr
from llama_index.core.embeddings import BaseEmbedding
from llama_index.core.llms.callbacks import llm_chat_callback, llm_completion_callback
from llama_index.core.llms.function_calling import FunctionCallingLLM
from llama_index.core.llms.llm import ToolSelection
from llama_index.core.tools import BaseTool

from ..kit.world import World


class Reversing:
    """Lets calls that wait for each other answer in the reverse of the order in which they came.

    Args:
        calls: How many there are.
    """

    def __init__(self, calls: int) -> None:
        self._calls = calls
        self._waiting: list[asyncio.Future[None]] = []

    async def __call__(self) -> None:
        """Wait for all of them, and then for those that came later."""
        loop = asyncio.get_running_loop()
        mine: asyncio.Future[None] = loop.create_future()
        self._waiting.append(mine)
        if len(self._waiting) == self._calls:
            self._waiting[-1].set_result(None)
        await mine
        self._waiting.remove(mine)
        if self._waiting:
            _after_rounds(loop, 200, self._waiting[-1].set_result)


def _after_rounds(loop: asyncio.AbstractEventLoop, rounds: int, go_on: Callable[[None], None]) -> None:
    """Go on when the loop has gone round so often: what comes of an answer has its time, on a busy machine too."""
    if rounds:
        loop.call_soon(_after_rounds, loop, rounds - 1, go_on)
    else:
        go_on(None)


async def at_once() -> None:
    """Wait for nothing."""


Call: TypeAlias = tuple[str, dict[str, Any]]
"""A tool call: the tool and its arguments."""
Reply: TypeAlias = str | list[Call]
"""The answer of a model: a text, or tool calls."""
Script: TypeAlias = Callable[[Sequence[ChatMessage], Sequence[str]], Reply]
"""The answer of a model to a conversation, given the names of the tools that it may call."""


def echo(messages: Sequence[ChatMessage], tools: Sequence[str]) -> Reply:
    """Repeat the last line of the conversation."""
    return f"You said: {(messages[-1].content or '').strip().splitlines()[-1][:80]}"


class ScriptedLLM(FunctionCallingLLM):
    """A model that says what its script says, in words that stream, with the number of the call at the end.

    Args:
        world: What each call reaches.
        script: Says what it answers.
        wait: What an awaited answer waits for.
        model: What it is called.
        function_calling: Whether it says that it can call tools.
    """

    model: str = "scripted-1"
    function_calling: bool = True
    _world: World = PrivateAttr()
    _script: Script = PrivateAttr()
    _wait: Callable[[], Awaitable[None]] = PrivateAttr()

    def __init__(
        self, world: World, script: Script = echo, wait: Callable[[], Awaitable[None]] = at_once, **kwargs: Any
    ) -> None:
        super().__init__(**kwargs)
        self._wait = wait
        self._world = world
        self._script = script

    @classmethod
    def class_name(cls) -> str:
        """Return its name in payloads."""
        return "scripted_llm"

    @property
    def metadata(self) -> LLMMetadata:
        """Say that it chats."""
        return LLMMetadata(
            is_chat_model=True,
            is_function_calling_model=self.function_calling,
            model_name=self.model,
            context_window=8000,
        )

    def _said(self, messages: Sequence[ChatMessage], kwargs: dict[str, Any]) -> tuple[Reply, int]:
        names = [tool["function"]["name"] for tool in kwargs.get("tools") or ()]
        number = self._world.reach("llm")
        return self._script(messages, names), number

    def _whole(self, reply: Reply, number: int) -> ChatResponse:
        raw = {"number": number, "usage": {"prompt_tokens": number, "completion_tokens": 2, "total_tokens": number + 2}}
        if isinstance(reply, str):
            text = reply if reply.rstrip().endswith(("}", "]", ">")) else f"{reply} ({number})"
            return ChatResponse(message=ChatMessage(role="assistant", content=text), raw=raw)
        blocks = [
            ToolCallBlock(tool_call_id=f"call-{number}-{index}", tool_name=name, tool_kwargs=arguments)
            for index, (name, arguments) in enumerate(reply)
        ]
        return ChatResponse(message=ChatMessage(role="assistant", blocks=blocks), raw=raw)

    def _streamed(self, reply: Reply, number: int) -> Iterator[ChatResponse]:
        whole = self._whole(reply, number)
        if not isinstance(reply, str):
            yield whole.model_copy(update={"delta": ""})
            return
        said = ""
        for word in (whole.message.content or "").split(" "):
            delta = f" {word}" if said else word
            said += delta
            message = ChatMessage(role="assistant", content=said)
            yield ChatResponse(message=message, delta=delta, raw={"number": number, "word": word})

    @llm_chat_callback()
    def chat(self, messages: Sequence[ChatMessage], **kwargs: Any) -> ChatResponse:
        """Answer."""
        return self._whole(*self._said(messages, kwargs))

    @llm_chat_callback()
    async def achat(self, messages: Sequence[ChatMessage], **kwargs: Any) -> ChatResponse:
        """Answer."""
        said = self._said(messages, kwargs)
        await self._wait()
        return self._whole(*said)

    @llm_chat_callback()
    def stream_chat(self, messages: Sequence[ChatMessage], **kwargs: Any) -> Iterator[ChatResponse]:
        """Answer word by word."""
        said = self._said(messages, kwargs)

        def words() -> Iterator[ChatResponse]:
            yield from self._streamed(*said)

        return words()

    @llm_chat_callback()
    async def astream_chat(self, messages: Sequence[ChatMessage], **kwargs: Any) -> AsyncIterator[ChatResponse]:
        """Answer word by word."""
        said = self._said(messages, kwargs)

        async def words() -> AsyncIterator[ChatResponse]:
            for chunk in self._streamed(*said):
                yield chunk

        return words()

    @llm_completion_callback()
    def complete(self, prompt: str, formatted: bool = False, **kwargs: Any) -> CompletionResponse:
        """Answer a prompt."""
        whole = self._whole(*self._said([ChatMessage(role="user", content=prompt)], kwargs))
        return CompletionResponse(text=whole.message.content or "", raw=whole.raw)

    @llm_completion_callback()
    async def acomplete(self, prompt: str, formatted: bool = False, **kwargs: Any) -> CompletionResponse:
        """Answer a prompt."""
        said = self._said([ChatMessage(role="user", content=prompt)], kwargs)
        await self._wait()
        whole = self._whole(*said)
        return CompletionResponse(text=whole.message.content or "", raw=whole.raw)

    @llm_completion_callback()
    def stream_complete(self, prompt: str, formatted: bool = False, **kwargs: Any) -> Iterator[CompletionResponse]:
        """Answer a prompt word by word."""
        said = self._said([ChatMessage(role="user", content=prompt)], kwargs)

        def words() -> Iterator[CompletionResponse]:
            for chunk in self._streamed(*said):
                yield CompletionResponse(text=chunk.message.content or "", delta=chunk.delta, raw=chunk.raw)

        return words()

    @llm_completion_callback()
    async def astream_complete(
        self, prompt: str, formatted: bool = False, **kwargs: Any
    ) -> AsyncIterator[CompletionResponse]:
        """Answer a prompt word by word."""
        said = self._said([ChatMessage(role="user", content=prompt)], kwargs)

        async def words() -> AsyncIterator[CompletionResponse]:
            for chunk in self._streamed(*said):
                yield CompletionResponse(text=chunk.message.content or "", delta=chunk.delta, raw=chunk.raw)

        return words()

    def _prepare_chat_with_tools(  # noqa: PLR0917 - the framework's signature
        self,
        tools: Sequence[BaseTool],
        user_msg: str | ChatMessage | None = None,
        chat_history: list[ChatMessage] | None = None,
        verbose: bool = False,
        allow_parallel_tool_calls: bool = False,
        tool_required: bool = False,
        **kwargs: Any,
    ) -> dict[str, Any]:
        messages = list(chat_history or [])
        if isinstance(user_msg, str):
            user_msg = ChatMessage(role="user", content=user_msg)
        if user_msg is not None:
            messages.append(user_msg)
        spelled = [tool.metadata.to_openai_tool(skip_length_check=True) for tool in tools]
        return {
            "messages": messages,
            "tools": spelled,
            "tool_choice": "required" if tool_required else "auto",
            **kwargs,
        }

    def get_tool_calls_from_response(
        self, response: ChatResponse, error_on_no_tool_call: bool = True, **kwargs: Any
    ) -> list[ToolSelection]:
        """Read the tool calls of an answer."""
        blocks = [block for block in response.message.blocks if isinstance(block, ToolCallBlock)]
        if not blocks and error_on_no_tool_call:
            raise ValueError("Expected at least one tool call, but got 0 tool calls.")
        return [
            ToolSelection(
                tool_id=block.tool_call_id or "",
                tool_name=block.tool_name,
                tool_kwargs=block.tool_kwargs if isinstance(block.tool_kwargs, dict) else json.loads(block.tool_kwargs),
            )
            for block in blocks
        ]


class ScriptedEmbedding(BaseEmbedding):
    """An embedding that knows a text by its letters; each call reaches the world."""

    _world: World = PrivateAttr()

    def __init__(self, world: World, **kwargs: Any) -> None:
        super().__init__(**{"model_name": "scripted-embedding", **kwargs})
        self._world = world

    def _vector(self, text: str) -> list[float]:
        self._world.reach("embedding")
        letters = [float(text.lower().count(letter)) for letter in "aeiourstln"]
        return [value / (sum(letters) or 1.0) for value in letters]

    def _get_query_embedding(self, query: str) -> list[float]:
        return self._vector(query)

    async def _aget_query_embedding(self, query: str) -> list[float]:
        return self._vector(query)

    def _get_text_embedding(self, text: str) -> list[float]:
        return self._vector(text)

    async def _aget_text_embedding(self, text: str) -> list[float]:
        return self._vector(text)
