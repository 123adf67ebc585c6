"""Tasks of the functional API, taped by themselves or by their names in an entrypoint."""

from __future__ import annotations

import asyncio
import functools
from typing import TYPE_CHECKING, Any

import pytest
from langchain_core.runnables import RunnableConfig
from langgraph.cache.memory import InMemoryCache
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.config import get_stream_writer
from langgraph.func import entrypoint, task
from langgraph.types import CachePolicy, Command, RetryPolicy, StreamWriter, interrupt

from agenttape_core import use_cassette
from agenttape_core.errors import CassetteMissError
from agenttape_langgraph import tape

from .fakes import World, by_task, streamed

if TYPE_CHECKING:
    from pathlib import Path

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
