"""A graph whose code has changed is found out, and updated."""

# ruff: noqa: D103 - what is no test says by its name what it does

from __future__ import annotations

import operator
from pathlib import Path
from typing import Annotated, Any, TypedDict

import pytest
from langchain_core.messages import AIMessage, SystemMessage, ToolMessage
from langchain_core.tools import BaseTool, InjectedToolCallId, tool
from langgraph.config import get_stream_writer
from langgraph.graph import END, START, MessagesState, StateGraph
from langgraph.prebuilt import ToolNode
from langgraph.types import Command, RetryPolicy, Send

from agenttape_core import use_cassette
from agenttape_core.errors import CassetteMissError, UnrecordedCallError
from agenttape_langgraph import tape

from .fakes import AsyncChat, PlainChat, StreamingChat, World

# -- A graph whose code has changed is found out: by node and superstep, and nowhere else ------------------------------


class State(TypedDict):
    """The findings of nodes."""

    n: int
    found: Annotated[list[str], operator.add]


def graph_of(world: World, edit: str = "") -> Any:
    """Plan, three branches, and an end, of which the test edits something."""
    model = AsyncChat(world=world)

    @tool
    def look(n: int) -> str:
        """Look."""
        return f"seen {n} at {world.reach('tool')}"

    def plan(state: State) -> dict[str, Any]:
        if edit == "raises":
            raise ValueError("edited")
        return {"found": [model.invoke("plan").text]}

    def branch(state: State) -> dict[str, Any]:
        prompt = f"branch {state['n']}" + (", edited" if edit == "prompt" and state["n"] == 1 else "")
        try:
            found = model.invoke(prompt).text
        except UnrecordedCallError as unrecorded:
            found = str(unrecorded)
        seen = [look.invoke({"n": 7})] if edit == "tool" and state["n"] == 2 else []
        return {"found": [found, look.invoke({"n": state["n"]}), *seen]}

    async def abranch(state: State) -> dict[str, Any]:
        return branch(state)

    def fan(state: State) -> list[Send]:
        return [Send("branch", {"n": n, "found": []}) for n in range(3)]

    builder = StateGraph(State).add_node("plan", plan, retry_policy=RetryPolicy(max_attempts=3))
    builder.add_node("branch", branch).add_edge(START, "plan").add_conditional_edges("plan", fan, ["branch"])
    return tape(builder.add_edge("branch", END).compile())


def replay(world: World, path: Path, edit: str, **options: Any) -> Any:
    with use_cassette(path, mode="all", auto=False):
        graph_of(world).invoke({"n": 0, "found": []})
    world.gone = True
    with use_cassette(path, auto=False, **options) as session:
        result = graph_of(world, edit).invoke({"n": 0, "found": []}, {"max_concurrency": 1})
    return result, session


def test_a_node_that_raises(world: World, tmp_path: Path) -> None:
    """A node that raises now ends the replay with its error, after the attempts of its retry policy."""
    with pytest.raises(ValueError, match="edited") as raised:
        replay(world, tmp_path / "c.yaml", "raises")
    assert any("task with name 'plan'" in note for note in raised.value.__notes__)


def test_a_node_that_calls_one_tool_more(world: World, tmp_path: Path) -> None:
    """The miss of a call that was not recorded names the node, its superstep and its branch."""
    with pytest.raises(CassetteMissError) as missed:
        replay(world, tmp_path / "c.yaml", "tool")
    assert missed.value.address == "LangGraph/branch@2[2]/look"
    assert 'node "branch", step 2' in str(missed.value)


def test_an_edited_branch(world: World, tmp_path: Path) -> None:
    """An edited prompt in one of three branches is the only miss; all else is replayed where it was recorded."""
    result, session = replay(world, tmp_path / "c.yaml", "prompt", on_miss="return", on_unused="ignore")
    assert len(result["found"]) == 7
    assert [str(replayed).split(" at ")[1] for replayed in session.report.replayed] == [
        "LangGraph/plan@1/AsyncChat (exact)",
        "LangGraph/branch@2[0]/AsyncChat (exact)",
        "LangGraph/branch@2[0]/look (exact)",
        "LangGraph/branch@2[1]/look (exact)",
        "LangGraph/branch@2[2]/AsyncChat (exact)",
        "LangGraph/branch@2[2]/look (exact)",
    ]
    (unrecorded,) = session.report.unrecorded
    assert unrecorded.address == "LangGraph/branch@2[1]/AsyncChat"
    (unused,) = session.report.unused
    assert unused.address == "LangGraph/branch@2[1]/AsyncChat"


