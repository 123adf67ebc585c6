"""Five seeded failures of agents, each made small: what is left fails alike, and holds hardly more than the cause."""

from __future__ import annotations

import enum
import json
import operator
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Annotated, Any, TypedDict

import pytest
from langchain_core.documents import Document
from langchain_core.messages import AIMessage, BaseMessage, HumanMessage, ToolMessage
from langchain_core.retrievers import BaseRetriever
from langchain_core.tools import tool
from langgraph.graph import END, START, StateGraph
from langgraph.types import Send

from agenttape_core import Rule, open_cassette, use_cassette
from agenttape_core.experiments import shrink
from agenttape_core.experiments.program import failure_of
from agenttape_core.tools.target import run_to_end

from .fakes import PlainChat, World, calling

MAIL = "ada.lovelace@analytical-engines.com"
WORDS = "A long way from here, in a town that nobody has ever heard of, somebody wrote this. "


def documents(world: World) -> Callable[[], Any]:
    """One of forty documents has no year."""

    class Library(BaseRetriever):
        def _get_relevant_documents(self, query: str, **_: Any) -> list[Document]:
            world.reach("library")
            years = [None if n == 23 else 1900 + n for n in range(40)]
            return [Document(f"{query} {WORDS * 5}", metadata={"year": year, "by": MAIL}) for year in years]

    library, model = Library(), PlainChat(world=world)

    def run() -> Any:
        found = library.invoke("engines")
        lines = [f"{document.metadata['year']:04d} {document.page_content}" for document in found]
        return model.invoke("\n".join(lines))

    return run


class Unit(enum.Enum):
    """The units that a tool knows."""

    CELSIUS = "celsius"
    FAHRENHEIT = "fahrenheit"


def wrong_enum(world: World) -> Callable[[], Any]:
    """A model calls a tool with a unit that there is not, after it has called others."""

    def reply(_: Sequence[BaseMessage], number: int) -> AIMessage:
        towns = [("weather", {"city": f"Town {n}", "unit": "celsius"}) for n in range(12)]
        paris = ("weather", {"city": "Paris", "unit": "kelvin" if number == 43 else "celsius"})
        return calling(*towns, paris, number=number, text=WORDS * 5)

    @tool
    def weather(city: str, unit: str) -> str:
        """Return the weather."""
        world.reach("weather")
        return f"{city}: {WORDS} {unit}"

    model = PlainChat(world=world, reply=reply)

    def run() -> Any:
        messages: list[BaseMessage] = [HumanMessage("How warm is it?")]
        for _ in range(6):
            answer = model.invoke(messages)
            messages.append(answer)
            for call in answer.tool_calls:
                Unit(call["args"]["unit"])
                messages.append(ToolMessage(weather.invoke(call["args"]), tool_call_id=call["id"]))
        return messages

    return run


def unicode(world: World) -> Callable[[], Any]:
    """One line of a long page holds a separator that `splitlines` takes for the end of a line."""

    @tool
    def fetch(page: str) -> str:
        """Return a page."""
        world.reach("fetch")
        lines = [f"{page} {n} = {WORDS * 3}" for n in range(120)]
        lines[77] = lines[77].replace(" a ", " \u2028 ", 1)
        return "\n".join(lines)

    def run() -> Any:
        return dict(line.split(" = ") for line in fetch.invoke({"page": "prices"}).splitlines())

    return run


class State(TypedDict):
    """The state of a fan."""

    notes: Annotated[list[Any], operator.add]
    topics: list[str]


def sends(world: World) -> Callable[[], Any]:
    """One of six branches finds a price that is no number."""

    def reply(*_: Any) -> AIMessage:
        return AIMessage(json.dumps({"topics": [f"topic {n}" for n in range(6)]}))

    @tool
    async def search(topic: str) -> list[dict[str, str]]:
        """Return offers."""
        world.reach("search")
        bad = topic == "topic 3"
        return [{"title": f"{topic} {WORDS * 5}", "price": "n/a" if bad and n == 5 else str(n)} for n in range(12)]

    model = PlainChat(world=world, reply=reply)

    async def plan(_: State) -> Any:
        return {"topics": json.loads((await model.ainvoke("plan")).text)["topics"]}

    async def research(given: Any) -> Any:
        offers = await search.ainvoke({"topic": given["topic"]})
        return {"notes": offers}

    async def write(state: State) -> Any:
        return {"topics": [str(sum(int(offer["price"]) for offer in state["notes"]))]}

    builder = StateGraph(State)
    builder.add_node("plan", plan)
    builder.add_node("research", research)
    builder.add_node("write", write)
    builder.add_edge(START, "plan")
    builder.add_conditional_edges("plan", lambda state: [Send("research", {"topic": t}) for t in state["topics"]])
    builder.add_edge("research", "write")
    builder.add_edge("write", END)
    graph = builder.compile()

    async def run() -> Any:
        return await graph.ainvoke({"notes": [], "topics": []})

    return run


def long_thread(world: World) -> Callable[[], Any]:
    """The third of sixty answers of a thread names a wrong order."""

    def reply(_: Sequence[BaseMessage], number: int) -> AIMessage:
        order = 9981 if number == 3 else 1200 + number
        return calling(*[("more", {})][: number < 60], number=number, text=f"{WORDS} order {order}")

    model = PlainChat(world=world, reply=reply)

    def run() -> Any:
        messages: list[BaseMessage] = [HumanMessage("Go on.")]
        said = []
        while True:
            answer = model.invoke(messages[-2:])
            said.append(answer.text)
            messages += [answer, HumanMessage(f"And then, after {len(said)}?")]
            if not answer.tool_calls:
                break
        assert not any("9981" in text for text in said)

    return run


@pytest.mark.parametrize(
    "make", [documents, wrong_enum, unicode, sends, pytest.param(long_thread, marks=pytest.mark.night)]
)
def test_a_seeded_failure_becomes_small(
    make: Callable[[World], Callable[[], Any]], world: World, project: Path
) -> None:
    """At most a twentieth is left after at most 300 replays. It replays strictly, fails alike, is marked, and safe."""
    run = make(world)
    with (
        pytest.raises(Exception) as recorded,
        use_cassette("c", mode="all", on_error="keep", redact=[Rule("email", keep=True)]),
    ):
        run_to_end(run)
    assert (MAIL in Path("cassettes/c.yaml").read_text()) is (make is documents)
    world.gone = True
    found = shrink(run, "c")
    assert found.share <= 0.05, str(found)
    assert found.replays <= 300
    with pytest.raises(recorded.type) as again, use_cassette(found.cassette, on_unused="ignore") as session:
        run_to_end(run)
    assert not session.report.unused
    assert session.failure is None
    assert failure_of(again.value).is_like(failure_of(recorded.value))
    assert str(again.value) == str(recorded.value) or recorded.type is AssertionError or make is unicode
    items = list(open_cassette(found.cassette).interactions())
    assert len(items) == found.calls[1] <= 3
    assert any("edited" in item.tags for item in items)
    assert open_cassette(found.cassette).header.origin == {
        "shrunk": "c.yaml",
        "failure": f"{found.failure.name} in {found.failure.function}",
    }
    assert MAIL not in found.cassette.read_text()
