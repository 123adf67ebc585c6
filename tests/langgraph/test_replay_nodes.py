"""Nodes replayed as a whole do not run on replay, and everything that they did happens again."""

from __future__ import annotations

import asyncio
import contextvars
from dataclasses import dataclass
from operator import add
from pathlib import Path
from typing import Annotated, Any

import pytest
from langchain_core.callbacks import dispatch_custom_event
from langchain_core.messages import AIMessage
from langchain_core.runnables import RunnableConfig, RunnableLambda
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.config import get_stream_writer
from langgraph.graph import END, START, MessagesState, StateGraph
from langgraph.graph.state import CompiledStateGraph
from langgraph.runtime import Runtime
from langgraph.types import CachePolicy, Command, RetryPolicy, Send, StreamWriter, interrupt

from agenttape_core import open_cassette, use_cassette
from agenttape_core.errors import CassetteMissError, ConfigurationError
from agenttape_langgraph import tape

from .fakes import StreamingChat, World, by_task, recorded_and_replayed, streamed

MODES: Any = ["values", "updates", "messages", "custom", "tasks", "checkpoints"]
CONFIG: Any = {"configurable": {"thread_id": "1"}}


class State(MessagesState):
    """Messages, notes and a number."""

    notes: Annotated[list[Any], add]
    n: int


@dataclass
class Context:
    """Whom a run is for."""

    user: str = "Ada"


class Nodes:
    """Nodes that reach the world, each in another way, plain and awaited."""

    def __init__(self, world: World, *, is_async: bool) -> None:
        self.world = world
        self.is_async = is_async

    def made(self, function: Any) -> Any:
        """Return a function as a node, with a coroutine in its place if these are awaited."""
        if not self.is_async:
            return function

        async def coroutine(state: State, runtime: Runtime[Context]) -> Any:
            await asyncio.sleep(0)
            return function(state, runtime)

        coroutine.__name__ = function.__name__
        return coroutine

    def plain(self, state: State, runtime: Runtime[Context]) -> Any:
        """Return an update, write to the custom stream and dispatch an event."""
        runtime.stream_writer({"working on": state["n"]})
        get_stream_writer()(("again", runtime.context.user))
        self.world.reach("plain")
        return {"notes": ["plain"]}

    def model(self, state: State, runtime: Runtime[Context]) -> Any:
        """Ask a model, whose tokens are streamed."""
        return {"messages": [StreamingChat(world=self.world).invoke(state["messages"])]}

    def fan(self, state: State, runtime: Runtime[Context]) -> Any:
        """Go on to several nodes at once, each with a state of its own."""
        self.world.reach("fan")
        sends = [Send("leaf", {"n": n, "notes": []}) for n in range(3)]
        return [Command(update={"notes": ["fan"]}), Command(goto=sends)]

    def leaf(self, state: State, runtime: Runtime[Context]) -> Any:
        """Be one of several."""
        self.world.reach("leaf")
        return Command(update={"notes": [f"leaf {state['n']}"]})


def graph(nodes: Nodes) -> Any:
    """Return a graph of all of them: plain -> model -> fan -> leaf, leaf, leaf."""
    builder = StateGraph(State, context_schema=Context)
    for function in (nodes.plain, nodes.model, nodes.fan, nodes.leaf):
        builder.add_node(function.__name__, nodes.made(function))
    for start, end in ((START, "plain"), ("plain", "model"), ("model", "fan"), ("leaf", END)):
        builder.add_edge(start, end)
    return builder


def inside(nodes: Nodes) -> Any:
    """Return a graph with that one as its only node."""
    return StateGraph(State, context_schema=Context).add_node("inner", graph(nodes).compile()).add_edge(START, "inner")


GIVEN: Any = {"messages": [("user", "Hello?")], "n": 4}


def run(taped: Any, *, is_async: bool, given: Any = GIVEN) -> Any:
    """Return everything that a run of a graph gives: the parts of its streams, its state, its history."""
    options: Any = {"context": Context(), "stream_mode": MODES, "subgraphs": True}
    parts = streamed(taped, given, CONFIG, is_async=is_async, **options)
    history = [(snap.values, snap.next, snap.config, snap.metadata) for snap in taped.get_state_history(CONFIG)]
    return by_task(parts), history


ALL = ["plain", "model", "fan", "leaf"]


