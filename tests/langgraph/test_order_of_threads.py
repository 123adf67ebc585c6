"""What parallel branches of a synchronous graph do comes in the recorded order in every replay, without sorting."""

from __future__ import annotations

import operator
import random
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import as_completed
from pathlib import Path
from typing import Annotated, Any, TypedDict

import pytest
from langchain_core.callbacks import BaseCallbackHandler
from langchain_core.messages import AIMessage, BaseMessage
from langchain_core.runnables import RunnableLambda, RunnableParallel
from langchain_core.tools import tool
from langchain_core.tracers.base import BaseTracer
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.config import get_stream_writer
from langgraph.func import entrypoint, task
from langgraph.graph import END, START, StateGraph
from langgraph.prebuilt import ToolNode
from langgraph.types import Command, Send, interrupt

from agenttape_core import use_cassette

from .fakes import MODES, StreamingChat, World

REPLAYS = 4
CONFIG: Any = {"configurable": {"thread_id": "1"}}


class SlowChat(StreamingChat):
    """A model whose chunks take up to a millisecond each, and whose answers say how many were asked before."""

    random: Any

    def chunks(self, messages: Sequence[BaseMessage]) -> Iterator[Any]:
        """Stream slowly."""
        for chunk in super().chunks(messages):
            time.sleep(self.random.random() * 0.001)
            yield chunk

    def result(self, messages: Sequence[BaseMessage]) -> Any:
        """Answer slowly."""
        time.sleep(self.random.random() * 0.003)
        return super().result(messages)


class State(TypedDict, total=False):
    """What branches write to together."""

    names: list[str]
    name: str
    said: Annotated[list[Any], operator.add]


class Said(TypedDict, total=False):
    """What a subgraph gives to the graph around it."""

    said: Annotated[list[Any], operator.add]


Program = Callable[[SlowChat], Any]


def map_reduce(model: SlowChat) -> Any:
    """Many tasks of one node, each with a call."""

    def answer(state: State) -> State:
        get_stream_writer()(f"begin {state['name']}")
        said = model.invoke(f"Tell of {state['name']}")
        get_stream_writer()(f"end {state['name']}")
        return {"said": [said]}

    graph = (
        StateGraph(State).add_node("answer", answer).add_node("join", lambda state: {"name": str(len(state["said"]))})
    )
    graph.add_conditional_edges(START, lambda state: [Send("answer", {"name": name}) for name in state["names"]])
    return graph.add_edge("answer", "join").compile(checkpointer=InMemorySaver())


def agents(model: SlowChat) -> Any:
    """Three subgraphs beside each other, one with a checkpointer of its own."""

    def agent(name: str, saver: Any) -> Any:
        def think(state: State) -> State:
            return {"said": [model.invoke(f"{name} thinks of {state['names']}")]}

        def act(state: State) -> State:
            get_stream_writer()(name)
            return {"said": ["".join(str(part.content) for part in model.stream(f"{name} acts"))]}

        inner = StateGraph(State, output_schema=Said).add_node("think", think).add_node("act", act)
        return inner.add_edge(START, "think").add_edge("think", "act").compile(checkpointer=saver)

    graph = StateGraph(State)
    for name, saver in (("a", None), ("b", True), ("c", None)):
        graph.add_node(name, agent(name, saver)).add_edge(START, name)
    return (
        graph.add_node("join", lambda _: {"name": "done"})
        .add_edge(["a", "b", "c"], "join")
        .compile(checkpointer=InMemorySaver())
    )


def asking(model: SlowChat) -> Any:
    """Two branches that ask a human after a call each."""

    def ask(name: str) -> Callable[[State], State]:
        def node(state: State) -> State:
            said = model.invoke(f"What does {name} ask?")
            return {"said": [said, interrupt(f"{name}: {said.content}")]}

        return node

    graph = StateGraph(State)
    for name in "abc":
        graph.add_node(name, ask(name)).add_edge(START, name).add_edge(name, END)
    return graph.compile(checkpointer=InMemorySaver())


