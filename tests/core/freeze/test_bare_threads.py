"""What a thread without a context draws is real, and a replay says so."""

from __future__ import annotations

import _thread
import contextvars
import gc
import random
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
    _thread.start_new_thread(lambda: (made.append(work()), over.set()), ())
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


def in_a_hook(monkeypatch: pytest.MonkeyPatch, work: Callable[[], Any]) -> Any:
    """Work in the hook for errors that end threads."""
    made: list[Any] = []
    monkeypatch.setattr(threading, "excepthook", lambda _: made.append(work()))
    thread = threading.Thread(target=lambda: 1 / 0)
    thread.start()
    thread.join(30)
    return made[0]


def in_an_empty_context(work: Callable[[], Any]) -> Any:
    """Work in the thread of the session, in a context without anything."""
    return contextvars.Context().run(work)


def told(path: Path, program: Callable[[], Any]) -> tuple[Any, Any, tuple[str, ...]]:
    """Return what a program made when it was recorded, what in a replay, and what that said of it."""
    with use_cassette(path, mode="once"):
        recorded = program()
    with use_cassette(path) as session:
        return recorded, program(), session.report.disorder


PLACES = [in_a_thread, in_a_pool, in_a_thread_begun_by_hand, in_a_callback, in_an_initializer, in_an_empty_context]


@pytest.mark.parametrize("where", PLACES, ids=lambda where: where.__name__)
@pytest.mark.parametrize(
    ("drawn", "draw"),
    [("ids", uuid.uuid4), ("random numbers", random.random), ("times", time.time)],
    ids=["ids", "random", "times"],
)
def test_a_replay_names_what_a_bare_thread_draws(
    drawn: str, draw: Callable[[], Any], where: Callable[[Callable[[], Any]], Any], tmp_path: Path
) -> None:
    """An id, a number or a time that the program draws in a thread without a context is another one in each replay."""

    def work() -> Any:
        return draw()

    recorded, replayed, disorder = told(tmp_path / "c.yaml", lambda: (where(work), ask("who?")))
    assert recorded[0] != replayed[0]
    assert recorded[1] == replayed[1]
    assert disorder == (
        f"{drawn} in a thread without a context are real (begin it with `contextvars.copy_context().run`)",
    )


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


def test_a_replay_names_what_the_hook_for_errors_of_threads_draws(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """A thread that an error ends is a bare one in its hook, too."""
    recorded, replayed, disorder = told(tmp_path / "c.yaml", lambda: in_a_hook(monkeypatch, uuid.uuid4))
    assert recorded != replayed
    assert [line.split()[0] for line in disorder] == ["ids"]


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


class Drawing:
    """An object that draws an id when it is deleted, which only the collector does."""

    def __init__(self, made: list[Any]) -> None:
        self.made = made
        self.me = self

    def __del__(self) -> None:
        self.made.append(uuid.uuid4())


def test_a_replay_names_what_garbage_draws_and_the_program_draws_on(tmp_path: Path) -> None:
    """When the garbage collector comes, the program's next id is the recorded one all the same."""

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
    assert session.report.disorder == (
        "ids drawn by what the garbage collector deletes are real (it does that at any time)",
    )
