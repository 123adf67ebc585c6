"""LlamaIndex's LLMs, embedding models, retrievers, rerankers and tools conform when they are taped."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from contextlib import nullcontext
from typing import Any
from uuid import uuid4

from llama_index.core.base.base_retriever import BaseRetriever
from llama_index.core.base.embeddings.base import BaseEmbedding
from llama_index.core.base.llms.types import (
    ChatMessage,
    ChatResponse,
    CompletionResponse,
    LLMMetadata,
    MessageRole,
)
from llama_index.core.llms.callbacks import llm_chat_callback, llm_completion_callback
from llama_index.core.llms.llm import LLM
from llama_index.core.postprocessor.types import BaseNodePostprocessor
from llama_index.core.schema import NodeWithScore, QueryBundle, TextNode
from llama_index.core.tools import FunctionTool, ToolOutput
from llama_index.core.tools.calling import call_tool

from agenttape_core.integration import Usage
from agenttape_core.testing import IntegrationConformance, World
from agenttape_llamaindex import tape


class WorldLLM(LLM):
    """An LLM that asks the world, with all eight leaf calls."""

    world: Any = None
    temperature: float = 0.5

    @property
    def metadata(self) -> LLMMetadata:
        return LLMMetadata(model_name="world", is_chat_model=True)

    @llm_chat_callback()
    def chat(self, messages: Sequence[ChatMessage], **kwargs: Any) -> ChatResponse:
        return _answer(self.world.ask(_asked(messages)))

    @llm_chat_callback()
    async def achat(self, messages: Sequence[ChatMessage], **kwargs: Any) -> ChatResponse:
        return _answer(await self.world.aask(_asked(messages)))

    @llm_chat_callback()
    def stream_chat(self, messages: Sequence[ChatMessage], **kwargs: Any) -> Any:
        for said, piece in _growing(self.world.stream(_asked(messages))):
            yield _answer(said, delta=piece)

    @llm_chat_callback()
    async def astream_chat(self, messages: Sequence[ChatMessage], **kwargs: Any) -> Any:
        async def chunks() -> AsyncIterator[ChatResponse]:
            said = ""
            async for piece in self.world.astream(_asked(messages)):
                said += piece
                yield _answer(said, delta=piece)

        return chunks()

    @llm_completion_callback()
    def complete(self, prompt: str, formatted: bool = False, **kwargs: Any) -> CompletionResponse:
        return _completion(self.world.ask(prompt))

    @llm_completion_callback()
    async def acomplete(self, prompt: str, formatted: bool = False, **kwargs: Any) -> CompletionResponse:
        return _completion(await self.world.aask(prompt))

    @llm_completion_callback()
    def stream_complete(self, prompt: str, formatted: bool = False, **kwargs: Any) -> Any:
        for said, piece in _growing(self.world.stream(prompt)):
            yield _completion(said, delta=piece)

    @llm_completion_callback()
    async def astream_complete(self, prompt: str, formatted: bool = False, **kwargs: Any) -> Any:
        async def chunks() -> AsyncIterator[CompletionResponse]:
            said = ""
            async for piece in self.world.astream(prompt):
                said += piece
                yield _completion(said, delta=piece)

        return chunks()


def _asked(messages: Sequence[ChatMessage]) -> str:
    return messages[-1].content or ""


def _growing(pieces: Iterator[str]) -> Iterator[tuple[str, str]]:
    said = ""
    for piece in pieces:
        said += piece
        yield said, piece


def _raw(text: str) -> dict[str, Any]:
    return {"usage": {"prompt_tokens": 3, "completion_tokens": len(text), "total_tokens": 3 + len(text)}}


def _answer(text: str, **more: Any) -> ChatResponse:
    return ChatResponse(message=ChatMessage(role=MessageRole.ASSISTANT, content=text), raw=_raw(text), **more)


def _completion(text: str, **more: Any) -> CompletionResponse:
    return CompletionResponse(text=text, raw=_raw(text), **more)


class LlamaIndexConformance(IntegrationConformance):
    """What all parts share: `tape` tapes them, and the automatic integration is installed."""

    def tape(self, original: Any) -> Any:
        return tape(original)

    def automatic(self) -> Any:
        return nullcontext()


class TestChat(LlamaIndexConformance):
    """A taped LLM conforms when it chats, in all shapes."""

    shapes = ("call", "acall", "stream", "astream")

    def make(self, world: World) -> LLM:
        return WorldLLM(world=world)

    def variants(self, world: World) -> Sequence[Any]:
        return [tape(WorldLLM(world=world, temperature=0.7))]

    def patched(self) -> Sequence[Any]:
        return [WorldLLM]

    def question(self, text: str) -> Any:
        return [ChatMessage(role=MessageRole.USER, content=text)]

    def call(self, subject: LLM, question: Any) -> Any:
        return subject.chat(question)

    async def acall(self, subject: LLM, question: Any) -> Any:
        return await subject.achat(question)

    def stream(self, subject: LLM, question: Any) -> Any:
        return subject.stream_chat(question)

    async def astream(self, subject: LLM, question: Any) -> Any:  # type: ignore[override]
        async for chunk in _closing(await subject.astream_chat(question)):
            yield chunk

    def text(self, answer: Any) -> str:
        if isinstance(answer, list):
            return "".join(chunk.delta or "" for chunk in answer)
        return str(answer.message.content)

    def change(self, answer: ChatResponse) -> None:
        answer.message.content = "changed"
        if answer.delta is not None:
            answer.delta = "changed"

    def usage(self, text: str) -> Usage:
        return Usage(input_tokens=3, output_tokens=len(text))


async def _closing(stream: Any) -> AsyncIterator[Any]:
    try:
        async for chunk in stream:
            yield chunk
    finally:
        await stream.aclose()


class TestCompletion(TestChat):
    """So it does when it completes; the other shapes are those of a chat."""

    shapes = ("call", "astream")

    def question(self, text: str) -> Any:
        return text

    def call(self, subject: LLM, question: Any) -> Any:
        return subject.complete(question)

    async def acall(self, subject: LLM, question: Any) -> Any:
        return await subject.acomplete(question)

    def stream(self, subject: LLM, question: Any) -> Any:
        return subject.stream_complete(question)

    async def astream(self, subject: LLM, question: Any) -> Any:  # type: ignore[override]
        async for chunk in _closing(await subject.astream_complete(question)):
            yield chunk

    def text(self, answer: Any) -> str:
        return super().text(answer) if isinstance(answer, list) else str(answer.text)

    def change(self, answer: Any) -> None:
        answer.text = "changed"
        if answer.delta is not None:
            answer.delta = "changed"


class WorldEmbedding(BaseEmbedding):
    """An embedding model whose vectors spell what the world says."""

    model_name: str = "world"
    world: Any = None

    def _get_query_embedding(self, query: str) -> list[float]:
        return _spelled(self.world.ask(query))

    async def _aget_query_embedding(self, query: str) -> list[float]:
        return _spelled(await self.world.aask(query))

    def _get_text_embedding(self, text: str) -> list[float]:
        return _spelled(self.world.ask(text))

    async def _aget_text_embedding(self, text: str) -> list[float]:
        return _spelled(await self.world.aask(text))


def _spelled(text: str) -> list[float]:
    return [float(ord(letter)) for letter in text]


class TestQueryEmbedding(LlamaIndexConformance):
    """A taped embedding model conforms for queries."""

    shapes = ("call", "acall")

    def make(self, world: World) -> BaseEmbedding:
        return WorldEmbedding(world=world)

    def variants(self, world: World) -> Sequence[Any]:
        return [tape(WorldEmbedding(world=world, model_name="another"))]

    def patched(self) -> Sequence[Any]:
        return [BaseEmbedding, WorldEmbedding]

    def call(self, subject: BaseEmbedding, question: Any) -> Any:
        return subject.get_query_embedding(question)

    async def acall(self, subject: BaseEmbedding, question: Any) -> Any:
        return await subject.aget_query_embedding(question)

    def text(self, answer: list[float]) -> str:
        return "".join(chr(int(number)) for number in answer)

    def change(self, answer: list[float]) -> None:
        answer[:] = _spelled("changed")

    def test_secrets_stay_out_of_the_files(self) -> None:
        """Secrets in a text reach no file. What a vector spells is no text, and nothing is replaced in it."""
        secret = "-".join(("sk", "proj", "Zx9" * 9))
        for shape in self.shapes:
            with self.record():
                live = self.says(shape, self.subject(World()), f"what is {secret} for?")
            assert not [name for name, content in self.files().items() if secret.encode() in content]
            with self.replay():
                assert self.says(shape, self.subject(), f"what is {secret} for?") == live

    def test_ids_of_the_run_are_mapped(self) -> None:
        """A text with an id of this run finds its recording. What a vector spells is no text, and has no ids."""
        for shape in self.shapes:
            with self.record():
                live = self.says(shape, self.subject(World()), f"what of {uuid4()}?")
            with self.replay():
                assert self.says(shape, self.subject(), f"what of {uuid4()}?") == live


def _found(text: str) -> list[NodeWithScore]:
    # Its id follows from its text, as that of a stored node does: it is not made when it is found.
    return [NodeWithScore(node=TextNode(text=text, id_=f"node {text}"), score=0.5)]


class WorldRetriever(BaseRetriever):
    """A retriever that asks the world."""

    def __init__(self, world: World, top_k: int = 2) -> None:
        super().__init__()
        self.world = world
        self.similarity_top_k = top_k

    def _retrieve(self, query_bundle: QueryBundle) -> list[NodeWithScore]:
        return _found(self.world.ask(query_bundle.query_str))

    async def _aretrieve(self, query_bundle: QueryBundle) -> list[NodeWithScore]:
        return _found(await self.world.aask(query_bundle.query_str))


class TestRetriever(LlamaIndexConformance):
    """A taped retriever conforms."""

    shapes = ("call", "acall")

    def make(self, world: World) -> Any:
        return WorldRetriever(world)

    def variants(self, world: World) -> Sequence[Any]:
        return [tape(WorldRetriever(world, top_k=7))]

    def patched(self) -> Sequence[Any]:
        return [BaseRetriever, WorldRetriever]

    def call(self, subject: Any, question: Any) -> Any:
        return subject.retrieve(question)

    async def acall(self, subject: Any, question: Any) -> Any:
        return await subject.aretrieve(question)

    def text(self, answer: list[NodeWithScore]) -> str:
        return str(answer[0].get_content())

    def ids(self, answer: list[NodeWithScore]) -> Sequence[str]:
        return [node.node_id for node in answer]

    def change(self, answer: list[NodeWithScore]) -> None:
        answer[0] = NodeWithScore(node=TextNode(text="changed"))


class WorldPostprocessor(BaseNodePostprocessor):
    """A reranker that asks the world."""

    world: Any = None
    top_n: int = 2

    def _postprocess_nodes(self, nodes: list[NodeWithScore], query_bundle: Any = None) -> list[NodeWithScore]:
        return _found(self.world.ask(query_bundle.query_str))


class TestPostprocessor(TestRetriever):
    """A taped reranker conforms."""

    shapes = ("call",)

    def make(self, world: World) -> Any:
        return WorldPostprocessor(world=world)

    def variants(self, world: World) -> Sequence[Any]:
        return [tape(WorldPostprocessor(world=world, top_n=7))]

    def patched(self) -> Sequence[Any]:
        return [BaseNodePostprocessor, WorldPostprocessor]

    def call(self, subject: Any, question: Any) -> Any:
        return subject.postprocess_nodes(_found("a node"), query_str=question)


class TestTool(LlamaIndexConformance):
    """A taped tool conforms."""

    shapes = ("call", "acall")

    def make(self, world: World) -> FunctionTool:
        def ask(question: str) -> str:
            """Ask the world."""
            return world.ask(question)

        async def aask(question: str) -> str:
            """Ask the world."""
            return await world.aask(question)

        return FunctionTool.from_defaults(fn=ask, async_fn=aask)

    def patched(self) -> Sequence[Any]:
        return [FunctionTool]

    def call(self, subject: FunctionTool, question: Any) -> Any:
        return subject.call(question=question)

    async def acall(self, subject: FunctionTool, question: Any) -> Any:
        return await subject.acall(question=question)

    def text(self, answer: ToolOutput) -> str:
        return answer.content

    def change(self, answer: ToolOutput) -> None:
        answer.content = "changed"

    def handlers(self) -> Sequence[Callable[[Any], Any]]:
        return [_Handled]


class _Handled:
    """A tool as agents call it: what it raises becomes an output that says so."""

    def __init__(self, tool: FunctionTool) -> None:
        self.tool = tool

    def call(self, question: str) -> ToolOutput:
        return call_tool(self.tool, {"question": question})

    async def acall(self, question: str) -> ToolOutput:
        return await self.tool.acall(question=question)
