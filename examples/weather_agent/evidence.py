"""The visible result of an agent's run, as plain data by which two runs can be compared."""

from __future__ import annotations

import asyncio
import sys
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterable

    from langchain_core.messages import BaseMessage
    from langgraph.graph.state import CompiledStateGraph

    Agent = CompiledStateGraph[Any, Any, Any, Any]


@dataclass(frozen=True)
class Run:
    """All that came out of running an agent three times: invoked, streamed, observed.

    Args:
        messages: The final messages of the invocation, with their ids.
        chunks: What `stream` yielded, in order: message chunks and updates.
        events: What `astream_events` yielded, in order: the kind, the name and the depth of each event.
        answers: The last words of each of the three.
        seconds: How long all of it took.
    """

    messages: list[Any]
    chunks: list[Any]
    events: list[Any]
    answers: dict[str, str]
    seconds: float


def perform(agent: Agent, prompt: str) -> Run:
    """Run the agent in the three ways that LangChain offers, and keep what was seen."""
    begin = time.perf_counter()
    messages = ask(agent, prompt)
    parts = list(agent.stream(_question(prompt), stream_mode=["messages", "updates"]))
    events = asyncio.run(_events(agent, prompt))
    answers = {
        "invoke": messages[-1].text,
        "stream": _last_update(parts).text,
        "astream_events": events[-1]["data"]["output"]["messages"][-1].text,
    }
    return Run(
        messages=_dumped(messages),
        chunks=[_plain(mode, part) for mode, part in parts],
        events=[[event["event"], event["name"], len(event["parent_ids"])] for event in events],
        answers=answers,
        seconds=time.perf_counter() - begin,
    )


def ask(agent: Agent, prompt: str) -> list[BaseMessage]:
    """Invoke the agent once; its final messages."""
    messages: list[BaseMessage] = agent.invoke(_question(prompt))["messages"]
    return messages


class ConnectionCounter:
    """Counts every attempt of this process to connect a socket, whichever library makes it."""

    def __init__(self) -> None:
        self.count = 0
        sys.addaudithook(self._heard)

    def _heard(self, event: str, _: tuple[Any, ...]) -> None:
        self.count += event == "socket.connect"


async def _events(agent: Agent, prompt: str) -> list[Any]:
    return [event async for event in agent.astream_events(_question(prompt), version="v2")]


def _question(prompt: str) -> Any:
    return {"messages": [("user", prompt)]}


def _plain(mode: str, part: Any) -> list[Any]:
    if mode == "messages":
        message, metadata = part
        return [mode, metadata["langgraph_node"], message.model_dump()]
    return [mode, {node: _dumped(update["messages"]) for node, update in part.items()}]


def _last_update(parts: list[Any]) -> Any:
    updates = [part for mode, part in parts if mode == "updates"]
    return next(iter(updates[-1].values()))["messages"][-1]


def _dumped(messages: Iterable[BaseMessage]) -> list[Any]:
    return [message.model_dump() for message in messages]
