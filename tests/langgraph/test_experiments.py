"""Experiments, checks and verification over recorded graphs."""

from __future__ import annotations

import asyncio
import itertools
import operator
from collections.abc import Callable
from inspect import isawaitable
from itertools import permutations
from pathlib import Path
from typing import Annotated, Any, TypedDict

import pytest
from langchain.agents import create_agent
from langchain.agents.middleware import HumanInTheLoopMiddleware
from langchain_core.documents import Document
from langchain_core.messages import AIMessage, HumanMessage
from langchain_core.retrievers import BaseRetriever
from langchain_core.runnables import RunnableLambda, RunnableParallel
from langchain_core.tools import tool
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.graph import END, START, MessagesState, StateGraph
from langgraph.prebuilt import ToolNode, tools_condition
from langgraph.types import Command, Send

from agenttape_core import Rule, boundary, open_cassette, use_cassette
from agenttape_core.checks import before, check, check_run, confirmed, exactly, run_of
from agenttape_core.cli.measures import Coverage
from agenttape_core.engine import Policy
from agenttape_core.experiments import orders, shrink
from agenttape_core.experiments.program import failure_of
from agenttape_core.experiments.verify.calls import written_otherwise
from agenttape_core.tools.target import run_to_end

from .fakes import AsyncChat, PlainChat, StreamingChat, World, calling, numbered

# -- Other orders of parallel branches and tools of a graph ------------------------------------------------------------


class State(TypedDict):
    """The notes of all branches."""

    notes: Annotated[list[str], operator.add]
    topic: str


@tool
def here(place: str) -> str:
    """Look in a thread."""
    Path("seen").touch()  # so that a replay serves it
    return f"at {place}"


@tool
async def there(place: str) -> str:
    """Look in a task."""
    await asyncio.to_thread(Path("seen").touch)
    return f"in {place}"


def explored(program: Callable[[], Any], path: Path) -> Any:
    """Record a program, and explore it."""
    with use_cassette(path, mode="all"):
        ended = program()
        if isawaitable(ended):
            asyncio.run(ended)  # type: ignore[arg-type]
    return orders(program, path)


@pytest.mark.parametrize("is_racy", [True, False])
@pytest.mark.parametrize(("way", "topics"), [("ainvoke", "ab"), ("stream", "abc")])
def test_parallel_branches_are_answered_in_every_order(way: str, topics: str, is_racy: bool, tmp_path: Path) -> None:
    """A graph whose branches race, in tasks or in a pool, is found out, with the address; a sound one passes."""
    model = AsyncChat(world=World())

    def program() -> Any:
        """Let branches ask at once; a racy graph reports whatever was said first."""
        said: list[str] = []

        def noted(state: State, answer: AIMessage) -> Any:
            said.append(state["topic"])
            return {"notes": [answer.text]}

        async def aresearch(state: State) -> Any:
            return noted(state, await model.ainvoke(f"search {state['topic']}"))

        def report(state: State) -> Any:
            return {"notes": [model.invoke(f"write {said[0] if is_racy else state['notes']}").text]}

        research = RunnableLambda(lambda state: noted(state, model.invoke(f"search {state['topic']}")), aresearch)
        builder = StateGraph(State).add_node("research", research).add_node("report", report)
        sends = [Send("research", {"topic": topic}) for topic in topics]
        builder.add_conditional_edges(START, lambda _: sends, ["research"])
        graph = builder.add_edge("research", "report").compile()
        given: Any = {"notes": [], "topic": ""}
        return graph.ainvoke(given) if way == "ainvoke" else [*graph.stream(given, stream_mode="values")]

    found = explored(program, tmp_path / "run.yaml")
    assert (found.orders, found.is_exhaustive, bool(found.findings)) == (len([*permutations(topics)]), True, is_racy)
    if is_racy and way == "ainvoke":
        assert "smallest change: call 2 (chat AsyncChat) answers first" in str(found)


@pytest.mark.parametrize("is_racy", [True, False])
def test_parallel_tools_come_back_in_every_order(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, is_racy: bool
) -> None:
    """The tools of a `ToolNode` wait side by side, also those that run in threads."""
    monkeypatch.chdir(tmp_path)
    seen: list[str] = []
    asked = [("here", {"place": "Rome"}), ("there", {"place": "Oslo"}), ("here", {"place": "Bonn"})]

    def reply(messages: Any, number: int) -> Any:
        return calling(*asked, number=number) if len(messages) == 1 else numbered(messages, number)

    model = AsyncChat(world=World(), reply=reply)

    async def program() -> Any:
        seen.clear()

        async def noting(request: Any, execute: Any) -> Any:
            result = await execute(request)
            seen.append(result.text)
            return result

        node = ToolNode([here, there], awrap_tool_call=noting)

        async def agent(state: MessagesState) -> Any:
            return {"messages": [await model.ainvoke(state["messages"])]}

        builder = StateGraph(MessagesState).add_node("agent", agent).add_node("tools", node).add_edge(START, "agent")
        graph = builder.add_conditional_edges("agent", tools_condition).add_edge("tools", "agent").compile()
        ended = await graph.ainvoke({"messages": [("user", "where?")]})
        return seen[:] if is_racy else [message.text for message in ended["messages"]]

    found = explored(program, tmp_path / "run.yaml")
    assert (found.orders, found.is_exhaustive, found.failing) == (6, True, 5 * is_racy)


