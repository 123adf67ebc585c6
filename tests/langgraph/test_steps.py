"""Steps of a recorded graph: inputs, writes and routes of its nodes, answers of people, failures."""

# ruff: noqa: D103 - what is no test says by its name what it does

from __future__ import annotations

from pathlib import Path
from typing import Any, TypedDict

import pytest
from langchain_core.messages import AIMessage, HumanMessage
from langchain_core.tools import tool
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.func import entrypoint, task
from langgraph.graph import START, MessagesState, StateGraph
from langgraph.prebuilt import ToolNode
from langgraph.types import Command, interrupt

from agenttape_core import Step, open_cassette, use_cassette
from agenttape_langchain import TapeCallbackHandler
from agenttape_langgraph import tape

from .fakes import PlainChat, World, calling
from .patterns import FOUND, PATTERNS, map_reduce, policies

CONFIG: Any = {"configurable": {"thread_id": "1"}, "max_concurrency": 40, "recursion_limit": 1000}
LONG = "words and more words " * 40


def steps_in(path: Path) -> dict[str, Step]:
    return {step.address: step for step in open_cassette(path).steps()}


def agent(world: World, turns: int = 2, saver: Any = None) -> Any:
    """An agent of some turns, each with a tool call."""

    @tool
    def look(n: int) -> str:
        """Look."""
        return f"{world.reach('tool')} {LONG}"

    def reply(messages: Any, number: int) -> AIMessage:
        turn = sum(isinstance(message, AIMessage) for message in messages)
        return AIMessage("done") if turn >= turns else calling(("look", {"n": turn}), number=number, text=LONG)

    model = PlainChat(world=world, reply=reply)

    def say(state: MessagesState) -> dict[str, Any]:
        return {"messages": [model.invoke(state["messages"])]}

    def more(state: MessagesState) -> str:
        said = state["messages"][-1]
        return "tools" if isinstance(said, AIMessage) and said.tool_calls else "__end__"

    builder = StateGraph(MessagesState).add_node("say", say).add_node("tools", ToolNode([look])).add_edge(START, "say")
    return builder.add_edge("tools", "say").add_conditional_edges("say", more).compile(checkpointer=saver)


def test_an_agent(world: World, tmp_path: Path) -> None:
    """Each node is a step with the changes of its input, its writes and its route; the graph has its input."""
    path = tmp_path / "c.yaml"
    with use_cassette(path, mode="all"):
        agent(world, turns=1).invoke({"messages": [HumanMessage("Hello?", id="h")]}, CONFIG)
    steps = steps_in(path)
    assert list(steps) == ["LangGraph", "LangGraph/say@1", "LangGraph/tools@2", "LangGraph/say@3"]
    graph, first, tools, last = steps.values()
    hello = {"$message": {"type": "human", "content": "Hello?", "id": "h"}}
    assert (graph.kind, graph.input, graph.metadata) == ("agent", {"messages": [hello]}, {"thread_id": "1"})
    assert graph.output == {"messages": {"$changed": {"items": 4, "kept": 0}}}
    assert (first.kind, first.name, first.input) == ("node", "say", {"messages": {"$changed": {"items": 1, "kept": 0}}})
    (said,) = first.output["messages"]
    assert said["$message"]["content"] == {"$ref": {"at": "LangGraph/say@1/PlainChat", "chars": len(LONG)}}
    assert first.data == {"route": ["tools"]}
    assert tools.input == {"messages": {"$changed": {"items": 2, "kept": 1}}}
    assert tools.data == {"route": ["say"]}
    assert last.input == {"messages": {"$changed": {"items": 3, "kept": 2}}}
    assert last.data is None


def test_files_stay_linear(world: World, tmp_path: Path) -> None:
    """A conversation of twice as many turns makes a file of twice the size, in one run and in a run for each turn."""
    sizes = {}
    for turns in (20, 40):
        path = tmp_path / f"{turns}.jsonl"
        with use_cassette(path, mode="all"):
            agent(world, turns).invoke({"messages": [("user", "Hello?")]}, CONFIG)
        sizes[turns] = path.stat().st_size
        path = tmp_path / f"runs{turns}.jsonl"
        with use_cassette(path, mode="all"):
            graph = agent(world, turns=0, saver=InMemorySaver())
            for turn in range(turns):
                graph.invoke({"messages": [("user", f"{turn} {LONG}")]}, CONFIG)
        sizes[-turns] = path.stat().st_size
    assert sizes[40] < 2.1 * sizes[20]
    assert sizes[-40] < 2.1 * sizes[-20]


def test_retries(world: World, tmp_path: Path) -> None:
    """Each attempt is a step of its own: two that failed with their errors, and one that ended."""
    path = tmp_path / "c.yaml"
    with use_cassette(path, mode="all"):
        policies(world).invoke(FOUND, CONFIG)
    tries = [step for step in open_cassette(path).steps() if step.name == "flaky"]
    assert [(step.address, step.status) for step in tries] == [
        ("LangGraph/flaky@1", "failed"),
        ("LangGraph/flaky@1#2", "failed"),
        ("LangGraph/flaky@1#3", "ended"),
    ]
    assert [step.error.args for step in tries if step.error is not None] == [["first"], ["second"]]


