"""A scripted world for the tests of substitution: models and tools that count how often they are really reached.

Everything here answers with the number of the call, so no two answers are alike and an equal one was replayed. A world
that is `gone` refuses: a replay that reaches it fails, even where the framework eats the error.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, TypeAlias

from langchain_core.callbacks import BaseCallbackHandler
from langchain_core.embeddings import Embeddings
from langchain_core.language_models import BaseChatModel
from langchain_core.messages import AIMessage, AIMessageChunk, BaseMessage
from langchain_core.messages.tool import tool_call_chunk
from langchain_core.outputs import ChatGeneration, ChatGenerationChunk, ChatResult
from langchain_core.utils.function_calling import convert_to_openai_tool
from pydantic import BaseModel

from agenttape_core import use_cassette

from ..kit.world import World

Reply: TypeAlias = Callable[[Sequence[BaseMessage], int], AIMessage]


def numbered(messages: Sequence[BaseMessage], number: int) -> AIMessage:
    """Answer with the number of the call."""
    usage = {"input_tokens": 3, "output_tokens": number, "total_tokens": 3 + number}
    return AIMessage(f"answer {number} to {messages[-1].text}", usage_metadata=usage)


class FakeChat(BaseChatModel):
    """The base of the fakes: they answer with `reply`, and bind tools as OpenAI's client does.

    Args:
        world: The world that is reached by each call.
        reply: Makes the answer of the conversation and the number of the call.
        model_name: What the provider would be asked for.
    """

    world: Any
    reply: Any = numbered
    model_name: str = "fake-1"

    @property
    def _llm_type(self) -> str:
        return "fake"

    @property
    def _identifying_params(self) -> dict[str, Any]:
        return {"model": self.model_name}

    def bind_tools(self, tools: Sequence[Any], *, tool_choice: str | None = None, **kwargs: Any) -> Any:
        """Bind tools in OpenAI's spelling."""
        chosen = {"tool_choice": tool_choice} if tool_choice else {}
        return self.bind(tools=[convert_to_openai_tool(tool) for tool in tools], **chosen, **kwargs)

    def said(self, messages: Sequence[BaseMessage]) -> AIMessage:
        """Reach the world and return what it says."""
        answer: AIMessage = self.reply(messages, self.world.reach("model"))
        return answer

    def result(self, messages: Sequence[BaseMessage]) -> ChatResult:
        """The result of `_generate`."""
        message = self.said(messages)
        return ChatResult(generations=[ChatGeneration(message=message)], llm_output={"model_name": self.model_name})

    def chunks(self, messages: Sequence[BaseMessage]) -> Iterator[ChatGenerationChunk]:
        """The chunks of `_stream`: one per word, then the tool calls in two halves each, then the usage."""
        message = self.said(messages)
        for number, word in enumerate(str(message.content).split(" ")):
            yield _chunk(content=word if number == 0 else f" {word}")
        for index, call in enumerate(message.tool_calls):
            text = _json(call["args"])
            yield _chunk(tool_call_chunks=[_part(call["name"], text[:5], call["id"], index)])
            yield _chunk(tool_call_chunks=[_part(None, text[5:], None, index)])
        yield _chunk(usage_metadata=message.usage_metadata, response_metadata={"finish_reason": "stop"})

    def _generate(self, messages: Any, stop: Any = None, run_manager: Any = None, **kwargs: Any) -> ChatResult:
        return self.result(messages)


class PlainChat(FakeChat):
    """Has only `_generate`."""


class StreamingChat(FakeChat):
    """Has `_generate` and `_stream`."""

    def _stream(
        self, messages: Any, stop: Any = None, run_manager: Any = None, **kwargs: Any
    ) -> Iterator[ChatGenerationChunk]:
        for chunk in self.chunks(messages):
            if run_manager is not None:
                run_manager.on_llm_new_token(chunk.text, chunk=chunk)
            yield chunk


class DelegatingChat(StreamingChat):
    """Its `_generate` calls its `_stream`, as several providers do."""

    def _generate(self, messages: Any, stop: Any = None, run_manager: Any = None, **kwargs: Any) -> ChatResult:
        from langchain_core.language_models.chat_models import generate_from_stream

        return generate_from_stream(self._stream(messages, stop=stop, **kwargs))


class AsyncChat(FakeChat):
    """Has `_generate` and an `_agenerate` of its own."""

    async def _agenerate(self, messages: Any, stop: Any = None, run_manager: Any = None, **kwargs: Any) -> ChatResult:
        return self.result(messages)


