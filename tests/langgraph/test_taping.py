"""Graphs and tasks that are taped are the same, and take part in whatever session is in force."""

# ruff: noqa: D103 - what is no test says by its name what it does

from __future__ import annotations

import asyncio
import functools
from pathlib import Path
from typing import Any

import pytest
from langchain.agents import create_agent
from langchain_core.runnables import RunnableConfig
from langchain_core.tools import tool
from langgraph.cache.memory import InMemoryCache
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.config import get_stream_writer
from langgraph.func import entrypoint, task
from langgraph.graph import END, START, MessagesState, StateGraph
from langgraph.graph.state import CompiledStateGraph
from langgraph.pregel import Pregel
from langgraph.types import CachePolicy, Command, RetryPolicy, StreamWriter, interrupt

from agenttape_core import open_cassette, use_cassette
from agenttape_core.errors import AfterReplayWarning, CassetteMissError, ConfigurationError
from agenttape_langchain import tape as tape_of_langchain
from agenttape_langgraph import tape

from .fakes import PlainChat, World, by_task, calling, streamed

# -- A taped graph is the same graph, and takes part in whatever session is in force -----------------------------------

QUESTION: Any = {"messages": [("user", "Hello?")]}


class State(MessagesState):
    """Messages, and how often a node ran."""

    runs: int


def builder(world: World) -> StateGraph[Any]:
    model = PlainChat(world=world)

    def ask(state: State) -> dict[str, Any]:
        return {"messages": [model.invoke(state["messages"])], "runs": state.get("runs", 0) + 1}

    return StateGraph(State).add_node(ask).add_edge(START, "ask").add_edge("ask", END)


def nested(world: World) -> Any:
    return StateGraph(State).add_node("inner", builder(world).compile()).add_edge(START, "inner").compile()


def agent(world: World) -> Any:
    @tool
    def look(n: int) -> str:
        """Look."""
        return f"seen {n} at {world.reach('tool')}"

    def reply(messages: Any, number: int) -> Any:
        return calling(("look", {"n": 1}), number=number) if len(messages) == 1 else f"done at {number}"

    model = PlainChat(world=world, reply=lambda messages, number: _message(reply(messages, number)))
    return create_agent(model, [look])


def _message(said: Any) -> Any:
    from langchain_core.messages import AIMessage

    return AIMessage(said) if isinstance(said, str) else said


def workflow(world: World) -> Any:
    model = PlainChat(world=world)

    @entrypoint()
    def flow(inputs: Any) -> Any:
        return model.invoke(inputs["messages"])

    return flow


GRAPHS = {
    "compiled": lambda world: tape(builder(world).compile()),
    "builder": lambda world: tape(builder(world)).compile(),
    "nested": lambda world: tape(nested(world)),
    "retried": lambda world: tape(builder(world).compile().with_retry()),
    "configured": lambda world: tape(builder(world).compile()).with_config(tags=["a"]),
    "copied": lambda world: tape(builder(world).compile()).copy({"checkpointer": InMemorySaver()}),
    "inside": lambda world: (
        StateGraph(State).add_node("inner", tape(builder(world).compile())).add_edge(START, "inner").compile()
    ),
    "agent": lambda world: tape(agent(world)),
    "functional": lambda world: tape(workflow(world)),
}


@pytest.mark.sweep
@pytest.mark.parametrize("is_async", [False, True])
@pytest.mark.parametrize("auto", [False, True])
@pytest.mark.parametrize("kind", GRAPHS)
async def test_a_taped_graph_takes_part(kind: str, *, auto: bool, is_async: bool, world: World, tmp_path: Path) -> None:
    """Calls in a taped graph are recorded once and replayed, also in a session that is not automatic."""
    graph = GRAPHS[kind](world)
    config: Any = {"configurable": {"thread_id": "1"}}
    results = []
    for mode in ("all", "none"):
        world.gone = mode == "none"
        with use_cassette(tmp_path / "c.yaml", mode=mode, auto=auto) as session:
            results.append(await graph.ainvoke(QUESTION, config) if is_async else graph.invoke(QUESTION, config))
        if graph_saver := getattr(graph, "checkpointer", None):
            graph_saver.delete_thread("1")
    assert results[0] == results[1]
    assert len(session.report.replayed) == len(world.reached) > 0


def test_untaped_graphs_take_no_part(world: World, tmp_path: Path) -> None:
    """In a session that is not automatic, a graph beside a taped one runs as if there were no session."""
    taped, other = tape(builder(world).compile()), builder(world).compile()
    with use_cassette(tmp_path / "c.yaml", mode="all", auto=False) as session:
        stream = taped.stream(QUESTION)
        next(stream)
        other.invoke(QUESTION)
        assert list(stream) == []
    assert len(world.reached) == 2
    assert len(session.report.recorded) == 1