def test_interrupts_and_answers(world: World, tmp_path: Path) -> None:
    """A question of a node is its error; the answer is the input of the next run of the graph."""
    path = tmp_path / "c.yaml"
    builder = StateGraph(MessagesState).add_node("ask", lambda _: {"messages": [("user", interrupt("Sure?"))]})
    graph = builder.add_edge(START, "ask").compile(checkpointer=InMemorySaver())
    with use_cassette(path, mode="all"):
        graph.invoke({"messages": []}, CONFIG)
        (asked,) = graph.get_state(CONFIG).interrupts
        graph.invoke(Command(resume="yes"), CONFIG)
    steps = steps_in(path)
    node = steps["LangGraph/ask@1"]
    assert node.status == "failed"
    assert node.error is not None
    assert node.error.type == "langgraph.errors:GraphInterrupt"
    assert repr(asked.value) in repr(node.error.args)
    assert asked.id not in repr(node.error.args)  # it differs in each recording
    assert steps["LangGraph#2"].input == {"$command": {"resume": "yes"}}
    assert steps["LangGraph#2/ask@1"].output == {"messages": [{"$tuple": ["user", "yes"]}]}


def test_sends(world: World, tmp_path: Path) -> None:
    """Parallel nodes that are sent to have inputs of their own, and the sender's route counts them."""
    path = tmp_path / "c.yaml"
    with use_cassette(path, mode="all"):
        map_reduce(world).invoke(FOUND, CONFIG)
    steps = steps_in(path)
    assert [steps[f"LangGraph/inner@1[{n}]"].input for n in range(4)] == [{"n": n, "found": []} for n in range(4)]
    assert {step.kind for address, step in steps.items() if "/" in address and "LangGraph@" not in address} >= {"node"}
    assert steps["LangGraph/join@2"].output is not None


def test_tasks_of_the_functional_api(world: World, tmp_path: Path) -> None:
    """A function that is a task is a step at the place of its call, with its arguments and its result."""
    path, model = tmp_path / "c.yaml", PlainChat(world=world)

    @task
    def ask(n: int) -> str:
        return model.invoke(f"ask {n}").text

    @entrypoint()
    def flow(n: int) -> list[str]:
        return [future.result() for future in [ask(each) for each in range(n)]]

    with use_cassette(path, mode="all"):
        answers = flow.invoke(2)
    steps = steps_in(path)
    for n in range(2):
        step = steps[f"LangGraph/flow@0/ask[{n}]"]
        assert (step.kind, step.output) == ("node", {"__return__": {"$text": answers[n]}})


@pytest.mark.parametrize("pattern", PATTERNS)
async def test_the_words_of_the_handler(pattern: str, world: World, tmp_path: Path) -> None:
    """A session records graphs and nodes as a callback handler does: kinds, addresses, ends, inputs, metadata."""
    make, inputs = PATTERNS[pattern]
    with use_cassette(tmp_path / "session.yaml", mode="all"):
        await make(world).ainvoke(inputs, CONFIG)
    with TapeCallbackHandler(tmp_path / "handler.yaml") as handler:
        await make(world).ainvoke(inputs, {**CONFIG, "callbacks": [handler]})
    assert handler.errors == []
    ours, theirs = steps_in(tmp_path / "session.yaml"), steps_in(tmp_path / "handler.yaml")
    assert ours.keys() <= theirs.keys()
    assert {each.address for each in theirs.values() if each.kind == "node"} <= ours.keys()
    for address, step in ours.items():
        other = theirs[address]
        assert (step.kind, step.name, step.status, step.metadata) == (
            other.kind,
            other.name,
            other.status,
            other.metadata,
        )
        if "/" not in address:
            assert step.input == other.input


def test_only_where_the_session_takes_part(world: World, tmp_path: Path) -> None:
    """In a session that is not automatic there are steps of taped graphs, and of no others; a replay has none."""
    path = tmp_path / "c.yaml"
    with use_cassette(path, mode="all", auto=False):
        agent(world).invoke({"messages": [("user", "Hello?")]}, CONFIG)
        tape(agent(world, turns=0)).invoke({"messages": [("user", "Hello?")]}, CONFIG)
    assert [(step.kind, step.name) for step in open_cassette(path).steps()] == [("agent", "LangGraph"), ("node", "say")]


def test_states_that_cannot_be_told(world: World, tmp_path: Path) -> None:
    """A state that no file could hold does not end the recording: the steps hold the rest."""

    class Knot:
        """A part of a state that cannot be looked at."""

        def __init__(self) -> None:
            self.again = self

        def __eq__(self, other: object) -> bool:
            raise TypeError("not to be compared")

        __hash__ = None  # type: ignore[assignment]

    deep: list[Any] = []
    for _ in range(3000):
        deep = [deep]
    path = tmp_path / "c.yaml"

    class State(TypedDict):
        knot: Any
        deep: Any
        n: int

    builder = StateGraph(State).add_node("one", lambda _: {"n": 1, "knot": Knot()}).add_edge(START, "one")
    graph = builder.add_node("two", lambda _: {"n": 2, "deep": deep}).add_edge("one", "two").compile()
    with use_cassette(path, mode="all"):
        assert graph.invoke({"knot": Knot(), "deep": None, "n": 0})["n"] == 2
    steps = steps_in(path)
    assert steps["LangGraph/one@1"].output["n"] == 1
    assert steps["LangGraph/two@2"].input["n"] == 1
    assert steps["LangGraph/two@2"].status == "ended"


def test_secrets(world: World, tmp_path: Path) -> None:
    """States and answers in steps are redacted."""
    secret = "-".join(["sk", "proj", "Zx9" * 12])
    builder = StateGraph(MessagesState).add_node("say", lambda _: {"messages": [("ai", f"key {secret}")]})
    path = tmp_path / "c.yaml"
    with use_cassette(path, mode="all"):
        builder.add_edge(START, "say").compile().invoke({"messages": [("user", f"use {secret}")]})
    assert secret not in path.read_text(encoding="utf-8")
    assert "REDACTED" in str(steps_in(path)["LangGraph/say@1"].output)
