"""Virtual time of graphs: the time limit of a step."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any, TypedDict

import pytest
from langgraph.graph import START, StateGraph
from tests.kit.times import took

from agenttape_core import use_cassette

from .fakes import AsyncChat, PlainChat, World


class State(TypedDict, total=False):
    """An answer of each node."""

    quick: str
    slow: str


@pytest.mark.parametrize(
    ("limit", "result"), [(None, (20, ["quick", "slow"])), (30, (20, ["quick", "slow"])), (10, 10)]
)
def test_the_time_limit_of_a_step_is_virtual(tmp_path: Path, limit: float | None, result: Any) -> None:
    """Nodes take their recorded time, in threads too, and a step that takes too long is ended."""

    def graph(limit: float | None = None) -> Any:
        """Return a graph of two nodes that ask at once, one of them in a thread."""
        model, plain = AsyncChat(world=World()), PlainChat(world=World())

        async def slow(_: State) -> State:
            return {"slow": (await model.ainvoke("slow")).text}

        def quick(_: State) -> State:
            return {"quick": plain.invoke("quick").text}

        builder = StateGraph(State).add_node("a", slow).add_node("b", quick).add_edge(START, "a").add_edge(START, "b")
        compiled = builder.compile()
        compiled.step_timeout = limit
        return compiled

    def run(path: Path, *, limit: float | None = None, **options: Any) -> Any:
        """Run the graph, and return the seconds that it took in its loop, and what it answered."""

        async def runs() -> Any:
            loop = asyncio.get_running_loop()
            async with use_cassette(path, on_unused="ignore", **options):
                began = loop.time()
                try:
                    answers = await graph(limit).ainvoke({})
                except TimeoutError:
                    return round(loop.time() - began, 3)
                return round(loop.time() - began, 3), sorted(answers)

        return asyncio.run(runs())

    run(tmp_path / "run.yaml", mode="all")
    took(tmp_path / "run.yaml", {1: 20, 2: 20})
    assert run(tmp_path / "run.yaml", limit=limit, pace="virtual") == result