def test_outside_of_sessions(world: World) -> None:
    """Outside of any session a taped graph is nothing but the graph."""
    graph = builder(world).compile()
    first, second = graph.invoke(QUESTION), tape(graph).invoke(QUESTION)
    assert second["runs"] == first["runs"] == 1
    assert len(world.reached) == 2


def test_it_is_the_same_graph(world: World) -> None:
    """A taped graph has the class and the results of the original."""
    graph = nested(world)
    taped = tape(graph)
    assert isinstance(taped, CompiledStateGraph)
    assert isinstance(taped, Pregel)
    assert type(taped).__name__ == type(graph).__name__
    assert repr(type(taped)) == repr(type(graph))
    assert taped.get_graph(xray=True).to_json() == graph.get_graph(xray=True).to_json()
    assert taped.get_graph().draw_mermaid() == graph.get_graph().draw_mermaid()
    assert list(dict(taped.get_subgraphs())) == list(dict(graph.get_subgraphs())) == ["inner"]
    assert taped.get_input_jsonschema() == graph.get_input_jsonschema()
    assert taped.get_output_jsonschema() == graph.get_output_jsonschema()
    assert taped.get_context_jsonschema() == graph.get_context_jsonschema()
    assert taped.get_name() == graph.get_name()
    assert taped.nodes == graph.nodes
    assert taped.builder is graph.builder
    assert tape(taped) is taped


def test_the_original_stays_as_it_is(world: World) -> None:
    """Changes of a taped graph or builder do not reach the original, nor the other way round."""
    graph = builder(world).compile()
    taped = tape(graph)
    taped.name = "other"
    taped.checkpointer = InMemorySaver()
    assert (graph.name, graph.checkpointer) == ("LangGraph", None)
    original = builder(world)
    copied = tape(original)
    copied.add_node("more", lambda state: {}).add_edge("ask", "more")
    assert set(original.nodes) == {"ask"}
    assert ("ask", "more") not in original.edges
    assert set(copied.compile().nodes) == {"__start__", "ask", "more"}


def test_what_has_no_nodes_serves_none() -> None:
    """`replay_nodes` for something that is no graph is refused."""
    with pytest.raises(ConfigurationError, match="has no nodes"):
        tape(PlainChat(world=None), replay_nodes=["a"])


def test_other_things_are_taped_as_langchain_does(world: World, tmp_path: Path) -> None:
    """`tape` also tapes models and the like."""
    model = tape(PlainChat(world=world))
    for mode in ("all", "none"):
        with use_cassette(tmp_path / "c.yaml", mode=mode, auto=False):
            answer = model.invoke("Hello?")
    assert answer.text == "answer 1 to Hello?"
    assert world.reached == ["model"]


def test_the_verb_of_langchain_tapes_graphs(world: World, tmp_path: Path) -> None:
    """A graph that is taped by LangChain's `tape` runs on every replay, also inside `with_retry`."""
    graph = builder(world).compile()
    for taped in (tape_of_langchain(graph), tape_of_langchain(graph.with_retry())):
        path = tmp_path / f"{type(taped).__name__}.yaml"
        with use_cassette(path, mode="all", auto=False) as session:
            values = taped.invoke(QUESTION)
        assert "call" not in {item.kind for item in session.interactions}
        with use_cassette(path, auto=False) as session:
            assert taped.invoke(QUESTION) == values
        assert len(session.report.replayed) == 1


