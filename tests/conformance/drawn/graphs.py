"""Graphs drawn at random: nodes of many kinds, in lines, branches, loops, `Send`s and subgraphs."""

# Annotations are evaluated at once: tools look at them.
import asyncio
import time
from collections.abc import Awaitable, Callable
from itertools import pairwise
from random import Random, random
from typing import Any
from uuid import uuid4

from langchain_core.runnables import RunnableLambda
from langchain_core.tools import tool
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.config import get_stream_writer
from langgraph.graph import END, START, StateGraph
from langgraph.types import Command, RetryPolicy, Send, interrupt

from agenttape_core import boundary
from agenttape_core.testing import Program

from ..identical.drivers import GRAPH, Talk
from ..identical.graphs import FOUND, Found, answered, asks, chat
from ..identical.outside import Outside

DRIVERS = ("invoke", "stream", "ainvoke", "astream", "astream_events v2")
MOST_ANSWERS = 12
"""Questions that are answered at most: a graph may ask again and again."""
DEPTH = 2
"""Graphs within each other at most."""
Made = tuple[Callable[[Any], Any], Callable[[Any], Awaitable[Any]]]


def found(*what: Any) -> dict[str, Any]:
    """Return what a node adds to the state."""
    return {"found": list(what)}


def ids(_: Outside, __: str) -> Made:
    """Draw an id, a number and a time."""

    def node(_: Found) -> Any:
        return found([str(uuid4()), random(), time.time()])

    async def anode(state: Found) -> Any:
        return node(state)

    return node, anode


def by_tool(world: Outside, name: str) -> Made:
    """Call a tool that asks a model."""
    model = chat(world)

    def look(what: str) -> str:
        """Look."""
        return model.invoke(what).text

    async def alook(what: str) -> str:
        """Look."""
        return (await model.ainvoke(what)).text

    both = tool("look")(look), tool("look")(alook)

    async def anode(state: Found) -> Any:
        return found(await both[1].ainvoke({"what": f"{name} {state['n']}"}))

    return lambda state: found(both[0].invoke({"what": f"{name} {state['n']}"})), anode


def by_boundary(world: Outside, _: str) -> Made:
    """Call a boundary of the program itself, always with the same."""
    fetch = boundary("tool", name="fetch")(world.ask)
    afetch = boundary("tool", name="fetch")(world.aask)

    async def anode(_: Found) -> Any:
        return found(await afetch("same"))

    return lambda _: found(fetch("same")), anode


def by_interrupt(world: Outside, name: str) -> Made:
    """Ask a person between two answers of a model."""
    model = chat(world)

    def node(_: Found) -> Any:
        said = model.invoke(f"before {name}").text
        answer = interrupt({"q": name, "a": said})
        return found(answer, model.invoke(f"after {answer}").text)

    async def anode(_: Found) -> Any:
        said = (await model.ainvoke(f"before {name}")).text
        answer = interrupt({"q": name, "a": said})
        return found(answer, (await model.ainvoke(f"after {answer}")).text)

    return node, anode


def by_retry(world: Outside, name: str) -> Made:
    """Fail by what the model says, and be tried again."""
    model = chat(world)

    def check(said: str) -> Any:
        if int(said.split("-")[1][:2], 16) % 3:
            raise ConnectionError(said)
        return found(said)

    async def anode(_: Found) -> Any:
        return check((await model.ainvoke(f"try {name}")).text)

    return lambda _: check(model.invoke(f"try {name}").text), anode


def by_writer(world: Outside, _: str) -> Made:
    """Put parts on the stream."""
    model = chat(world)

    def write(said: str, state: Found) -> Any:
        writer = get_stream_writer()
        writer({"a": said})
        writer(str(uuid4()))
        return {"n": state["n"] + 1}

    async def anode(state: Found) -> Any:
        return write((await model.ainvoke("write")).text, state)

    return lambda state: write(model.invoke("write").text, state), anode


def by_stream(world: Outside, name: str) -> Made:
    """Read the stream of a model."""
    model = chat(world)

    async def anode(_: Found) -> Any:
        return found("".join([part.text async for part in model.astream(f"s {name}")]))

    return lambda _: found("".join(part.text for part in model.stream(f"s {name}"))), anode


def by_gathering(world: Outside, _: str) -> Made:
    """Ask three things at once; in a loop, add them as they come."""
    model = chat(world)

    async def anode(_: Found) -> Any:
        out: list[str] = []

        async def one(number: int) -> None:
            out.append((await model.ainvoke(f"g {number}")).text)

        await asyncio.gather(*map(one, range(3)))
        return found(*out)

    return lambda _: found(*(one.text for one in model.batch([f"g {number}" for number in range(3)]))), anode


