"""Threads of all sorts, their questions, and threads that begin again from their recordings."""

from __future__ import annotations

import asyncio
import operator
from pathlib import Path
from typing import Annotated, Any, TypedDict

import pytest
from hypothesis import given
from hypothesis import strategies as st
from langchain.agents import create_agent
from langchain_core.messages import AIMessage, HumanMessage
from langchain_core.tools import tool
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.func import entrypoint, task
from langgraph.graph import START, StateGraph
from langgraph.types import Command, Interrupt, interrupt

from agenttape_core import open_cassette, replay_source, use_cassette
from agenttape_core.errors import ConfigurationError
from agenttape_langchain import TapeCallbackHandler
from agenttape_langgraph import areplay_thread, replay_thread, steps_of, time_travel
from agenttape_langgraph.time_travel.plan import Question, answers_readdressed

from ...kit.world import gone
from ..fakes import CONFIG, AsyncChat, PlainChat, World, calling
from .conftest import Record
from .threads import ANSWERED, Log, approval, asking, loop, observed, taped

# -- Threads of all sorts: several in one cassette, ones that failed, ones that asked several questions ----------------


@pytest.mark.parametrize("thread", ["42", "7"])
def test_one_of_several_threads(world: World, path: Path, thread: str) -> None:
    """Of a cassette with several threads, one is chosen, and its calls are not taken for those of another."""
    graph = approval(world).compile(checkpointer=InMemorySaver())
    ended = {}
    with TapeCallbackHandler(path) as handler:
        for one in ("42", "7"):
            config: Any = {"callbacks": [handler], "configurable": {"thread_id": one}}
            for given in ANSWERED:
                ended[one] = graph.invoke(given, config)
    with pytest.raises(ConfigurationError, match="several threads, '42', '7'"):
        steps_of(path)
    before = len(world.reached)
    assert replay_thread(path, graph, thread_id=thread).values == ended[thread]
    greeted = next(step for step in steps_of(path, thread) if step.nodes == ("greet",))
    fork = time_travel(path, graph, thread_id=thread, step=greeted, state_update={"log": ["x"]}, live={"chat"})
    assert fork.values["log"][2] == "x"
    assert world.reached[before:] == ["model"]
    assert fork.config == {"configurable": {"thread_id": thread}}
    assert steps_of(fork.cassette)[-1].nodes == ("thank",)


def test_thread_that_crashed_and_was_resumed(world: World, path: Path) -> None:
    """A run that failed and was resumed is listed with its failure; a graph that is mended since replays it."""

    def flaky(world: World) -> StateGraph[Any]:
        """A graph whose second node fails the first time."""
        builder = StateGraph(Log)
        builder.add_node("first", asking(world, "first", "first"))

        def second(state: Log) -> Log:
            if world.reach("second") == 2:
                raise ConnectionError("the service is down")
            return {"log": ["done"]}

        builder.add_node("second", second)
        builder.add_edge(START, "first")
        builder.add_edge("first", "second")
        return builder

    graph = flaky(world).compile(checkpointer=InMemorySaver())
    config: Any = {"configurable": {"thread_id": "42"}}
    with TapeCallbackHandler(path) as handler:
        with pytest.raises(ConnectionError):
            graph.invoke({"log": ["hello"]}, {**config, "callbacks": [handler]})
        graph.invoke(None, {**config, "callbacks": [handler]})
    steps = steps_of(path)
    assert [(step.nodes, step.failed, step.invocation) for step in steps[1:]] == [
        (("first",), False, 1),
        (("second",), True, 1),
        (("second",), False, 2),
    ]
    again = replay_thread(path, flaky(World()).compile(), inputs={})
    assert again.values["log"] == ["hello", "first: answer 1", "done"]


