"""Scripted LLMs and embedding models that count how often they are really reached.

Everything here answers with the number of the call, so no two answers are alike and an equal one was replayed. A world
that is `gone` refuses, and remembers who tried.
"""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any

from llama_index.core.base.embeddings.base_sparse import BaseSparseEmbedding
from llama_index.core.base.llms.generic_utils import (
    completion_response_to_chat_response,
    stream_completion_response_to_chat_response,
)
from llama_index.core.base.llms.generic_utils import messages_to_prompt as generic_messages_to_prompt
from llama_index.core.base.llms.types import (
    ChatMessage,
    ChatResponse,
    CompletionResponse,
    LLMMetadata,
    LogProb,
    TextBlock,
    ThinkingBlock,
    ToolCallBlock,
)
from llama_index.core.callbacks.base_handler import BaseCallbackHandler
from llama_index.core.embeddings import BaseEmbedding, MultiModalEmbedding
from llama_index.core.instrumentation import get_dispatcher
from llama_index.core.instrumentation.event_handlers import BaseEventHandler
from llama_index.core.llms.callbacks import llm_chat_callback, llm_completion_callback
from llama_index.core.llms.custom import CustomLLM
from llama_index.core.llms.function_calling import FunctionCallingLLM
from llama_index.core.llms.llm import LLM, ToolSelection
from pydantic import PrivateAttr

from .scripted import World

HELLO = [ChatMessage(role="system", content="Be short."), ChatMessage(role="user", content="Hello")]


def blocks_of(number: int) -> list[Any]:
    """Return the blocks of answer `number`: a thought, a text and a tool call."""
    return [
        ThinkingBlock(content=f"thought {number}", num_tokens=2, additional_information={"signature": "s"}),
        TextBlock(text=f"answer {number}"),
        ToolCallBlock(tool_call_id=f"call_{number}", tool_name="add", tool_kwargs={"a": number, "b": [1, 2.5, None]}),
    ]


class FakeLLM(LLM):
    """The base of the fakes.

    Args:
        world: What is reached by each call.
        temperature: What the provider would be told.
    """

    temperature: float = 0.5
    fails: bool = False
    fails_after: int = 1000
    calls_functions: bool = False

    _world: World = PrivateAttr()

    def __init__(self, world: World, **options: Any) -> None:
        super().__init__(**options)
        self._world = world

    @property
    def metadata(self) -> LLMMetadata:
        return LLMMetadata(model_name="fake-1", is_chat_model=True, is_function_calling_model=self.calls_functions)

    def _chat(self, what: str) -> ChatResponse:
        number = self._world.reach(what)
        if self.fails:
            raise ValueError(f"refused {number}")
        return ChatResponse(
            message=ChatMessage(role="assistant", blocks=blocks_of(number), additional_kwargs={"refusal": None}),
            raw={"id": f"chatcmpl-{number}", "usage": {"prompt_tokens": 7, "completion_tokens": number}},
            logprobs=[[LogProb(token="a", logprob=-0.5, bytes=[97])]],
            additional_kwargs={"prompt_tokens": 7},
        )

    def _complete(self, what: str) -> CompletionResponse:
        number = self._world.reach(what)
        if self.fails:
            raise ValueError(f"refused {number}")
        return CompletionResponse(text=f"text {number}", raw={"n": number}, additional_kwargs={"total": number})

    def _chunks(self, what: str) -> Iterator[ChatResponse]:
        number, text = self._world.reach(what), ""
        for place, piece in enumerate(["an", "swer", " ", str(number)]):
            if place == self.fails_after:
                raise ConnectionError(f"broken {number}")
            text += piece
            blocks = [TextBlock(text=text)]
            if place > 1:  # the arguments of a tool call arrive in pieces
                arguments = '{"a": 12}'[: 4 * (place - 1)]
                blocks.append(ToolCallBlock(tool_call_id="c1", tool_name="add", tool_kwargs=arguments))
            message = ChatMessage(role="assistant", blocks=blocks)
            yield ChatResponse(message=message, delta=piece, raw={"id": number, "choices": [{"delta": piece}]})

    def _texts(self, what: str) -> Iterator[CompletionResponse]:
        number, text = self._world.reach(what), ""
        for place, piece in enumerate(["te", "xt", f" {number}"]):
            if place == self.fails_after:
                raise ConnectionError(f"broken {number}")
            text += piece
            yield CompletionResponse(text=text, delta=piece)


