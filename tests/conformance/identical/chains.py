"""Programs of LangChain without a graph."""

import asyncio
from operator import itemgetter
from typing import Any

from langchain_core.chat_history import InMemoryChatMessageHistory
from langchain_core.messages import AIMessage
from langchain_core.output_parsers import JsonOutputParser, StrOutputParser
from langchain_core.prompts import ChatPromptTemplate
from langchain_core.runnables import RunnableLambda, RunnableParallel, RunnablePassthrough
from langchain_core.runnables.history import RunnableWithMessageHistory
from langchain_core.tools import tool
from pydantic import BaseModel

from agenttape_core.testing import Capture, Program
from agenttape_langchain.testing import capturing

from ...langchain.fakes import calling
from .drivers import CHAIN, Make, Talk
from .graphs import chat
from .outside import Chat, Outside
from .rows import RACES, TRACEBACKS, row

ASKED = ChatPromptTemplate.from_template("About {topic}?")


@row("LangChain", CHAIN, replays=RACES)
def parallel(world: Outside) -> Talk:
    """Runs three chains at once with `RunnableParallel`, and a chain on their results."""
    ask = ASKED | chat(world) | StrOutputParser()
    both = RunnableParallel(a=ask, b=ask, topic=itemgetter("topic"), c=ASKED | chat(world) | StrOutputParser())
    return Talk(both | RunnableLambda(lambda found: {"topic": found}) | ask, {"topic": "tapes"}, config={})


@row("LangChain", CHAIN, "invoke", "ainvoke", "astream", "astream_events v2", never=TRACEBACKS)
def fallbacks(world: Outside) -> Talk:
    """Falls back to another model, after it has tried the first again."""

    def fails(messages: Any, number: int) -> AIMessage:
        raise ConnectionError(f"down {number}")

    broken = Chat(world=world, reply=fails, model_name="broken-1")
    tried = broken.with_retry(stop_after_attempt=2, wait_exponential_jitter=False)
    chain = ASKED | tried.with_fallbacks([chat(world)]) | StrOutputParser()
    return Talk(chain, {"topic": "tapes"}, config={})


class Person(BaseModel):
    """A person."""

    name: str
    age: int


@row("LangChain", CHAIN)
def structured_output(world: Outside) -> Talk:
    """Gives an object of a pydantic model, from streamed tool calls."""

    def reply(messages: Any, number: int) -> AIMessage:
        return calling(("Person", {"name": world.said("name"), "age": number}), number=number)

    model = Chat(world=world, reply=reply)
    return Talk(ASKED | model.with_structured_output(Person, include_raw=True), {"topic": "people"}, config={})


@row("LangChain", CHAIN)
def tool_calls(world: Outside) -> Talk:
    """Calls the tools that a model asks for, in a loop written by hand."""

    @tool
    def look(what: str) -> str:
        """Look."""
        return world.ask(f"look {what}")

    model = chat(world, [("look", {"what": "up"}), ("look", {"what": "down"})]).bind_tools([look])

    def loop(question: str) -> Any:
        messages: list[Any] = [("user", question)]
        answer = model.invoke(messages)
        while answer.tool_calls:
            messages = [*messages, answer, *(look.invoke(call) for call in answer.tool_calls)]
            answer = model.invoke(messages)
        return [*messages, answer]

    async def aloop(question: str) -> Any:
        messages: list[Any] = [("user", question)]
        answer = await model.ainvoke(messages)
        while answer.tool_calls:
            messages = [*messages, answer, *[await look.ainvoke(call) for call in answer.tool_calls]]
            answer = await model.ainvoke(messages)
        return [*messages, answer]

    return Talk(RunnableLambda(loop, aloop), "Where?", config={})


@row("LangChain", CHAIN)
def streamed_json(world: Outside) -> Talk:
    """Parses JSON while it is streamed, beside what was given."""

    def reply(messages: Any, number: int) -> AIMessage:
        return AIMessage(f'{{ "title": "{world.said("title")}", "pages": [1, 2, {number}] }}')

    chain = RunnablePassthrough.assign(report=ASKED | Chat(world=world, reply=reply) | JsonOutputParser())
    return Talk(chain, {"topic": "tapes"}, config={})


@row("LangChain", CHAIN, "invoke", "ainvoke", "astream_events v2")
def histories(world: Outside) -> Talk:
    """Remembers a conversation in memory."""
    kept: dict[str, InMemoryChatMessageHistory] = {}
    prompt = ChatPromptTemplate.from_messages([("placeholder", "{history}"), ("user", "{topic}")])
    chain = RunnableWithMessageHistory(
        prompt | chat(world),
        lambda session_id: kept.setdefault(session_id, InMemoryChatMessageHistory()),
        input_messages_key="topic",
        history_messages_key="history",
    )

    def twice(given: Any) -> Any:
        config: Any = {"configurable": {"session_id": "1"}}
        return [chain.invoke(given, config), chain.invoke(given, config), kept["1"].messages]

    async def atwice(given: Any) -> Any:
        config: Any = {"configurable": {"session_id": "1"}}
        return [await chain.ainvoke(given, config), await chain.ainvoke(given, config), kept["1"].messages]

    return Talk(RunnableLambda(twice, atwice), {"topic": "tapes"}, config={})


def _batch(make: Make) -> Program:
    def program(capture: Capture) -> Any:
        talk = make()
        return talk.subject.batch(talk.given, {"callbacks": capturing(capture)})

    return program


def _batch_as_completed(make: Make) -> Program:
    def program(capture: Capture) -> Any:
        talk = make()
        for done in talk.subject.batch_as_completed(talk.given, {"callbacks": capturing(capture)}):
            capture.add("completed", done)

    return program


def _abatch(make: Make) -> Program:
    async def program(capture: Capture) -> Any:
        talk = make()
        return await talk.subject.abatch(talk.given, {"callbacks": capturing(capture, is_async=True)})

    return program


def _abatch_as_completed(make: Make) -> Program:
    async def program(capture: Capture) -> Any:
        talk = make()
        async for done in talk.subject.abatch_as_completed(
            talk.given, {"callbacks": capturing(capture, is_async=True)}
        ):
            capture.add("completed", done)

    return program


BATCHES = {
    "batch": _batch,
    "batch_as_completed": _batch_as_completed,
    "abatch": _abatch,
    "abatch_as_completed": _abatch_as_completed,
}
"""The ways to run a chain on several inputs."""


@row("LangChain", BATCHES, replays=RACES)
def batches(world: Outside) -> Talk:
    """Runs a chain on four inputs at once, two of which ask the same."""
    chain = ASKED | chat(world) | StrOutputParser()
    return Talk(chain, [{"topic": topic} for topic in ("tapes", "reels", "tapes", "heads")])


def _astreams(make: Make) -> Program:
    async def program(capture: Capture) -> Any:
        talk = make()

        async def read(number: int) -> None:
            async for chunk in talk.subject.astream(talk.given):
                capture.add("stream", [number, chunk])

        await asyncio.gather(*(read(number) for number in range(3)))

    return program


@row("LangChain", {"astream": _astreams}, replays=RACES)
def streams_side_by_side(world: Outside) -> Talk:
    """Reads three streams of one model at once, in tasks."""
    return Talk(ASKED | chat(world), {"topic": "tapes"})