def test_without_this_package_a_graph_is_refused(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """LangChain's `tape` names the package that is missing, and serves no graph as a whole."""
    monkeypatch.setattr("agenttape_langchain.graphs._tapes", [])
    graph = builder(world).compile()
    for refused in (graph, graph.with_retry(), graph.builder):
        with pytest.raises(ConfigurationError, match="pip install agenttape-langgraph"):
            tape_of_langchain(refused)


def test_header_names_the_packages(world: World, tmp_path: Path) -> None:
    """A cassette says with which versions of LangGraph and of its integration it was recorded."""
    with use_cassette(tmp_path / "c.yaml", mode="once"):
        builder(world).compile().invoke(QUESTION)
    packages = open_cassette(tmp_path / "c.yaml").header.volatile.packages
    assert {"agenttape-core", "agenttape-langchain", "agenttape-langgraph", "langchain-core", "langgraph"} <= set(
        packages
    )


@pytest.mark.parametrize("begun", [False, True])
async def test_streams_that_are_read_after_a_replay(world: World, tmp_path: Path, *, begun: bool) -> None:
    """Neither a graph's stream nor the rest of one that was begun in the session reaches anything after its end."""

    def twice() -> Any:
        graph = StateGraph(State).add_sequence([("one", builder(world).compile()), ("two", builder(world).compile())])
        return graph.add_edge(START, "one").compile()

    def program() -> tuple[Any, Any]:
        plain, asynchronous = twice().stream(QUESTION), twice().astream(QUESTION)
        return plain, asynchronous

    with use_cassette(tmp_path / "c.yaml", mode="all"):
        list(twice().stream(QUESTION))
    with use_cassette(tmp_path / "c.yaml", on_unused="ignore"):
        plain, asynchronous = program()
        if begun:
            next(plain)
    reached = len(world.reached)
    with pytest.warns(AfterReplayWarning), pytest.raises(CassetteMissError):
        next(plain)
    with pytest.warns(AfterReplayWarning), pytest.raises(CassetteMissError):
        await anext(asynchronous)
    assert len(world.reached) == reached


# -- Tasks of the functional API, taped by themselves or by their names in an entrypoint -------------------------------

MODES: Any = ["updates", "custom", "tasks", "checkpoints"]
CONFIG: Any = {"configurable": {"thread_id": "1"}}


def flow(world: World, *, is_async: bool, taped: bool) -> Any:
    """Return an entrypoint that calls tasks, one of them from within another, and several at once."""

    def square(n: int, writer: StreamWriter) -> int:
        writer({"squaring": n})
        world.reach("square")
        return n * n

    def note(what: str, *, config: RunnableConfig) -> str:
        get_stream_writer()(what)
        world.reach("note")
        return f"{what} in {config['configurable']['thread_id']}"

    async def asquare(n: int, writer: StreamWriter) -> int:
        await asyncio.sleep(0)
        return square(n, writer)

    async def anote(what: str, *, config: RunnableConfig) -> str:
        return note(what, config=config)

    asquare.__name__, anote.__name__ = "square", "note"
    wrap = tape if taped else lambda made: made
    squares = wrap(task(asquare if is_async else square))
    notes = wrap(task(anote if is_async else note))

    async def aouter(n: int) -> Any:
        return [await squares(n), await notes(what="nested")]

    def outer(n: int) -> Any:
        return [squares(n).result(), notes(what="nested").result()]

    aouter.__name__ = "outer"
    nested = task(aouter if is_async else outer)

    async def arun(given: list[int], *, previous: Any = None) -> Any:
        several = await asyncio.gather(*map(squares, given))
        return [several, await nested(given[0]), previous]

    def run(given: list[int], *, previous: Any = None) -> Any:
        several = [future.result() for future in [squares(n) for n in given]]
        return [several, nested(given[0]).result(), previous]

    arun.__name__ = "run"
    return entrypoint(checkpointer=InMemorySaver())(arun if is_async else run)


def run(graph: Any, given: Any, *, is_async: bool) -> Any:
    """Return the parts of a run by their branches, and the history of its thread."""
    branches = by_task(streamed(graph, given, CONFIG, is_async=is_async, stream_mode=MODES, subgraphs=True))
    branches["() custom "] = sorted(branches.get("() custom ", []), key=repr)  # several tasks write at once
    return branches, [(snap.values, snap.config) for snap in graph.get_state_history(CONFIG)]


@pytest.mark.sweep
@pytest.mark.parametrize("is_async", [False, True], ids=["sync", "async"])
@pytest.mark.parametrize("how", ["tasks", "names", "all"])
def test_replayed_tasks_do_not_run(how: str, *, is_async: bool, world: World, tmp_path: Path) -> None:
    """Tasks are replayed wherever they are called, also from within others; the entrypoint and the rest run."""
    seen = []
    for mode in ("all", "none"):
        world.gone = mode == "none"
        graph = flow(world, is_async=is_async, taped=how == "tasks")
        serves: Any = {"tasks": (), "names": ["square", "note"], "all": True}[how]
        graph = tape(graph, replay_nodes=serves)
        with use_cassette(tmp_path / "c.yaml", mode=mode) as session:
            seen += [[run(graph, [2, 3, 4], is_async=is_async), run(graph, [5], is_async=is_async)]]
    assert [history for _, history in seen[1]] == [history for _, history in seen[0]]
    if how != "all":  # a task that is replayed whole does not call others, so nothing is streamed of those
        assert seen[1] == seen[0]
    values = seen[0][1][1][0][0]
    assert values == [[25], [25, "nested in 1"], [[4, 9, 16], [4, "nested in 1"], None]]
    names = [call_record.name for call_record in session.report.replayed]
    expected = {"outer": 2, "square": 4} if how == "all" else {"square": 6, "note": 2}
    assert {name: names.count(name) for name in names} == expected
    assert {call_record.kind for call_record in session.report.replayed} == {"node"}


def test_a_taped_task_is_the_task(world: World) -> None:
    """Outside of sessions a taped task behaves like the task, under its name; taping twice is taping once."""

    @task
    def work(n: int, times: int = 2) -> int:
        """Work."""
        world.reach("work")
        return n * times

    taped = tape(work)
    assert tape(taped) is taped
    assert type(taped) is type(work)
    assert (taped.__name__, taped.__doc__) == ("work", "Work.")

    @entrypoint()
    def run(n: int) -> int:
        first: int = taped(n).result() + taped(n, times=3).result()
        return first

    assert run.invoke(2) == 10
    assert world.reached == ["work", "work"]


def test_a_changed_argument_is_a_miss(world: World, tmp_path: Path) -> None:
    """A task is asked with its arguments by name, however they are given; others have no recording."""

    @tape
    @task
    def work(n: int, times: int = 2) -> int:
        return n * times * world.reach("work")

    @entrypoint()
    def run(given: Any) -> Any:
        args, kwargs = given
        return work(*args, **kwargs).result()

    with use_cassette(tmp_path / "c.yaml", mode="all") as session:
        assert run.invoke(((2, 3), {})) == 6
    assert session.interactions[0].request == {"input": {"n": 2, "times": 3}}
    with use_cassette(tmp_path / "c.yaml"):
        assert run.invoke(((2,), {"times": 3})) == 6
    with pytest.raises(CassetteMissError, match="node work"), use_cassette(tmp_path / "c.yaml"):
        run.invoke(((2, 4), {}))


def test_tasks_of_all_sorts_keep_their_names(world: World, tmp_path: Path) -> None:
    """Methods, partial functions and callable objects are tasks, too."""

    class Thing:
        def method(self, value: str) -> str:
            return f"{value} method {world.reach('method')}"

        def __call__(self, value: str) -> str:
            return f"{value} called {world.reach('called')}"

    def plain(update: str, value: str) -> str:
        return f"{value} {update} {world.reach('plain')}"

    tasks = [
        task(Thing().method, name="named"),
        task(functools.partial(plain, "partial")),
        task(functools.partial(plain, "other"), name="other"),
        task(Thing(), name="thing"),
    ]

    @entrypoint()
    def run(value: str) -> str:
        for each in tasks:
            value = each(value).result()
        return value

    seen = []
    for mode in ("all", "none"):
        world.gone = mode == "none"
        with use_cassette(tmp_path / "c.yaml", mode=mode) as session:
            seen.append([list(part) for part in tape(run, replay_nodes=True).stream("x", stream_mode="updates")])
    assert seen[1] == seen[0] == [["named"], ["plain"], ["other"], ["thing"], ["run"]]
    assert [call_record.name for call_record in session.report.replayed] == ["named", "plain", "other", "thing"]


def test_policies_and_interrupts_of_tasks(world: World, tmp_path: Path) -> None:
    """Retries, caches and questions to humans are those of the recording; nothing is done twice."""

    @task(retry_policy=RetryPolicy(initial_interval=0, jitter=False), cache_policy=CachePolicy())
    def shaky(n: int) -> int:
        number = world.reach("shaky")
        if number < 2:
            raise ConnectionError("not yet")
        return n * number

    @task
    def ask(question: str) -> Any:
        answer = interrupt(question)
        return [answer, world.reach("asked")]

    def talk(answer: str) -> Any:
        @entrypoint(checkpointer=InMemorySaver(), cache=InMemoryCache())
        def run(n: int) -> Any:
            return [shaky(n).result(), shaky(n).result(), ask("sure?").result()]

        graph = tape(run, replay_nodes=["shaky", "ask"])
        return [list(graph.stream(given, CONFIG)) for given in (4, Command(resume=answer))]

    seen = []
    for mode in ("all", "none"):
        world.gone = mode == "none"
        with use_cassette(tmp_path / "c.yaml", mode=mode) as session:
            seen.append(talk("yes"))
    assert seen[1] == seen[0]
    assert seen[0][1][-1]["run"][0] == 8
    assert seen[0][1][-1]["run"][2] == ["yes", 3]
    assert [call_record.name for call_record in session.report.replayed].count("ask") == 2
    with pytest.raises(CassetteMissError, match="node ask"), use_cassette(tmp_path / "c.yaml"):
        talk("no")
