"""A call that was cancelled when it was recorded waits in a replay until it is cancelled again."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from threading import Event
from time import monotonic, sleep
from typing import Any, ClassVar

import pytest
from tests.kit.gate import Gate, hang

from agenttape_core import boundary, compare_cassettes, convert, open_cassette, use_cassette
from agenttape_core.errors import CassetteMissError
from agenttape_core.integration import aintercept, current_session
from agenttape_core.scheduling import clock
from agenttape_core.tools.reading.messages import Answer
from agenttape_core.tools.reading.prices import NoPrices
from agenttape_core.tools.reading.summary import overview_of
from agenttape_core.tools.reading.timeline import timeline_of

from .world import CHAT, astream, stream

SOON = 0.5
"""Seconds; no test waits for so long, see `hang`."""


class Service:
    """The outside: calls that take no time or never end. In a replay it is gone."""

    def __init__(self, *, gone: bool = False) -> None:
        self.gone = gone
        self.hung = asyncio.Event()
        self.attempts = 0
        self.quick = boundary(self._quick, name="quick")
        self.slow = boundary(self._slow, name="slow")
        self.second_time = boundary(self._second_time, name="second_time")
        self.broken = boundary(self._broken, name="broken")

    async def _quick(self, question: str) -> str:
        """Answer at once."""
        assert not self.gone
        await asyncio.sleep(0)
        return f"quick {question}"

    async def _slow(self, question: str) -> str:
        """Never answer, and do not like to be cancelled."""
        assert not self.gone
        self.hung.set()
        await hang()
        return question

    async def _second_time(self, question: str) -> str:
        """Answer when asked again."""
        assert not self.gone
        self.attempts += 1
        if self.attempts == 1:
            await hang()
        return f"{question} at last"

    async def _broken(self, question: str) -> str:
        """Raise when the others hang."""
        assert not self.gone
        await self.hung.wait()
        raise ConnectionError(question)

    async def pieces(self, *, then_hangs: bool) -> AsyncIterator[str]:
        """Stream two chunks, and perhaps never a third one."""
        assert not self.gone
        yield "one"
        yield "two"
        if then_hangs:
            await hang()

    def stream(self, *, then_hangs: bool = True) -> AsyncIterator[str]:
        """Stream, as a boundary."""
        return astream("stream", lambda: self.pieces(then_hangs=then_hangs), ask=then_hangs)


async def timeout_and_fallback(service: Service) -> Any:
    """Ask somebody else after a while."""
    try:
        async with asyncio.timeout(SOON):
            return await service.slow("who")
    except TimeoutError:
        return await service.quick("who")


async def wait_for_twice(service: Service) -> Any:
    """Ask the same again after a while."""
    for _ in range(2):
        try:
            return await asyncio.wait_for(service.second_time("who"), SOON)
        except TimeoutError:
            continue
    return None


async def hedged(first: Awaitable[str], second: Awaitable[str]) -> Any:
    """Take the first answer of two calls, and cancel the other one; return which it was, and the answer."""
    tasks = [asyncio.ensure_future(first), asyncio.ensure_future(second)]
    done, pending = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
    for task in pending:
        task.cancel()
    await asyncio.wait(pending)
    return [(tasks.index(task), task.result()) for task in done]


async def hedge(service: Service) -> Any:
    """Ask two things at once."""
    return await hedged(service.slow("who"), service.quick("who"))


async def equal_hedge(service: Service) -> Any:
    """Ask the same twice at once; the second one gets the answer."""
    return await hedged(service.second_time("who"), service.second_time("who"))


async def group(service: Service) -> Any:
    """Lose two calls because a third one fails."""
    try:
        async with asyncio.TaskGroup() as tasks:
            for call in (service.slow("a"), service.broken("b"), service.slow("c")):
                tasks.create_task(call)  # type: ignore[arg-type]
    except ExceptionGroup as failed:
        return [repr(error) for error in failed.exceptions]


async def cut_stream(service: Service) -> Any:
    """Read what comes in a while."""
    read = []
    try:
        async with asyncio.timeout(SOON):
            async for chunk in service.stream():
                read.append(chunk)  # noqa: PERF401 - a comprehension that is cancelled leaves nothing
    except TimeoutError:
        return read, await service.quick("the rest")


async def stopped_stream(service: Service) -> Any:
    """Stop a reader that is busy with the second chunk."""
    read: list[str] = []
    busy = asyncio.Event()

    async def reader() -> None:
        async for chunk in service.stream(then_hangs=False):
            read.append(chunk)
            if len(read) == 2:
                busy.set()
                if not service.gone:
                    await asyncio.get_running_loop().create_future()

    task = asyncio.create_task(reader())
    await busy.wait()
    task.cancel()
    await asyncio.wait([task])
    return read, task.cancelled()


async def patient(service: Service) -> Any:
    """Cancel a call after some work, which ends while the call goes on."""
    task = asyncio.create_task(service.slow("who"))
    answers = [await service.quick("first"), await service.quick("second")]
    answers.append(await asyncio.to_thread(lambda: "by hand"))
    task.cancel()
    await asyncio.wait([task])
    return answers, task.cancelled()


PROGRAMS = {
    timeout_and_fallback: ["cancelled", "returned"],
    wait_for_twice: ["cancelled", "returned"],
    hedge: ["cancelled", "returned"],
    equal_hedge: ["cancelled", "returned"],
    group: ["cancelled", "raised", "cancelled"],
    cut_stream: ["cancelled", "returned"],
    stopped_stream: ["streamed"],
    patient: ["returned", "cancelled", "returned"],
}


def run(program: Callable[[Service], Awaitable[Any]], service: Service, **options: Any) -> tuple[Any, Any]:
    """Run a program in a session, and return what it returned and the session."""

    async def main() -> tuple[Any, Any]:
        with use_cassette("c", **options) as session:
            return await program(service), session

    return asyncio.run(main())


@pytest.mark.parametrize("program", PROGRAMS, ids=lambda program: program.__name__)
def test_the_same_call_is_cancelled_again(program: Callable[[Service], Awaitable[Any]]) -> None:
    """Timeouts fire, races are won and groups fail in a replay as they did when they were recorded."""
    live, recording = run(program, Service(), mode="once")
    assert [item.outcome.status for item in recording.interactions] == PROGRAMS[program]
    replayed, replay = run(program, Service(gone=True))
    assert replayed == live
    assert (len(replay.report.replayed), len(replay.report.recorded)) == (len(PROGRAMS[program]), 0)


def test_a_timeout_is_not_sat_out() -> None:
    """The clock of a loop that waits for nothing else passes to its next timer."""
    run(timeout_and_fallback, Service(), mode="once")

    async def later(service: Service) -> float:
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.9):
                await service.slow("who")
        assert await service.quick("who") == "quick who"
        return asyncio.get_running_loop().time() - monotonic()

    ahead, _ = run(later, Service(gone=True))
    assert ahead > 0.8


async def read_on(service: Service) -> None:
    """Read a stream to its end."""
    read: list[str] = []
    try:
        async for chunk in service.stream():
            read.append(chunk)  # noqa: PERF401 - as above
    finally:
        assert read == ["one", "two"]


@pytest.mark.parametrize(
    ("recorded", "program", "message"),
    [
        (timeout_and_fallback, lambda service: service.slow("who"), "was cancelled by the program after"),
        (cut_stream, read_on, "and 2 chunks, and this one is not"),
    ],
)
def test_a_call_that_is_not_cancelled_any_more_is_a_miss(recorded: Any, program: Any, message: str) -> None:
    """A program without the timeout gets no answer that nobody has seen, and does not wait for ever."""
    run(recorded, Service(), mode="once")
    with pytest.raises(CassetteMissError, match=message):
        run(program, Service(gone=True))


def test_a_cancellation_that_nobody_asked_for_is_an_error() -> None:
    """Code that raises `CancelledError` itself does so at once in a replay: there is nothing to wait for."""

    async def program(service: Service) -> str:
        @boundary
        async def lost() -> None:
            assert not service.gone
            future = asyncio.get_running_loop().create_future()
            future.cancel()
            await future

        try:
            await lost()
        except asyncio.CancelledError:
            return "lost"
        return "found"

    live, _ = run(program, Service(), mode="once")
    (item,) = open_cassette("cassettes/c.yaml").interactions()
    assert (item.outcome.status, item.outcome.error.type) == ("raised", "asyncio.exceptions:CancelledError")
    assert run(program, Service(gone=True))[0] == live == "lost"


def test_the_effects_of_a_cancelled_call_are_done_again() -> None:
    """Also where it is cancelled before it is its turn."""

    async def race(service: Service) -> Any:
        done: list[str] = []

        async def one(name: str, *, hangs: bool) -> str:
            session = current_session()
            assert session is not None
            session_call = session.cross(CHAT, name, {})

            async def real() -> str:
                assert not service.gone
                session_call.effected(f"{name} began")  # type: ignore[union-attr]
                done.append(f"{name} began")
                await (asyncio.get_running_loop().create_future() if hangs else asyncio.sleep(0))
                return name

            async def again(effect: str) -> None:
                done.append(effect)

            answer: str = await aintercept(session_call, real, again)
            return answer

        return await hedged(one("a", hangs=True), one("b", hangs=False)), sorted(done)

    recorded, _ = run(race, Service(), mode="once")
    assert recorded == ([(1, "b")], ["a began", "b began"])
    assert run(race, Service(gone=True))[0] == recorded


def test_reports_name_what_was_cancelled(tmp_path: Path) -> None:
    """A cancelled call is one in sums, has failed in a timeline, keeps its chunks, and survives a conversion."""
    run(cut_stream, Service(), mode="once")
    convert("cassettes/c.yaml", tmp_path / "lines.jsonl")
    for path in (Path("cassettes/c.yaml"), tmp_path / "lines.jsonl"):
        cassette = open_cassette(path)
        assert overview_of(cassette, NoPrices()).cancelled == 1
        assert [span.has_failed for span in timeline_of(cassette).rows] == [True, False]
        assert Answer(cassette.outcome(1)).text == "onetwo"
    assert compare_cassettes(tmp_path / "lines.jsonl", "cassettes/c.yaml").identical


# -- synchronous calls in threads, which nobody can cancel ---------------------------------------------------------


class Threaded:
    """The outside: synchronous calls, one of which ends only when it is released. In a replay it is gone."""

    def __init__(self, *, gone: bool = False) -> None:
        self.gone = gone
        self.gate = Gate()
        self.slow = boundary(self._slow, name="slow")
        self.quick = boundary(self._quick, name="quick")

    def _slow(self, question: str) -> str:
        """Answer too late."""
        assert not self.gone
        self.gate.hold()
        return f"slow {question}"

    def _quick(self, question: str) -> str:
        """Answer at once."""
        assert not self.gone
        return f"quick {question}"

    def stream(self) -> Iterator[str]:
        """Stream one chunk in time, and one too late, as a boundary."""

        def pieces() -> Iterator[str]:
            assert not self.gone
            yield "one"
            self.gate.hold()
            yield "two"

        return stream("stream", pieces)


async def given_up_thread(service: Threaded) -> Any:
    """Ask somebody else after a while, and wait for the thread all the same."""
    answered: list[str] = []

    def ask() -> None:
        answered.append(service.slow("who"))
        answered.append(service.quick("more"))

    with ThreadPoolExecutor() as pool:
        try:
            async with service.gate.timeout():
                await asyncio.get_running_loop().run_in_executor(pool, ask)
        except TimeoutError:
            answered.append(await asyncio.to_thread(service.quick, "who"))
            service.gate.open()
    return sorted(answered)  # from here on the thread and the program race


async def abandoned_thread(service: Threaded) -> Any:
    """End while the thread goes on."""
    try:
        async with service.gate.timeout():
            return await asyncio.to_thread(service.slow, "who")
    except TimeoutError:
        return "nobody knows"


async def loop_in_a_thread(service: Threaded) -> Any:
    """Give up a thread with an event loop of its own."""

    @boundary
    async def ask() -> str:
        assert not service.gone
        await asyncio.to_thread(service.gate.hold)
        return "slow"

    try:
        async with service.gate.timeout():
            return await asyncio.to_thread(lambda: asyncio.run(ask()))
    except TimeoutError:
        return "nobody knows"


async def timeout_of_a_future(service: Threaded) -> Any:
    """Wait for a thread without an event loop, and once more."""
    with ThreadPoolExecutor() as pool:
        future = pool.submit(service.slow, "who")
        try:
            return future.result(0.1)
        except TimeoutError:
            service.gate.open()
            return future.result()


async def stream_in_a_thread(service: Threaded) -> Any:
    """Give up a thread after the first chunk of a stream."""
    read: asyncio.Queue[str] = asyncio.Queue()
    loop = asyncio.get_running_loop()

    def reader() -> None:
        for chunk in service.stream():
            loop.call_soon_threadsafe(read.put_nowait, chunk)

    task = asyncio.create_task(asyncio.to_thread(reader))
    first = await read.get()
    try:
        async with service.gate.timeout():
            await task
    except TimeoutError:
        return first, read.qsize()
    finally:
        service.gate.open()
    return "all of it"


IN_THREADS = [given_up_thread, abandoned_thread, loop_in_a_thread, timeout_of_a_future, stream_in_a_thread]


@pytest.mark.parametrize("program", IN_THREADS, ids=lambda program: program.__name__)
def test_the_same_thread_is_given_up_again(program: Callable[[Any], Awaitable[Any]]) -> None:
    """A call in a thread that nobody waits for any more does not answer before the program has given it up."""

    def ran(service: Threaded, **options: Any) -> tuple[Any, Any]:
        async def main() -> tuple[Any, Any]:
            try:
                with use_cassette("c", **options) as session:
                    return await program(service), session
            finally:
                service.gate.open()

        return asyncio.run(main())

    live, recording = ran(Threaded(), mode="once")
    first = recording.interactions[0].outcome
    assert first.given_up == (1 if program is stream_in_a_thread else 0)
    assert first.status == "cancelled" or program is not abandoned_thread
    replayed, replay = ran(Threaded(gone=True))
    assert replayed == live
    assert (len(replay.report.replayed), len(replay.report.recorded)) == (len(recording.interactions), 0)


def test_a_thread_that_is_not_given_up_any_more_is_a_miss() -> None:
    """A program that waits for the call gets no answer that came too late when it was recorded."""
    run(timeout_of_a_future, Threaded(), mode="once")  # type: ignore[arg-type]
    with pytest.raises(CassetteMissError, match="the program had given up the thread of the recorded call"):
        run(lambda service: asyncio.sleep(0, service.slow("who")), Threaded(gone=True))  # type: ignore[arg-type]


@dataclass
class Writing:
    """An answer that is not written down before somebody says so."""

    text: str
    is_written: ClassVar[Event] = Event()
    may_go_on: ClassVar[Event] = Event()

    def __getattribute__(self, name: str) -> Any:
        if name == "text" and not Writing.is_written.is_set():
            Writing.is_written.set()
            assert Writing.may_go_on.wait(10)
        return super().__getattribute__(name)


def test_an_answer_that_nobody_waits_for_is_recorded_though_the_session_ends_while_it_is_written() -> None:
    """A call in a thread that was given up leaves a record whenever the session ends."""

    @boundary
    def answer() -> Writing:
        gate.hold()
        return Writing("late")

    async def main() -> Any:
        with use_cassette("c", mode="once") as session:
            with pytest.raises(TimeoutError):
                async with gate.timeout():
                    await asyncio.to_thread(answer)
            gate.open()
            assert await asyncio.to_thread(Writing.is_written.wait, 10)
        Writing.may_go_on.set()
        return session

    gate = Gate()
    assert [call.outcome.given_up for call in asyncio.run(main()).interactions] == [0]


def test_a_thread_that_ends_while_the_clock_looks_at_it_comes_before_a_timer(monkeypatch: pytest.MonkeyPatch) -> None:
    """The clock of a loop doesn't pass to a timer when a thread's result is there by the time the thread is idle."""
    is_busy, may_end = clock.LoopClock._is_busy, Event()

    def looks(of: clock.LoopClock) -> bool:
        may_end.set()
        while is_busy(of):
            sleep(0)
        return False

    async def main() -> bool:
        thread = asyncio.ensure_future(asyncio.to_thread(may_end.wait, 10))
        await asyncio.sleep(0)
        loop: Any = asyncio.get_running_loop()
        waiting = asyncio.ensure_future(clock.LoopClock.of(loop).wait(clock.Ending(99, 99)))
        try:
            async with asyncio.timeout(50):
                return await thread
        finally:
            waiting.cancel()

    monkeypatch.setattr(clock, "_QUIET", 0.0)
    monkeypatch.setattr(clock.LoopClock, "_is_busy", looks)
    assert asyncio.run(main())


@pytest.mark.parametrize(("late", "is_overdue"), [(0.0, True), (1.5, False)])
def test_the_wait_is_longer_where_others_had_the_processors(
    late: float, is_overdue: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whoever is to cancel the call may have waited for a processor, so that time is added to the limit."""
    monkeypatch.setattr(clock, "monotonic", lambda: 12.0)
    waiter = clock.Waiter(clock.Ending(0.0, 0.0), late=lambda: late, since=10.0)  # type: ignore[arg-type]
    assert waiter.is_overdue(1.0) is is_overdue