@pytest.mark.parametrize("recorder", [observed, taped])
async def test_several_questions_at_once(world: World, path: Path, recorder: Any) -> None:
    """Answers by the ids of their questions find these questions again, whatever their ids are in the new run."""

    def survey(world: World) -> StateGraph[Any]:
        """Two questions at once, and one more afterwards, each with a call of a model before it."""
        model = PlainChat(world=world)

        class Answers(TypedDict, total=False):
            said: Annotated[list[str], operator.add]

        def question(name: str) -> Any:
            def node(state: Answers) -> Answers:
                model.invoke(f"ask for {name}")
                return {"said": [f"{name}: {interrupt(f'your {name}?')}"]}

            return node

        builder = StateGraph(Answers)
        for name in ("colour", "animal", "number"):
            builder.add_node(name, question(name))
        builder.add_edge(START, "colour")
        builder.add_edge(START, "animal")
        builder.add_edge(["colour", "animal"], "number")
        return builder

    graph = survey(world).compile(checkpointer=InMemorySaver())
    config: Any = {"configurable": {"thread_id": "42"}}

    def ask(config: Any) -> Any:
        asked = graph.invoke({"said": []}, config)["__interrupt__"]
        answers = {one.id: one.value.removeprefix("your ").upper() for one in asked}
        graph.invoke(Command(resume=answers), config)
        return graph.invoke(Command(resume="7"), config)

    if recorder is observed:
        with TapeCallbackHandler(path) as handler:
            values = ask({**config, "callbacks": [handler]})
    else:
        with use_cassette(path, mode="all"):
            values = ask(config)
    assert values["said"] == ["animal: ANIMAL?", "colour: COLOUR?", "number: 7"]
    world.gone = True
    replayed = await areplay_thread(path, survey(world).compile())
    assert replayed.values == values
    last = [step for step in steps_of(path) if step.interrupts][-1]
    assert time_travel(path, survey(world).compile(), step=last, resume="8").values["said"][-1] == "number: 8"
    with pytest.raises(ConfigurationError, match="the step whose question"):
        time_travel(path, survey(world).compile(), resume="8")


def test_several_inputs(world: World, record: Record, path: Path) -> None:
    """A thread of several inputs: an edit in the first one is carried through the later ones."""
    builder = StateGraph(Log)
    builder.add_node("reply", asking(world, "reply", "reply"))
    builder.add_edge(START, "reply")
    given = [{"log": ["one"]}, {"log": ["two"]}, {"log": ["three"]}]
    values = record(path, builder, given)
    assert [step.nodes[0] for step in steps_of(path)] == ["__start__", "reply"] * 3
    before = len(world.reached)
    fork = time_travel(path, builder.compile(), step=4, state_update={"log": ["two and a half"]})
    assert fork.values["log"][:4] == values["log"][:4]
    assert len(world.reached) == before + 1
    assert fork.values["log"][4:6] == ["two and a half", "three"]
    assert len(fork.prefix) == 2


def test_graph_without_a_thread(world: World, record: Record, path: Path) -> None:
    """A graph that ran without a saver can be forked all the same."""
    record(path, loop(world), [{"log": ["hello"]}], thread=None)
    fork = time_travel(path, loop(world).compile(), step=20, state_update={"log": ["enough"]})
    assert fork.values["log"][20] == "enough"


def test_functional_graph(world: World, path: Path) -> None:
    """A functional graph is replayed with its recorded answers, and gets another one."""
    model = PlainChat(world=world)

    @task
    def draft(topic: str) -> str:
        return str(model.invoke(f"draft {topic}").text)

    @entrypoint(checkpointer=InMemorySaver())
    def write(topic: str) -> str:
        text = draft(topic).result()
        return f"{text} / {interrupt('fine?')} / {model.invoke('last word').text}"

    config: Any = {"configurable": {"thread_id": "42"}}
    with TapeCallbackHandler(path) as handler:
        write.invoke("tea", {**config, "callbacks": [handler]})
        final = write.invoke(Command(resume="yes"), {**config, "callbacks": [handler]})
    before = len(world.reached)
    assert replay_thread(path, write).values == final
    fork = time_travel(path, write, resume="no")
    assert fork.values == final.replace("yes", "no")
    assert len(world.reached) == before