class NativeChat(StreamingChat):
    """Has all four leaves; the asynchronous ones delegate to each other."""

    async def _agenerate(self, messages: Any, stop: Any = None, run_manager: Any = None, **kwargs: Any) -> ChatResult:
        from langchain_core.language_models.chat_models import agenerate_from_stream

        return await agenerate_from_stream(self._astream(messages, stop=stop, **kwargs))

    async def _astream(
        self, messages: Any, stop: Any = None, run_manager: Any = None, **kwargs: Any
    ) -> AsyncIterator[ChatGenerationChunk]:
        for chunk in self.chunks(messages):
            if run_manager is not None:
                await run_manager.on_llm_new_token(chunk.text, chunk=chunk)
            yield chunk


FAKES: tuple[type[FakeChat], ...] = (PlainChat, StreamingChat, DelegatingChat, AsyncChat, NativeChat)
"""One for each way in which providers implement their leaves."""


def recorded_runs(folder: Path, plain: Any, streaming: Any, question: Any, world: World) -> dict[str, Path]:
    """Record a run of an agent, and one of an agent that streams its tokens; the world is gone then."""
    paths = {name: folder / f"{name}.yaml" for name in ("plain", "streamed")}
    world.gone = False
    with use_cassette(paths["plain"], mode="all"):
        plain.invoke(question)
    with use_cassette(paths["streamed"], mode="all"):
        list(streaming.stream(question, stream_mode="messages"))
    world.gone = True
    return paths


def calling(*calls: tuple[str, dict[str, Any]], number: int, text: str = "") -> AIMessage:
    """An answer that calls tools; the ids follow from the number of the call, as far as it is unique."""
    asked = [
        {"name": name, "args": args, "id": f"call_{number}_{index}", "type": "tool_call"}
        for index, (name, args) in enumerate(calls)
    ]
    return AIMessage(text, tool_calls=asked)


def in_turn(*turns: Sequence[tuple[str, dict[str, Any]]], then: str = "done {number}") -> Reply:
    """Return the replies of a model that calls tools, turn by turn, and then answers.

    Args:
        turns: The calls of each turn.
        then: The answer, of the `number` of the call and the text of the `last` message.
    """

    def reply(messages: Sequence[BaseMessage], number: int) -> AIMessage:
        turn = sum(isinstance(message, AIMessage) for message in messages)
        if turn < len(turns):
            return calling(*turns[turn], number=number)
        return AIMessage(then.format(number=number, last=messages[-1].text))

    return reply


def _json(args: Any) -> str:
    import json

    return json.dumps(args)


def _part(name: str | None, args: str, call_id: str | None, index: int) -> Any:
    return tool_call_chunk(name=name, args=args, id=call_id, index=index)


def _chunk(**fields: Any) -> ChatGenerationChunk:
    return ChatGenerationChunk(message=AIMessageChunk(**{"content": "", **fields}))


def by_key(streamed: list[dict[str, Any]]) -> dict[str, list[Any]]:
    """Return the chunks of each key: a map streams its branches in the order of their threads."""
    keys = sorted({key for chunk in streamed for key in chunk})
    return {key: [chunk[key] for chunk in streamed if key in chunk] for key in keys}


def asking_for(*cities: str) -> Any:
    """Return a reply that requests the weather of each city in turn, then repeats the last tool's answer."""
    return in_turn(*([("weather", {"city": city})] for city in cities), then="said: {last}")


class Numbers(Embeddings):
    """Embeds, never alike."""

    def __init__(self, world: World) -> None:
        self.world = world

    def embed_query(self, text: str) -> list[float]:
        return [float(self.world.reach("embed"))]

    def embed_documents(self, texts: list[str]) -> list[list[float]]:
        return [self.embed_query(text) for text in texts]


class RunIds(BaseCallbackHandler):
    """Keeps the name and the id of each run of a chain or a chat model."""

    run_inline = True

    def __init__(self) -> None:
        self.runs: list[tuple[str, str]] = []

    def on_chain_start(self, serialized: Any, inputs: Any, **facts: Any) -> None:
        self.runs.append((str(facts.get("name")), str(facts["run_id"])))

    def on_chat_model_start(self, serialized: Any, messages: Any, **facts: Any) -> None:
        self.runs.append(("model", str(facts["run_id"])))


class Verdict(BaseModel):
    """The conclusion of an agent."""

    good: bool
    why: str
