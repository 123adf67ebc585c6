"""Virtual time: recorded latencies, timeouts and stalls in true order, without waiting for them."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Awaitable, Callable
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from tests.kit.asking import ask, look, words
from tests.kit.times import took

from agenttape_core import Session, Variation, late, use_cassette
from agenttape_core.errors import ConfigurationError
from agenttape_core.scheduling import clock
from agenttape_core.scheduling.loops import Room
from agenttape_core.scheduling.participants import BLOCKING, Participant, starting
from agenttape_core.scheduling.threads import Threads


def now() -> float:
    """Return the time of the loop."""
    return asyncio.get_running_loop().time()


async def both() -> Any:
    """Ask twice at once; the order of the answers counts."""
    log: list[tuple[str, float]] = []
    began = now()

    async def one(name: str) -> None:
        answer = await ask(name)
        log.append((answer, round(now() - began, 3)))

    await asyncio.gather(one("a"), one("b"))
    return log


async def under_timeout() -> Any:
    """Give up the slow one after 5 s."""

    async def one(name: str) -> str:
        try:
            async with asyncio.timeout(5):
                return await ask(name)
        except TimeoutError:
            return f"{name} was given up at {now() - began:g}"

    began = now()
    return await asyncio.gather(one("a"), one("b"))


async def waited_for() -> Any:
    """Give up the slow one after 5 s, in the other way."""
    began = now()
    try:
        return await asyncio.gather(asyncio.wait_for(ask("a"), 5), ask("b"))
    except TimeoutError:
        return now() - began


async def hedged() -> Any:
    """Ask again after 20 s, and take whichever answers first."""
    began = now()
    first = asyncio.ensure_future(ask("a"))
    done, _ = await asyncio.wait([first], timeout=20)
    if not done:
        second = asyncio.ensure_future(ask("b"))
        done, left = await asyncio.wait([first, second], return_when=asyncio.FIRST_COMPLETED)
        for task in left:
            task.cancel()
    return done.pop().result(), now() - began


async def stalled() -> Any:
    """Read a stream, and give up if no word comes for 10 s."""
    stream, heard, began = words("w"), [], now()
    try:
        while True:
            heard.append((await asyncio.wait_for(anext(stream), 10), round(now() - began, 3)))
    except (TimeoutError, StopAsyncIteration) as end:
        return heard, type(end).__name__, now() - began


async def read() -> Any:
    """Read a stream to its end."""
    return [word async for word in words("w")]


async def slept() -> Any:
    """Sleep beside a call, and read both clocks."""
    began, clock = now(), datetime.now(UTC)
    await asyncio.gather(ask("a"), asyncio.sleep(30))
    await asyncio.sleep(10)
    return round(now() - began, 3), round((datetime.now(UTC) - clock).total_seconds(), 1)


async def in_threads() -> Any:
    """Call what is no coroutine in threads, beside one that is."""
    log: list[Any] = []
    began = now()

    async def one(answer: Awaitable[str]) -> None:
        log.append((await answer, round(now() - began, 3)))

    await asyncio.gather(one(asyncio.to_thread(look, "x")), one(ask("b")), one(asyncio.sleep(7, "slept")))
    return log


async def blocked() -> Any:
    """Call what is no coroutine in the loop, which it blocks."""
    began = now()
    timer = asyncio.ensure_future(asyncio.sleep(1, "late"))
    return look("x"), now() - began, await timer


async def polled() -> Any:
    """Wait for the clock without ever resting."""
    answer, end = await ask("a"), now() + 1
    while True:
        await asyncio.sleep(0)
        if now() >= end:
            break
    return answer


async def once() -> Any:
    """Ask once."""
    return await ask("a")


async def beside() -> Any:
    """Make two calls, the first of them in a thread."""
    return await asyncio.to_thread(look, "x"), await ask("b")


async def looked() -> Any:
    """Call what is no coroutine."""
    return look("x")


Program = Callable[[], Awaitable[Any]]


def run(program: Program, path: Path, **options: Any) -> tuple[Any, Session]:
    """Run a program in a session."""

    async def runs() -> tuple[Any, Session]:
        async with use_cassette(path, **options) as session:
            return await program(), session

    return asyncio.run(runs())


def recorded(program: Program, path: Path, seconds: Any) -> Path:
    """Record a program whose calls have taken so long; return the cassette."""
    run(program, path, mode="all")
    took(path, seconds)
    return path


@pytest.mark.parametrize(
    ("asked", "seconds", "program", "result"),
    [
        (both, {1: 20, 2: 10}, both, [("b!", 10), ("a!", 20)]),
        (both, {1: 20, 2: 10}, under_timeout, ["a was given up at 5", "b was given up at 5"]),
        (both, {1: 20, 2: 4.9}, under_timeout, ["a was given up at 5", "b!"]),
        (both, {1: 6, 2: 1}, waited_for, 5),
        (both, {1: 4, 2: 100}, waited_for, ["a!", "b!"]),
        (both, {1: 60, 2: 3}, hedged, ("b!", 23)),
        (both, {1: 22, 2: 3}, hedged, ("a!", 22)),
        (both, {1: 19, 2: 3}, hedged, ("a!", 19)),
        (read, {1: (1, 5, 14, 14)}, stalled, ([("w0", 1), ("w1", 5), ("w2", 14)], "StopAsyncIteration", 14)),
        (read, {1: (1, 5, 24, 24)}, stalled, ([("w0", 1), ("w1", 5)], "TimeoutError", 15)),
        (once, {1: 100}, slept, (110, 40.0)),
        (once, {1: 5}, slept, (40, 40.0)),
        (beside, {1: 5, 2: 9}, in_threads, [("x.", 5), ("slept", 7), ("b!", 9)]),
        (looked, {1: 3}, blocked, ("x.", 3, "late")),
        (once, {1: 3}, polled, "a!"),
    ],
)
def test_time_passes_in_true_order(tmp_path: Path, asked: Program, seconds: Any, program: Program, result: Any) -> None:
    """Answers, timeouts and sleeps come when they would have come, and nobody waits for them.

    Both clocks pass with sleeps, and calls take no frozen time: as in the recording.
    """
    path = recorded(asked, tmp_path / "run.yaml", seconds)
    got, session = run(program, path, pace="virtual", on_unused="ignore")
    assert got == result
    assert session.report.nondeterminism == ()


def test_an_hour_takes_as_many_rounds_as_it_has_timers(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A loop goes round for what there is to do, however long that takes."""
    path, rounds = recorded(both, tmp_path / "run.yaml", {1: 3600, 2: 1800}), []
    once: Any = asyncio.BaseEventLoop._run_once  # type: ignore[attr-defined]

    def counted(loop: Any) -> None:
        rounds.append(None)
        once(loop)

    monkeypatch.setattr(asyncio.BaseEventLoop, "_run_once", counted)
    assert run(both, path, pace="virtual")[0] == [("b!", 1800), ("a!", 3600)]
    assert len(rounds) < 200