def tools(model: SlowChat) -> Any:
    """A node that runs the tools of one message in threads."""

    @tool
    def look(name: str) -> str:
        """Look at something."""
        get_stream_writer()(f"looks at {name}")
        return str(model.invoke(f"look at {name}").content)

    def call(state: State) -> Any:
        calls = [{"name": "look", "args": {"name": name}, "id": name, "type": "tool_call"} for name in state["names"]]
        return {"messages": [AIMessage("", tool_calls=calls)]}

    class Messages(State):
        messages: Annotated[list[Any], operator.add]

    graph = StateGraph(Messages).add_node("call", call).add_node("tools", ToolNode([look]))
    return graph.add_edge(START, "call").add_edge("call", "tools").compile(checkpointer=InMemorySaver())


def functional(model: SlowChat) -> Any:
    """What is asked next depends on which task is first."""

    @task
    def ask(name: str) -> Any:
        return model.invoke(f"first {name}")

    @entrypoint(checkpointer=InMemorySaver())
    def flow(given: State) -> Any:
        asked = [ask(name) for name in given["names"]]
        return [ask(f"then {future.result().content}").result() for future in as_completed(asked)]

    return flow


def parallel(model: SlowChat) -> Any:
    """LangChain's own parallel branches, and a batch inside of each."""
    each = {
        name: RunnableLambda(lambda state, name=name: model.batch([f"{name} {other}" for other in state["names"]]))
        for name in "abc"
    }
    return RunnableParallel(each)


class Heard(BaseCallbackHandler):
    """Notes every callback with its ids."""

    def __init__(self) -> None:
        self.events: list[Any] = []

    def __getattribute__(self, name: str) -> Any:
        if not name.startswith("on_"):
            return super().__getattribute__(name)
        events = self.events

        def note(*args: Any, **kwargs: Any) -> None:
            ids = {key: kwargs.get(key) for key in ("run_id", "parent_run_id", "name", "tags")}
            events.append((name, repr(args[-1:])[:200] if name != "on_chat_model_start" else "", ids))

        return note


class Traced(BaseTracer):
    """Notes the runs of a tracer, as they end."""

    def __init__(self) -> None:
        super().__init__()
        self.ended: list[Any] = []

    def _persist_run(self, run: Any) -> None:
        self.ended.append(_tree(run))


def _tree(run: Any) -> Any:
    return run.name, run.id, run.dotted_order, [event["name"] for event in run.events], list(map(_tree, run.child_runs))


PROGRAMS = [map_reduce, agents, asking, tools, functional, parallel]


@pytest.mark.sweep
@pytest.mark.parametrize("streams", [False, True], ids=["invoke", "stream"])
@pytest.mark.parametrize("program", PROGRAMS, ids=lambda program: program.__name__)
def test_all_that_can_be_seen_comes_in_the_recorded_order(
    world: World, tmp_path: Path, program: Program, *, streams: bool
) -> None:
    """Results, parts of streams, callbacks, traces and the saver's bytes are raw equal in each replay."""

    def _plain(value: Any) -> Any:
        """Return mappings of any kind as lists of their items: the order counts."""
        return [(key, _plain(item)) for key, item in value.items()] if isinstance(value, dict) else value

    def drive(program: Program, model: SlowChat, *, streams: bool) -> list[Any]:
        """Run a program and return all that can be seen of it."""
        heard, traced, graph = Heard(), Traced(), program(model)
        config = {**CONFIG, "callbacks": [heard, traced]}
        given: Any = {"names": ["x", "y", "z"]}
        facts: list[Any] = []
        for given_next in (given, None) if program is asking else (given,):
            if given_next is None:
                given_next = Command(resume={each.id: each.value for each in graph.get_state(CONFIG).interrupts})  # noqa: PLW2901
            if streams and program is not parallel:
                facts.append(list(graph.stream(given_next, config, stream_mode=MODES, subgraphs=True)))
            else:
                facts.append(graph.invoke(given_next, config))
        saver = getattr(graph, "checkpointer", None)
        kept = [_plain(saver.storage), _plain(saver.blobs), _plain(saver.writes)] if saver is not None else []
        return [facts, heard.events, traced.ended, *kept]

    with use_cassette(tmp_path / "c.yaml", mode="all"):
        recorded = drive(program, SlowChat(world=world, random=random.Random(1)), streams=streams)
    world.gone = True
    for seed in range(REPLAYS):
        with use_cassette(tmp_path / "c.yaml", mode="none") as session:
            replayed = drive(program, SlowChat(world=world, random=random.Random(seed)), streams=streams)
        assert session.report.nondeterminism == ()
        for one, other in zip(replayed, recorded, strict=True):
            assert repr(one) == repr(other)
