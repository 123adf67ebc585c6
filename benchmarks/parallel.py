"""Calls side by side while they are recorded, against the same calls that nobody records."""

from __future__ import annotations

import asyncio
import statistics
import time
from collections.abc import Awaitable, Callable, Iterator, Sequence
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from typing import Any

from langchain.agents import create_agent
from langchain_core.language_models.fake_chat_models import FakeMessagesListChatModel
from langchain_core.messages import AIMessage, AnyMessage, BaseMessage
from langchain_core.outputs import ChatGeneration, ChatResult
from measure import FULL, Row, Scale

from agenttape_core import use_cassette

_ANSWER = 0.5
"""The seconds that a model takes to answer."""


class Slow(FakeMessagesListChatModel):
    """A model that calls a tool once, then answers; it takes as long as one of a provider."""

    responses: list[BaseMessage] = []  # noqa: RUF012 - a field of the model
    model: str = "slow"
    latency: float = _ANSWER
    tools: bool = False

    def bind_tools(self, tools: Sequence[Any], **_: Any) -> Any:  # noqa: ARG002 - they have one tool
        """Call the tool from now on."""
        return self.model_copy(update={"tools": True})

    def _answer(self, messages: list[AnyMessage] | list[BaseMessage]) -> ChatResult:
        asked, *seen = messages
        called = AIMessage(
            "", tool_calls=[{"name": "look", "args": {"city": str(asked.content)}, "id": str(asked.content)}]
        )
        message = called if self.tools and not seen else AIMessage(f"done: {asked.content}")
        return ChatResult(generations=[ChatGeneration(message=message)])

    def _generate(self, messages: list[BaseMessage], *_: Any, **__: Any) -> ChatResult:
        time.sleep(self.latency)
        return self._answer(messages)

    async def _agenerate(self, messages: list[BaseMessage], *_: Any, **__: Any) -> ChatResult:
        await asyncio.sleep(self.latency)
        return self._answer(messages)


def look(city: str) -> str:
    """Look."""
    return f"{city}: {'rain ' * 50}"


async def _in_tasks(one: Callable[[str], Awaitable[object]], count: int) -> None:
    await asyncio.gather(*(one(f"city {number}") for number in range(count)))


def _calls(latency: float, count: int) -> None:
    asyncio.run(_in_tasks(Slow(latency=latency).ainvoke, count))


def _threads(latency: float, count: int) -> None:
    Slow(latency=latency).batch([f"city {number}" for number in range(count)], {"max_concurrency": count})


def _agents(latency: float, count: int) -> None:
    agent = create_agent(Slow(latency=latency), [look])

    async def one(city: str) -> object:
        return await agent.ainvoke({"messages": [("user", city)]})

    asyncio.run(_in_tasks(one, count))


def parallel(folder: Path, scale: Scale = FULL) -> Iterator[Row]:
    """Measure how long calls side by side take when they are recorded."""
    latency, rounds = (_ANSWER, 5) if scale is FULL else (0.01, 1)
    programs = (
        ("100 calls in tasks", _calls, 100, "<= 1.2x"),
        ("100 calls in threads", _threads, 100, "<= 1.2x"),
        ("30 agents in tasks", _agents, 30, "<= 1.25x"),
    )
    for name, program, count, budget in programs:
        took: list[list[float]] = [[], []]
        for number in range(rounds + 1):  # the first does what is done once
            path = folder / f"{name.split()[-1]}{count}-{number}.yaml"
            sessions: list[AbstractContextManager[Any]] = [nullcontext(), use_cassette(path, mode="record", auto=True)]
            for session, seconds in zip(sessions, took, strict=True):
                began = time.perf_counter()
                with session:
                    program(latency, count)
                seconds.append(time.perf_counter() - began)
        plain, recorded = (statistics.median(seconds[1:] or seconds) for seconds in took)
        yield Row(f"record {name}, {latency} s an answer", f"{recorded / plain:.2f}x of {plain:.2f} s", budget)


def growth(folder: Path, scale: Scale = FULL) -> Iterator[Row]:
    """Measure that what a thread costs doesn't depend on how many there are."""
    few, many = (100, 400) if scale is FULL else (5, 10)
    took = []
    for count in (few, few, many):  # the first does what is done once
        path = folder / f"growth{len(took)}.yaml"
        with use_cassette(path, mode="record", auto=True):
            _threads(0.01, count)
        began = time.process_time()
        with use_cassette(path, auto=True):
            _threads(0.01, count)
        took.append(time.process_time() - began)
    what = f"replay calls in {many} threads, over {few}: processor"
    yield Row(what, f"{took[2] / took[1]:.1f}x", f"<= {1.1 * many / few:.1f}x")