@pytest.mark.sweep
@pytest.mark.parametrize("is_async", [False, True], ids=["sync", "async"])
@pytest.mark.parametrize("make", [graph, inside])
@pytest.mark.parametrize("serves", [ALL, ["model", "fan"], ["leaf"], True])
def test_replayed_nodes_do_not_run_and_all_they_did_happens(
    make: Any, serves: Any, *, is_async: bool, world: World, tmp_path: Path
) -> None:
    """Streams of every mode, state and history of a replay equal the recording; no replayed node has run."""
    seen = []
    for mode in ("all", "none"):  # the world stays: nodes that are not replayed run
        before = len(world.reached)
        taped = tape(make(Nodes(world, is_async=is_async)).compile(checkpointer=InMemorySaver()), replay_nodes=serves)
        with use_cassette(tmp_path / "c.yaml", mode=mode) as session:
            seen.append(run(taped, is_async=is_async))
    assert seen[1] == seen[0]
    named = set(ALL) if serves is True else set(serves)
    really = {"model" if what == "model" else what for what in world.reached[before:]}
    assert really == set(ALL) - named - {"model"}
    replayed = [call_record.name for call_record in session.report.replayed if call_record.kind == "node"]
    assert sorted(set(replayed)) == sorted(named)
    assert replayed.count("leaf") == (3 if "leaf" in named else 0)


def test_outside_of_sessions_a_replayed_node_is_the_node(world: World) -> None:
    """Without a session everything runs, and the graph looks to everybody like the one that was given."""
    real = graph(Nodes(world, is_async=False)).compile(checkpointer=InMemorySaver())
    taped = tape(real, replay_nodes=ALL)
    assert isinstance(taped, CompiledStateGraph)
    assert taped.get_graph().to_json() == real.get_graph().to_json()
    assert [type(node.bound).__name__ for node in taped.nodes.values()] == [
        type(node.bound).__name__ for node in real.nodes.values()
    ]
    assert taped.invoke(GIVEN, CONFIG, context=Context())["notes"][0] == "plain"
    assert len(world.reached) == 6


@pytest.mark.parametrize("serves", [["modle"], ["plain", "nobody"]], ids=["misspelt", "one of two"])
def test_a_name_that_no_node_has_is_refused(serves: Any, world: World) -> None:
    """A name that no node has is an error that lists the nodes."""
    with pytest.raises(ConfigurationError, match=r"no node '(modle|nobody)'\n.*'fan', 'leaf', 'model', 'plain'"):
        tape(graph(Nodes(world, is_async=False)).compile(), replay_nodes=serves)
    with pytest.raises(ConfigurationError, match="no node"):
        tape(graph(Nodes(world, is_async=False)), replay_nodes=serves).compile()


def test_one_name_is_no_collection_of_letters(world: World) -> None:
    """A bare text is the name of one node."""
    with pytest.raises(ConfigurationError, match=r"no node 'modle'\n"):
        tape(graph(Nodes(world, is_async=False)).compile(), replay_nodes="modle")


def test_a_changed_input_is_a_miss(world: World, tmp_path: Path) -> None:
    """A node is asked with the state that it is given and the context of the run: another one has no recording."""

    def taped() -> Any:
        return tape(graph(Nodes(world, is_async=False)), replay_nodes=["plain"]).compile(checkpointer=InMemorySaver())

    with use_cassette(tmp_path / "c.yaml", mode="all"):
        taped().invoke(GIVEN, CONFIG, context=Context())
    for given, context in (({**GIVEN, "n": 5}, Context()), (GIVEN, Context("Bob"))):
        with (
            pytest.raises(CassetteMissError, match="plain was called with a request"),
            use_cassette(tmp_path / "c.yaml"),
        ):
            taped().invoke(given, CONFIG, context=context)


def test_calls_inside_a_replayed_node_are_not_unused(world: World, tmp_path: Path) -> None:
    """Calls inside a replayed node are in the cassette as its children, and are neither executed nor unused."""
    for mode in ("all", "none"):
        taped = tape(graph(Nodes(world, is_async=False)), replay_nodes=["model"]).compile()
        with use_cassette(tmp_path / "c.yaml", mode=mode) as session:
            taped.invoke(GIVEN, context=Context())
    records = list(open_cassette(tmp_path / "c.yaml").interactions())
    (node,) = [record for record in records if record.kind == "node"]
    assert [record.kind for record in records if record.parent == node.number] == ["chat"]
    assert not session.report.unused


@pytest.mark.parametrize("is_async", [False, True], ids=["sync", "async"])
def test_humans_are_asked_again(*, is_async: bool, world: World, tmp_path: Path) -> None:
    """A replayed node that interrupts stops the graph with the same question, and resumes with the same answers."""

    def ask(state: State, runtime: Runtime[Context]) -> Any:
        first = interrupt({"how many?": state["n"]})
        runtime.stream_writer(f"first {first}")
        second = interrupt("sure?")
        return {"notes": [first, second, world.reach("ask")]}

    def talk(mode: str, answers: Any) -> Any:
        world.gone = mode == "none"
        builder = StateGraph(State, context_schema=Context)
        builder.add_node("ask", Nodes(world, is_async=is_async).made(ask)).add_edge(START, "ask")
        taped = tape(builder, replay_nodes=["ask"]).compile(checkpointer=InMemorySaver())
        seen = [run(taped, is_async=is_async)]
        seen += [run(taped, is_async=is_async, given=Command(resume=answer)) for answer in answers]
        return seen, taped.get_state(CONFIG)

    with use_cassette(tmp_path / "c.yaml", mode="all"):
        recorded = talk("all", [7, "yes"])
    with use_cassette(tmp_path / "c.yaml"):
        replayed = talk("none", [7, "yes"])
    assert replayed == recorded
    assert recorded[1].values["notes"] == [7, "yes", 1]
    with pytest.raises(CassetteMissError, match="node ask"), use_cassette(tmp_path / "c.yaml"):
        talk("none", [7, "no"])