async def as_async(items: Iterator[Any]) -> AsyncIterator[Any]:
    """Yield what an iterator yields."""
    for item in items:
        yield item


class LeafLLM(FakeLLM):
    """Implements all eight leaf calls itself, as a provider's class does."""

    @llm_chat_callback()
    def chat(self, messages: Sequence[ChatMessage], **kwargs: Any) -> ChatResponse:
        return self._chat("chat")

    @llm_completion_callback()
    def complete(self, prompt: str, formatted: bool = False, **kwargs: Any) -> CompletionResponse:
        return self._complete("complete")

    @llm_chat_callback()
    def stream_chat(self, messages: Sequence[ChatMessage], **kwargs: Any) -> Any:
        if self.fails:
            raise ValueError("refused at once")
        return self._chunks("stream_chat")

    @llm_completion_callback()
    def stream_complete(self, prompt: str, formatted: bool = False, **kwargs: Any) -> Any:
        return self._texts("stream_complete")

    @llm_chat_callback()
    async def achat(self, messages: Sequence[ChatMessage], **kwargs: Any) -> ChatResponse:
        return self._chat("achat")

    @llm_completion_callback()
    async def acomplete(self, prompt: str, formatted: bool = False, **kwargs: Any) -> CompletionResponse:
        return self._complete("acomplete")

    @llm_chat_callback()
    async def astream_chat(self, messages: Sequence[ChatMessage], **kwargs: Any) -> Any:
        if self.fails:
            raise ValueError("refused at once")
        return as_async(self._chunks("astream_chat"))

    @llm_completion_callback()
    async def astream_complete(self, prompt: str, formatted: bool = False, **kwargs: Any) -> Any:
        return as_async(self._texts("astream_complete"))


class DelegatingLLM(LeafLLM):
    """Implements some leaf calls by others of its own, and some by those of its base class."""

    @llm_chat_callback()
    def chat(self, messages: Sequence[ChatMessage], **kwargs: Any) -> ChatResponse:
        return super().chat(messages, **kwargs)

    @llm_chat_callback()
    async def achat(self, messages: Sequence[ChatMessage], **kwargs: Any) -> ChatResponse:
        return self.chat(messages, **kwargs)

    @llm_chat_callback()
    async def astream_chat(self, messages: Sequence[ChatMessage], **kwargs: Any) -> Any:
        async def chunks() -> AsyncIterator[ChatResponse]:
            for chunk in self.stream_chat(messages, **kwargs):
                yield chunk

        return chunks()

    @llm_completion_callback()
    async def acomplete(self, prompt: str, formatted: bool = False, **kwargs: Any) -> CompletionResponse:
        return self._same(prompt, formatted, **kwargs)

    def _same(self, prompt: str, formatted: bool, **kwargs: Any) -> CompletionResponse:
        return self.complete(prompt, formatted=formatted, **kwargs)

    @llm_completion_callback()
    async def astream_complete(self, prompt: str, formatted: bool = False, **kwargs: Any) -> Any:
        return as_async(self.stream_complete(prompt, formatted=formatted, **kwargs))


class PromptingLLM(LeafLLM):
    """Makes prompts of chats, as `OpenAILike` does for models that take no messages."""

    @llm_chat_callback()
    def chat(self, messages: Sequence[ChatMessage], **kwargs: Any) -> ChatResponse:
        prompt = generic_messages_to_prompt(messages)
        return completion_response_to_chat_response(self.complete(prompt, formatted=True, **kwargs))

    @llm_chat_callback()
    def stream_chat(self, messages: Sequence[ChatMessage], **kwargs: Any) -> Any:
        prompt = generic_messages_to_prompt(messages)
        return stream_completion_response_to_chat_response(self.stream_complete(prompt, formatted=True, **kwargs))


class PromptLLM(FakeLLM, CustomLLM):
    """Implements only what a `CustomLLM` must."""

    @llm_completion_callback()
    def complete(self, prompt: str, formatted: bool = False, **kwargs: Any) -> CompletionResponse:
        return self._complete("complete")

    @llm_completion_callback()
    def stream_complete(self, prompt: str, formatted: bool = False, **kwargs: Any) -> Any:
        return self._texts("stream_complete")


