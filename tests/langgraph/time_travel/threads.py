"""Graphs to fork, and ways to record threads of them."""

from __future__ import annotations

import operator
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Annotated, Any, TypedDict

from langchain_core.messages import AIMessage, HumanMessage
from langchain_core.tools import tool
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.graph import END, START, StateGraph
from langgraph.types import Command, Send, interrupt

from agenttape_core import use_cassette
from agenttape_langchain import TapeCallbackHandler

from ..fakes import PlainChat, World

THREAD = "42"
STEPS = 20


class Log(TypedDict, total=False):
    """A log, in order."""

    log: Annotated[list[str], operator.add]


def asking(world: World, what: str = "", name: str = "asked") -> Callable[[Log], Log]:
    """A node that sends the log to the model, and adds the answer."""
    model = PlainChat(world=world, reply=lambda _, number: AIMessage(f"answer {number}"))

    def node(state: Log) -> Log:
        so_far = " | ".join(state["log"])
        return {"log": [f"{name}: {model.invoke([HumanMessage(f'{what} after {so_far}')]).text}"]}

    return node


def loop(world: World) -> StateGraph[Any]:
    """Two nodes that take turns until the log has so many entries: a run of 20 steps."""
    builder = StateGraph(Log)
    builder.add_node("think", asking(world, "think", "think"))
    builder.add_node("act", asking(world, "act", "act"))
    builder.add_edge(START, "think")
    builder.add_edge("think", "act")
    builder.add_conditional_edges("act", lambda state: END if len(state["log"]) > STEPS else "think")
    return builder


def fan(world: World, branches: int = 4) -> StateGraph[Any]:
    """A plan, several branches of one node at once, each a subgraph of two nodes, and a summary."""
    inner = StateGraph(Log)
    inner.add_node("draft", asking(world, "draft", "draft"))
    inner.add_node("polish", asking(world, "polish", "polish"))
    inner.add_edge(START, "draft")
    inner.add_edge("draft", "polish")
    branch = inner.compile()

    def work(state: Log) -> Log:
        return {"log": branch.invoke(state)["log"][len(state["log"]) :]}

    builder = StateGraph(Log)
    builder.add_node("plan", asking(world, "plan", "plan"))
    builder.add_node("work", work)
    builder.add_node("sum", lambda state: {"log": [f"{len(state['log'])} lines"]})
    builder.add_edge(START, "plan")
    builder.add_conditional_edges("plan", lambda _: [Send("work", {"log": [f"part {n}"]}) for n in range(branches)])
    builder.add_edge("work", "sum")
    return builder


def approval(world: World) -> StateGraph[Any]:
    """A subgraph that charges a card, asks a human, and follows the answer."""

    @tool
    def charge(amount: int) -> str:
        """Charge the card."""
        return f"charge {world.reach('charge')} of {amount}"

    @tool
    def ship(to: str) -> str:
        """Ship the goods."""
        return f"shipment {world.reach('ship')} to {to}"

    def pay(state: Log) -> Log:
        paid = charge.invoke({"amount": 7})
        where = interrupt({"paid": paid, "question": "where to?"})
        return {"log": [paid, f"to {where}"]}

    def send(state: Log) -> Log:
        return {"log": [ship.invoke({"to": state["log"][-1]})]}

    inner = StateGraph(Log)
    inner.add_node("pay", pay)
    inner.add_node("send", send)
    inner.add_edge(START, "pay")
    inner.add_edge("pay", "send")
    builder = StateGraph(Log)
    builder.add_node("greet", asking(world, "greet", "greet"))
    builder.add_node("order", inner.compile())
    builder.add_node("thank", asking(world, "thank", "thank"))
    builder.add_edge(START, "greet")
    builder.add_edge("greet", "order")
    builder.add_edge("order", "thank")
    return builder


def observed(path: Path, builder: StateGraph[Any], given: Sequence[Any], thread: str | None = THREAD) -> Any:
    """Run a thread that a callback handler observes; returns its last values."""
    graph = builder.compile(checkpointer=InMemorySaver() if thread else None)
    with TapeCallbackHandler(path) as handler:
        config: Any = {"callbacks": [handler], "configurable": {"thread_id": thread} if thread else {}}
        for one in given:
            values = graph.invoke(one, config)
    return values


def taped(path: Path, builder: StateGraph[Any], given: Sequence[Any], thread: str | None = THREAD) -> Any:
    """Run a thread in a session that records; returns its last values."""
    graph = builder.compile(checkpointer=InMemorySaver() if thread else None)
    with use_cassette(path, mode="all"):
        for one in given:
            values = graph.invoke(one, {"configurable": {"thread_id": thread} if thread else {}})
    return values


ANSWERED = ({"log": ["hello"]}, Command(resume="Paris"))
