"""Threads that continue and runs that make no calls: each run keeps its own identity."""

from __future__ import annotations

import asyncio
import operator
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, as_completed, wait
from pathlib import Path
from typing import Annotated, Any, TypedDict

import pytest
from langchain_core.callbacks import BaseCallbackHandler
from langchain_core.language_models import FakeListChatModel
from langchain_core.runnables import RunnableLambda
from langgraph.cache.memory import InMemoryCache
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.func import entrypoint, task
from langgraph.graph import END, START, MessagesState, StateGraph
from langgraph.types import CachePolicy, Command, interrupt

from agenttape_core import open_cassette, use_cassette
from agenttape_langchain import TapeCallbackHandler

from ..kit.replaying import recorded_as_replayed
from ..langchain.fakes import RunIds

# -- Threads that are interrupted in their first superstep, and continue there: each run keeps its own identity --------

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

    def invoke(self, graph: Any, given: Any, thread: str | None = "t") -> Any:
        config = {"configurable": {"thread_id": thread} if thread else {}, "callbacks": self.handlers}
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


# -- Runs that make no calls: each is a recorded run of its own, and takes the identity of no other --------------------


class Draft(TypedDict, total=False):
    """A draft."""

    doc: str
    draft: str


class Drafts(Program):
    """A program whose graphs run without a thread, unless one is given."""

    def invoke(self, graph: Any, given: Any, thread: str | None = None) -> Any:
        return super().invoke(graph, given, thread)

    def write(self, state: Any) -> Any:
        return {"draft": self.model.invoke(state["doc"]).text}

    def graph(self, route: Callable[[Any], Any] | None = None, *, cached: bool = False, **compiled: Any) -> Any:
        builder: Any = StateGraph(Draft)
        builder.add_node("write", self.write, cache_policy=CachePolicy() if cached else None)
        if route is None:
            builder.add_edge(START, "write")
        else:
            builder.add_conditional_edges(START, route)
        return builder.compile(cache=InMemoryCache() if cached else None, **compiled)


def cache_hits(program: Drafts) -> Any:
    """The second run is a hit of the cache, which is emptied before the third."""
    graph = program.graph(cached=True)
    made = [program.invoke(graph, {"doc": "x"}) for _ in range(2)]
    graph.clear_cache()
    return [*made, program.invoke(graph, {"doc": "x"}), program.invoke(graph, {"doc": "x"})]


def cache_hits_of_a_thread(program: Drafts) -> Any:
    """The same, each in a thread of its own."""
    graph = program.graph(cached=True, checkpointer=InMemorySaver())
    made = [program.invoke(graph, {"doc": "x"}, thread) for thread in "ab"]
    graph.clear_cache()
    return [*made, *(program.invoke(graph, {"doc": "x"}, thread) for thread in "cd")]


def branches(program: Drafts) -> Any:
    """Each second run ends where it began."""
    turns = iter([True, False, True, False, True])
    graph = program.graph(lambda _: "write" if next(turns) else END)
    return [program.invoke(graph, {"doc": "x"}) for _ in range(5)]


def failures(program: Drafts) -> Any:
    """The second run raises before any node."""
    turns: Iterator[bool] = iter([True, False, True])

    def route(_: Any) -> str:
        if not next(turns):
            raise ValueError("no route")
        return "write"

    made: list[Any] = []
    graph = program.graph(route)
    for _ in range(3):
        try:
            made.append(program.invoke(graph, {"doc": "x"}))
        except ValueError as error:
            made.append(str(error))
    return made


def batches(program: Drafts) -> Any:
    """Items of batches end where they began."""
    graph = program.graph(lambda state: END if state["doc"] == "no" else "write")
    inputs: Any = [{"doc": doc} for doc in ("a", "no", "b", "no")]
    config: Any = {"callbacks": [program.ids], "max_concurrency": 1}
    if program.how == "sync":
        return [graph.batch(inputs, config) for _ in range(2)]
    return [asyncio.run(graph.abatch(inputs, config)) for _ in range(2)]