def test_a_loop_that_is_held_up_passes_to_its_next_timer_at_most(monkeypatch: pytest.MonkeyPatch) -> None:
    """Beside a thread that works, what follows a timer still comes before a later one, if the machine wakes it late."""

    class Late:
        def select(self, _: float) -> list[Any]:
            time.sleep(0.02)
            return []

    monkeypatch.setattr(clock, "_WORKS", 0.0)
    loop: Any = asyncio.new_event_loop()
    virtual = clock.VirtualTime(loop, Late())
    virtual.hold(SimpleNamespace(works=lambda: True))  # type: ignore[arg-type] # a session in a loop, with a thread
    before = loop.time()
    virtual.select(0.001, ())
    assert loop.time() - before == pytest.approx(0.001)
    loop.close()


def test_a_delay_of_a_change_is_virtual(tmp_path: Path) -> None:
    """`late` takes no time either."""
    path = recorded(both, tmp_path / "run.yaml", {1: 1, 2: 2})
    assert run(both, path, pace="virtual", vary=Variation(changes={1: late(60)}))[0] == [("b!", 2), ("a!", 61)]


def test_the_clock_of_a_loop_goes_on_after_the_session(tmp_path: Path) -> None:
    """It is never put back, and timers that are set then wait for real."""
    path = recorded(both, tmp_path / "run.yaml", {1: 20, 2: 10})

    async def program() -> None:
        began = now()
        async with use_cassette(path, pace="virtual"):
            await both()
            inside = now()
        assert began + 20 <= inside <= now()
        before = time.monotonic()
        await asyncio.sleep(0.01)
        assert time.monotonic() - before > 0.005
        assert now() - inside < 15

    asyncio.run(program())


def test_a_session_around_the_loop_holds_its_time(tmp_path: Path) -> None:
    """The session may be opened before the loop, and loops may follow each other."""
    path = tmp_path / "run.yaml"

    def program() -> Any:
        return [asyncio.run(in_threads()), asyncio.run(both())]

    with use_cassette(path, mode="all", freeze=[]):
        asyncio.run(beside())
        asyncio.run(both())
    took(path, {1: 5, 2: 9, 3: 20, 4: 10})
    with use_cassette(path, pace="virtual"):
        assert program() == [[("x.", 5), ("slept", 7), ("b!", 9)], [("b!", 10), ("a!", 20)]]