class CallingLLM(LeafLLM, FunctionCallingLLM):
    """Calls the first tool that it is given, with the number of the call."""

    calls_functions: bool = True

    def _prepare_chat_with_tools(  # noqa: PLR0917 - as the framework has it
        self,
        tools: Any,
        user_msg: Any = None,
        chat_history: Any = None,
        verbose: bool = False,
        allow_parallel_tool_calls: bool = False,
        tool_required: bool = False,
        **kwargs: Any,
    ) -> dict[str, Any]:
        messages = [*(chat_history or [])]
        if user_msg is not None:
            messages.append(ChatMessage(role="user", content=user_msg) if isinstance(user_msg, str) else user_msg)
        specs = [tool.metadata.to_openai_tool() for tool in tools]
        choice = "required" if tool_required else "auto"
        return {"messages": messages, "tools": specs or None, "tool_choice": choice if specs else None, **kwargs}

    def get_tool_calls_from_response(
        self, response: ChatResponse, error_on_no_tool_call: bool = True, **kwargs: Any
    ) -> list[ToolSelection]:
        return [
            ToolSelection(tool_id=block.tool_call_id, tool_name=block.tool_name, tool_kwargs=block.tool_kwargs)
            for block in response.message.blocks
            if isinstance(block, ToolCallBlock)
        ]

    def _answer(self, what: str, tools: Any) -> ChatResponse:
        number = self._world.reach(what)
        if not tools:
            return ChatResponse(message=ChatMessage(role="assistant", content=f"plain {number}"))
        name = tools[0]["function"]["name"]
        call = ToolCallBlock(tool_call_id=f"t{number}", tool_name=name, tool_kwargs={"name": "Paris", "size": number})
        return ChatResponse(message=ChatMessage(role="assistant", blocks=[call]))

    @llm_chat_callback()
    def chat(self, messages: Sequence[ChatMessage], tools: Any = None, **kwargs: Any) -> ChatResponse:
        return self._answer("chat", tools)

    @llm_chat_callback()
    async def achat(self, messages: Sequence[ChatMessage], tools: Any = None, **kwargs: Any) -> ChatResponse:
        return self._answer("achat", tools)

    @llm_chat_callback()
    def stream_chat(self, messages: Sequence[ChatMessage], tools: Any = None, **kwargs: Any) -> Any:
        return iter_once(self, tools)

    @llm_chat_callback()
    async def astream_chat(self, messages: Sequence[ChatMessage], tools: Any = None, **kwargs: Any) -> Any:
        return as_async(iter_once(self, tools))


def iter_once(llm: CallingLLM, tools: Any) -> Iterator[ChatResponse]:
    """Yield the answer of an LLM as a stream of one chunk."""
    response = llm._answer("stream", tools)
    response.delta = response.message.content or ""
    yield response


class FakeEmbedding(BaseEmbedding):
    """Embeds a text as its length and the number of the call, whole batches in one call."""

    dimensions: int = 3

    _world: World = PrivateAttr()

    def __init__(self, world: World, **options: Any) -> None:
        super().__init__(model_name="embed-1", **options)
        self._world = world

    def _vector(self, text: str, number: int) -> list[float]:
        return [float(len(text)), number + 0.5, *[0.25] * (self.dimensions - 2)]

    def _get_query_embedding(self, query: str) -> list[float]:
        return self._vector(query, self._world.reach("query"))

    async def _aget_query_embedding(self, query: str) -> list[float]:
        return self._vector(query, self._world.reach("aquery"))

    def _get_text_embedding(self, text: str) -> list[float]:
        return self._vector(text, self._world.reach("text"))

    def _get_text_embeddings(self, texts: list[str]) -> list[list[float]]:
        number = self._world.reach("texts")
        return [self._vector(text, number) for text in texts]