def lambdas(program: Drafts) -> Any:
    """A plain function runs the graph in each second of its runs."""
    graph, turns = program.graph(cached=True), iter([True, False, True, True])

    def maybe(state: Any) -> Any:
        return graph.invoke(state) if next(turns) else state

    return [program.invoke(RunnableLambda(maybe), {"doc": "x"}) for _ in range(4)]


CASES = {
    Program: [
        two_questions,
        human_bot_human,
        chat_loop,
        static_interrupts,
        interleaved,
        turns_beside_beginnings,
        functional,
    ],
    Drafts: [cache_hits, cache_hits_of_a_thread, branches, failures, batches, lambdas],
}


@pytest.mark.sweep
@pytest.mark.parametrize("how", ["sync", "async"])
@pytest.mark.parametrize(("kind", "case"), [(kind, case) for kind, cases in CASES.items() for case in cases])
def test_runs_keep_their_identity(kind: type[Any], case: Callable[[Any], Any], how: str, tmp_path: Path) -> None:
    """Results, ids and checkpoints are equal, also of runs that continue where others began, or call nothing."""

    def run() -> Any:
        program = kind(how)
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


def test_each_outermost_graph_has_one_step(tmp_path: Path) -> None:
    """The file holds one step for each run of a graph, with its thread, whether or not a node ran."""
    path = tmp_path / "c.yaml"
    with use_cassette(path, mode="all"):
        cache_hits_of_a_thread(Drafts("sync"))
    graphs = [step for step in open_cassette(path).steps() if "/" not in step.address]
    assert {step.address: step.metadata["thread_id"] for step in graphs} == {
        "LangGraph": "a",
        "LangGraph#2": "b",
        "LangGraph#3": "c",
        "LangGraph#4": "d",
    }
    assert len(graphs) == 4


def test_chains_without_graphs_have_no_steps(tmp_path: Path) -> None:
    """A program of plain functions keeps a file without steps, even if some of them call nothing."""
    program, turns = Drafts("sync"), iter([True, False, True])
    maybe = RunnableLambda(lambda text: program.model.invoke(text).text if next(turns) else text)
    with use_cassette(tmp_path / "c.yaml", mode="all"):
        for _ in range(3):
            program.invoke(maybe, "x")
    assert "\nstep: " not in (tmp_path / "c.yaml").read_text()


# -- Workflows of the functional API that are resumed: their tasks are done when they ask for them again ---------------


def _by_completion(futures: list[Any]) -> list[str]:
    return [future.result() for future in as_completed(futures)]


def _by_wait(futures: list[Any]) -> list[str]:
    return [future.result() for future in wait(futures).done]


def _by_first(futures: list[Any]) -> list[str]:
    found, left = [], set(futures)
    while left:
        done, left = wait(sorted(left, key=futures.index), return_when=FIRST_COMPLETED)
        found += [future.result() for future in done]
    return found


@pytest.mark.parametrize("take", [_by_completion, _by_wait, _by_first])
def test_results_of_tasks_come_in_one_order(take: Any, tmp_path: Path) -> None:
    """A workflow that's resumed takes the results of its tasks in the recorded order."""

    def run() -> Any:
        model = FakeListChatModel(responses=[f"answer {number}" for number in range(20)])

        @task
        def ask(number: int) -> str:
            return model.invoke(f"question {number}").text

        @entrypoint(checkpointer=InMemorySaver())
        def flow(_: Any) -> Any:
            came = take([ask(number) for number in range(12)])
            return came, interrupt("ok?")

        config: Any = {"configurable": {"thread_id": "t"}}
        flow.invoke({}, config)
        resume: Any = Command(resume="yes")
        return flow.invoke(resume, config)

    recorded_as_replayed(tmp_path / "c.yaml", run, times=3)
