"""Futures that are done when `concurrent.futures` or asyncio is given them: sets of them go by places in memory."""

from __future__ import annotations

import asyncio
import concurrent.futures
import sys
from collections.abc import Awaitable, Callable, Iterable, Iterator
from concurrent.futures import FIRST_COMPLETED, FIRST_EXCEPTION, Future, ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from agenttape_core import boundary

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


def results(futures: Iterable[Future[int]]) -> list[int]:
    """Return their results, in this order."""
    return [future.result() for future in futures]


def completed(futures: list[Future[int]]) -> list[int]:
    """Take them by `as_completed`."""
    return results(concurrent.futures.as_completed(futures))


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
    return results(concurrent.futures.wait(futures).done)


def waited_for_first(futures: list[Future[int]]) -> list[int]:
    """Take those that are not done, too."""
    open_ones: list[Future[int]] = [Future() for _ in range(COUNT)]
    done, left = concurrent.futures.wait([*open_ones, *futures], return_when=FIRST_COMPLETED)
    return [*results(done), *(open_ones.index(future) for future in left)]


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


async def _awaited(late: int) -> list[int]:
    """Await them as they come."""
    return [await each for each in asyncio.as_completed(await _tasks(late))]


async def _iterated(late: int) -> list[int]:
    """Take the tasks themselves in an asynchronous `for`."""
    tasks = await _tasks(late)
    came = [each async for each in asyncio.as_completed(tasks)]  # type: ignore[attr-defined,unused-ignore]
    assert set(came) == set(tasks)
    return [each.result() for each in came]


async def _awaited_with_timeout(late: int) -> list[int]:
    """Await them, and one that never ends, until a timeout."""
    came: list[int] = []
    endless: asyncio.Future[int] = asyncio.get_running_loop().create_future()
    with suppress(TimeoutError):
        for each in asyncio.as_completed([*await _tasks(late), endless], timeout=0.01):
            answer = await each
            came.append(answer)
    return came


@pytest.mark.parametrize(("way", "late"), [(_awaited, 0), (_awaited, 3), (_iterated, 3), (_awaited_with_timeout, 0)])
def test_done_tasks_come_in_one_order(way: Callable[[int], Awaitable[list[int]]], late: int, tmp_path: Path) -> None:
    """`asyncio.as_completed` gives tasks that are done in the recorded order, and those that end later after them."""
    if way is _iterated and sys.version_info < (3, 13):
        pytest.skip("`as_completed` is no asynchronous iterator before Python 3.13")

    async def run() -> list[int]:
        chat("a")
        return await way(late)

    recorded = recorded_as_replayed(tmp_path / "c.yaml", lambda: asyncio.run(run()), 3)
    assert recorded == [*range(COUNT), *(-number for number in range(1, late + 1))]


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

    assert len(recorded_as_replayed(tmp_path / "c.yaml", run)) == COUNT + 4