class FakeImages(FakeEmbedding, MultiModalEmbedding):
    """Embeds images, too."""

    def _get_image_embedding(self, img_file_path: Any) -> list[float]:
        return [float(self._world.reach("image")), self._size(img_file_path)]

    async def _aget_image_embedding(self, img_file_path: Any) -> list[float]:
        return [float(self._world.reach("aimage")), self._size(img_file_path)]

    def _size(self, image: Any) -> float:
        return float(len(image if isinstance(image, str) else image.read()))


class FakeSparse(BaseSparseEmbedding):
    """Embeds sparsely."""

    _world: World = PrivateAttr()

    def __init__(self, world: World) -> None:
        super().__init__(model_name="sparse-1")
        self._world = world

    def _get_query_embedding(self, query: str) -> dict[int, float]:
        return {self._world.reach("sparse"): 0.5}

    async def _aget_query_embedding(self, query: str) -> dict[int, float]:
        return {self._world.reach("asparse"): 0.5}

    def _get_text_embedding(self, text: str) -> dict[int, float]:
        return {len(text): float(self._world.reach("sparse"))}

    async def _aget_text_embedding(self, text: str) -> dict[int, float]:
        return {len(text): float(self._world.reach("asparse"))}


class Callbacks(BaseCallbackHandler):
    """Keeps the older callbacks: their kinds and the keys of their payloads, with a number for each event."""

    def __init__(self) -> None:
        super().__init__([], [])
        self.told: list[Any] = []
        self._begun: list[str] = []

    def on_event_start(self, event_type: Any, payload: Any = None, event_id: str = "", *_: Any, **__: Any) -> str:
        self._begun.append(event_id)
        self.told.append(("start", len(self._begun), event_type, sorted(payload or {})))
        return event_id

    def on_event_end(self, event_type: Any, payload: Any = None, event_id: str = "", **_: Any) -> None:
        self.told.append(("end", self._begun.index(event_id) + 1, event_type, sorted(payload or {})))

    def start_trace(self, trace_id: str | None = None) -> None:
        """Ignore traces."""

    def end_trace(self, trace_id: str | None = None, trace_map: Any = None) -> None:
        """Ignore traces."""


_listener: ContextVar[Any] = ContextVar("listener", default=None)


class _Listener(BaseEventHandler):
    events: list[Any]

    def handle(self, event: Any, **_: Any) -> None:
        if _listener.get() is not self:  # of another test, whose thread or task goes on
            return
        fields = {
            name: str(value) if isinstance(value, BaseException) else value
            for name, value in event.model_dump(mode="python").items()
            if name not in {"id_", "timestamp", "span_id", "tags"}
        }
        self.events.append((type(event).__name__, (event.span_id or "")[:-37], fields))


@contextmanager
def events_of() -> Iterator[list[Any]]:
    """Collect the events that happen inside, in this context: their class, the name of their span, their fields."""
    listener, root = _Listener(events=[]), get_dispatcher()
    root.event_handlers.append(listener)
    token = _listener.set(listener)
    try:
        yield listener.events
    finally:
        _listener.reset(token)
        root.event_handlers.remove(listener)


def done(value: Any) -> Any:
    """Return a value, awaited if it must be."""
    return asyncio.run(value) if inspect.isawaitable(value) else value


def with_events(call: Callable[[], Any]) -> tuple[Any, list[Any]]:
    """Return the value of a call, and the events that happened."""
    with events_of() as events:
        value = done(call())
    return value, events


Call = Callable[[Any], Any]


async def drained(stream: Any) -> list[Any]:
    """Return the items of an async stream."""
    return [item async for item in stream]


async def _astream_chat(llm: Any) -> list[Any]:
    return await drained(await llm.astream_chat(HELLO))


async def _astream_complete(llm: Any) -> list[Any]:
    return await drained(await llm.astream_complete("Once"))


CALLS: dict[str, Call] = {
    "chat": lambda llm: llm.chat(HELLO),
    "complete": lambda llm: llm.complete("Once"),
    "stream_chat": lambda llm: list(llm.stream_chat(HELLO)),
    "stream_complete": lambda llm: list(llm.stream_complete("Once")),
    "achat": lambda llm: llm.achat(HELLO),
    "acomplete": lambda llm: llm.acomplete("Once"),
    "astream_chat": _astream_chat,
    "astream_complete": _astream_complete,
}
"""The eight leaf calls; those that are awaited return an awaitable."""