def test_a_thread_that_rests_while_its_loop_looks_at_it_is_not_missed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What a thread puts into a loop comes before time passes, even if the thread rests right after the loop's look."""
    path, is_there, may_put, rests = tmp_path / "run.yaml", threading.Event(), threading.Event(), threading.Event()
    run(looked, path, mode="all")
    took(path, {1: 5})
    post, works, leave_turn = Room.post, Room.works, Threads.leave_turn

    async def program() -> Any:
        began, timer = now(), asyncio.ensure_future(asyncio.sleep(7))
        answer = await asyncio.to_thread(look, "x")
        came = now() - began
        await timer
        return answer, came, now() - began

    def puts(room: Room, function: Callable[[], object]) -> None:
        if not asyncio._get_running_loop():  # the thread, which is about to sleep
            is_there.set()
            with starting():
                assert may_put.wait(10)
        post(room, function)

    def leaves(threads: Threads, one: Participant, state: int) -> None:
        leave_turn(threads, one, state)
        if may_put.is_set() and state == BLOCKING:
            rests.set()

    def looks(room: Room) -> bool:
        if is_there.is_set() and not may_put.is_set():  # the loop has found nothing to do
            may_put.set()
            with starting():
                assert rests.wait(10)
        return works(room)

    monkeypatch.setattr(Room, "post", puts)
    monkeypatch.setattr(Room, "works", looks)
    monkeypatch.setattr(Threads, "leave_turn", leaves)
    assert run(program, path, pace="virtual")[0] == ("x.", 5, 7)
    assert rests.is_set()


def test_a_thread_that_is_given_up_delays_nobody(tmp_path: Path) -> None:
    """A loop that closes wakes the threads that wait in it, whether or not the session ends before it."""
    path = recorded(
        looked, tmp_path / "run.yaml", {1: 200}
    )  # since Python 3.12, a loop that closes gives its threads 300 seconds

    async def given_up() -> str:
        try:
            return await asyncio.wait_for(asyncio.to_thread(look, "x"), 10)
        except TimeoutError:
            return "given up"

    assert run(given_up, path, pace="virtual")[0] == "given up"
    with use_cassette(path, pace="virtual"):
        assert asyncio.run(given_up()) == "given up"


def in_a_pool() -> Any:
    """Call something in a thread that no loop waits for."""
    with ThreadPoolExecutor(1) as pool:
        return pool.submit(look, "x").result()


def in_a_thread() -> Any:
    """Call something in a thread of one's own, which tells nobody that it failed."""
    thread = threading.Thread(target=lambda: look("x"))
    thread.start()
    thread.join(20)


@pytest.mark.filterwarnings("ignore::pytest.PytestUnhandledThreadExceptionWarning")
@pytest.mark.parametrize("program", [lambda: look("x"), in_a_pool, in_a_thread])
def test_what_no_loop_waits_for_cannot_be_held(tmp_path: Path, program: Callable[[], Any]) -> None:
    """Synchronous programs and their threads are refused, also where nobody sees the error."""
    with use_cassette(tmp_path / "run.yaml", mode="all"):
        program()
    with (
        pytest.raises(ConfigurationError, match="thread that no event loop waits for"),
        use_cassette(tmp_path / "run.yaml", pace="virtual"),
    ):
        program()


@pytest.mark.parametrize("options", [{"live": {"call"}}, {"mode": "new_episodes"}])
def test_what_is_executed_cannot_be_held(tmp_path: Path, options: dict[str, Any]) -> None:
    """Real calls take real time."""
    run(both, tmp_path / "run.yaml", mode="all")
    with pytest.raises(ConfigurationError, match="a live call takes real time"):
        run(both, tmp_path / "run.yaml", pace="virtual", **options)


def test_a_recording_takes_the_time_that_it_takes(tmp_path: Path) -> None:
    """The option may stay while a cassette is recorded."""
    results = [run(read, tmp_path / "run.yaml", mode="once", pace="virtual")[0] for _ in range(2)]
    assert results[0] == results[1]


def test_a_cassette_without_times_is_refused(tmp_path: Path) -> None:
    """It is said which calls have none."""
    path = recorded(both, tmp_path / "run.yaml", {2: 1})
    with pytest.raises(ConfigurationError, match=r"how long 1 call took \(1\)"):
        run(both, path, pace="virtual")


def test_a_loop_of_another_kind_is_refused(tmp_path: Path) -> None:
    """The time of uvloop is its own."""

    class Other:
        """A loop of somebody else's."""

    run(both, tmp_path / "run.yaml", mode="all")
    with (
        use_cassette(tmp_path / "run.yaml", pace="virtual", on_unused="ignore") as session,
        pytest.raises(ConfigurationError, match=r"the time of .*Other cannot be held"),
    ):
        session.scheduler.loops.room(Other())
