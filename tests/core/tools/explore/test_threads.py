"""`explore` of programs with threads: their calls are answered in other orders, too, where the threads can be held."""

from __future__ import annotations

import _thread
import asyncio
import itertools
import os
import queue
import sys
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor, as_completed
from pathlib import Path
from typing import Any

import pytest

from agenttape_core import boundary, use_cassette
from agenttape_core.errors import ConfigurationError
from agenttape_core.experiments import orders


@boundary("tool")
def search(place: str) -> str:
    """Find a place."""
    return f"{place}!"


@boundary("chat")
def told(place: str) -> Iterator[str]:
    """Tell of a place."""
    yield from (place, "!")


def in_threads(*functions: Callable[[], Any]) -> None:
    """Run functions, each in a thread."""
    threads = [threading.Thread(target=function) for function in functions]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(20)


def first_decides() -> str:
    """Whoever comes first of three branches decides."""
    style: list[str] = []

    def research(place: str) -> None:
        style.extend(search(f"{place}{turn}") for turn in range(2))

    with ThreadPoolExecutor(3) as pool:
        list(pool.map(research, "abc"))
    return search(f"in the style of {style[0]}")


def sorted_notes() -> str:
    """The same without a race."""
    with ThreadPoolExecutor(3) as pool:
        notes = list(pool.map(lambda place: search(search(place)), "abc"))
    return search(" ".join(notes))


def as_they_come() -> list[str]:
    """Results in the order in which they are there."""
    with ThreadPoolExecutor(3) as pool:
        return [future.result() for future in as_completed([pool.submit(search, place) for place in "abc"])]


def small_pool() -> list[str]:
    """Three pieces of work for two threads: the third is begun when one of the others has ended."""
    log: list[str] = []
    with ThreadPoolExecutor(2) as pool:
        list(pool.map(lambda place: log.append(search(place)), "abc"))
    return log


def bare_threads() -> list[str]:
    """Threads that are joined."""
    log: list[str] = []
    in_threads(*(lambda place=place: log.append(search(place)) for place in "ab"))  # type: ignore[misc]
    return log


def workers() -> list[str]:
    """Two threads take work from a queue."""
    work: queue.Queue[str] = queue.Queue()
    for place in "abc":
        work.put(place)
    found: list[str] = []

    def take() -> None:
        while not work.empty():
            found.append(search(work.get()))

    in_threads(take, take)
    return sorted(found)


def pipeline() -> list[str]:
    """A thread waits for what another one finds."""
    between: queue.SimpleQueue[str] = queue.SimpleQueue()
    found: list[str] = []

    def second() -> None:
        found.extend(search(f"more of {between.get()}") for _ in "ab")

    in_threads(lambda: [between.put(search(place)) for place in "ab"], second)
    return found


def with_a_lock() -> list[str]:
    """A call inside of a lock, for which others wait."""
    lock = threading.Lock()

    def one(place: str) -> str:
        with lock:
            first = search(place)
        return search(f"{first} again")

    with ThreadPoolExecutor(2) as pool:
        return list(pool.map(one, "ab"))


def with_a_barrier() -> list[str]:
    """Threads that wait for all others."""
    barrier = threading.Barrier(2)

    def one(place: str) -> str:
        found = search(place)
        barrier.wait(20)
        return search(f"{found} again")

    with ThreadPoolExecutor(2) as pool:
        return list(pool.map(one, "ab"))


def pool_in_pool() -> list[list[str]]:
    """Work that has a pool of its own."""

    def one(place: str) -> list[str]:
        with ThreadPoolExecutor(2) as pool:
            return list(pool.map(search, (f"{place}0", f"{place}1")))

    with ThreadPoolExecutor(2) as pool:
        return list(pool.map(one, "ab"))


def asleep() -> list[str]:
    """Threads that sleep, and wait for no longer than a time: that passes when nothing else can happen."""

    def one(place: str) -> str:
        time.sleep(0.05)
        return search(place)

    with ThreadPoolExecutor(2) as pool:
        return [future.result(timeout=3600) for future in [pool.submit(one, place) for place in "ab"]]


