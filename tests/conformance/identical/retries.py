"""Programs that try again after a while, several things at once; a replay does not wait."""

from __future__ import annotations

from collections import Counter
from typing import Any

from langchain.agents import create_agent
from langchain.agents.middleware import ModelRetryMiddleware, ToolRetryMiddleware
from langchain_core.messages import AIMessage, ToolMessage
from langchain_core.runnables import RunnableLambda
from langchain_core.tools import StructuredTool
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.graph import START, StateGraph
from langgraph.types import RetryPolicy

from ...langchain.fakes import calling
from .drivers import GRAPH, Talk
from .graphs import FOUND, Found, chat
from .outside import Chat, Outside
from .rows import LARGE_RACES, TRACEBACKS, row

WAYS = ("invoke", "stream", "ainvoke", "astream", "astream_events v2")
QUESTIONS = 4


@row("LangGraph", GRAPH, *WAYS, replays=LARGE_RACES, never=TRACEBACKS)
def retried_tools(world: Outside) -> Talk:
    """Calls three tools at once, two of which fail at first, and a model that fails at first."""
    left = Counter({"flaky": 2, "shaky": 1, "model": 1})

    def fail(name: str) -> None:
        left[name] -= 1
        if left[name] >= 0:
            raise ConnectionError(f"{name} is down")

    def made(name: str, times: int = 1) -> StructuredTool:
        def look(what: str) -> str:
            said = [world.ask(f"{what} {n}") for n in range(times)]
            fail(name)
            return " ".join(said)

        async def alook(what: str) -> str:
            said = [await world.aask(f"{what} {n}") for n in range(times)]
            fail(name)
            return " ".join(said)

        return StructuredTool.from_function(look, alook, name=name, description="Look.")

    def reply(messages: Any, number: int) -> AIMessage:
        fail("model")
        if isinstance(messages[-1], ToolMessage):
            return AIMessage(world.said("done"))
        return calling(*((each, {"what": each}) for each in ("flaky", "steady", "shaky")), number=number)

    middleware: list[Any] = [
        ToolRetryMiddleware(max_retries=2, initial_delay=0.002),
        ModelRetryMiddleware(max_retries=2, initial_delay=0.002),
    ]
    tools = [made("flaky"), made("steady", times=20), made("shaky")]
    agent = create_agent(Chat(world=world, reply=reply), tools, middleware=middleware, checkpointer=InMemorySaver())
    return Talk(agent, {"messages": [("user", "What is up?")]})


@row("LangGraph", GRAPH, *WAYS, replays=LARGE_RACES)
def retried_nodes(world: Outside) -> Talk:
    """Tries two nodes again that fail, beside a third one that goes on asking."""
    model, left = chat(world), Counter({"flaky": 2, "shaky": 1})

    def result(name: str, said: str) -> dict[str, Any]:
        left[name] -= 1
        if left[name] >= 0:
            raise ConnectionError(f"{name} is down")
        return {"found": [said]}

    def node(name: str, times: int = 1) -> RunnableLambda[Found, Any]:
        def ask(_: Found) -> dict[str, Any]:
            return result(name, " ".join(model.invoke(f"{name} {n}").text for n in range(times)))

        async def aask(_: Found) -> dict[str, Any]:
            return result(name, " ".join([(await model.ainvoke(f"{name} {n}")).text for n in range(times)]))

        return RunnableLambda(ask, aask)

    builder = StateGraph(Found).add_node("steady", node("steady", QUESTIONS)).add_edge(START, "steady")
    for name, seconds in (("flaky", 0.002), ("shaky", 0.004)):
        policy = RetryPolicy(seconds, retry_on=ConnectionError)
        builder.add_node(name, node(name), retry_policy=policy).add_edge(START, name)
    return Talk(builder.compile(checkpointer=InMemorySaver()), FOUND)
