"""Futures that are done when `concurrent.futures` is given them: it makes sets, which go by places in memory."""

from __future__ import annotations

import concurrent.futures
from collections.abc import Iterator
from concurrent.futures import FIRST_COMPLETED, FIRST_EXCEPTION, Future, ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from agenttape_core import boundary, use_cassette

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

    with use_cassette(tmp_path / "c.yaml", mode="all"):
        recorded = run()
    for _ in range(3):
        with use_cassette(tmp_path / "c.yaml") as replay:
            assert run() == recorded
        assert not replay.report.disorder
    assert sorted(recorded)[-COUNT:] == list(range(COUNT)) or way is waited_for_first


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