@pytest.mark.parametrize("kept_in", ["graph", "argument", "async"])
async def test_recording_that_began_in_the_middle(world: World, path: Path, tmp_path: Path, kept_in: str) -> None:
    """A thread with checkpoints before the recording is replayed and forked with those of a saver."""
    builder = StateGraph(Log)
    builder.add_node("reply", asking(world, "reply", "reply"))
    builder.add_edge(START, "reply")
    saver = InMemorySaver()
    graph = builder.compile(checkpointer=saver)
    config: Any = {"configurable": {"thread_id": "42"}}
    for text in ("zero", "one"):
        graph.invoke({"log": [text]}, config)
    with TapeCallbackHandler(path) as handler:
        for text in ("two", "three"):
            values = graph.invoke({"log": [text]}, {**config, "callbacks": [handler]})
    graph.invoke({"log": ["four"]}, config)  # and it went on
    before = len(world.reached)
    bare = builder.compile()
    with pytest.raises(ConfigurationError, match="begins in the middle of thread '42', after superstep 4"):
        replay_thread(path, bare)
    if kept_in == "async":
        replayed = await areplay_thread(path, bare, saver=saver)
    else:
        given: Any = {} if kept_in == "graph" else {"saver": saver}
        replayed = replay_thread(path, graph if kept_in == "graph" else bare, **given)
    assert replayed.values == values
    assert len(replayed.history) > 8
    fork = time_travel(path, bare, saver=saver, step=2, state_update={"log": ["x"]}, to=tmp_path / "x.yaml")
    assert fork.values["log"][:7] == [*values["log"][:6], "x"]
    assert len(world.reached) == before + 1


def test_cassette_that_says_nothing_of_graphs(tmp_path: Path) -> None:
    """A cassette without the steps of a graph is refused with a remedy."""
    with use_cassette(tmp_path / "empty.yaml", mode="all"):
        pass
    with pytest.raises(ConfigurationError, match="holds no run of a graph"):
        steps_of(tmp_path / "empty.yaml")


# -- Calls that depend on the answer of a human, and calls before the question -----------------------------------------


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


# -- Threads of graphs begun again from their recordings, without the tests that recorded them -------------------------


def test_an_agent_runs_again(tmp_path: Path) -> None:
    """An agent with a tool that can only be awaited runs again as it ran: its tools and models are replayed."""

    def assistant(world: World) -> Any:
        """An agent that looks something up."""

        @tool
        async def look_up(city: str) -> str:
            """Look up the weather."""
            return f"{city} {world.reach('tool')}"

        def reply(messages: Any, number: int) -> AIMessage:
            return AIMessage(f"done {number}") if number > 1 else calling(("look_up", {"city": "Paris"}), number=number)

        return create_agent(AsyncChat(world=world, reply=reply), [look_up])

    with use_cassette(tmp_path / "run.yaml", mode="all"):
        live = asyncio.run(assistant(World()).ainvoke({"messages": [("user", "Weather?")]}))
    again = replay_source(tmp_path / "run.yaml", assistant(gone()))
    assert (again.answer, again.report.recorded) == (live, ())


@pytest.mark.parametrize("is_async", [False, True], ids=["plain", "awaited"])
def test_an_interrupted_thread_resumes(tmp_path: Path, is_async: bool) -> None:
    """All invocations of a thread run again, interrupts with the recorded answers; the header has the first input."""
    path = tmp_path / "run.yaml"

    async def both(graph: Any) -> Any:
        await graph.ainvoke({"log": ["start"]}, CONFIG)
        return await graph.ainvoke(Command(resume="yes"), CONFIG)

    graph = approval(World()).compile(checkpointer=InMemorySaver())
    with use_cassette(path, mode="all"):
        if is_async:
            live = asyncio.run(both(graph))
        else:
            graph.invoke({"log": ["start"]}, CONFIG)
            live = graph.invoke(Command(resume="yes"), CONFIG)
    assert open_cassette(path).header.input == {"log": ["start"]}
    again = replay_source(path, approval(gone()).compile())
    assert (again.answer, again.report.recorded) == (live, ())


def test_one_of_several_threads_begins_again(tmp_path: Path) -> None:
    """Of several threads one is chosen; without a choice the error names them."""
    graph = approval(World()).compile(checkpointer=InMemorySaver())
    with use_cassette(tmp_path / "run.yaml", mode="all"):
        for thread in ("a", "b"):
            graph.invoke({"log": [thread]}, {"configurable": {"thread_id": thread}})
    with pytest.raises(ConfigurationError, match="'a', 'b': choose one"):
        replay_source(tmp_path / "run.yaml", approval(gone()).compile())
    again = replay_source(tmp_path / "run.yaml", approval(gone()).compile(), thread_id="b", on_unused="ignore")
    assert again.answer["log"][0] == "b"
