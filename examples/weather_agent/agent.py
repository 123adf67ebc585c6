"""An ordinary LangChain agent. Nothing in this file knows that its runs are recorded."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any, Literal
from uuid import uuid4

from langchain.agents import create_agent
from langchain_core.tools import BaseTool, StructuredTool, ToolException
from langchain_openai import ChatOpenAI
from pydantic import SecretStr

if TYPE_CHECKING:
    from pathlib import Path

    from langgraph.graph.state import CompiledStateGraph

SYSTEM_PROMPT = "You plan small trips. Use the tools, then answer in one or two sentences."


def build_agent(base_url: str, outbox: Path, *, thinking_s: float = 0.8) -> CompiledStateGraph[Any, Any, Any, Any]:
    """An agent with a slow tool, a failing tool and a tool with a side effect.

    Args:
        base_url: Where the model service is.
        outbox: The file to which each postcard that is really sent adds a line.
        thinking_s: How long the weather service takes, in seconds.
    """
    model = ChatOpenAI(
        model="gpt-5-mini",
        base_url=base_url,
        api_key=SecretStr(f"sk-demo-{uuid4().hex}"),
        stream_usage=True,
        # One tool per turn: what runs in parallel ends in any order, also without a recorder.
        model_kwargs={"parallel_tool_calls": False},
    )
    return create_agent(model, _tools(outbox, thinking_s), system_prompt=SYSTEM_PROMPT)


def _tools(outbox: Path, thinking_s: float) -> list[BaseTool]:
    def get_weather(city: str) -> str:
        """Tell the weather in a city. Slow: it asks a far-away station."""
        time.sleep(thinking_s)
        return f"{city}: sunny, {15 + time.time_ns() % 10} degrees."

    def lookup_rate(currency: Literal["EUR", "DKK", "JPY"]) -> str:
        """Look up an exchange rate. Broken: the service is closed."""
        raise ToolException(f"No {currency} rate: the exchange is closed (ticket {uuid4().hex[:6]}).")

    def send_postcard(city: str) -> str:
        """Send a postcard. It has a side effect: a line in the outbox."""
        with outbox.open("a", encoding="utf-8") as file:
            file.write(f"postcard to {city}\n")
        return f"Postcard to {city} is on its way."

    return [
        StructuredTool.from_function(get_weather),
        # The error becomes a message to the model, which then decides what to do.
        StructuredTool.from_function(lookup_rate, handle_tool_error=True),
        StructuredTool.from_function(send_postcard),
    ]
