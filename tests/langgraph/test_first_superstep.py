"""Threads that are interrupted in their first superstep, and continue there: each run keeps its own identity."""

from __future__ import annotations

import asyncio
import operator
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Annotated, Any, TypedDict

import pytest
from langchain_core.callbacks import BaseCallbackHandler
from langchain_core.language_models import FakeListChatModel
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.func import entrypoint, task
from langgraph.graph import START, MessagesState, StateGraph
from langgraph.types import Command, interrupt

from agenttape_core import use_cassette
from agenttape_langchain import TapeCallbackHandler

from ..kit.replaying import recorded_as_replayed
from ..langchain.fakes import RunIds

YES: Any = Command(resume="yes")


class Said(TypedDict, total=False):
    """What was said."""

    said: Annotated[list[str], operator.add]


class Program:
    """A program that invokes graphs, and keeps all that must be equal.

    Args:
        how: `sync` or `async`.
        handlers: More handlers.
    """

    def __init__(self, how: str, handlers: Sequence[BaseCallbackHandler] = ()) -> None:
        self.how = how
        self.ids = RunIds()
        self.handlers = [self.ids, *handlers]
        self.model = FakeListChatModel(responses=[f"answer {number}" for number in range(20)])

    def invoke(self, graph: Any, given: Any, thread: str = "t") -> Any:
        config = {"configurable": {"thread_id": thread}, "callbacks": self.handlers}
        return graph.invoke(given, config) if self.how == "sync" else asyncio.run(graph.ainvoke(given, config))

    def checkpoints(self, graph: Any, thread: str = "t") -> list[Any]:
        history = graph.get_state_history({"configurable": {"thread_id": thread}})
        return [(state.config["configurable"]["checkpoint_id"], state.created_at) for state in history]

    def human(self, state: Any) -> Any:
        return {"messages": [("user", interrupt("?"))]}

    def bot(self, state: Any) -> Any:
        return {"messages": [self.model.invoke(state["messages"])]}

    def ask(self, state: Any) -> Any:
        first = interrupt("1?")
        one = self.model.invoke("same").text
        second = interrupt("2?")
        return {"said": [first, one, second, self.model.invoke("same").text]}

    def asking(self) -> Any:
        builder: Any = StateGraph(Said)
        return builder.add_node("ask", self.ask).add_edge(START, "ask").compile(checkpointer=InMemorySaver())


def _messages(end: Any) -> list[Any]:
    return [(message.text, message.id) for message in end["messages"]]


def two_questions(program: Program) -> Any:
    """A node asks twice, and asks a model the same before and after."""
    graph = program.asking()
    program.invoke(graph, {"said": []})
    program.invoke(graph, YES)
    return program.invoke(graph, YES), program.checkpoints(graph)


def human_bot_human(program: Program) -> Any:
    """Two nodes ask a person, and a model answers in between."""
    builder: Any = StateGraph(MessagesState)
    builder.add_node("human", program.human).add_node("bot", program.bot).add_node("again", program.human)
    builder.add_edge(START, "human").add_edge("human", "bot").add_edge("bot", "again")
    graph = builder.compile(checkpointer=InMemorySaver())
    program.invoke(graph, {"messages": []})
    program.invoke(graph, YES)
    return _messages(program.invoke(graph, YES)), program.checkpoints(graph)


def chat_loop(program: Program) -> Any:
    """A chat waits for a person in its first node, turn by turn."""
    builder: Any = StateGraph(MessagesState)
    builder.add_node("human", program.human).add_node("bot", program.bot)
    builder.add_edge(START, "human").add_edge("human", "bot").add_edge("bot", "human")
    graph = builder.compile(checkpointer=InMemorySaver())
    program.invoke(graph, {"messages": []})
    turns = [_messages(program.invoke(graph, YES)) for _ in range(3)]
    return turns, program.checkpoints(graph)


def static_interrupts(program: Program) -> Any:
    """A subgraph of the first node stops before each of its nodes, and is continued with `None`."""
    inner: Any = StateGraph(MessagesState)
    inner.add_node("one", program.bot).add_node("two", program.bot).add_edge(START, "one").add_edge("one", "two")
    builder: Any = StateGraph(MessagesState)
    builder.add_node("sub", inner.compile(interrupt_before=["one", "two"])).add_edge(START, "sub")
    graph = builder.compile(checkpointer=InMemorySaver())
    program.invoke(graph, {"messages": [("user", "hi")]})
    program.invoke(graph, None)
    return _messages(program.invoke(graph, None)), program.checkpoints(graph)


def interleaved(program: Program) -> Any:
    """Two threads are asked and answered in turns."""
    graph = program.asking()
    for given, threads in (({"said": []}, "ab"), (YES, "ba")):
        for thread in threads:
            program.invoke(graph, given, thread)
    ends = [program.invoke(graph, YES, thread) for thread in "ab"]
    return ends, [program.checkpoints(graph, thread) for thread in "ab"]


def turns_beside_beginnings(program: Program) -> Any:
    """A conversation has a second turn with the input that begins another one."""
    builder: Any = StateGraph(MessagesState)
    graph = builder.add_node("bot", program.bot).add_edge(START, "bot").compile(checkpointer=InMemorySaver())
    return [_messages(program.invoke(graph, {"messages": [("user", "hi")]}, thread)) for thread in "aba"]


def functional(program: Program) -> Any:
    """A workflow of the functional API asks twice."""

    @task
    def say() -> str:
        return program.model.invoke("same").text

    @task
    async def asay() -> str:
        return (await program.model.ainvoke("same")).text

    if program.how == "sync":

        @entrypoint(checkpointer=InMemorySaver())
        def flow(_: Any) -> Any:
            return [say().result(), interrupt("1?"), say().result(), interrupt("2?"), program.model.invoke("same").text]
    else:

        @entrypoint(checkpointer=InMemorySaver())
        async def flow(_: Any) -> Any:
            first = [await asay(), interrupt("1?"), await asay(), interrupt("2?")]
            return [*first, (await program.model.ainvoke("same")).text]

    program.invoke(flow, {"x": 1})
    program.invoke(flow, YES)
    return program.invoke(flow, YES), program.checkpoints(flow)


CASES = [two_questions, human_bot_human, chat_loop, static_interrupts, interleaved, turns_beside_beginnings, functional]


@pytest.mark.sweep
@pytest.mark.parametrize("how", ["sync", "async"])
@pytest.mark.parametrize("case", CASES)
def test_runs_keep_their_identity(case: Callable[[Program], Any], how: str, tmp_path: Path) -> None:
    """Results, ids of messages and runs, and checkpoints are equal, however often a thread continues where it began."""

    def run() -> Any:
        program = Program(how)
        return case(program), program.ids.runs

    recorded_as_replayed(tmp_path / "c.yaml", run)


@pytest.mark.parametrize("how", ["sync", "async"])
def test_observed_thread_gets_its_own_answers(how: str, tmp_path: Path) -> None:
    """A thread that a handler observed gets the answers of each of its runs."""
    path = tmp_path / "observed.yaml"
    with TapeCallbackHandler(path) as handler:
        recorded = two_questions(Program(how, [handler]))[0]
    assert handler.errors == []
    with use_cassette(path):
        assert two_questions(Program(how))[0] == recorded
