"""Streams that a program leaves without closing them are closed in a replay where they were in the recording."""

from __future__ import annotations

import asyncio
import gc
import random
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path
from typing import Any, TypeAlias

import pytest
import uvloop

from agenttape_core import boundary, use_cassette

from ...kit.replaying import recorded_as_replayed

pytestmark = pytest.mark.usefixtures("uncollected")

Log: TypeAlias = list[Any]
Program: TypeAlias = Callable[["Service", Log, int | None], Awaitable[None]]
MOMENTS = (None, 0, 1, 2, 3)
"""The moments of a run at which the collector of garbage comes; `None` for never."""
LATENCIES = (0, 0, 0.001, 0.002)


class Service:
    """The outside: it streams words after random times."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)
        self.words = boundary(self._words, name="words")

    async def _words(self, question: str) -> AsyncIterator[str]:
        """Stream four words; what begins with `!` fails after the first one."""
        for number in range(4):
            await asyncio.sleep(self.random.choice(LATENCIES))
            if number and question.startswith("!"):
                raise ValueError(question)
            yield f"{question}{number}"

    async def ask_on(self, log: Log, when: int | None) -> None:
        """Read another stream; the collector comes at the moment, if that is one of its words."""
        collect(0, when)
        async for word in self.words("next"):
            log.append(word)
            collect(int(word[-1]), when)


def collect(moment: int, when: int | None) -> None:
    """Let the collector come, if this is its moment."""
    if moment == when:
        gc.collect()


async def noting(service: Service, question: str, log: Log) -> AsyncIterator[str]:
    """Read a stream, and note how that ends."""
    try:
        async for word in service.words(question):
            yield word
    finally:
        log.append(("left", question))


async def merged(*streams: AsyncIterator[str]) -> AsyncIterator[str]:
    """Yield what comes of several streams, as LangChain's `RunnableParallel` does."""

    async def following(stream: AsyncIterator[str]) -> str:
        return await anext(stream)

    tasks = {asyncio.create_task(following(stream)): stream for stream in streams}
    while tasks:
        done, _ = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        for task in done:
            stream = tasks.pop(task)
            yield task.result()
            tasks[asyncio.create_task(following(stream))] = stream


async def beside_one_that_fails(service: Service, log: Log, when: int | None) -> None:
    """Leaves the streams beside one that fails, which its error holds, and asks on."""
    try:
        async for word in merged(*(noting(service, question, log) for question in ("a", "!b", "c"))):
            log.append(word)
    except ValueError:
        log.append("failed")
    await service.ask_on(log, when)


async def read_in_a_circle(service: Service, question: str, log: Log) -> AsyncIterator[str]:
    """Read up to the second word of a stream that holds itself, and leave it; return it."""
    stream = noting(service, question, log)
    circle: list[Any] = [stream]
    circle.append(circle)
    async for word in stream:
        log.append(word)
        if word.endswith("1"):
            break
    return stream


async def in_circles(service: Service, log: Log, when: int | None) -> None:
    """Leaves streams that hold themselves."""
    await asyncio.gather(*(read_in_a_circle(service, question, log) for question in "abc"))
    await service.ask_on(log, when)


async def one_after_the_other(service: Service, log: Log, when: int | None) -> None:
    """Leaves a stream whose last reference goes at once, again and again."""
    for number in range(4):
        async for word in noting(service, f"q{number}", log):
            log.append(word)
            break
        collect(number, when)


def run(program: Program, seed: int, when: int | None, **options: Any) -> tuple[Log, tuple[str, ...]]:
    """Run a program in a session, to the end of its loop; return its log, and what of its order was not kept."""
    log: Log = []

    async def main() -> None:
        await program(Service(seed), log, when)

    with use_cassette("c", **options) as session:
        asyncio.run(main())
    return log, session.report.nondeterminism


def run_inside(program: Program, seed: int, when: int | None, **options: Any) -> tuple[Log, tuple[str, ...]]:
    """Run a program in a session that is entered in a running loop, to the end of the session."""

    async def main() -> tuple[Log, tuple[str, ...]]:
        log: Log = []
        async with use_cassette("c", **options) as session:
            await program(Service(seed), log, when)
            found = log[:]
        return found, session.report.nondeterminism

    return asyncio.run(main())


