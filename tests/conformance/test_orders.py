"""Programs without a race: no order of their answers may raise an alarm. `make orders` tries a thousand of each."""

from __future__ import annotations

import asyncio
import inspect
import operator
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Annotated, Any, TypedDict

import pytest

from agenttape_core import use_cassette
from agenttape_core.experiments import orders

from ..kit.asking import ask, look
from ..kit.world import World

pytest.importorskip("langgraph.graph")
pytest.importorskip("llama_index.core")
from langgraph.graph import START, StateGraph
from langgraph.types import Send

from ..langgraph.fakes import AsyncChat
from ..llamaindex.scripted import ScriptedLLM
from ..llamaindex.test_experiments import Parallel

BRANCHES = "abcd"


def threads() -> Any:
    """Branches with two calls each, in a thread pool."""
    with ThreadPoolExecutor(len(BRANCHES)) as pool:
        return look(" ".join(pool.map(lambda place: look(look(place)), BRANCHES)))


async def tasks() -> Any:
    """The same in tasks."""

    async def branch(place: str) -> str:
        return await ask(await ask(place))

    return await ask(" ".join(await asyncio.gather(*map(branch, BRANCHES))))


def _graph(*, is_async: bool) -> Any:
    model = AsyncChat(world=World())

    class State(TypedDict):
        notes: Annotated[list[str], operator.add]
        topic: str

    def research(state: State) -> Any:
        return {"notes": [model.invoke(f"more {model.invoke(state['topic']).text}").text]}

    async def aresearch(state: State) -> Any:
        return {"notes": [(await model.ainvoke(f"more {(await model.ainvoke(state['topic'])).text}")).text]}

    builder = StateGraph(State).add_node("research", aresearch if is_async else research)
    sends = [Send("research", {"topic": topic, "notes": []}) for topic in BRANCHES]
    builder.add_conditional_edges(START, lambda _: sends, ["research"])
    return builder.compile()


def sync_graph() -> Any:
    """Branches of a graph in a pool."""
    return _graph(is_async=False).invoke({"notes": [], "topic": ""})["notes"]


async def async_graph() -> Any:
    """The same in tasks."""
    return (await _graph(is_async=True).ainvoke({"notes": [], "topic": ""}))["notes"]


async def workflow() -> Any:
    """Parallel steps of a LlamaIndex workflow."""
    return await Parallel(ScriptedLLM(World()), is_racy=False).run()


@pytest.mark.parametrize("program", [threads, tasks, sync_graph, async_graph, workflow])
@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_no_alarm(tmp_path: Path, request: pytest.FixtureRequest, program: Callable[[], Any]) -> None:
    """Each order has the outcome of the recorded one, those nearest to it and those by chance."""
    with use_cassette(tmp_path / "run.yaml", mode="all"):
        asyncio.run(program()) if inspect.iscoroutinefunction(program) else program()
    wanted = request.config.getoption("--orders")
    found = orders(program, tmp_path / "run.yaml", runs=wanted)
    assert found.ok, str(found)
    assert found.is_exhaustive or found.orders > wanted // 2