def test_a_batch_is_answered_in_every_order(tmp_path: Path) -> None:
    """The calls of a batch, and the parts of a parallel chain, are made in threads."""
    model = StreamingChat(world=World())
    chain = RunnableParallel(first=model, second=model)

    def program() -> Any:
        return [message.text for message in model.batch(["a", "b"])], sorted(chain.invoke("c"))

    with use_cassette(tmp_path / "run.yaml", mode="all"):
        program()
    found = orders(program, tmp_path / "run.yaml")
    assert found.ok, str(found)
    assert (found.orders, found.is_exhaustive) == (4, True)


# -- A seeded failure of an agent, made small: what is left fails alike, and holds hardly more than the cause ----------

ADDRESS = "ada.lovelace@analytical-engines.com"
WORDS = "A long way from here, in a town that nobody has ever heard of, somebody wrote this. "


def documents(world: World) -> Callable[[], Any]:
    """One of forty documents has no year."""

    class Library(BaseRetriever):
        def _get_relevant_documents(self, query: str, **_: Any) -> list[Document]:
            world.reach("library")
            years = [None if n == 23 else 1900 + n for n in range(40)]
            return [Document(f"{query} {WORDS * 5}", metadata={"year": year, "by": ADDRESS}) for year in years]

    library, model = Library(), PlainChat(world=world)

    def run() -> Any:
        found = library.invoke("engines")
        lines = [f"{document.metadata['year']:04d} {document.page_content}" for document in found]
        return model.invoke("\n".join(lines))

    return run


def test_a_seeded_failure_becomes_small(world: World, project: Path) -> None:
    """At most a twentieth is left after at most 300 replays. It replays strictly, fails alike, is marked, and safe."""
    run = documents(world)
    with (
        pytest.raises(Exception) as recorded,
        use_cassette("c", mode="all", on_error="keep", redact=[Rule("email", keep=True)]),
    ):
        run_to_end(run)
    assert ADDRESS in Path("cassettes/c.yaml").read_text()
    world.gone = True
    found = shrink(run, "c")
    assert found.share <= 0.05, str(found)
    assert found.replays <= 300
    with pytest.raises(recorded.type) as again, use_cassette(found.cassette, on_unused="ignore") as session:
        run_to_end(run)
    assert not session.report.unused
    assert session.failure is None
    assert failure_of(again.value).is_like(failure_of(recorded.value))
    assert str(again.value) == str(recorded.value)
    items = list(open_cassette(found.cassette).interactions())
    assert len(items) == found.calls[1] <= 3
    assert any("edited" in item.tags for item in items)
    assert open_cassette(found.cassette).header.origin == {
        "shrunk": "c.yaml",
        "failure": f"{found.failure.name} in {found.failure.function}",
    }
    assert ADDRESS not in found.cassette.read_text()


# -- Checks and coverage over real graphs: branches, tools in parallel, a human who is asked first ---------------------


def look_up(order: str) -> str:
    """Find an order."""
    return f"{order} cost 5"


def refund(order: str) -> str:
    """Pay back."""
    return f"paid for {order}"


def agent(*wanted: tuple[str, dict[str, Any]], asks_for: tuple[str, ...] = ()) -> Any:
    """Return an agent that calls tools in one message, then answers, and waits for somebody before some of them."""

    def reply(messages: Any, number: int) -> Any:
        return calling(*wanted, number=number) if number == 1 else numbered(messages, number)

    middleware = [HumanInTheLoopMiddleware(interrupt_on=dict.fromkeys(asks_for, True))] if asks_for else []
    model = StreamingChat(world=World(), reply=reply, model_name="gpt-5-mini")
    return create_agent(model, [look_up, refund], middleware=middleware, checkpointer=InMemorySaver())


ORDER = {"order": "A-7"}
THREAD: Any = {"configurable": {"thread_id": "1"}}
ASK: Any = {"messages": [("user", "My money, please.")]}


def test_a_tool_that_was_confirmed(tmp_path: Path) -> None:
    """A tool that waited for an approval is confirmed, and the same tool without one is not."""
    with use_cassette(tmp_path / "asked.yaml", mode="all"):
        asked = agent(("refund", ORDER), asks_for=("refund",))
        asked.invoke(ASK, THREAD)
        asked.invoke(Command(resume={"decisions": [{"type": "approve"}]}), THREAD)
    assert check(tmp_path / "asked.yaml", confirmed("refund"), exactly(["refund"])).findings == ()
    with use_cassette(tmp_path / "plain.yaml", mode="all"):
        agent(("refund", ORDER)).invoke(ASK, THREAD)
    with pytest.raises(AssertionError, match="refund was called without having been confirmed"):
        check(tmp_path / "plain.yaml", confirmed("refund"))