@pytest.mark.parametrize("recorded", MOMENTS)
@pytest.mark.parametrize(
    ("program", "way"),
    [(beside_one_that_fails, run), (in_circles, run), (one_after_the_other, run), (beside_one_that_fails, run_inside)],
)
def test_closed_where_they_were(program: Program, way: Callable[..., Any], recorded: int | None) -> None:
    """Whenever the collector comes in a replay, abandoned streams are closed where it closed them in the recording."""
    expected = way(program, 1, recorded, mode="all")
    for when in MOMENTS:
        assert way(program, 1, when) == expected, when


def test_still_in_use() -> None:
    """A replay says so if a stream is still in use that was closed in the recording."""
    held: list[Any] = []

    async def leaves(service: Service, log: Log, when: int | None) -> None:
        await read_in_a_circle(service, "a", log)
        gc.collect()
        await service.ask_on(log, when)

    async def holds(service: Service, log: Log, when: int | None) -> None:
        held.append(await read_in_a_circle(service, "a", log))
        await service.ask_on(log, when)

    recorded, _ = run(leaves, 1, None, mode="all")
    replayed, disorder = run(holds, 1, None)
    assert recorded != replayed
    assert disorder


@pytest.mark.parametrize("seed", range(6))
def test_tasks_that_go_on_when_the_loop_stops(seed: int) -> None:
    """Tasks beside one that fails are cancelled at the same point of their steps at the end, or the replay says so."""

    async def program(service: Service, log: Log, when: int | None) -> None:
        async def read(question: str) -> None:
            try:
                async for word in noting(service, question, log):
                    log.append(word)
                    for step in range(3):
                        await asyncio.sleep(0)
                        log.append((question, step))
            except asyncio.CancelledError:
                log.append(("cancelled", question))
                raise

        try:
            await asyncio.gather(*map(read, ("a", "!b", "c", "d", "e")))
        except ValueError:
            log.append("failed")
        await asyncio.sleep(0.001)
        log.append("slept")

    expected = run(program, seed, None, mode="all")
    for _ in range(3):
        log, disorder = run(program, seed, None)
        assert log == expected[0] or disorder


def test_tasks_in_order() -> None:
    """Tasks that are left when a loop ends are cancelled in the order in which they were made."""
    held: list[asyncio.Task[None]] = []

    async def program(service: Service, log: Log, when: int | None) -> None:
        async def wait(number: int) -> None:
            try:
                await asyncio.get_running_loop().create_future()
            finally:
                log.append(number)

        held.extend(asyncio.create_task(wait(number)) for number in range(20))
        await service.ask_on(log, when)

    log, _ = run(program, 0, None, mode="all")
    assert log == ["next0", "next1", "next2", "next3", *range(20)]
    assert run(program, 0, None) == (log, ())


def test_open_at_the_end() -> None:
    """Streams that are open when a loop ends are closed in the order in which they began."""
    held: list[Any] = []

    async def program(service: Service, log: Log, when: int | None) -> None:
        streams = [noting(service, str(number), log) for number in range(20)]
        for stream in streams:
            await anext(stream)
        held.append(streams)

    log, _ = run(program, 0, None, mode="all")
    assert log == [("left", str(number)) for number in range(20)]
    assert run(program, 0, None) == (log, ())


@pytest.mark.parametrize("run", [run, run_inside])
@pytest.mark.parametrize("is_held", [False, True])
def test_no_error_as_the_loop_ends(run: Any, is_held: bool, caplog: pytest.LogCaptureFixture) -> None:
    """A stream that the program leaves in its last step is closed with the loop, and the loop reports no error."""
    held: list[Any] = []

    async def program(service: Service, log: Log, when: int | None) -> None:
        stream = service.words("last")
        held.extend([stream] * is_held)
        async for word in stream:
            log.append(word)
            collect(1, when)
            return

    assert run(program, 0, None, mode="all") == run(program, 0, None) == (["last0"], ())
    assert not caplog.messages


def test_call_after_a_stream_that_is_closed(tmp_path: Path) -> None:
    """A program on uvloop that closes a recorded stream before its end continues with its next call."""

    async def program(service: Service) -> Log:
        stream: Any = service.words("closed")
        log: Log = [await anext(stream)]
        await stream.aclose()
        await service.ask_on(log, None)
        return log

    service = Service(0)
    found = recorded_as_replayed(tmp_path / "c.yaml", lambda: uvloop.run(program(service)))
    assert found == ["closed0", "next0", "next1", "next2", "next3"]
