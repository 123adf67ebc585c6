"""Runs that were added to a cassette, and runs whose process died, can be listed, replayed and forked as all others."""

from __future__ import annotations

import copy
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from langchain_core.messages import AIMessage, HumanMessage
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.graph import START, MessagesState, StateGraph

from agenttape_core import Step, open_cassette, recover, use_cassette
from agenttape_core.errors import ConfigurationError
from agenttape_core.integration.cassettes import deriving
from agenttape_langgraph import areplay_thread, replay_thread, steps_of, time_travel

from ..fakes import CONFIG, PlainChat, World

HELLO = {"messages": [("user", "hello")]}
MORE = {"messages": [("user", "and then?")]}
GONE = World()
GONE.gone = True


def chat(world: World, saver: Any = None, hint: str = "think", before_answer: Callable[[], object] = int) -> Any:
    """A graph of three nodes: the first and the second ask a model, the third says that it is over."""
    model = PlainChat(world=world)

    def think(state: MessagesState) -> dict[str, Any]:
        return {"messages": [model.invoke([*state["messages"], HumanMessage(hint)])]}

    def answer(state: MessagesState) -> dict[str, Any]:
        said = model.invoke(state["messages"])
        before_answer()
        return {"messages": [said]}

    builder = StateGraph(MessagesState)
    builder.add_sequence([think, answer, ("close", lambda _: {"messages": [HumanMessage("over")]})])
    builder.add_edge(START, "think")
    return builder.compile(checkpointer=saver)


def added(path: Path, given: Any = MORE, *, again: bool) -> Any:
    """Record a turn, and add another one of the same thread; return the graph.

    Args:
        path: The cassette.
        given: The input of the second turn.
        again: Whether the session that adds takes the first turn once more, on a new saver.
    """
    world = World()
    graph = chat(world, InMemorySaver())
    with use_cassette(path, mode="once"):
        graph.invoke(HELLO, CONFIG)
    if again:
        graph = chat(world, InMemorySaver())
    with use_cassette(path, mode="new_episodes"):
        if again:
            graph.invoke(HELLO, CONFIG)
        graph.invoke(given, CONFIG)
    return graph


def texts(values: Any) -> list[str]:
    """Return the texts of a state."""
    return [message.text for message in values["messages"]]


@pytest.mark.parametrize("again", [True, False])
async def test_added_runs_replay(path: Path, again: bool) -> None:
    """A thread with an added turn is listed and replays with its whole history, sync and async, to the last bit."""
    graph = added(path, again=again)
    nodes = [("__start__",), ("think",), ("answer",), ("close",)]
    assert [step.nodes for step in steps_of(path)] == nodes * 2
    for replay in (replay_thread(path, chat(GONE)), await areplay_thread(path, chat(GONE))):
        assert replay.values == graph.get_state(CONFIG).values
        assert replay.history == list(graph.get_state_history(CONFIG))
        assert str(replay.report) == "4 replayed, 0 recorded"


@pytest.mark.parametrize("given", [MORE, HELLO], ids=["another input", "the same input"])
def test_added_runs_keep_the_messages(path: Path, given: Any) -> None:
    """A turn that is added on a thread gets ids of its own: it replaces no message of the turns before it."""
    values = added(path, given, again=False).get_state(CONFIG).values
    assert len(values["messages"]) == len({message.id for message in values["messages"]}) == 8
    assert texts(values)[:3] == ["hello", "answer 1 to think", "answer 2 to answer 1 to think"]


def test_an_added_run_replays_alone(path: Path) -> None:
    """The program that added a turn replays by itself, on the thread as it was, with the ids that it drew."""
    world, saver = World(), InMemorySaver()
    with use_cassette(path, mode="once"):
        chat(world, saver).invoke(HELLO, CONFIG)
    before = InMemorySaver()
    for found in reversed(list(saver.list(CONFIG))):
        place: Any = found.parent_config or {"configurable": {**CONFIG["configurable"], "checkpoint_ns": ""}}
        before.put(place, found.checkpoint, found.metadata, found.checkpoint["channel_versions"])
    with use_cassette(path, mode="new_episodes"):
        values = chat(world, saver).invoke(MORE, CONFIG)
    with use_cassette(path, on_unused="ignore") as session:
        assert chat(GONE, before).invoke(MORE, CONFIG) == values
    assert [call_record.match_rule for call_record in session.report.replayed] == ["exact", "exact"]


def test_runs_without_a_thread(path: Path) -> None:
    """Runs that their input alone tells apart keep their places, in whatever order they are added and replayed."""
    graph = chat(World())
    with use_cassette(path, mode="once"):
        hello = graph.invoke(HELLO)
    with use_cassette(path, mode="new_episodes"):
        more = graph.invoke(MORE)
        assert graph.invoke(HELLO) == hello
    for order in ((HELLO, MORE), (MORE, HELLO)):
        with use_cassette(path) as session:
            values = [chat(GONE).invoke(given) for given in order]
        assert sorted(values, key=str) == sorted((hello, more), key=str)
        assert {call_record.match_rule for call_record in session.report.replayed} == {"exact"}


