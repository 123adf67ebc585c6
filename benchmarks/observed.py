"""A turn of an observed agent, against the same turn that nobody observes: LangChain's handler and LlamaIndex's."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import nullcontext
from pathlib import Path
from typing import Any

from langchain.agents import create_agent
from langchain_core.language_models.fake_chat_models import GenericFakeChatModel
from langchain_core.messages import AIMessage
from llama_index.core.agent.workflow import FunctionAgent
from llama_index.core.base.llms.types import ChatMessage, ToolCallBlock
from llama_index.core.llms.mock import MockFunctionCallingLLM
from measure import FULL, Row, Scale

from agenttape_langchain import TapeCallbackHandler
from agenttape_llamaindex import TapeEventHandler

_TURNS = (20, 160)


def look(city: str) -> str:
    """Look."""
    return f"{city}: {'rain ' * 50}"


class Caller(GenericFakeChatModel):
    """Calls a tool in each turn."""

    def bind_tools(self, *_tools: Any, **_options: Any) -> Any:
        """Return itself."""
        return self


def _langchain(turns: int, handler: Any) -> None:
    calls = [AIMessage("", tool_calls=[{"name": "look", "args": {"city": str(n)}, "id": str(n)}]) for n in range(turns)]
    agent = create_agent(Caller(messages=iter([*calls, AIMessage("done")])), [look])
    config: Any = {"callbacks": [handler] if handler is not None else [], "recursion_limit": 10 * turns}
    agent.invoke({"messages": [("user", "Look around")]}, config=config)


def _llamaindex(turns: int, _handler: Any) -> None:
    def answer(messages: Sequence[ChatMessage], **_: Any) -> ChatMessage:
        seen = sum(message.role == "tool" for message in messages)
        call = ToolCallBlock(tool_call_id=str(seen), tool_name="look", tool_kwargs={"city": str(seen)})
        block: Any = {"blocks": [call]} if seen < turns else {"content": "done"}
        return ChatMessage(role="assistant", **block)

    async def run() -> None:
        llm = MockFunctionCallingLLM(response_generator=answer)
        await FunctionAgent(tools=[look], llm=llm).run("Look around", max_iterations=turns + 2)

    asyncio.run(run())


def observed(folder: Path, scale: Scale = FULL) -> Iterator[Row]:
    """Measure the processor time that an observed turn takes, short and long conversations."""
    handlers: list[tuple[Any, Callable[[int, Any], None]]] = [
        (TapeCallbackHandler, _langchain),
        (TapeEventHandler, _llamaindex),
    ]
    for handler, run in handlers:
        run(2, None)
        for turns in _TURNS if scale is FULL else scale.turns:
            plain = _seconds(run, turns, None)
            seen = _seconds(run, turns, handler(folder / f"{handler.__name__}{turns}.jsonl"))
            cost = f"{seen / plain:.2f}x, {(seen - plain) / turns * 1000:.1f} ms"
            yield Row(f"a turn of {turns} observed by `{handler.__name__}`", cost, "the same at every length")


def _seconds(run: Callable[[int, Any], None], turns: int, handler: Any) -> float:
    began = time.process_time()
    with handler if handler is not None else nullcontext():
        run(turns, handler)
    return time.process_time() - began
