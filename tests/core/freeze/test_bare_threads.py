"""What a thread without a context draws is frozen if the session's program began it; a replay reports what isn't."""

from __future__ import annotations

import _thread
import asyncio
import contextvars
import gc
import multiprocessing.pool
import random
import subprocess
import sys
import threading
import time
import uuid
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from agenttape_core import boundary, use_cassette


@boundary("call")
def ask(question: str) -> str:
    """Answer, after it has drawn what it needs for itself."""
    return f"{question} {uuid.uuid4()}"


def in_a_thread(work: Callable[[], Any]) -> Any:
    """Work in a bare thread."""
    made: list[Any] = []
    thread = threading.Thread(target=lambda: made.append(work()))
    thread.start()
    thread.join(30)
    return made[0]


def in_a_pool(work: Callable[[], Any]) -> Any:
    """Work in a pool, which takes no context along."""
    with ThreadPoolExecutor(1) as pool:
        return pool.submit(work).result()


def in_a_thread_begun_by_hand(work: Callable[[], Any]) -> Any:
    """Work in a thread that no object of `threading` stands for."""
    made: list[Any] = []
    over = threading.Event()

    def by_hand() -> None:
        made.append(work())
        over.set()

    _thread.start_new_thread(by_hand, ())
    assert over.wait(30)
    return made[0]


def in_a_callback(work: Callable[[], Any]) -> Any:
    """Work when a pool calls back, in its thread, after the work that it was given."""
    made: list[Any] = []
    go_on = threading.Event()
    with ThreadPoolExecutor(1) as pool:
        pool.submit(go_on.wait, 30).add_done_callback(lambda _: made.append(work()))
        go_on.set()
    return made[0]


def in_an_initializer(work: Callable[[], Any]) -> Any:
    """Work as a pool begins its thread."""
    made: list[Any] = []
    with ThreadPoolExecutor(1, initializer=lambda: made.append(work())) as pool:
        pool.submit(int)
    return made[0]


def in_an_empty_context(work: Callable[[], Any]) -> Any:
    """Work in the thread of the session, in a context without anything."""
    return contextvars.Context().run(work)


def told(path: Path, program: Callable[[], Any]) -> tuple[Any, Any, tuple[str, ...]]:
    """Return what a program made when it was recorded, what in a replay, and what that said of it."""
    with use_cassette(path, mode="once"):
        recorded = program()
    with use_cassette(path) as session:
        return recorded, program(), session.report.nondeterminism


class Worker(threading.Thread):
    """A thread whose class has the work."""

    def __init__(self, work: Callable[[], Any]) -> None:
        super().__init__()
        self.work, self.made = work, None

    def run(self) -> None:
        """Do it."""
        self.made = self.work()


def in_a_class_of_threads(work: Callable[[], Any]) -> Any:
    """Work in a thread of a class of the program."""
    thread = Worker(work)
    thread.start()
    thread.join(30)
    return thread.made


def in_a_timer(work: Callable[[], Any]) -> Any:
    """Work when a timer comes."""
    made: list[Any] = []
    timer = threading.Timer(0, lambda: made.append(work()))
    timer.start()
    timer.join(30)
    return made[0]


def in_an_executor_of_a_loop(work: Callable[[], Any]) -> Any:
    """Work in a pool to which an event loop hands it, which takes no context along."""

    async def hand_over() -> Any:
        with ThreadPoolExecutor(1) as pool:
            return await asyncio.get_running_loop().run_in_executor(pool, work)

    return asyncio.run(hand_over())


OLD = ThreadPoolExecutor(1)
"""A pool whose thread is older than all sessions."""
OLD.submit(int).result()


def in_an_older_pool(work: Callable[[], Any]) -> Any:
    """Work in a pool that a module has made."""
    return OLD.submit(work).result()


def in_a_thread_of_a_thread(work: Callable[[], Any]) -> Any:
    """Work two threads below the session."""
    return in_a_thread(lambda: in_a_thread(work))


