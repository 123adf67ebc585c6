"""What a thread without a context draws is real, and a replay says so."""

from __future__ import annotations

import contextvars
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


def told(path: Path, program: Callable[[], Any]) -> tuple[Any, Any, tuple[str, ...]]:
    """Return what a program made when it was recorded, what in a replay, and what that said of it."""
    with use_cassette(path, mode="once"):
        recorded = program()
    with use_cassette(path) as session:
        return recorded, program(), session.report.disorder


@pytest.mark.parametrize("where", [in_a_thread, in_a_pool], ids=lambda where: where.__name__)
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