def test_added_runs_can_be_forked(path: Path, tmp_path: Path) -> None:
    """An answer of an added turn, and the state between its nodes, can be edited; the derived thread replays."""
    added(path, again=False)
    answer = time_travel(path, chat(World()), answers={4: "SEEN"}, to=tmp_path / "a.yaml")
    assert texts(answer.values)[-2:] == ["SEEN", "over"]
    assert (len(answer.replayed), len(answer.live)) == (0, 0)
    state = time_travel(
        path, chat(World()), step=6, state_update={"messages": [AIMessage("a note")]}, to=tmp_path / "b.yaml"
    )
    assert texts(state.values)[-3:] == ["a note", "answer 1 to a note", "over"]
    assert replay_thread(state.cassette, chat(GONE)).values == state.values


def test_a_changed_run_stands_once(path: Path) -> None:
    """A run that was taken once more with another prompt has its new steps only, in its old place among the others."""
    added(path, again=False)
    with use_cassette(path, mode="new_episodes"):
        graph = chat(World(), InMemorySaver(), hint="think again")
        graph.invoke(HELLO, CONFIG)
    steps = [record.address for record in open_cassette(path).records() if isinstance(record, Step)]
    assert len(steps) == len(set(steps)) == 8
    assert [address.partition("/")[0] for address in steps] == ["LangGraph"] * 4 + ["LangGraph#2"] * 4


def test_nothing_new_leaves_the_file_alone(path: Path) -> None:
    """A session that adds nothing writes nothing, although it takes every step once more."""
    added(path, again=True)
    before = path.read_bytes()
    with use_cassette(path, mode="new_episodes"):
        graph = chat(GONE, InMemorySaver())
        graph.invoke(HELLO, CONFIG)
        graph.invoke(MORE, CONFIG)
    assert path.read_bytes() == before


# -- a process that dies -----------------------------------------------------------------------------------------------


@pytest.fixture
def crashed(path: Path, tmp_path: Path) -> InMemorySaver:
    """A thread whose process died in its second node: the cassette is what could be recovered."""
    saver, left = InMemorySaver(), tmp_path / "left"
    kept: list[InMemorySaver] = []

    def die() -> None:
        (journal,) = path.parent.glob(f".{path.name}.*.journal")
        left.mkdir()
        shutil.copy(journal, left)
        kept.append(copy.deepcopy(saver))
        raise RuntimeError("as if the process had died")

    with pytest.raises(RuntimeError), use_cassette(path, mode="all"):
        chat(World(), saver, before_answer=die).invoke(HELLO, CONFIG, durability="sync")
    path.unlink(missing_ok=True)
    recover(next(left.iterdir()), path)
    return kept[0]


@pytest.mark.usefixtures("crashed")
def test_a_run_that_died_can_be_replayed(path: Path) -> None:
    """What was recovered of a run that died replays up to the node that it died in."""
    assert [step.nodes for step in steps_of(path)] == [("__start__",), ("think",)]
    replay = replay_thread(path, chat(GONE))
    assert texts(replay.values) == ["hello", "answer 1 to think"]
    assert replay.state.next == ("answer",)


@pytest.mark.parametrize("change", [{"step": 2}, {"answers": {1: "A"}}, {"answers": {2: "A"}}], ids=str)
@pytest.mark.usefixtures("crashed")
def test_a_run_that_died_can_be_forked(path: Path, change: dict[str, Any]) -> None:
    """A run that died can diverge from its recording, also in the node that it died in, and then goes on to its end."""
    fork = time_travel(path, chat(World()), **change)
    assert texts(fork.values)[-1] == "over"
    assert replay_thread(fork.cassette, chat(GONE)).values == fork.values


def test_a_run_that_died_goes_on(path: Path, crashed: InMemorySaver) -> None:
    """A run that died and went on in another session is one thread: it replays with its history, to the last bit."""
    with use_cassette(path, mode="new_episodes") as session:
        values = chat(World(), crashed).invoke(None, CONFIG)
    assert str(session.report) == "1 replayed, 0 recorded, 1 unused"
    graph = chat(World(), crashed)
    with use_cassette(path, mode="new_episodes"):
        values = graph.invoke(MORE, CONFIG)
    replay = replay_thread(path, chat(GONE))
    assert replay.values == values
    assert replay.history == list(graph.get_state_history(CONFIG))


# -- an answer that is never asked for ---------------------------------------------------------------------------------


def test_diverged_nowhere(path: Path) -> None:
    """An edited answer that the run does not ask for is an error that says which, and why."""
    added(path, again=False)
    other = StateGraph(MessagesState).add_node("think", lambda _: {"messages": [HumanMessage("alone")]})
    with pytest.raises(ConfigurationError) as caught:
        time_travel(path, other.add_edge(START, "think").compile(), answers={4: "SEEN"})
    assert "did not diverge" in str(caught.value)
    assert "interaction 4, chat PlainChat at LangGraph#2/answer@7/PlainChat" in str(caught.value)
    assert not path.with_name("thread.derived.yaml").exists()


def test_a_derived_run_has_its_steps(path: Path, tmp_path: Path) -> None:
    """A run that diverges before its first step is written with all its steps."""
    added(path, again=True)
    divergence = deriving(path, to=tmp_path / "derived.yaml")
    with divergence:
        divergence.allow_execution()
        chat(GONE, InMemorySaver()).invoke(HELLO, CONFIG)
    assert [step.nodes for step in steps_of(tmp_path / "derived.yaml")] == [step.nodes for step in steps_of(path)[:4]]