def streams() -> list[list[str]]:
    """Streams in threads: one that was chosen goes on to its end."""
    with ThreadPoolExecutor(2) as pool:
        return list(pool.map(lambda place: list(told(place)), "ab"))


def recorded(program: Callable[[], Any], path: Path) -> Path:
    """Record a program."""
    with use_cassette(path, mode="all"):
        program()
    return path


PROGRAMS: dict[Callable[[], Any], tuple[int, int]] = {
    first_decides: (90, 60),
    sorted_notes: (90, 0),
    as_they_come: (6, 5),
    bare_threads: (2, 1),
    pipeline: (2, 0),
    with_a_lock: (3, 0),
    with_a_barrier: (4, 0),
    pool_in_pool: (24, 0),
    streams: (2, 0),
}
"""Programs with threads: how many orders there are, and in how many of them another thing comes out."""


@pytest.mark.slow
@pytest.mark.parametrize(
    ("program", "expected"),
    [
        pytest.param(*each, marks=[pytest.mark.night] if each[1][0] == 90 else [], id=each[0].__name__)
        for each in PROGRAMS.items()
    ],
)
def test_threads_are_answered_in_every_order(
    tmp_path: Path, program: Callable[[], Any], expected: tuple[int, int]
) -> None:
    """All orders are tried, each once; those of a racy program are found, and a sound one raises no alarm."""
    found = orders(program, recorded(program, tmp_path / "run.yaml"))
    assert (found.orders, found.failing) == expected
    assert found.is_exhaustive
    assert not found.unstable


def test_the_faster_thread_does_not_begin_first(tmp_path: Path) -> None:
    """Threads come in the order in which the program began them, even if another one is there first."""
    runs = itertools.count()

    def program() -> list[str]:
        is_first_slow, is_second_here = next(runs) % 2, _thread.allocate_lock()
        is_second_here.acquire()
        log: list[str] = []

        def arriving(*_: object) -> None:
            sys.setprofile(None)
            if threading.current_thread() is not threads[0]:
                is_second_here.release()
            elif is_first_slow:
                is_second_here.acquire(timeout=20)

        threads = [threading.Thread(target=lambda place=place: log.append(place) or search(place)) for place in "ab"]
        threading.setprofile(arriving)
        try:
            for thread in threads:
                thread.start()
        finally:
            threading.setprofile(None)
        for thread in threads:
            thread.join(20)
        return log

    found = orders(program, recorded(program, tmp_path / "run.yaml"))
    assert not found.unstable
    assert (found.orders, found.failing) == (2, 0)


@pytest.mark.parametrize("program", [small_pool, workers, asleep])
def test_what_a_recording_does_not_fix(tmp_path: Path, program: Callable[[], Any]) -> None:
    """A pool that is too small, queues and sleeps are held, whichever thread has done which work when recorded."""
    found = orders(program, recorded(program, tmp_path / "run.yaml"))
    assert found.is_exhaustive
    assert not found.unstable
    assert bool(found.findings) == (program is small_pool)


@pytest.mark.slow
def test_threads_that_cannot_be_held_are_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A thread that waits for another one outside of Python comes when it likes, and the exploration says so."""
    monkeypatch.setattr("agenttape_core.scheduling.turn.LONGEST", 1.0)

    def program() -> None:
        ends = os.pipe()
        in_threads(
            lambda: os.write(ends[1], search("a").encode()),
            lambda: search(str(os.read(ends[0], 1))),
            lambda: search("c"),
        )
        for end in ends:
            os.close(end)

    with pytest.raises(ConfigurationError, match="overlap in threads, whose order cannot be chosen"):
        orders(program, recorded(program, tmp_path / "run.yaml"))


def test_threads_for_which_a_coroutine_blocks_are_explored(tmp_path: Path) -> None:
    """What a coroutine gives to a pool and waits for in the thread of its loop is answered in every order, too."""

    async def program() -> list[str]:
        with ThreadPoolExecutor(2) as pool:
            return list(pool.map(search, "ab"))

    with use_cassette(tmp_path / "run.yaml", mode="all"):
        asyncio.run(program())
    found = orders(program, tmp_path / "run.yaml")
    assert (found.orders, found.failing) == (2, 0)