@pytest.mark.parametrize("is_async", [False, True], ids=["sync", "async"])
def test_retries_happen_again(*, is_async: bool, world: World, tmp_path: Path) -> None:
    """Each attempt of a node is one call: its recorded errors are raised again, and the policy retries it."""

    def shaky(state: State, runtime: Runtime[Context]) -> Any:
        number = world.reach("shaky")
        runtime.stream_writer(f"attempt {number}")
        if number < 3:
            raise ConnectionError(f"attempt {number}")
        return {"notes": [number]}

    def drive(_: str) -> Any:
        builder = StateGraph(State, context_schema=Context)
        policy = RetryPolicy(initial_interval=0, jitter=False, max_attempts=3)
        builder.add_node("shaky", Nodes(world, is_async=is_async).made(shaky), retry_policy=policy)
        taped = tape(builder.add_edge(START, "shaky"), replay_nodes=["shaky"]).compile(checkpointer=InMemorySaver())
        return run(taped, is_async=is_async)

    recorded, replayed = recorded_and_replayed(world, tmp_path / "c.yaml", drive)
    assert replayed.facts == recorded.facts
    assert len(replayed.session.report.replayed) == 3


def test_a_timeout_of_a_node_happens_only_once(world: World, tmp_path: Path) -> None:
    """A replayed coroutine keeps its timeout policy, and is replayed at once where the recording took its time."""
    from langgraph.types import TimeoutPolicy

    async def slow(state: State) -> Any:
        await asyncio.sleep(0.01)
        return {"notes": [world.reach("slow")]}

    builder = StateGraph(State).add_node("slow", slow, timeout=TimeoutPolicy(run_timeout=30)).add_edge(START, "slow")
    taped = tape(builder, replay_nodes=["slow"]).compile()
    runs = recorded_and_replayed(world, tmp_path / "c.yaml", lambda _: asyncio.run(taped.ainvoke(GIVEN))["notes"])
    assert [each.facts for each in runs] == [[1], [1]]


def test_runnables_and_graphs_are_nodes_too(world: World, tmp_path: Path) -> None:
    """A chain, a lambda that is traced and a whole graph that is named are replayed like functions."""

    def inner(state: State, writer: StreamWriter) -> Any:
        writer("from inside")
        return {"notes": [f"inner {world.reach('inner')}"]}

    def chained(state: Any) -> Any:
        dispatch_custom_event("chained", {"n": state["n"]})
        return {"notes": [f"chained {world.reach('chained')}"]}

    def build() -> Any:
        subgraph = StateGraph(State).add_node("inner", inner).add_edge(START, "inner").compile()
        chain = RunnableLambda(lambda state: state) | RunnableLambda(chained)
        builder = StateGraph(State, context_schema=Context).add_node("chain", chain).add_node("graph", subgraph)
        builder.add_edge(START, "chain").add_edge("chain", "graph")
        return tape(builder, replay_nodes={"chain", "graph"}).compile(checkpointer=InMemorySaver())

    def drive(_: str) -> Any:
        parts, history = run(build(), is_async=False)
        custom = [part for branch, found in parts.items() if " custom " in branch for part in found]
        return history[0][0], custom, parts["() updates chain"], parts["() updates graph"]

    recorded, replayed = recorded_and_replayed(world, tmp_path / "c.yaml", drive)
    assert replayed.facts == recorded.facts
    assert recorded.facts[1] == ["from inside"]
    assert [call_record.name for call_record in replayed.session.report.replayed] == ["chain", "graph"]


def test_caches_keep_working(world: World, tmp_path: Path) -> None:
    """An answer from the cache of a node is not a call of the node, when recorded and when replayed."""
    from langgraph.cache.memory import InMemoryCache

    def costly(state: State) -> Any:
        return {"notes": [world.reach("costly")]}

    def drive(_: str) -> Any:
        builder = StateGraph(State).add_node("costly", costly, cache_policy=CachePolicy()).add_edge(START, "costly")
        taped = tape(builder, replay_nodes=["costly"]).compile(cache=InMemoryCache())
        return [taped.invoke({"n": 1})["notes"] for _ in range(2)]

    recorded, replayed = recorded_and_replayed(world, tmp_path / "c.yaml", drive)
    assert recorded.facts == replayed.facts == [[1], [1]]
    assert len(replayed.session.report.replayed) == 1


