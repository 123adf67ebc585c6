"""LangChain's chat models and tools conform when they are taped."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import nullcontext
from typing import Any

from langchain_core.language_models import BaseChatModel
from langchain_core.messages import AIMessage, AIMessageChunk, BaseMessage, ToolMessage
from langchain_core.outputs import ChatGeneration, ChatGenerationChunk, ChatResult
from langchain_core.runnables.config import ContextThreadPoolExecutor
from langchain_core.tools import BaseTool

from agenttape_core.integration import Usage
from agenttape_core.testing import Branch, IntegrationConformance, World, run_conformance
from agenttape_langchain import tape


class WorldChat(BaseChatModel):
    """A chat model that asks the world, with the four leaves that a provider can have."""

    world: Any
    temperature: float = 0.5

    @property
    def _llm_type(self) -> str:
        return "world"

    @property
    def _identifying_params(self) -> dict[str, Any]:
        return {"temperature": self.temperature}

    def _generate(self, messages: Any, stop: Any = None, run_manager: Any = None, **kwargs: Any) -> ChatResult:
        return _result(self.world.ask(_asked(messages)))

    async def _agenerate(self, messages: Any, stop: Any = None, run_manager: Any = None, **kwargs: Any) -> ChatResult:
        return _result(await self.world.aask(_asked(messages)))

    def _stream(
        self, messages: Any, stop: Any = None, run_manager: Any = None, **kwargs: Any
    ) -> Iterator[ChatGenerationChunk]:
        said = ""
        for piece in self.world.stream(_asked(messages)):
            said += piece
            yield _chunk(content=piece)
        yield _chunk(content="", usage_metadata=_counts(said))

    async def _astream(
        self, messages: Any, stop: Any = None, run_manager: Any = None, **kwargs: Any
    ) -> AsyncIterator[ChatGenerationChunk]:
        said = ""
        async for piece in self.world.astream(_asked(messages)):
            said += piece
            yield _chunk(content=piece)
        yield _chunk(content="", usage_metadata=_counts(said))


def _asked(messages: Sequence[BaseMessage]) -> str:
    return str(messages[-1].content)


def _counts(text: str) -> Any:
    return {"input_tokens": 3, "output_tokens": len(text), "total_tokens": 3 + len(text)}


def _result(text: str) -> ChatResult:
    return ChatResult(generations=[ChatGeneration(message=AIMessage(text, usage_metadata=_counts(text)))])


def _chunk(**fields: Any) -> ChatGenerationChunk:
    return ChatGenerationChunk(message=AIMessageChunk(**fields))


class LangChainConformance(IntegrationConformance):
    """What chat models and tools share: they are runnables, and the automatic integration is installed."""

    def tape(self, original: Any) -> Any:
        return tape(original)

    def call(self, subject: Any, question: Any) -> Any:
        return subject.invoke(question)

    async def acall(self, subject: Any, question: Any) -> Any:
        return await subject.ainvoke(question)

    def automatic(self) -> Any:
        return nullcontext()

    def patched(self) -> Sequence[Any]:
        return [BaseChatModel, BaseTool, ContextThreadPoolExecutor, ThreadPoolExecutor]


class TestChatModel(LangChainConformance):
    """A taped chat model conforms, in all shapes."""

    shapes = ("call", "acall", "stream", "astream")

    def make(self, world: World) -> BaseChatModel:
        return WorldChat(world=world)

    def variants(self, world: World) -> Sequence[Any]:
        return [
            tape(WorldChat(world=world, temperature=0.7)),
            tape(WorldChat(world=world)).bind(tools=[{"type": "function", "function": {"name": "look_up"}}]),
            tape(WorldChat(world=world)).bind(stop=["."]),
        ]

    def stream(self, subject: Any, question: Any) -> Any:
        return subject.stream(question)

    def astream(self, subject: Any, question: Any) -> Any:
        return subject.astream(question)

    def text(self, answer: Any) -> str:
        return super().text(answer) if isinstance(answer, list) else answer.content

    def ids(self, answer: AIMessage) -> Sequence[str]:
        assert answer.id
        return [answer.id]

    def change(self, answer: BaseMessage) -> None:
        answer.content = "changed"

    def usage(self, text: str) -> Usage:
        return Usage(input_tokens=3, output_tokens=len(text))

    def handlers(self) -> Sequence[Callable[[Any], Any]]:
        return [
            lambda model: model.with_retry(stop_after_attempt=3, wait_exponential_jitter=False),
            lambda model: model.with_fallbacks([WorldChat(world=model.world)]),
        ]


def test_chat_model_in_a_pool() -> None:
    """Equal questions from the threads of LangChain's pool each find their own answer, and give a stable file."""

    class PooledChatModel(TestChatModel):
        """A chat model that is called from the threads of LangChain's own pool, which begin in any order."""

        __test__ = False
        shapes = ("call", "stream")

        def run_threads(self, works: Sequence[Branch]) -> list[Any]:
            with ContextThreadPoolExecutor(len(works)) as pool:
                return list(pool.map(lambda work: work(), works))

    checks = {"test_equal_questions_in_threads", "test_order_of_completion_changes_nothing"}
    results = run_conformance(PooledChatModel, checks)
    assert [str(result) for result in results if result.outcome != "passed"] == []
    assert len(results) == len(checks)


class WorldTool(BaseTool):
    """A tool that asks the world."""

    name: str = "ask"
    description: str = "Ask the world."
    world: Any = None

    def _run(self, question: str) -> str:
        answer: str = self.world.ask(question)
        return answer

    async def _arun(self, question: str) -> str:
        answer: str = await self.world.aask(question)
        return answer


class TestTool(LangChainConformance):
    """A taped tool that a model calls conforms: it answers with a message."""

    shapes = ("call", "acall")

    def make(self, world: World) -> BaseTool:
        return WorldTool(world=world)

    def question(self, text: str) -> Any:
        return {"type": "tool_call", "id": "call_1", "name": "ask", "args": {"question": text}}

    def text(self, answer: ToolMessage) -> str:
        return str(answer.content)

    def ids(self, answer: ToolMessage) -> Sequence[str]:
        return [answer.tool_call_id]

    def change(self, answer: ToolMessage) -> None:
        answer.content = "changed"

    def handlers(self) -> Sequence[Callable[[Any], Any]]:
        return [
            lambda tool: tool.with_retry(stop_after_attempt=3, wait_exponential_jitter=False),
            lambda tool: tape(WorldTool(world=tool.world, handle_tool_error=True, handle_validation_error=True)),
        ]
