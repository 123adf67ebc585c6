"""The rows of the call-shape matrix: what can be done with a chat model, alone or inside an agent.

Each row takes a subject and returns all that its caller gets to see.
"""

# ruff: noqa: D103 - their names say what they do

from __future__ import annotations

import asyncio
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from typing import TYPE_CHECKING, Any, Protocol

from langchain.agents import create_agent
from langchain.agents.middleware import ModelFallbackMiddleware, ModelRetryMiddleware
from openai import RateLimitError
from pydantic import BaseModel

from agenttape_langchain import TapeMiddleware

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterable

    from examples.weather_agent.server import OpenAILoopback

QUESTION = "how are you?"
QUESTIONS = [f"how is number {number}?" for number in range(4)]


class Mood(BaseModel):
    """The mood of a person."""

    answer: str
    stars: int


class Subject(Protocol):
    """A call of the matrix.

    Args:
        runnable: The model or the agent.
    """

    runnable: Any

    def ask(self, question: str) -> Any:
        """The input for a question."""

    def stream(self, question: str) -> Any:
        """Stream messages."""

    def astream(self, question: str) -> Any:
        """Stream messages, asynchronously."""

    def structured(self) -> Any:
        """The same with structured output."""

    def fallbacks(self) -> Any:
        """The same with a second model to fall back on."""

    def retry(self) -> Any:
        """The same with a second attempt after a rate limit."""


class Alone:
    """A chat model by itself."""

    def __init__(self, model: Any) -> None:
        self.runnable = model

    def ask(self, question: str) -> Any:
        return question

    def stream(self, question: str) -> Any:
        return self.runnable.stream(question)

    def astream(self, question: str) -> Any:
        return self.runnable.astream(question)

    def structured(self) -> Any:
        return self.runnable.with_structured_output(Mood)

    def fallbacks(self) -> Any:
        return self.runnable.with_fallbacks([self.runnable])

    def retry(self) -> Any:
        types = (RateLimitError,)
        return self.runnable.with_retry(
            retry_if_exception_type=types, wait_exponential_jitter=False, stop_after_attempt=2
        )


class InAgent:
    """A chat model inside an agent that `TapeMiddleware` tapes."""

    def __init__(self, model: Any) -> None:
        self._model = model
        self.runnable = self._agent()

    def _agent(self, *middleware: Any, **options: Any) -> Any:
        return create_agent(self._model, [], middleware=[*middleware, TapeMiddleware()], **options)

    def ask(self, question: str) -> Any:
        return {"messages": [("user", question)]}

    def stream(self, question: str) -> Any:
        return self.runnable.stream(self.ask(question), stream_mode="messages")

    def astream(self, question: str) -> Any:
        return self.runnable.astream(self.ask(question), stream_mode="messages")

    def structured(self) -> Any:
        return self._agent(response_format=Mood)

    def fallbacks(self) -> Any:
        return self._agent(ModelFallbackMiddleware(self._model))

    def retry(self) -> Any:
        return self._agent(ModelRetryMiddleware(max_retries=1, retry_on=(RateLimitError,), initial_delay=0))


async def invoke(subject: Subject) -> Any:
    return subject.runnable.invoke(subject.ask(QUESTION))


async def ainvoke(subject: Subject) -> Any:
    return await subject.runnable.ainvoke(subject.ask(QUESTION))


async def stream(subject: Subject) -> Any:
    return list(subject.stream(QUESTION))


async def astream(subject: Subject) -> Any:
    return [part async for part in subject.astream(QUESTION)]


async def batch(subject: Subject) -> Any:
    return subject.runnable.batch([subject.ask(question) for question in QUESTIONS])


async def equal_batch(subject: Subject) -> Any:
    return subject.runnable.batch([subject.ask(question) for question in [*QUESTIONS, QUESTION, QUESTION]])


async def abatch(subject: Subject) -> Any:
    return await subject.runnable.abatch([subject.ask(question) for question in [*QUESTIONS, QUESTION, QUESTION]])


async def gather(subject: Subject) -> Any:
    asked = [subject.ask(question) for question in [*QUESTIONS, QUESTION, QUESTION]]
    return await asyncio.gather(*(subject.runnable.ainvoke(question) for question in asked))


async def threads(subject: Subject) -> Any:
    def pooled() -> list[Any]:
        with ThreadPoolExecutor(len(QUESTIONS)) as pool:
            return list(pool.map(lambda question: subject.runnable.invoke(subject.ask(question)), QUESTIONS))

    return await asyncio.to_thread(pooled)  # where no event loop runs, as in the threaded code of a user


async def early_close(subject: Subject) -> Any:
    with closing(subject.stream(QUESTION)) as parts:
        return [next(parts) for _ in range(3)]


async def error_midway(subject: Subject) -> Any:
    return collected(subject.stream(QUESTION))


async def structured_output(subject: Subject) -> Any:
    return subject.structured().invoke(subject.ask(QUESTION))


async def fallbacks(subject: Subject) -> Any:
    return subject.fallbacks().invoke(subject.ask(QUESTION))


async def retry(subject: Subject) -> Any:
    return await subject.retry().ainvoke(subject.ask(QUESTION))


async def events_v2(subject: Subject) -> Any:
    return [event async for event in subject.runnable.astream_events(subject.ask(QUESTION), version="v2")]


async def events_v3(subject: Subject) -> Any:
    events = list(subject.runnable.stream_events(subject.ask(QUESTION), version="v3"))
    begun = await subject.runnable.astream_events(subject.ask(QUESTION), version="v3")
    async with begun:  # the run ends after the last event, with the context
        return [events, [event async for event in begun]]


def collected(parts: Iterable[Any]) -> list[Any]:
    """The chunks of a stream, and the error that it ended with."""
    got: list[Any] = []
    try:
        for part in parts:
            got.append(part)  # noqa: PERF402 - what came before the error counts
    except Exception as error:
        got.append((type(error), str(error)))
    return got


def nothing(server: OpenAILoopback) -> None:
    """Leave the service as it is."""


ROWS: dict[str, tuple[Callable[[Subject], Awaitable[Any]], Callable[[OpenAILoopback], None]]] = {
    "`invoke`": (invoke, nothing),
    "`ainvoke`": (ainvoke, nothing),
    "`stream`": (stream, nothing),
    "`astream`": (astream, nothing),
    "`batch`": (batch, nothing),
    "`batch` of equal questions": (equal_batch, nothing),
    "`abatch`": (abatch, nothing),
    "`asyncio.gather`": (gather, nothing),
    "a pool of threads": (threads, nothing),
    "a stream closed early": (early_close, nothing),
    "an error midway": (error_midway, lambda server: server.cut_next_stream(after=4)),
    "structured output": (structured_output, nothing),
    "fallbacks": (fallbacks, lambda server: server.fail_next(500)),
    "retries": (retry, lambda server: server.fail_next(429)),
    "`astream_events` v2": (events_v2, nothing),
    "`stream_events` v3": (events_v3, nothing),
}
"""The calls, and the instructions for the service before each."""