@pytest.mark.sweep
@pytest.mark.parametrize(
    "where",
    [
        in_a_thread,
        in_a_pool,
        in_a_thread_begun_by_hand,
        in_a_callback,
        in_an_initializer,
        in_a_class_of_threads,
        in_a_timer,
        in_an_executor_of_a_loop,
        in_an_older_pool,
        in_a_thread_of_a_thread,
    ],
    ids=lambda where: where.__name__,
)
@pytest.mark.parametrize("draw", [uuid.uuid4, random.random, time.time], ids=["ids", "random", "times"])
def test_a_bare_thread_draws_what_was_recorded(
    draw: Callable[[], Any], where: Callable[[Callable[[], Any]], Any], tmp_path: Path
) -> None:
    """An id, a number or a time in a thread that the program began without a context is the recorded one."""

    def program() -> Any:
        return draw(), where(draw), where(draw), draw(), ask("who?")

    recorded, replayed, disorder = told(tmp_path / "c.yaml", program)
    assert (recorded, disorder) == (replayed, ())
    assert draw is time.time or len(set(recorded)) == 5


def test_threads_draw_beside_each_other_and_beside_the_program(tmp_path: Path) -> None:
    """Each of several threads has ids of its own, whichever is faster, and so has the program meanwhile."""

    def program() -> Any:
        made: dict[int, list[uuid.UUID]] = {}

        def draw(number: int) -> None:
            made[number] = [uuid.uuid4() for _ in range(3 + number % 2)]

        threads = [threading.Thread(target=draw, args=(number,)) for number in range(8)]
        for thread in threads:
            thread.start()
        mine = [uuid.uuid4() for _ in range(5)]
        for thread in threads:
            thread.join(30)
        with ThreadPoolExecutor(4) as pool:
            return mine, sorted(made.items()), list(pool.map(lambda _: uuid.uuid4(), range(20))), uuid.uuid4()

    path = tmp_path / "c.yaml"
    recorded, replayed, disorder = told(path, program)
    for _ in range(5):
        with use_cassette(path):
            assert program() == recorded
    assert (recorded, disorder) == (replayed, ())


def in_a_pool_of_threads(work: Callable[[], Any]) -> Any:
    """Work in a pool of `multiprocessing`, whose threads take what comes as fast as they can."""
    with multiprocessing.pool.ThreadPool(2) as pool:
        return pool.apply(work)


@pytest.mark.parametrize("where", [in_a_pool_of_threads, in_an_empty_context], ids=lambda where: where.__name__)
@pytest.mark.parametrize(
    ("drawn", "draw"),
    [("ids", uuid.uuid4), ("random numbers", random.random), ("times", time.time)],
    ids=["ids", "random", "times"],
)
def test_a_replay_names_what_is_drawn_for_real(
    drawn: str, draw: Callable[[], Any], where: Callable[[Callable[[], Any]], Any], tmp_path: Path
) -> None:
    """Where no order tells which thread does what, ids, numbers and times are real, and the replay says so."""

    def work() -> Any:
        return draw()

    recorded, replayed, disorder = told(tmp_path / "c.yaml", lambda: (where(work), ask("who?")))
    assert recorded[0] != replayed[0]
    assert recorded[1] == replayed[1]
    assert disorder == (
        f"{drawn} in a thread without a context are real (begin it with `contextvars.copy_context().run`)",
    )


def test_a_replay_names_what_is_drawn_in_an_older_pool(tmp_path: Path) -> None:
    """A pool of `multiprocessing` that is older than the session draws real values, too, and the replay says so."""

    def draw() -> Any:
        return uuid.uuid4()

    with multiprocessing.pool.ThreadPool(2) as pool:
        pool.map(abs, range(4))
        recorded, replayed, disorder = told(tmp_path / "c.yaml", lambda: (pool.apply(draw), ask("who?")))
        _, _, nothing = told(tmp_path / "d.yaml", lambda: pool.map(ask, ["who?"]))
    assert (recorded[0] != replayed[0], recorded[1] == replayed[1]) == (True, True)
    assert disorder == ("ids in a thread without a context are real (begin it with `contextvars.copy_context().run`)",)
    assert not any("ids" in line for line in nothing)


