"""An agent that retrieves, calls three tools and answers in a structure; it knows no provider.

Run as a program it is made of a cassette, where no provider's package can be imported and no socket be connected.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from importlib.abc import MetaPathFinder
from pathlib import Path
from typing import Any

from langchain_core.tools import BaseTool

PROVIDERS = {"langchain_openai", "openai", "tiktoken", "langchain_anthropic", "anthropic", "langchain_ollama", "ollama"}
TOOLS = ("look_up", "book", "send_postcard")


class WithoutProviders(MetaPathFinder):
    """Finds no provider's package."""

    def find_spec(self, name: str, *_: Any, **__: Any) -> None:
        """Refuse a provider's package.

        Raises:
            ModuleNotFoundError: If it is one.
        """
        if name.partition(".")[0] in PROVIDERS:
            raise ModuleNotFoundError(f"{name} is not installed here", name=name)


def offline(event: str, _: Any) -> None:
    """Refuse to connect anywhere.

    Raises:
        ConnectionError: If somebody tries.
    """
    if event in {"socket.connect", "socket.getaddrinfo"}:
        raise ConnectionError(event)


def tools_of(retriever: Any, done: list[str]) -> list[BaseTool]:
    """Make the agent's tools.

    Args:
        retriever: Finds what is known of places.
        done: What the tools really did is added here.
    """
    from langchain_core.tools import StructuredTool

    def look_up(place: str) -> str:
        """Look up what is known of a place."""
        done.append("look_up")
        return "; ".join(document.page_content for document in retriever.invoke(place))

    def book(place: str) -> str:
        """Book a trip."""
        done.append("book")
        return f"Booked: {place}, number {len(done)}."

    def send_postcard(place: str) -> str:
        """Send a postcard."""
        done.append("send_postcard")
        return f"Sent to {place}."

    return [StructuredTool.from_function(function) for function in (look_up, book, send_postcard)]


def run(model: Any, retriever: Any, tools: Sequence[BaseTool], **config: Any) -> list[Any]:
    """Plan a trip; the messages, and the plan."""
    from langchain.agents import create_agent
    from langchain_core.runnables import RunnableLambda
    from pydantic import BaseModel

    class Plan(BaseModel):
        """A plan."""

        summary: str
        nights: int

    agent: Any = create_agent(model, tools, response_format=Plan)

    def plan(question: str) -> Any:
        known = " ".join(document.page_content for document in retriever.invoke(question))
        return agent.invoke({"messages": [("user", f"{question} What is known: {known}")]})

    state = RunnableLambda(plan).invoke("A trip to Paris, please.", config=config or None)
    said = [[message.type, message.content, getattr(message, "tool_calls", [])] for message in state["messages"]]
    return [said, state["structured_response"].model_dump()]


def main(cassette: Path) -> None:
    """Replay, and say what came out."""
    sys.meta_path.insert(0, WithoutProviders())
    sys.addaudithook(offline)
    from agenttape_langchain import ReplayChatModel, ReplayRetriever, ReplayTool

    model, retriever = ReplayChatModel(cassette), ReplayRetriever(cassette)
    tools = [ReplayTool(cassette, name) for name in TOOLS]
    said = run(model, retriever, tools)
    reports = [str(part.report) for part in (model, retriever, *tools)]
    imported = sorted(PROVIDERS & set(sys.modules))
    sys.stdout.write(json.dumps({"said": said, "reports": reports, "imported": imported}))


if __name__ == "__main__":
    main(Path(sys.argv[1]))
