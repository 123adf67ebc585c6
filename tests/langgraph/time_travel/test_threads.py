"""Threads of all sorts: several in one cassette, ones that failed, ones that asked several questions."""

from __future__ import annotations

import operator
from pathlib import Path
from typing import Annotated, Any, TypedDict

import pytest
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.func import entrypoint, task
from langgraph.graph import START, StateGraph
from langgraph.types import Command, interrupt

from agenttape_core import use_cassette
from agenttape_core.errors import ConfigurationError
from agenttape_langchain import TapeCallbackHandler
from agenttape_langgraph import areplay_thread, replay_thread, steps_of, time_travel

from ..fakes import PlainChat, World
from .conftest import Record
from .threads import ANSWERED, Log, approval, asking, loop, observed, taped


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
