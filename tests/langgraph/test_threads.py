"""Conversations keep their own answers: the thread of an outermost run belongs to its identity."""

# ruff: noqa: D103 - what is no test says by its name what it does

from __future__ import annotations

import asyncio
import multiprocessing.pool
import secrets
import threading
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from langchain_core.runnables import RunnableConfig
from langchain_core.runnables.config import ContextThreadPoolExecutor
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.graph import START, MessagesState, StateGraph

from agenttape_core import use_cassette
from agenttape_core.errors import CassetteMissError
from agenttape_langgraph import replay_thread

from .fakes import PlainChat, World

THREADS = ["ann", "ben", "cem", "dia", "eva"]
OTHER_ORDERS = [list(reversed(THREADS)), THREADS[2:] + THREADS[:2]]

Conversations = list[tuple[str, list[Any]]]


def config_of(thread: str, **more: Any) -> RunnableConfig:
    return {"configurable": {"thread_id": thread, **more}}


def graph_of(world: World) -> Any:
    model = PlainChat(world=world)

    def answer(state: MessagesState) -> Any:
        return {"messages": [model.invoke("Hello?")]}

    return StateGraph(MessagesState).add_node(answer).add_edge(START, "answer").compile(checkpointer=InMemorySaver())


GIVEN: Any = {"messages": [("user", "Hello?")]}


def in_turn(graph: Any, threads: Sequence[str]) -> None:
    for thread in threads:
        graph.invoke(GIVEN, config_of(thread))


def in_a_pool(graph: Any, threads: Sequence[str]) -> None:
    with ThreadPoolExecutor(3) as pool:
        list(pool.map(lambda thread: graph.invoke(GIVEN, config_of(thread)), threads))


def in_a_pool_with_context(graph: Any, threads: Sequence[str]) -> None:
    with ContextThreadPoolExecutor(3) as pool:
        list(pool.map(lambda thread: graph.invoke(GIVEN, config_of(thread)), threads))


def by_batch(graph: Any, threads: Sequence[str]) -> None:
    graph.batch([GIVEN] * len(threads), [config_of(thread) for thread in threads])


def by_abatch(graph: Any, threads: Sequence[str]) -> None:
    asyncio.run(graph.abatch([GIVEN] * len(threads), [config_of(thread) for thread in threads]))


def by_gather(graph: Any, threads: Sequence[str]) -> None:
    async def converse() -> None:
        await asyncio.gather(*(graph.ainvoke(GIVEN, config_of(thread)) for thread in threads))

    asyncio.run(converse())


def said(graph: Any, threads: Sequence[str] = THREADS) -> Any:
    """Return each thread's history: its messages and their ids, and the ids of its checkpoints."""
    return {thread: list(graph.get_state_history(config_of(thread))) for thread in sorted(threads)}


def words(history: Any) -> Any:
    return {thread: [message.content for message in states[0].values["messages"]] for thread, states in history.items()}


def run(world: World, drive: Callable[[Any, Sequence[str]], None], threads: Sequence[str]) -> Any:
    graph = graph_of(world)
    drive(graph, threads)
    return said(graph, set(threads))


@pytest.mark.parametrize(
    "drive",
    [in_turn, in_a_pool, in_a_pool_with_context, by_batch, by_abatch, by_gather],
    ids=lambda drive: drive.__name__,
)
def test_threads_keep_their_answers_whatever_order_they_begin_in(
    drive: Callable[[Any, Sequence[str]], None], world: World, tmp_path: Path
) -> None:
    """Threads that ask the same, and begin in another order, keep their answers, message ids and checkpoint ids."""
    file = tmp_path / "run.yaml"
    with use_cassette(file, mode="all"):
        recorded = run(world, drive, THREADS)
    world.gone = True
    for order in OTHER_ORDERS:
        with use_cassette(file):
            replayed = run(world, drive, order)
        assert words(replayed) == words(recorded)
        assert drive is in_a_pool or replayed == recorded  # nothing is frozen in threads without a context


def test_a_thread_keeps_the_order_of_its_turns(world: World, tmp_path: Path) -> None:
    """Two turns of a thread come in their order, also if those of another thread come before, between or after them."""
    file = tmp_path / "run.yaml"
    with use_cassette(file, mode="all"):
        recorded = run(world, in_turn, ["ann", "ben", "ann", "ben"])
    world.gone = True
    for order in (["ben", "ben", "ann", "ann"], ["ben", "ann", "ann", "ben"], ["ann", "ann", "ben", "ben"]):
        with use_cassette(file):
            assert run(world, in_turn, order) == recorded


def test_threads_with_unknown_ids_are_told_apart_by_their_order(world: World, tmp_path: Path) -> None:
    """Threads whose ids are drawn at random, beyond what is frozen, get the recorded answers in their order."""

    def drawn() -> list[str]:
        return [secrets.token_hex(8) for _ in THREADS]

    def answers(threads: list[str]) -> list[str]:
        graph = graph_of(world)
        in_turn(graph, threads)
        return [graph.get_state(config_of(thread)).values["messages"][-1].content for thread in threads]

    file = tmp_path / "run.yaml"
    with use_cassette(file, mode="all"):
        recorded = answers(drawn())
    world.gone = True
    with use_cassette(file) as session:
        assert answers(drawn()) == recorded
    assert [call_record.match_rule for call_record in session.report.replayed] == ["exact"] * len(THREADS)


