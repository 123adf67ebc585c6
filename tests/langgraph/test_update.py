"""The mode `update` of a parallel graph: exactly the calls of the edited branch are executed."""

from __future__ import annotations

import operator
from pathlib import Path
from typing import Annotated, Any, TypedDict

import pytest
from langchain_core.tools import tool
from langgraph.graph import START, StateGraph
from langgraph.types import Send

from agenttape_core import use_cassette

from .fakes import StreamingChat, World


class Notes(TypedDict):
    """The notes on topics."""

    notes: Annotated[list[str], operator.add]


class Topic(TypedDict):
    """One topic."""

    topic: str


def desk(world: World, edited: str = "") -> Any:
    """A plan, eight branches that each look something up and ask a model, and a model that writes."""
    model = StreamingChat(world=world)

    @tool
    def look_up(topic: str) -> str:
        """Look a topic up."""
        return f"{topic} {world.reach('look_up')}"

    def plan(_: Notes) -> dict[str, Any]:
        return {"notes": [model.invoke("plan").text]}

    def work(state: Topic) -> dict[str, Any]:
        topic = state["topic"]
        found = look_up.invoke({"topic": topic + edited if topic == "t3" else topic})
        model.invoke(f"What of {topic}? {found}")
        return {"notes": [topic]}

    def write(state: Notes) -> dict[str, Any]:
        return {"notes": [model.invoke(" ".join(state["notes"][1:])).text]}

    builder = StateGraph(Notes).add_node("plan", plan).add_node("work", work).add_node("write", write)
    builder.add_edge(START, "plan").add_edge("work", "write")
    builder.add_conditional_edges("plan", lambda _: [Send("work", {"topic": f"t{n}"}) for n in range(8)], ["work"])
    return builder.compile()


def records(path: Path) -> list[str]:
    """Return the records of a cassette as they stand in the file."""
    return path.read_text().split("\n---\n")[1:]


@pytest.mark.parametrize("is_async", [False, True], ids=["sync", "async"])
async def test_one_of_eight_branches(tmp_path: Path, is_async: bool) -> None:
    """Two calls of eighteen are executed, every record of the others stays byte for byte, and the run replays."""

    async def run(world: World, edited: str, **options: Any) -> tuple[Any, Any]:
        async with use_cassette(tmp_path / "desk.yaml", **options) as session:
            graph = desk(world, edited)
            result = await graph.ainvoke({"notes": []}) if is_async else graph.invoke({"notes": []})
        return result, session.report

    await run(World(), "", mode="all")
    before = records(tmp_path / "desk.yaml")
    world = World()
    updated, report = await run(world, " edited", mode="update")
    assert (len(report.served), len(report.executed), len(report.unused)) == (16, 2, 2)
    after = records(tmp_path / "desk.yaml")
    assert len(before) == len(after)
    assert sum(old != new for old, new in zip(before, after, strict=True)) == 2
    replayed, report = await run(World(), " edited")
    assert (replayed, len(report.served)) == (updated, 18)