def test_tools_of_one_message_run_side_by_side(tmp_path: Path) -> None:
    """Of two tools that one message asks for, neither is before the other."""
    with use_cassette(tmp_path / "both.yaml", mode="all"):
        agent(("look_up", ORDER), ("refund", ORDER)).invoke(ASK, THREAD)
    (found,) = check_run(run_of(str(tmp_path / "both.yaml")), [before("look_up", "refund")]).findings
    assert found.message == "refund was called beside look_up, not after it"


def test_coverage_of_a_graph_with_branches(tmp_path: Path) -> None:
    """Coverage names exactly the nodes and edges that no run took, until one takes them."""

    class Trip(TypedDict, total=False):
        """The state of the graph."""

        kind: str

    builder = StateGraph(Trip)
    for name in ("route", "left", "right", "join"):
        builder.add_node(name, lambda state: {"kind": state["kind"]})
    builder.add_edge(START, "route").add_conditional_edges("route", lambda state: state["kind"], ["left", "right"])
    builder.add_edge("left", "join").add_edge("right", "join").add_edge("join", END)
    graph = builder.compile()
    found = Coverage()
    found.hold_against(graph)
    for kind, never in (("left", ["right"]), ("right", [])):
        with use_cassette(tmp_path / f"{kind}.yaml", mode="all"):
            graph.invoke({"kind": kind})
        found.add(open_cassette(tmp_path / f"{kind}.yaml"))
        assert found.never["nodes"] == never
        assert found.never["edges"] == [edge for name in never for edge in (f"{name} → join", f"route → {name}")]
    assert found.percent == 100


# -- `verify` compares what a replay's graphs and nodes write with what its recording says of that ---------------------

_made = itertools.count()


@boundary
def think(text: str) -> str:
    """Return what a model says to a text."""
    return f"heard {text}"


def _graph(node: Any) -> Any:
    return StateGraph(MessagesState).add_node("node", node).add_edge(START, "node").compile()


@tool
def ask_expert(question: str) -> str:
    """Ask another agent."""
    expert = _graph(lambda state: {"messages": [("ai", think(str(state["messages"][-1].content)))]})
    return str(expert.invoke({"messages": [("user", question)]})["messages"][-1].content)


@tool
def file_report(question: str) -> str:
    """Ask another agent, and write down what it says: its code is not run in a replay."""
    answer: str = ask_expert.func(question)  # type: ignore[attr-defined]
    Path("report.txt").write_text(answer)
    return answer


@tool
def reckon(question: str) -> str:
    """Run a graph that calls nothing: its code is not run either."""
    return str(_graph(lambda _: {"messages": [("ai", "4")]}).invoke({"messages": [("user", question)]})["messages"][-1])


def _supervisor(*asked: Any) -> None:
    calls = [{"name": each.name, "args": {"question": "why?"}, "id": str(n)} for n, each in enumerate(asked)]
    graph = StateGraph(MessagesState).add_node(ToolNode(list(asked))).add_edge(START, "tools").compile()
    graph.invoke({"messages": [AIMessage("", tool_calls=calls)]})


def _places(program: Callable[[], None], path: Path) -> list[str]:
    """Return the places in which a replay of a program has written something else."""
    for mode in ("all", "none"):
        with use_cassette(path, mode=mode) as session:
            think("hello")  # a recording without a call is none
            if mode == "none":
                session.ledger.watch_steps()
            program()
    return list(written_otherwise(session))


@pytest.mark.parametrize("program", [lambda: _supervisor(ask_expert), lambda: _supervisor(file_report, reckon)])
def test_a_sound_replay(program: Callable[[], None], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing is found where all is as recorded, also below tools whose code is rightly not run."""
    monkeypatch.chdir(tmp_path)
    assert _places(program, tmp_path / "sound.yaml") == []


def test_an_agent_within_a_tool_that_is_replayed_as_a_block(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The steps of an agent are missed where the tool that runs it is replayed, although no answer is another."""
    monkeypatch.setattr(Policy, "steps_into", lambda *_: False)
    assert _places(lambda: _supervisor(ask_expert), tmp_path / "block.yaml") == [
        "step agent LangGraph at LangGraph/tools@1/ask_expert/LangGraph",
        "step node node at LangGraph/tools@1/ask_expert/LangGraph/node@1",
    ]


def test_what_a_node_writes(tmp_path: Path) -> None:
    """A node that writes another id is found by the place of the id, although the program returns nothing of it."""

    def _ids() -> None:
        _graph(lambda _: {"messages": [HumanMessage("bad", id=f"id {next(_made)}")]}).invoke({"messages": []})

    (found,) = _places(_ids, tmp_path / "ids.yaml")
    assert found == "output.messages[0].id of node node at LangGraph/node@1"