# -- The mode `update` of a parallel graph: exactly the calls of the edited branch are executed ------------------------


class Notes(TypedDict):
    """The notes on topics."""

    notes: Annotated[list[str], operator.add]


class Topic(TypedDict):
    """One topic."""

    topic: str


def records(path: Path) -> list[str]:
    """Return the records of a cassette as they stand in the file."""
    return path.read_text().split("\n---\n")[1:]


@pytest.mark.parametrize("is_async", [False, True], ids=["sync", "async"])
async def test_one_of_eight_branches(tmp_path: Path, is_async: bool) -> None:
    """Two calls of eighteen are executed, every record of the others stays byte for byte, and the run replays."""

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

    async def run(world: World, edited: str, **options: Any) -> tuple[Any, Any]:
        async with use_cassette(tmp_path / "desk.yaml", **options) as session:
            graph = desk(world, edited)
            result = await graph.ainvoke({"notes": []}) if is_async else graph.invoke({"notes": []})
        return result, session.report

    await run(World(), "", mode="all")
    before = records(tmp_path / "desk.yaml")
    world = World()
    updated, report = await run(world, " edited", mode="update")
    assert (len(report.replayed), len(report.recorded), len(report.unused)) == (16, 2, 2)
    after = records(tmp_path / "desk.yaml")
    assert len(before) == len(after)
    assert sum(old != new for old, new in zip(before, after, strict=True)) == 2
    replayed, report = await run(World(), " edited")
    assert (replayed, len(report.replayed)) == (updated, 18)


@tool
def plain(topic: str) -> str:
    """Look a topic up."""
    return f"about {topic}"


@tool
def echoing(topic: str, call: Annotated[str, InjectedToolCallId]) -> Command[Any]:
    """Look a topic up, and write the id of the call into the state."""
    get_stream_writer()({"of": call})
    return Command(update={"messages": [ToolMessage(f"about {topic}", tool_call_id=call)]})


@tool
def failing(topic: str, call: Annotated[str, InjectedToolCallId]) -> str:
    """Fail, with the id of the call."""
    raise ValueError(call)


@pytest.mark.sweep
@pytest.mark.parametrize("form", ["call-{}", "00000000-0000-4000-8000-00000000000{}"])
@pytest.mark.parametrize("used", [plain, echoing, failing], ids=lambda used: used.name)
def test_replayed_calls_have_the_ids_of_the_new_answer(tmp_path: Path, used: BaseTool, form: str) -> None:
    """A call that is replayed below an executed one is kept as a whole new recording would have it, ids included."""

    def run(mode: Any, prompt: str, number: int) -> str:
        asks = [{"name": used.name, "args": {"topic": "rain"}, "id": form.format(number)}]
        planner = PlainChat(world=World(), reply=lambda *_: AIMessage("", tool_calls=asks))
        judge = PlainChat(world=World(), reply=lambda *_: AIMessage("Fine."))

        def plan(state: MessagesState) -> dict[str, Any]:
            return {"messages": [planner.invoke([SystemMessage(prompt), *state["messages"]])]}

        def conclude(state: MessagesState) -> dict[str, Any]:
            return {"messages": [judge.invoke(state["messages"][-2:])]}

        tools = ToolNode([used], handle_tool_errors=True)
        builder = StateGraph(MessagesState).add_node("plan", plan).add_node("tools", tools).add_node("judge", conclude)
        builder.add_edge(START, "plan").add_edge("plan", "tools").add_edge("tools", "judge")
        with use_cassette(tmp_path / "desk.yaml", mode=mode) as session:
            builder.compile().invoke({"messages": [("user", "hi")]})
        return str(session.report)

    def written() -> list[str]:
        path = tmp_path / "desk.yaml"
        stamps = path.read_text().partition("  stamps: |\n")[2].partition("  steps:")[0]
        return [stamps, *records(path)]

    run("all", "Be brief.", 1)
    # A request that holds an id which cannot be told from a word is another request: the judge is asked again.
    assert run("update", "Be kind.", 2).startswith("1 replayed, 2" if form == "call-{}" else "2 replayed, 1")
    healed = written()
    assert run("none", "Be kind.", 2) == "3 replayed, 0 recorded"
    run("all", "Be kind.", 2)
    assert healed == written()