def by_timeout(world: Outside, _: str) -> Made:
    """Give an answer up that takes longer than it may."""
    model = chat(world)

    async def anode(_: Found) -> Any:
        try:
            return found((await asyncio.wait_for(model.ainvoke("t"), 0.0015)).text)
        except TimeoutError:
            return found("late")

    return lambda _: found(model.invoke("t").text), anode


def by_command(world: Outside, name: str) -> Made:
    """Update the state by a command."""
    model = chat(world)

    async def anode(_: Found) -> Any:
        return Command(update=found((await model.ainvoke(f"c {name}")).text))

    return lambda _: Command(update=found(model.invoke(f"c {name}").text)), anode


KINDS: tuple[Callable[[Outside, str], Made], ...] = (
    *(ids, by_tool, by_boundary, by_interrupt, by_retry, by_writer, by_stream, by_gathering, by_timeout, by_command),
)
BESIDE = (ids, by_tool, by_writer, by_stream)
"""The kinds of nodes beside others."""


class Drawing:
    """One graph being drawn.

    Args:
        draws: What decides.
        world: The world.
    """

    def __init__(self, draws: Random, world: Outside) -> None:
        self.draws = draws
        self.world = world

    def node(self, name: str, depth: int) -> tuple[Any, dict[str, Any]]:
        """Return a node, and the options that it is added with."""
        kind = self.draws.randrange(len(KINDS) + (4 if depth < DEPTH else 2))
        if kind < len(KINDS):
            retry = RetryPolicy(max_attempts=4, initial_interval=0.01, jitter=False)
            options = {"retry_policy": retry} if KINDS[kind] is by_retry else {}
            return RunnableLambda(*KINDS[kind](self.world, name)), options
        if kind < len(KINDS) + 2:
            return asks(self.world, self.draws.choice(["same", name]), self.draws.choice([1, 2])), {}
        graph = self.graph(depth + 1)
        return (graph if kind == len(KINDS) + 2 else _calling(graph)), {}

    def graph(self, depth: int = 0, saver: Any = None) -> Any:
        """Return a graph."""
        builder, size = StateGraph(Found), self.draws.randint(1, 3) + (2 if not depth else 0)
        names = [f"n{number}" for number in range(size)]
        for name in names:
            node, options = self.node(name, depth)
            builder.add_node(name, node, **options)
        builder.add_edge(START, names[0])
        for number, (name, after) in enumerate(pairwise(names)):
            self.connect(builder, name, after, number, names)
        return builder.compile(checkpointer=saver)

    def connect(self, builder: Any, name: str, after: str, number: int, names: list[str]) -> None:
        """Connect a node with the next one."""
        match self.draws.choice(["line", "line", "branch", "loop", "send", "beside"]):
            case "line":
                builder.add_edge(name, after)
            case "branch":
                other = self.draws.choice([*names[number + 1 :], END])
                builder.add_conditional_edges(
                    name, lambda state: after if len(str(state["found"])) % 2 else other, sorted({after, other})
                )
            case "loop":
                back, left = names[max(0, number - 1)], iter(range(3))
                builder.add_conditional_edges(
                    name,
                    lambda state: back if len(str(state["found"])) % 3 and next(left, None) is not None else after,
                    sorted({after, back}),
                )
            case "send":
                part, count = f"w{number}", self.draws.randint(1, 3)
                builder.add_node(part, asks(self.world, self.draws.choice(["same", "w"]), self.draws.choice([1, 2])))
                sends = [Send(part, {"n": each, "found": []}) for each in range(count)]
                builder.add_conditional_edges(name, lambda _: sends, [part])
                builder.add_edge(part, after)
            case _:
                beside = f"p{number}"
                builder.add_node(beside, RunnableLambda(*self.draws.choice(BESIDE)(self.world, beside)))
                builder.add_edge(name, beside)
                builder.add_edge(name, after)


def _calling(graph: Any) -> Any:
    """Return a node that calls a graph."""

    async def anode(state: Found) -> Any:
        return found(*(await graph.ainvoke({"n": state["n"], "found": []}))["found"])

    return RunnableLambda(lambda state: found(*graph.invoke({"n": state["n"], "found": []})["found"]), anode)


def drawn_graph(seed: int, world: Outside) -> Program:
    """Return the graph of a seed, run in one of the ways to run graphs."""

    def make() -> Talk:
        left = iter(range(MOST_ANSWERS))
        graph = Drawing(Random(seed), world).graph(saver=InMemorySaver())
        return Talk(graph, FOUND, then=lambda state: answered(state) if next(left, None) is not None else None)

    return GRAPH[Random(-seed - 1).choice(DRIVERS)](make)
