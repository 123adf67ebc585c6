"""The shapes that graphs are built in, as small as they can be: each is made anew for each run of a test."""

# ruff: noqa: D103 - a graph says by its name what it is

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Annotated, Any, TypedDict

from langchain_core.messages import AIMessage, HumanMessage, ToolMessage
from langgraph.cache.memory import InMemoryCache
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.graph import END, START, MessagesState, StateGraph
from langgraph.runtime import Runtime
from langgraph.store.base import BaseStore
from langgraph.store.memory import InMemoryStore
from langgraph.types import CachePolicy, Command, RetryPolicy, Send

from .fakes import NativeChat, StreamingChat, World, calling


def larger(a: int, b: int) -> int:
    return max(a, b)


class Found(TypedDict):
    """The findings of nodes."""

    n: Annotated[int, larger]
    found: Annotated[list[Any], operator.add]


FOUND: Any = {"n": 0, "found": []}
ASKED: Any = {"messages": [("user", "Hello?")]}


def asking(world: World, text: str) -> Callable[[Found], dict[str, Any]]:
    """A node that asks a model."""
    model = StreamingChat(world=world)
    return lambda state: {"found": [model.invoke(f"{text} {state['n']}").text]}


def map_reduce(world: World) -> Any:
    """Four subgraphs of two parallel nodes, something beside them, and a deferred end."""
    inner = StateGraph(Found).add_node("x", asking(world, "x")).add_node("y", asking(world, "y"))
    inner.add_edge(START, "x").add_edge(START, "y")
    builder = StateGraph(Found).add_node("inner", inner.compile()).add_node("side", asking(world, "side"))
    builder.add_node("join", asking(world, "join"), defer=True).add_edge(START, "side").add_edge("side", "join")
    builder.add_conditional_edges(START, lambda _: [Send("inner", {"n": n, "found": []}) for n in range(4)], ["inner"])
    return builder.add_edge("inner", "join").compile(checkpointer=InMemorySaver())


def supervisor(world: World) -> Any:
    """A supervisor hands over to a team, a graph of its own, whose worker hands back to the graph around it."""

    def reply(messages: Any, number: int) -> AIMessage:
        asked = isinstance(messages[-1], HumanMessage)
        return calling(("hand_over", {}), number=number) if asked else AIMessage(f"said at {number}")

    model = StreamingChat(world=world, reply=reply)

    def lead(state: MessagesState) -> Command[str]:
        answer = model.invoke(state["messages"])
        if not answer.tool_calls:
            return Command(goto=END, update={"messages": [answer]})
        handed = ToolMessage("handed over", tool_call_id=answer.tool_calls[0]["id"])
        return Command(goto="team", update={"messages": [answer, handed]})

    def work(state: MessagesState) -> Command[str]:
        done = AIMessage(model.invoke(state["messages"]).text)
        return Command(graph=Command.PARENT, goto="lead", update={"messages": [done]})

    team = StateGraph(MessagesState).add_node("work", work).add_edge(START, "work").compile()
    builder = StateGraph(MessagesState).add_node("lead", lead, destinations=("team", END)).add_node("team", team)
    return builder.add_edge(START, "lead").compile(checkpointer=InMemorySaver())


def policies(world: World) -> Any:
    """A node that fails twice and is tried again, and one that is cached."""
    model, failures = StreamingChat(world=world), iter([ConnectionError("first"), ConnectionError("second")])

    def flaky(state: Found) -> dict[str, Any]:
        failure = next(failures, None)
        if failure is not None:
            raise failure
        return {"found": [model.invoke("flaky").text]}

    builder = StateGraph(Found).add_node(
        "flaky", flaky, retry_policy=RetryPolicy(0.001, jitter=False, retry_on=ConnectionError)
    )
    builder.add_node("cached", asking(world, "cached"), cache_policy=CachePolicy()).add_edge(START, "flaky")
    return builder.add_edge("flaky", "cached").compile(checkpointer=InMemorySaver(), cache=InMemoryCache())


def injected(world: World) -> Any:
    """A node that gets the runtime and a store, writes to both, and keeps the times of the store."""
    model = StreamingChat(world=world)

    def node(state: Found, runtime: Runtime[Any], store: BaseStore) -> dict[str, Any]:
        runtime.stream_writer({"context": runtime.context})
        store.put(("notes",), "key", {"said": model.invoke("note").text})
        note = store.get(("notes",), "key")
        assert note is not None
        return {"found": [note.dict()]}

    builder = StateGraph(Found, context_schema=dict).add_node("node", node).add_edge(START, "node")
    return builder.compile(checkpointer=InMemorySaver(), store=InMemoryStore())


def timed(world: World) -> Any:
    """An asynchronous node with a timeout."""
    model = NativeChat(world=world)

    async def slow(state: Found) -> dict[str, Any]:
        return {"found": [(await model.ainvoke("slow")).text]}

    builder = StateGraph(Found).add_node("slow", slow, timeout=60).add_edge(START, "slow")
    return builder.compile(checkpointer=InMemorySaver())


def reflection(world: World) -> Any:
    """A loop of a writer and a critic."""
    model = StreamingChat(world=world)

    def write(state: MessagesState) -> dict[str, Any]:
        return {"messages": [model.invoke(state["messages"])]}

    def criticise(state: MessagesState) -> dict[str, Any]:
        return {"messages": [HumanMessage(model.invoke(state["messages"]).text)]}

    builder = StateGraph(MessagesState).add_node("write", write).add_node("criticise", criticise)
    builder.add_conditional_edges("write", lambda state: END if len(state["messages"]) > 6 else "criticise")
    return builder.add_edge(START, "write").add_edge("criticise", "write").compile(checkpointer=InMemorySaver())


PATTERNS: dict[str, tuple[Callable[[World], Any], Any]] = {
    "map_reduce": (map_reduce, FOUND),
    "supervisor": (supervisor, ASKED),
    "policies": (policies, FOUND),
    "injected": (injected, FOUND),
    "timed": (timed, FOUND),
    "reflection": (reflection, ASKED),
}
"""A graph of each pattern, and its input."""
