"""Futures that are done when `concurrent.futures` or asyncio is given them: sets of them go by places in memory."""

from __future__ import annotations

import asyncio
import concurrent.futures
import sys
from collections.abc import Iterator
from concurrent.futures import FIRST_COMPLETED, FIRST_EXCEPTION, Future, ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from agenttape_core import boundary, use_cassette

from ...kit.replaying import recorded_as_replayed

COUNT = 40
"""So many that no two sets of them have one order by chance."""


@boundary("chat")
def chat(text: str) -> str:
    """Answer."""
    return text


def _made(count: int = COUNT) -> list[Future[int]]:
    """Return futures that are done, among rubbish that shuffles their places."""
    rubbish, futures = [], []
    for number in range(count):
        rubbish.append([bytearray(number * 16)])
        future: Future[int] = Future()
        future.set_result(number)
        futures.append(future)
    return futures


def completed(futures: list[Future[int]]) -> list[int]:
    """Take them by `as_completed`."""
    return [future.result() for future in concurrent.futures.as_completed(futures)]


def half_done(futures: list[Future[int]]) -> list[int]:
    """Take them by `as_completed`, while some get done."""
    late: Future[int] = Future()

    def each() -> Iterator[int]:
        for future in concurrent.futures.as_completed([*futures, late]):
            if not late.done():
                late.set_result(-1)
            yield future.result()

    return list(each())


def waited(futures: list[Future[int]]) -> list[int]:
    """Take them by `wait`."""
    return [future.result() for future in concurrent.futures.wait(futures).done]


def waited_for_first(futures: list[Future[int]]) -> list[int]:
    """Take those that are not done, too."""
    open_ones: list[Future[int]] = [Future() for _ in range(COUNT)]
    done, left = concurrent.futures.wait([*open_ones, *futures], return_when=FIRST_COMPLETED)
    return [*(future.result() for future in done), *(open_ones.index(future) for future in left)]


def waited_for_errors(futures: list[Future[int]]) -> list[int]:
    """Take them by `wait` for the first error."""
    failed: Future[int] = Future()
    failed.set_exception(ValueError("no"))
    done = concurrent.futures.wait([*futures, failed], return_when=FIRST_EXCEPTION).done
    return [-1 if future is failed else future.result() for future in done]


WAYS = [completed, half_done, waited, waited_for_first, waited_for_errors]


@pytest.mark.parametrize("way", WAYS)
def test_done_futures_come_in_one_order(way: Any, tmp_path: Path) -> None:
    """What is done already comes in the recorded order, again and again."""

    def run() -> list[int]:
        chat("a")
        return way(_made())  # type: ignore[no-any-return]

    recorded = recorded_as_replayed(tmp_path / "c.yaml", run, times=3)
    assert sorted(recorded)[-COUNT:] == list(range(COUNT)) or way is waited_for_first


async def _tasks(late: int = 0) -> list[asyncio.Future[int]]:
    """Return tasks that are done, among rubbish that shuffles their places, and some that end later."""

    async def answer(number: int, turns: int) -> int:
        for _ in range(turns):
            await asyncio.sleep(0)
        return number

    rubbish, tasks = [], []
    for number in range(COUNT):
        rubbish.append([bytearray(number * 16)])
        tasks.append(asyncio.ensure_future(answer(number, 0)))
    await asyncio.gather(*tasks)
    return [*tasks, *(asyncio.ensure_future(answer(-number, number)) for number in range(1, late + 1))]


@pytest.mark.parametrize("late", [0, 3])
def test_done_tasks_come_in_one_order(late: int, tmp_path: Path) -> None:
    """`asyncio.as_completed` gives tasks that are done in the recorded order, and those that end later after them."""

    async def run() -> list[int]:
        chat("a")
        return [await each for each in asyncio.as_completed(await _tasks(late))]

    with use_cassette(tmp_path / "c.yaml", mode="all"):
        recorded = asyncio.run(run())
    assert recorded == [*range(COUNT), *(-number for number in range(1, late + 1))]
    for _ in range(3):
        with use_cassette(tmp_path / "c.yaml") as replay:
            assert asyncio.run(run()) == recorded
        assert not replay.report.nondeterminism


@pytest.mark.skipif(sys.version_info < (3, 13), reason="`as_completed` is no asynchronous iterator before Python 3.13")
def test_done_tasks_come_as_they_are(tmp_path: Path) -> None:
    """An asynchronous `for` gets the tasks themselves, in the same order."""

    async def run() -> tuple[list[int], bool]:
        chat("a")
        tasks = await _tasks(3)
        came = [each async for each in asyncio.as_completed(tasks)]  # type: ignore[attr-defined,unused-ignore]
        return [each.result() for each in came], set(came) == set(tasks)

    with use_cassette(tmp_path / "c.yaml", mode="all"):
        recorded = asyncio.run(run())
    assert recorded == ([*range(COUNT), -1, -2, -3], True)
    with use_cassette(tmp_path / "c.yaml"):
        assert asyncio.run(run()) == recorded


def test_timeout_of_done_and_late_tasks(tmp_path: Path) -> None:
    """A timeout still ends the wait for a task that never ends, after all that were done."""

    async def run() -> list[int]:
        chat("a")
        came: list[int] = []
        endless: asyncio.Future[int] = asyncio.get_running_loop().create_future()
        tasks = [*await _tasks(), endless]
        try:
            for each in asyncio.as_completed(tasks, timeout=0.01):
                answer = await each
                came.append(answer)
        except TimeoutError:
            came.append(-1)
        return came

    with use_cassette(tmp_path / "c.yaml", mode="all"):
        recorded = asyncio.run(run())
    assert recorded == [*range(COUNT), -1]
    with use_cassette(tmp_path / "c.yaml"):
        assert asyncio.run(run()) == recorded


def test_outside_of_sessions_sets_are_sets() -> None:
    """Without a session, `wait` returns plain sets, as it does everywhere."""
    done, left = concurrent.futures.wait(_made(3))
    assert type(done) is set
    assert type(left) is set
    assert isinstance(concurrent.futures.wait(_made(1)), concurrent.futures._base.DoneAndNotDoneFutures)


def test_futures_of_pools_and_others(tmp_path: Path) -> None:
    """Futures of a pool beside others are taken once each, in one order."""

    def run() -> list[Any]:
        with ThreadPoolExecutor(2) as pool:
            futures = [pool.submit(chat, f"q{number}") for number in range(4)]
            concurrent.futures.wait(futures)
            return [future.result() for future in concurrent.futures.as_completed([*_made(), *futures])]

    with use_cassette(tmp_path / "c.yaml", mode="all"):
        recorded = run()
    assert len(recorded) == COUNT + 4
    for _ in range(2):
        with use_cassette(tmp_path / "c.yaml"):
            assert run() == recorded
