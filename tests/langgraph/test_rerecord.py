"""Recording an unchanged graph again changes nothing that a reviewer reads."""

# ruff: noqa: D103 - what is no test says by its name what it does

from __future__ import annotations

import asyncio
import re
from collections.abc import Callable
from difflib import unified_diff
from pathlib import Path
from typing import Any, TypedDict

import pytest
from langchain_core.messages import HumanMessage
from langchain_core.tools import tool
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.func import entrypoint, task
from langgraph.graph import START, MessagesState, StateGraph
from langgraph.prebuilt import ToolNode
from langgraph.types import Command, Send, interrupt

from agenttape_core import open_cassette, use_cassette
from agenttape_core.testing import stable_text
from agenttape_langgraph import tape

from .fakes import CONFIG, PlainChat, World, calling
from .patterns import ASKED, PATTERNS

_OF_NOW = re.compile(r"\d{4}-\d\d-\d\dT[\d:.]+|lc_run--[-\da-f]+")

_OF_MESSAGE = re.compile(r'id: "?[\da-f]{8}(-[\da-f]{4}){3}-[\da-f]{12}"?')


class SameWorld(World):
    """A world whose answers do not count calls: parallel branches may reach it in any order."""

    def reach(self, what: str) -> int:
        super().reach(what)
        return 1


class Asked(TypedDict, total=False):
    """A question and its answer."""

    question: str
    answer: str


def recorded_again(path: Path, run: Callable[[], Any], times: int = 3) -> list[str]:
    """Record several times over the same file; return the reviewed part of each, and check that it replays."""
    seen = []
    for _ in range(times):
        with use_cassette(path, mode="all"):
            run()
        seen.append(stable_text(path))
    with use_cassette(path, mode="none"):
        run()
    return seen


def assert_same(texts: list[str]) -> None:
    first, *others = (text.splitlines() for text in texts)
    for other in others:
        assert list(unified_diff(first, other, lineterm="")) == []


# -- every pattern ----------------------------------------------------------------------------------------------------


def pattern_of(name: str, *, replayed: bool) -> Any:
    make, _ = PATTERNS[name]
    graph = make(SameWorld())
    return tape(graph, replay_nodes=True) if replayed else graph


def same_answers(texts: list[str]) -> list[str]:
    """Results of nodes are kept as they were: the times of a store's items, and LangChain's ids of messages.

    Where a node is run these messages are the model's answers, and have no ids in the file.
    """
    return [_OF_NOW.sub("", text) for text in texts]


WAYS = [(name, how) for name in PATTERNS for how in ("invoke", "ainvoke") if (name, how) != ("timed", "invoke")]


@pytest.mark.sweep
@pytest.mark.parametrize("replayed", [False, True], ids=["run", "replayed"])
@pytest.mark.parametrize(("name", "how"), WAYS)
def test_patterns(name: str, how: str, replayed: bool, tmp_path: Path) -> None:
    """A graph of each pattern, whose nodes run or are replayed, is the same file but for its volatile block."""

    def run() -> None:
        ended = getattr(pattern_of(name, replayed=replayed), how)(PATTERNS[name][1], CONFIG)
        if how == "ainvoke":
            asyncio.run(ended)

    assert_same(same_answers(recorded_again(tmp_path / "c.yaml", run)))


@pytest.mark.sweep
@pytest.mark.parametrize("replayed", [False, True], ids=["run", "replayed"])
@pytest.mark.parametrize("name", [name for name in PATTERNS if name != "timed"])
def test_patterns_under_other_ids(name: str, replayed: bool, tmp_path: Path) -> None:
    """With freeze off, only the ids differ that the state gives to messages."""
    texts = []
    for _ in range(2):
        with use_cassette(tmp_path / "c.yaml", mode="all", freeze=()):
            pattern_of(name, replayed=replayed).invoke(PATTERNS[name][1], CONFIG)
        texts.append(_OF_MESSAGE.sub("", stable_text(tmp_path / "c.yaml")))
    assert_same(same_answers(texts))


# -- asking people ----------------------------------------------------------------------------------------------------


def asking(*, replayed: bool) -> Any:
    """Two subgraphs whose nodes ask at once, both two times."""

    def ask(state: Asked) -> dict[str, Any]:
        return {"answer": f"{interrupt(state['question'])} {interrupt('Sure?')}"}

    inner = StateGraph(Asked).add_node("left", ask).add_node("right", lambda state: ask(state) and {})
    inner.add_edge(START, "left").add_edge(START, "right")
    builder = StateGraph(Asked).add_node("inner", inner.compile(checkpointer=True) if not replayed else ask)
    builder.add_node("other", lambda state: {"question": interrupt("Other?")})
    builder.add_edge(START, "inner").add_edge("inner", "other")
    graph = builder.compile(checkpointer=InMemorySaver())
    return tape(graph, replay_nodes=True) if replayed else graph


def answer_all(graph: Any) -> list[str]:
    """Answer each question by its id; return the ids."""
    ids: list[str] = []
    graph.invoke({"question": "Which?"}, CONFIG)
    while asked := graph.get_state(CONFIG).interrupts:
        graph.invoke(Command(resume={one.id: f"yes, {one.value}" for one in asked}), CONFIG)
        ids += [one.id for one in asked]
    return ids


@pytest.mark.parametrize("replayed", [False, True], ids=["run", "replayed"])
def test_questions(replayed: bool, tmp_path: Path) -> None:
    """The ids of questions tell the time, and yet the file is the same: in errors, in answers, in replayed nodes."""
    ids = []
    texts = recorded_again(tmp_path / "c.yaml", lambda: ids.append(answer_all(asking(replayed=replayed))))
    assert_same(texts)
    recorded, again, *_ = ids
    assert set(recorded).isdisjoint(again)
    assert not any(one in texts[0] for each in ids for one in each)
    assert ids[-1] == ids[-2]  # a replay asks under the ids of its recording