def test_other_keys_tell_runs_apart_where_threads_do_not(world: World, tmp_path: Path) -> None:
    """Runs without a known thread are told apart by other values of their configs, such as a user."""
    file = tmp_path / "run.yaml"

    def answers(users: Sequence[str]) -> dict[str, str]:
        graph = graph_of(world)
        return {
            user: graph.invoke(GIVEN, config_of(secrets.token_hex(8), user=user))["messages"][-1].content
            for user in users
        }

    with use_cassette(file, mode="all"):
        recorded = answers(THREADS)
    world.gone = True
    with use_cassette(file):
        assert answers(THREADS[::-1]) == recorded


def toned(world: World) -> Any:
    model = PlainChat(world=world)

    def answer(state: MessagesState, config: RunnableConfig) -> Any:
        given = config["configurable"]
        return {"messages": [model.invoke(f"Be {given.get('tone')}, in {given.get('max_tokens')} tokens.")]}

    return StateGraph(MessagesState).add_node(answer).add_edge(START, "answer").compile(checkpointer=InMemorySaver())


SECRET = "sk-proj-" + "Ab3dEf6hIj9lMn2p" * 2


@pytest.fixture
def toned_run(world: World, tmp_path: Path) -> Path:
    """A run with a config of its own, with a secret in it."""
    file = tmp_path / "run.yaml"
    with use_cassette(file, mode="all"):
        toned(world).invoke(GIVEN, config_of("ann", tone="kind", max_tokens=7, api_key=SECRET))
    world.gone = True
    return file


def test_the_configurable_part_is_recorded_without_secrets(toned_run: Path) -> None:
    """The step of a graph holds the configurable part of its config, redacted, and nothing of the framework's own."""
    text = toned_run.read_text()
    assert 'metadata:\n  thread_id: ann\n  tone: kind\n  max_tokens: 7\n  api_key: "[REDACTED:' in text
    assert SECRET not in text
    assert "__pregel" not in text


@pytest.mark.parametrize(
    ("given", "now"), [({"tone": "rude", "max_tokens": 7}, "'rude'"), ({"max_tokens": 7}, "not given")]
)
def test_a_miss_names_what_differs_in_the_config(given: Any, now: str, world: World, toned_run: Path) -> None:
    """A miss in a run whose config has another value says so, and says what was recorded."""
    with (
        pytest.raises(CassetteMissError, match=f"run       tone of LangGraph: recorded 'kind', now {now}"),
        use_cassette(toned_run),
    ):
        toned(world).invoke(GIVEN, config_of("ann", **given))


def test_a_replayed_thread_has_its_config_again(world: World, toned_run: Path) -> None:
    """`replay_thread` needs no config for what was recorded of it."""
    replayed = replay_thread(toned_run, toned(world))
    assert len(replayed.report.replayed) == 1


def one_after_another(work: Callable[[int], Any]) -> list[Any]:
    with ThreadPoolExecutor(2) as pool:
        return list(pool.map(work, range(5)))


def in_threads(work: Callable[[int], Any]) -> list[Any]:
    made: dict[int, Any] = {}
    threads = [threading.Thread(target=lambda n=n: made.update({n: work(n)})) for n in range(5)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(30)
    return [made[n] for n in range(5)]


@pytest.mark.parametrize("run", [one_after_another, in_threads])
def test_graphs_in_plain_threads_have_the_recorded_ids(
    run: Callable[[Callable[[int], Any]], list[Any]], tmp_path: Path, world: World
) -> None:
    """Ids of messages and checkpoints, and their times, are those of the recording in threads without a context."""
    graph: Any = None

    def one(number: int) -> Any:
        thread = config_of(str(number))
        said = graph.invoke(GIVEN, thread)["messages"]
        state = graph.get_state(thread)
        return [message.id for message in said], state.config["configurable"]["checkpoint_id"], state.created_at

    path = tmp_path / "threads.yaml"
    graph = graph_of(world)
    with use_cassette(path, mode="all"):
        recorded = run(one)
    for _ in range(3):
        graph = graph_of(world)
        with use_cassette(path) as cassette:
            assert run(one) == recorded
        assert (cassette.report.nondeterminism, cassette.report.entropy) == ((), ())


def test_a_replay_names_what_a_library_draws_for_real(tmp_path: Path, world: World) -> None:
    """In a pool whose threads take what comes, the ids that LangGraph draws are real, and the replay reports them."""
    graph, path = graph_of(world), tmp_path / "threads.yaml"
    for mode in ("all", "none"):
        with use_cassette(path, mode=mode) as cassette, multiprocessing.pool.ThreadPool(1) as pool:
            pool.apply(graph.invoke, (GIVEN, config_of("ann")))
    assert any("ids in a thread without a context are real" in line for line in cassette.report.entropy)
