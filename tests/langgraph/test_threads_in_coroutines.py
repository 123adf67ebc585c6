"""Synchronous code that uses threads, in a coroutine: its threads have no recorded order, and each replay says so."""

from __future__ import annotations

import asyncio
import operator
import random
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor, as_completed
from pathlib import Path
from typing import Annotated, Any, TypedDict

import pytest
from langchain_core.runnables import RunnableLambda, RunnableParallel
from langgraph.graph import START, StateGraph

from agenttape_core import boundary, use_cassette

NAMES = ("a", "b", "c")


class World:
    """The outside: answers the calls of all threads together, in an order of its own."""

    def __init__(self) -> None:
        self._all = threading.Barrier(len(NAMES), timeout=30)
        self._random = random.Random(7)
        self.gone = False

    @property
    def ask(self) -> Callable[[str], str]:
        """Answers once all have asked."""

        @boundary("call")
        def ask(question: str) -> str:
            assert not self.gone, "was reached"
            self._all.wait()
            time.sleep(self._random.uniform(0, 0.003))
            return f"{question}!"

        return ask


class State(TypedDict, total=False):
    """What branches write to together."""

    said: Annotated[list[str], operator.add]


def a_pool(ask: Callable[[str], str]) -> Any:
    """Take what a pool has done as it comes."""
    with ThreadPoolExecutor(len(NAMES)) as pool:
        return [done.result() for done in as_completed([pool.submit(ask, name) for name in NAMES])]


def a_batch(ask: Callable[[str], str]) -> Any:
    """Run a chain on several inputs at once, as they come."""
    return list(RunnableLambda(ask).batch_as_completed(list(NAMES)))


def branches(ask: Callable[[str], str]) -> Any:
    """Run chains at once that write to one list."""
    log: list[str] = []
    steps = {name: RunnableLambda(lambda _, name=name: log.append(ask(name))) for name in NAMES}
    RunnableParallel(steps).invoke("")
    return log


def a_graph(ask: Callable[[str], str]) -> Any:
    """Stream a graph with parallel nodes."""
    builder = StateGraph(State)
    for name in NAMES:
        builder.add_node(name, lambda _, name=name: {"said": [ask(name)]}).add_edge(START, name)
    return list(builder.compile().stream({"said": []}, stream_mode="updates"))


@pytest.mark.parametrize("where", ["in the loop", "in a thread"])
@pytest.mark.parametrize("program", [a_pool, a_batch, branches, a_graph], ids=lambda program: program.__name__)
def test_threads_of_synchronous_code_in_a_coroutine_keep_their_order(
    program: Callable[[Callable[[str], str]], Any], where: str, tmp_path: Path
) -> None:
    """Threads for which a coroutine blocks its loop, or waits by `to_thread`, do the same in the same order."""
    world = World()

    async def run(**options: Any) -> tuple[Any, tuple[str, ...]]:
        with use_cassette(tmp_path / "c.yaml", **options) as session:
            ended = program(world.ask) if where == "in the loop" else await asyncio.to_thread(program, world.ask)
            return ended, session.report.nondeterminism

    recorded, _ = asyncio.run(run(mode="once"))
    world.gone = True
    for _ in range(2):
        replayed, told = asyncio.run(run())
        if where == "in the loop":
            assert (replayed, told) == (recorded, ())
        else:
            assert replayed == recorded or told  # a machine that stands still is told
