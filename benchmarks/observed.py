"""A turn of an observed agent, against the same turn that nobody observes: LangChain's handler and LlamaIndex's."""

from __future__ import annotations

import asyncio
import functools
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import nullcontext
from pathlib import Path
from typing import Any

from langchain.agents import create_agent
from langchain_core.language_models.fake_chat_models import GenericFakeChatModel
from langchain_core.messages import AIMessage
from langchain_core.utils.function_calling import convert_to_openai_tool
from langgraph.checkpoint.memory import InMemorySaver
from llama_index.core.agent.workflow import FunctionAgent
from llama_index.core.base.llms.types import ChatMessage, ChatResponse, ToolCallBlock
from llama_index.core.llms.callbacks import llm_chat_callback
from llama_index.core.llms.mock import MockFunctionCallingLLM
from measure import FULL, Row, Scale

from agenttape_langchain import TapeCallbackHandler
from agenttape_llamaindex import TapeEventHandler

_TURNS = (20, 160)
_ROUNDS = 3


def look(city: str) -> str:
    """Look."""
    return f"{city}: {'rain ' * 50}"


class Caller(GenericFakeChatModel):
    """Calls a tool in each turn."""

    model: str = "caller"

    def bind_tools(self, tools: Sequence[Any], **options: Any) -> Any:
        """Pass the tools with each request, as the models of providers do."""
        return self.bind(tools=[convert_to_openai_tool(tool) for tool in tools], **options)


class Asked(MockFunctionCallingLLM):
    """A model whose asynchronous method is its own, as those of providers have one: its base calls the other."""

    @llm_chat_callback()
    async def achat(self, messages: Sequence[ChatMessage], **options: Any) -> ChatResponse:
        """Answer a conversation."""
        return ChatResponse(message=self.response_generator(messages, **options))


def _langchain(turns: int, handler: Any, saver: Any = None) -> None:
    calls = [AIMessage("", tool_calls=[{"name": "look", "args": {"city": str(n)}, "id": str(n)}]) for n in range(turns)]
    agent = create_agent(Caller(messages=iter([*calls, AIMessage("done")])), [look], checkpointer=saver)
    callbacks = [handler] if handler is not None else []
    config: Any = {"callbacks": callbacks, "recursion_limit": 10 * turns, "configurable": {"thread_id": "1"}}
    agent.invoke({"messages": [("user", "Look around")]}, config=config)


def _with_checkpoints(turns: int, handler: Any) -> None:
    """Run LangChain's agent with checkpoints, which take longer in a longer conversation, observed or not."""
    _langchain(turns, handler, InMemorySaver())


def _llamaindex(turns: int, _handler: Any) -> None:
    def answer(messages: Sequence[ChatMessage], **_: Any) -> ChatMessage:
        seen = sum(message.role == "tool" for message in messages)
        call = ToolCallBlock(tool_call_id=str(seen), tool_name="look", tool_kwargs={"city": str(seen)})
        block: Any = {"blocks": [call]} if seen < turns else {"content": "done"}
        return ChatMessage(role="assistant", **block)

    async def run() -> None:
        llm = Asked(response_generator=answer)
        await FunctionAgent(tools=[look], llm=llm, streaming=False).run("Look around", max_iterations=turns + 2)

    asyncio.run(run())


def observed(folder: Path, scale: Scale = FULL) -> Iterator[Row]:
    """Measure the processor time that an observed turn takes, short and long conversations.

    The turns are alike: one call of a model, with its tools in the request, and one of a tool.
    """
    without_steps = functools.partial(TapeEventHandler, steps=False)
    handlers: list[tuple[str, Callable[[Path], Any], Callable[[int, Any], None]]] = [
        ("`langchain.TapeCallbackHandler`", TapeCallbackHandler, _langchain),
        ("that, beside an `InMemorySaver`", TapeCallbackHandler, _with_checkpoints),
        ("`llamaindex.TapeEventHandler(steps=False)`", without_steps, _llamaindex),
        ("`llamaindex.TapeEventHandler`", TapeEventHandler, _llamaindex),
    ]
    for number, (name, handler, run) in enumerate(handlers):
        measured = _TURNS if scale is FULL else scale.turns
        for turns in (2, *measured):  # the first does what is done once
            path = folder / f"{number}-{turns}.jsonl"
            pairs = [(_seconds(run, turns, None), _seconds(run, turns, handler(path))) for _ in range(_ROUNDS)]
            plain, seen = map(min, zip(*pairs, strict=True))
            records, ms = len(path.read_text().splitlines()) / turns, (seen - plain) / turns * 1000
            cost = f"{seen / plain:.2f}x, {ms:.1f} ms: {records:.0f} records of {ms / records:.2f} ms"
            if turns in measured:
                yield Row(f"a turn of {turns} observed by {name}", cost, "the same at every length")


def _seconds(run: Callable[[int, Any], None], turns: int, handler: Any) -> float:
    began = time.process_time()
    with handler if handler is not None else nullcontext():
        run(turns, handler)
    return time.process_time() - began
