"""Runs that make no calls: each is a recorded run of its own, and takes the identity of no other."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, TypedDict

import pytest
from langchain_core.language_models import FakeListChatModel
from langchain_core.runnables import RunnableLambda
from langgraph.cache.memory import InMemoryCache
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.graph import END, START, StateGraph
from langgraph.types import CachePolicy

from agenttape_core import open_cassette, use_cassette

from ..kit.replaying import recorded_as_replayed
from ..langchain.fakes import RunIds


class Draft(TypedDict, total=False):
    """A draft."""

    doc: str
    draft: str


class Program:
    """A program that runs graphs, and keeps the ids of their runs."""

    def __init__(self, how: str) -> None:
        self.how = how
        self.ids = RunIds()
        self.model = FakeListChatModel(responses=[f"answer {number}" for number in range(20)])

    def invoke(self, app: Any, given: Any, **configurable: Any) -> Any:
        config: Any = {"callbacks": [self.ids], "configurable": configurable}
        return app.invoke(given, config) if self.how == "sync" else asyncio.run(app.ainvoke(given, config))

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


def cache_hits(program: Program) -> Any:
    """The second run is a hit of the cache, which is emptied before the third."""
    graph = program.graph(cached=True)
    made = [program.invoke(graph, {"doc": "x"}) for _ in range(2)]
    graph.clear_cache()
    return [*made, program.invoke(graph, {"doc": "x"}), program.invoke(graph, {"doc": "x"})]


def cache_hits_of_a_thread(program: Program) -> Any:
    """The same, each in a thread of its own."""
    graph = program.graph(cached=True, checkpointer=InMemorySaver())
    made = [program.invoke(graph, {"doc": "x"}, thread_id=thread) for thread in "ab"]
    graph.clear_cache()
    return [*made, *(program.invoke(graph, {"doc": "x"}, thread_id=thread) for thread in "cd")]


def branches(program: Program) -> Any:
    """Each second run ends where it began."""
    turns = iter([True, False, True, False, True])
    graph = program.graph(lambda _: "write" if next(turns) else END)
    return [program.invoke(graph, {"doc": "x"}) for _ in range(5)]


def failures(program: Program) -> Any:
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


def batches(program: Program) -> Any:
    """Items of batches end where they began."""
    graph = program.graph(lambda state: END if state["doc"] == "no" else "write")
    inputs: Any = [{"doc": doc} for doc in ("a", "no", "b", "no")]
    config: Any = {"callbacks": [program.ids], "max_concurrency": 1}
    if program.how == "sync":
        return [graph.batch(inputs, config) for _ in range(2)]
    return [asyncio.run(graph.abatch(inputs, config)) for _ in range(2)]


def lambdas(program: Program) -> Any:
    """A plain function runs the graph in each second of its runs."""
    graph, turns = program.graph(cached=True), iter([True, False, True, True])

    def maybe(state: Any) -> Any:
        return graph.invoke(state) if next(turns) else state

    return [program.invoke(RunnableLambda(maybe), {"doc": "x"}) for _ in range(4)]


CASES = [cache_hits, cache_hits_of_a_thread, branches, failures, batches, lambdas]


@pytest.mark.sweep
@pytest.mark.parametrize("how", ["sync", "async"])
@pytest.mark.parametrize("case", CASES)
def test_idle_runs_have_their_own_identity(case: Callable[[Program], Any], how: str, tmp_path: Path) -> None:
    """Results and ids of all runs are equal, although some runs called nothing."""

    def run() -> Any:
        program = Program(how)
        return case(program), program.ids.runs

    recorded_as_replayed(tmp_path / "c.yaml", run)


def test_each_outermost_graph_has_one_step(tmp_path: Path) -> None:
    """The file holds one step for each run of a graph, with its thread, whether or not a node ran."""
    path = tmp_path / "c.yaml"
    with use_cassette(path, mode="all"):
        cache_hits_of_a_thread(Program("sync"))
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
    program, turns = Program("sync"), iter([True, False, True])
    maybe = RunnableLambda(lambda text: program.model.invoke(text).text if next(turns) else text)
    with use_cassette(tmp_path / "c.yaml", mode="all"):
        for _ in range(3):
            program.invoke(maybe, "x")
    assert "\nstep: " not in (tmp_path / "c.yaml").read_text()