def test_a_question_and_its_answer_have_one_id(tmp_path: Path) -> None:
    """The stable id of a question is in the answer, too, and two questions have two."""
    recorded_again(tmp_path / "c.yaml", lambda: answer_all(asking(replayed=False)), times=1)
    steps = list(open_cassette(tmp_path / "c.yaml").steps())
    asked = {step.address: re.findall(r"'id': '(\w{32})'", repr(step.error)) for step in steps if step.error}
    (left,), (right,) = asked["LangGraph/inner@1/LangGraph/left@1"], asked["LangGraph/inner@1/LangGraph/right@1"]
    assert left != right
    assert asked["LangGraph/inner@1"] == [left, right]
    (answered,) = (step.input for step in steps if step.address == "LangGraph#2")
    assert list(answered["$command"]["resume"]) == [left, right]  # type: ignore[index,call-overload]


def test_tools_that_ask(tmp_path: Path) -> None:
    """A tool is an interaction, whose error holds the question: recorded again it is the same."""

    @tool
    def confirm(what: str) -> str:
        """Ask."""
        return str(interrupt(what))

    def run() -> None:
        call = calling(("confirm", {"what": "Really?"}), number=1)
        builder = StateGraph(MessagesState).add_node("tools", ToolNode([confirm])).add_edge(START, "tools")
        graph = builder.compile(checkpointer=InMemorySaver())
        graph.invoke({"messages": [call]}, CONFIG)
        graph.invoke(Command(resume="yes"), CONFIG)

    texts = recorded_again(tmp_path / "c.yaml", run)
    assert "GraphInterrupt" in texts[0]
    assert_same(texts)


# -- what a replayed node is given and says ----------------------------------------------------------------------------


def handing_over() -> None:
    """A replayed node that gets messages and hands over to the graph around it."""

    def leave(_: MessagesState) -> Command[str]:
        return Command(graph=Command.PARENT, update={"messages": [HumanMessage("left")]})

    team = StateGraph(MessagesState).add_node("work", leave).add_edge(START, "work").compile()
    around = StateGraph(MessagesState).add_node("team", team).add_edge(START, "team")
    tape(around.compile(), replay_nodes=["work"]).invoke(ASKED)


def replayed_task() -> None:
    @tape
    @task
    def more(n: int) -> int:
        return n + 1

    @entrypoint()
    def flow(n: int) -> int:
        return int(more(n).result())

    assert flow.invoke(1) == 2


def sent() -> None:
    """Parallel nodes that are sent to and ask; answers are sorted, because LangGraph lists questions in any order."""

    def ask(state: Asked) -> dict[str, Any]:
        return {"answer": interrupt(state["question"])}

    inner = StateGraph(Asked).add_node("ask", ask).add_edge(START, "ask").compile()
    builder = StateGraph(Asked).add_node("inner", lambda state: inner.invoke(state) and None)
    builder.add_conditional_edges(START, lambda _: [Send("inner", {"question": f"{n}?"}) for n in range(3)], ["inner"])
    graph = builder.compile(checkpointer=InMemorySaver())
    asked = sorted(graph.invoke({"question": "all"}, CONFIG)["__interrupt__"], key=lambda one: str(one.value))
    graph.invoke(Command(resume={one.id: f"yes, {one.value}" for one in asked}), CONFIG)


@pytest.mark.parametrize("shape", [handing_over, replayed_task, sent])
def test_shapes(shape: Callable[[], None], tmp_path: Path) -> None:
    """Commands for an outer graph, replayed tasks and sends are recorded the same."""
    assert_same(recorded_again(tmp_path / "c.yaml", shape))


def test_an_id_that_is_answered_is_kept(tmp_path: Path) -> None:
    """A replayed node that removes a message by its id removes the message of this run; other ids are left out."""
    path = tmp_path / "c.yaml"

    def run() -> list[str]:
        def pick(state: MessagesState) -> dict[str, Any]:
            return {"messages": [HumanMessage("replaced", id=state["messages"][1].id)]}

        builder = StateGraph(MessagesState).add_node("pick", pick).add_edge(START, "pick")
        graph = tape(builder.compile(), replay_nodes=True)
        ends = graph.invoke({"messages": [("user", "first"), ("user", "second")]})
        return [message.text for message in ends["messages"]]

    with use_cassette(path, mode="all"):
        assert run() == ["first", "replaced"]
    (picked,) = open_cassette(path).interactions()
    assert [bool(one) for one in picked.ids] == [False, False, True]
    with use_cassette(path, mode="none", freeze=("clock",)):  # its ids are other ones
        assert run() == ["first", "replaced"]


def test_an_answer_that_is_handed_to_another_graph(tmp_path: Path) -> None:
    """The step of a node that hands an answer to the graph around it does not hold the id of its run."""

    def ask(_: MessagesState) -> Command[str]:
        said = PlainChat(world=SameWorld()).invoke("Who is next?")
        return Command(goto="bob", graph=Command.PARENT, update={"messages": [said]})

    ann = StateGraph(MessagesState).add_node("ask", ask).add_edge(START, "ask").compile()
    builder = StateGraph(MessagesState).add_node("ann", ann, destinations=("bob",)).add_edge(START, "ann")
    graph = builder.add_node("bob", lambda _: {"messages": []}).compile()
    texts = recorded_again(tmp_path / "c.yaml", lambda: graph.invoke({"messages": [("user", "hi")]}))
    assert_same(texts)
    assert "id='lc_run--<run>-0'" in texts[0]