def test_nothing_is_told_of_a_thread_with_a_context_nor_of_a_call(tmp_path: Path) -> None:
    """A thread that was given a context draws what the recording drew; what a call draws for itself is its own."""

    def work() -> Any:
        return uuid.uuid4(), random.random(), time.time(), ask("who?")

    def with_context() -> Any:
        context = contextvars.copy_context()
        return in_a_thread(lambda: context.run(work))

    recorded, replayed, disorder = told(tmp_path / "c.yaml", with_context)
    assert (recorded, disorder) == (replayed, ())
    assert told(tmp_path / "d.yaml", lambda: in_a_thread(lambda: ask("who?")))[2] == ()


def test_the_hook_for_errors_of_threads_draws_what_was_recorded(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """A thread that an error ends draws from its own scope in its hook, too."""

    def in_a_hook(monkeypatch: pytest.MonkeyPatch, work: Callable[[], Any]) -> Any:
        """Work in the hook for errors that end threads."""
        made: list[Any] = []
        monkeypatch.setattr(threading, "excepthook", lambda _: made.append(work()))
        thread = threading.Thread(target=lambda: 1 / 0)
        thread.start()
        thread.join(30)
        return made[0]

    recorded, replayed, disorder = told(tmp_path / "c.yaml", lambda: in_a_hook(monkeypatch, uuid.uuid4))
    assert (recorded, disorder) == (replayed, ())


def test_a_callback_that_is_called_at_once_draws_what_was_recorded(tmp_path: Path) -> None:
    """Where the work has been done already, whoever wants to be called is, in a context of the session."""

    def program() -> Any:
        made: list[Any] = []
        with ThreadPoolExecutor(1) as pool:
            done = pool.submit(int)
            done.result(30)
            done.add_done_callback(lambda _: made.append(uuid.uuid4()))
        return made

    recorded, replayed, disorder = told(tmp_path / "c.yaml", program)
    assert (recorded, disorder) == (replayed, ())


@pytest.mark.slow
def test_a_replay_names_what_garbage_draws_and_the_program_draws_on(tmp_path: Path) -> None:
    """When the garbage collector comes, the program's next id is the recorded one all the same."""

    class Drawing:
        """An object that draws an id when it is deleted, which only the collector does."""

        def __init__(self, made: list[Any]) -> None:
            self.made = made
            self.me = self

        def __del__(self) -> None:
            self.made.append(uuid.uuid4())

    def program(*, is_collected: bool) -> Any:
        gc.disable()
        try:
            Drawing(garbage)
            if is_collected:
                gc.collect()
            return uuid.uuid4()
        finally:
            gc.enable()

    garbage: list[Any] = []
    with use_cassette(tmp_path / "c.yaml", mode="once"):
        recorded = program(is_collected=False)
    gc.collect()
    with use_cassette(tmp_path / "c.yaml") as session:
        assert program(is_collected=True) == recorded
    assert len(set(garbage)) == 2
    assert session.report.nondeterminism == (
        "ids drawn by what the garbage collector deletes are real (it does that at any time)",
    )


@pytest.mark.process
@pytest.mark.slow
@pytest.mark.skipif(sys.version_info < (3, 14), reason="Python 3.14 is the first whose threads can inherit a context")
def test_threads_that_inherit_a_context_draw_the_same() -> None:
    """The tests of this file hold if a thread inherits the context of its maker, as it does without the GIL."""
    command = [sys.executable, "-X", "thread_inherit_context=1", "-m", "pytest", "-q", "-m", "not process", __file__]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=150)
    assert " passed" in done.stdout
    assert done.returncode == 0, done.stdout