def test_loops_and_commands_to_parents(world: World, tmp_path: Path) -> None:
    """A node that runs again and again gets its own turn each time; a command for the parent graph reaches it."""

    def turn(state: State) -> Any:
        number = world.reach("turn")
        if state["n"] < 3:
            return Command(update={"n": state["n"] + 1, "notes": [number]}, goto="turn")
        return Command(graph=Command.PARENT, update={"notes": [f"left at {number}"]}, goto="after")

    def after(state: State) -> Any:
        return {"notes": ["after"]}

    def build() -> Any:
        loop = StateGraph(State).add_node("turn", turn).add_edge(START, "turn").compile()
        builder = StateGraph(State).add_node("loop", loop).add_node("after", after).add_edge(START, "loop")
        return tape(builder, replay_nodes=["turn"]).compile()

    given: Any = {"n": 0, "messages": [AIMessage("x", id="1")]}
    recorded, replayed = recorded_and_replayed(world, tmp_path / "c.yaml", lambda _: build().invoke(given))
    assert replayed.facts == recorded.facts
    assert [call_record.match_rule for call_record in replayed.session.report.replayed] == ["exact"] * 4


def test_taping_again_keeps_what_is_replayed(world: World, tmp_path: Path) -> None:
    """Nodes of a taped graph can be named later; the given graph stays as it was."""
    first = tape(graph(Nodes(world, is_async=False)).compile())
    second = tape(first, replay_nodes=lambda name: name.startswith("pl"))
    with use_cassette(tmp_path / "c.yaml", mode="all") as session:
        second.invoke(GIVEN, context=Context())
    assert [item.name for item in session.interactions if item.kind == "node"] == ["plain"]
    with use_cassette(tmp_path / "d.yaml", mode="all") as session:
        first.invoke(GIVEN, context=Context())
    assert [item.kind for item in session.interactions] == ["chat"]


def test_a_config_that_a_node_asks_for_is_its_own(world: World, tmp_path: Path) -> None:
    """A replayed node still gets its config, and writes to the state by hand are done again."""

    def by_hand(state: State, config: RunnableConfig) -> Any:
        world.reach("by hand")
        config["configurable"]["__pregel_send"]([("notes", ["by hand"])])
        return {"notes": ["returned"]}

    def drive(_: str) -> Any:
        builder = StateGraph(State).add_node("by_hand", by_hand).add_edge(START, "by_hand")
        return tape(builder, replay_nodes=["by_hand"]).compile().invoke(GIVEN)["notes"]

    recorded, replayed = recorded_and_replayed(world, tmp_path / "c.yaml", drive)
    assert recorded.facts == replayed.facts == ["by hand", "returned"]


def test_an_event_loop_that_is_older_than_the_session(world: World, tmp_path: Path) -> None:
    """Tasks without the context of a session find their places in the graph; parallel ones are not taken for nested."""
    before = contextvars.copy_context()
    seen = []
    for mode in ("all", "none"):
        taped = tape(graph(Nodes(world, is_async=True)), replay_nodes=ALL).compile()
        world.gone = mode == "none"
        with asyncio.Runner() as runner, use_cassette(tmp_path / "c.yaml", mode=mode) as session:
            answer = runner.run(taped.ainvoke(GIVEN, context=Context()), context=before.copy())
            seen.append(answer["notes"])
    assert seen[1] == seen[0]
    assert [call_record.match_rule for call_record in session.report.replayed] == ["exact"] * 6
    records = {record.address: record for record in open_cassette(tmp_path / "c.yaml").interactions()}
    leaves = [record for address, record in records.items() if address.startswith("LangGraph/leaf@")]
    assert [record.parent for record in leaves] == [None] * 3
    assert records["LangGraph/leaf@4[2]/leaf"].request["input"]["n"] == 2


def test_a_recording_made_without_it_says_so(tmp_path: Path) -> None:
    """Nodes are recorded only if `replay_nodes` named them then, and a miss says so."""
    builder = StateGraph(State).add_node("work", lambda _: {"notes": ["hi"]}).add_edge(START, "work")
    path = tmp_path / "c.yaml"
    with use_cassette(path, mode="all"):
        tape(builder.compile()).invoke({"notes": []})
    said = "no node call was recorded; nodes are recorded only if replay_nodes names them then"
    with pytest.raises(CassetteMissError, match=said), use_cassette(path):
        tape(builder.compile(), replay_nodes=["work"]).invoke({"notes": []})
