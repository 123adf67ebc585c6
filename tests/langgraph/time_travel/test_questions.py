"""Calls that depend on the answer of a human, and calls before the question."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from langchain_core.messages import HumanMessage
from langchain_core.tools import tool
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.graph import START, StateGraph
from langgraph.types import Command, Interrupt, interrupt

from agenttape_core import use_cassette
from agenttape_core.errors import ConfigurationError
from agenttape_langgraph import replay_thread, steps_of, time_travel
from agenttape_langgraph.time_travel.plan import Question, answers_readdressed

from ..fakes import PlainChat, World
from .conftest import Record
from .threads import Log, asking


def test_tool_that_asks_depends_on_the_answer(world: World, record: Record, path: Path) -> None:
    """A tool that asked the question is executed with another answer; one that came before it is replayed."""

    def asking_tool(world: World) -> StateGraph[Any]:
        """A tool that asks a human itself, after one that does not."""

        @tool
        def look(what: str) -> str:
            """Look something up."""
            return f"look {world.reach('look')} at {what}"

        @tool
        def confirm(what: str) -> str:
            """Ask a human."""
            return f"confirm {world.reach('confirm')} {what}: {interrupt('sure?')}"

        def node(_: Log) -> Log:
            return {"log": [look.invoke({"what": "it"}), confirm.invoke({"what": "it"})]}

        builder = StateGraph(Log)
        builder.add_node("node", node)
        builder.add_edge(START, "node")
        return builder

    values = record(path, asking_tool(world), [{"log": ["hello"]}, Command(resume="yes")])
    before = len(world.reached)
    assert replay_thread(path, asking_tool(world).compile()).values == values
    assert world.reached[before:] == []
    fork = time_travel(path, asking_tool(world).compile(), resume="no", live={"tool"})
    assert world.reached[before:] == ["confirm"]
    assert fork.values["log"][1] == values["log"][1]
    assert fork.values["log"][2].endswith("it: no")


def test_an_answer_to_one_of_several_questions_names_it(path: Path) -> None:
    """Of parallel questions each is answered by the id that `steps_of` shows; without ids the error lists them."""

    def two_questions(*_: World) -> StateGraph[Any]:
        """Two nodes that ask at the same time."""
        builder = StateGraph(Log)
        for name in ("first", "second"):
            builder.add_node(name, lambda _, name=name: {"log": [f"{name}: {interrupt(f'{name}?')}"]})  # type: ignore[misc]
            builder.add_edge(START, name)
        return builder

    graph, config = two_questions().compile(checkpointer=InMemorySaver()), {"configurable": {"thread_id": "1"}}
    with use_cassette(path, mode="all"):
        asked = graph.invoke({"log": []}, config)["__interrupt__"]
        graph.invoke(Command(resume={one.id: "yes" for one in asked}), config)
    (step,) = (step for step in steps_of(path) if step.interrupts)
    first, second = step.interrupts
    with pytest.raises(ConfigurationError, match=f"step 2 asks 2 questions.*\n  {first.id}  'first\\?'\n  {second.id}"):
        time_travel(path, two_questions().compile(), resume="no")
    fork = time_travel(path, two_questions().compile(), resume={second.id: "no", first.id: "maybe"})
    assert fork.values == {"log": ["first: maybe", "second: no"]}
    part = time_travel(path, two_questions().compile(), resume={second.id: "no"})
    assert part.values == {"log": ["second: no"]}
    assert part.interrupts[0].value == "first?"  # LangGraph 1.2.0 also lists the answered one


def test_what_is_around_a_subgraph_is_replayed_again(world: World, record: Record, path: Path) -> None:
    """A changed state of a subgraph runs the node around it again, and serves the calls of that node again."""

    def around(world: World) -> StateGraph[Any]:
        """A node that asks a model before it calls a subgraph, beside another one that asks a model."""
        inner = StateGraph(Log)
        inner.add_node("draft", asking(world, "draft", "draft"))
        inner.add_node("polish", asking(world, "polish", "polish"))
        inner.add_edge(START, "draft")
        inner.add_edge("draft", "polish")
        subgraph = inner.compile()
        model = PlainChat(world=world)

        def outer(_: Log) -> Log:
            said = model.invoke([HumanMessage("outer")]).text
            return {"log": subgraph.invoke({"log": [said]})["log"]}

        builder = StateGraph(Log)
        builder.add_node("outer", outer)
        builder.add_node("beside", asking(world, "beside", "beside"))
        builder.add_edge(START, "outer")
        builder.add_edge(START, "beside")
        return builder

    record(path, around(world), [{"log": ["hello"]}])
    draft = next(step for step in steps_of(path) if step.nodes == ("draft",))
    before = len(world.reached)
    fork = time_travel(path, around(world).compile(), step=draft, state_update={"log": ["edited"]})
    assert world.reached[before:] == ["model"]
    assert [call_record.address for call_record in fork.live] == [f"{draft.graph}/polish@3/PlainChat"]
    assert "edited" in fork.values["log"]
    numbers = {call_record.number for call_record in (*fork.prefix, *fork.replayed)}
    assert len(numbers) == 3
    assert replay_thread(fork.cassette, around(world).compile()).values == fork.values
    assert len(world.reached) == before + 1


@given(order=st.permutations(range(4)), nodes=st.lists(st.sampled_from("ab"), min_size=4, max_size=4))
def test_answers_find_their_questions(order: list[int], nodes: list[str]) -> None:
    """An answer goes to the question that the same node asks, in whatever order the questions come and are numbered."""
    recorded = [Question(node, f"[{n}]", Interrupt(f"question {n}", id=f"old{n}")) for n, node in enumerate(nodes)]
    asked = [
        Question(nodes[n], f"[{place}]", Interrupt(f"question {n}", id=f"new{n}")) for place, n in enumerate(order)
    ]
    answers = {f"old{n}": n for n in range(4)}
    assert answers_readdressed(answers, recorded, asked) == {f"new{n}": n for n in range(4)}


def test_equal_questions_are_told_apart_by_their_order() -> None:
    """Of questions that are equal, the numbers in their places decide, and numbers are no texts."""
    recorded = [Question("a", f"a@1[{n}]", Interrupt("same", id=f"old{n}")) for n in (10, 9, 1)]
    asked = [Question("a", f"('push', {n})", Interrupt("same", id=f"new{n}")) for n in (1, 10, 9)]
    answers = {"old1": "x", "old9": "y", "old10": "z", "none": "w"}
    assert answers_readdressed(answers, recorded, asked) == {"new1": "x", "new9": "y", "new10": "z", "none": "w"}
