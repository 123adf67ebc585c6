"""Orders that somebody imposes on a replay: `order=`."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from concurrent.futures import Future, ThreadPoolExecutor
from functools import partial
from pathlib import Path
from threading import Event
from typing import Any

import pytest
from tests.kit.asking import ask, look, words

from agenttape_core import Session, Variation, open_cassette, use_cassette
from agenttape_core.errors import ConfigurationError


async def asks() -> list[str]:
    """Ask twice in each of three tasks."""
    log: list[str] = []

    async def one(name: str) -> None:
        log.append(await ask(f"{name}0"))
        log.append(await ask(f"{name}1"))

    await asyncio.gather(*map(one, "abc"))
    return log


async def streams() -> list[str]:
    """Read two streams side by side."""
    log: list[str] = []

    async def one(name: str) -> None:
        log.extend([word async for word in words(name)])

    await asyncio.gather(one("a"), one("b"))
    return log


async def looks() -> list[str]:
    """Call a synchronous tool in three threads, and note the order in which they come back."""
    log: list[str] = []

    async def one(name: str) -> None:
        log.append(await asyncio.to_thread(look, name))

    await asyncio.gather(*map(one, "abc"))
    return log


async def sleeps() -> list[str]:
    """Ask at once, and after a sleep."""
    log: list[str] = []

    async def one(name: str, seconds: float) -> None:
        await asyncio.sleep(seconds)
        log.append(await ask(name))

    await asyncio.gather(one("a", 0), one("b", 0.05))
    return log


Program = Callable[[], Awaitable[Any]]


def run(program: Program, path: Path, **options: Any) -> tuple[Any, Session]:
    """Run a program in a session."""
    vary = Variation(order=options.pop("order")) if "order" in options else None

    async def runs() -> tuple[Any, Session]:
        async with use_cassette(path, vary=vary, **options) as session:
            return await program(), session

    return asyncio.run(runs())


@pytest.mark.parametrize(
    ("program", "order", "log"),
    [
        (asks, "", ["a0!", "b0!", "c0!", "a1!", "b1!", "c1!"]),
        (asks, "5", ["c0!", "a0!", "b0!", "a1!", "b1!", "c1!"]),
        (asks, "5, 6", ["c0!", "c1!", "a0!", "b0!", "a1!", "b1!"]),
        (asks, [6, 1], ["b0!", "c0!", "c1!", "a0!", "a1!", "b1!"]),
        (asks, ["ask~1", 1], ["b0!", "a0!", "c0!", "a1!", "b1!", "c1!"]),
        (streams, "2,1", ["b0", "b1", "b2", "a0", "a1", "a2"]),
        (sleeps, "2,1", ["b!", "a!"]),
    ],
)
def test_an_order_is_imposed(tmp_path: Path, program: Program, order: Any, log: list[str]) -> None:
    """Calls that wait are answered in the order that was given, and the rest as recorded."""
    run(program, tmp_path / "run.yaml", mode="all")
    got, session = run(program, tmp_path / "run.yaml", order=order)
    assert (got, session.report.nondeterminism) == (log, ())


def test_an_order_of_calls_in_threads_is_imposed(tmp_path: Path) -> None:
    """Calls of threads are answered in the order that was given, whichever came first in the recording."""
    run(looks, tmp_path / "run.yaml", mode="all")
    numbers = {
        each.request["arguments"]["question"]: each.number
        for each in open_cassette(tmp_path / "run.yaml").interactions()
    }
    got, session = run(looks, tmp_path / "run.yaml", order=[numbers[name] for name in "cab"])
    assert (got, session.report.nondeterminism) == (["c.", "a.", "b."], ())


@pytest.mark.parametrize("recorded_first", ["a", "b"])
@pytest.mark.parametrize("first", ["a", "b"])
def test_the_speed_of_threads_chooses_nothing(tmp_path: Path, first: str, recorded_first: str) -> None:
    """What was called in threads beside a task is answered in one order, but where a thread waits for the other."""

    class Paced(ThreadPoolExecutor):
        """Threads of which one comes back only after the event loop has been told of the other."""

        def __init__(self, first: str) -> None:
            super().__init__(2)
            self.first, self.is_told = first, Event()
            self.given: list[Future[Any]] = []

        def submit(self, *args: Any, **kwargs: Any) -> Future[Any]:
            """Note what is given out."""
            self.given.append(super().submit(*args, **kwargs))
            return self.given[-1]

        def look(self, name: str) -> str:
            """Call the tool, and come back in time."""
            said = look(name)
            if name != self.first:
                self.is_told.wait()
            return said

        def start(self, name: str) -> asyncio.Future[str]:
            """Look in a thread."""
            looking = asyncio.get_running_loop().run_in_executor(self, self.look, name)
            if name == self.first:
                self.given[-1].add_done_callback(lambda _: self.is_told.set())
            return looking

    async def looks_and_asks(first: str) -> list[str]:
        log: list[str] = []

        async def one(answer: Awaitable[str]) -> None:
            log.append(await answer)

        with Paced(first) as threads:
            await asyncio.gather(one(threads.start("a")), one(threads.start("b")), one(ask("c")))
        return log

    run(partial(looks_and_asks, recorded_first), tmp_path / "run.yaml", mode="all")
    got, session = run(partial(looks_and_asks, first), tmp_path / "run.yaml", order="")
    expected = ["c!", "a.", "b."] if first == "a" else ["c!", "b.", "a."]
    assert (got, session.report.nondeterminism) == (expected, ())


@pytest.mark.parametrize("order", ["2,1", "4,3,2,1"])
def test_what_cannot_be_reached_is_said(tmp_path: Path, order: str) -> None:
    """A call that is made only after one that was to wait for it is named, and nothing hangs."""
    run(asks, tmp_path / "run.yaml", mode="all")
    got, session = run(asks, tmp_path / "run.yaml", order=order)
    assert sorted(got) == ["a0!", "a1!", "b0!", "b1!", "c0!", "c1!"]
    assert "cannot be answered before call" in session.report.nondeterminism[0]


@pytest.mark.parametrize(
    ("order", "said"),
    [
        ("9", "no call 9; its calls are 1 to 6"),
        ("first", "no recorded call has the address 'first'; the nearest is ask"),
        (["ask~7"], r"the address 'ask~7'; the nearest is ask~"),
        (3, "expected numbers of recorded calls"),
        ([True], "expected numbers of recorded calls"),
        ([1.5], "expected numbers of recorded calls"),
    ],
)
def test_an_order_of_no_calls_is_refused(tmp_path: Path, order: Any, said: str) -> None:
    """An order names recorded calls, or the session does not open."""
    run(asks, tmp_path / "run.yaml", mode="all")
    with pytest.raises(ConfigurationError, match=said):
        run(asks, tmp_path / "run.yaml", order=order)


@pytest.mark.parametrize("options", [{"mode": "all"}, {"live": {"call"}}, {"mode": "new_episodes"}])
def test_only_a_strict_replay_has_another_order(tmp_path: Path, options: dict[str, Any]) -> None:
    """What is executed answers when it does."""
    run(asks, tmp_path / "run.yaml", mode="all")
    with pytest.raises(ConfigurationError, match=r"is for a replay|only the calls of a strict replay"):
        run(asks, tmp_path / "run.yaml", order="2", **options)


def test_a_loop_that_cannot_be_followed_is_refused(tmp_path: Path) -> None:
    """A loop with callbacks of its own, such as uvloop, has no choice points."""

    class Other:
        """A loop of somebody else's."""

    run(asks, tmp_path / "run.yaml", mode="all")
    with (
        use_cassette(tmp_path / "run.yaml", vary=Variation(order="2"), on_unused="ignore") as session,
        pytest.raises(ConfigurationError, match=r"cannot be chosen in .*Other"),
    ):
        session.scheduler.loops.room(Other())
