"""A stream is recorded as it was: read to its end, closed early, or broken midway."""

from __future__ import annotations

import asyncio
import gc
import threading
from collections.abc import AsyncIterator, Iterator
from contextlib import closing, suppress
from contextvars import copy_context
from typing import Any

import pytest

from agenttape_core import open_cassette, use_cassette
from agenttape_core.errors import CassetteMissError, UnreadableValueError, UnrecordableValueError
from agenttape_core.integration import Boundary, Usage, executing

from .world import CHAT, World, acall, astream, call, stream

PIECES = ("one", "two", "three")
LIMIT = 30
"""Seconds after which a wait that another thread ends is an error."""


def recorded() -> Any:
    """Return the only recorded outcome."""
    (interaction,) = open_cassette("cassettes/s.yaml").interactions()
    return interaction.outcome


def test_a_thread_wants_more_of_a_stream_when_its_session_ends() -> None:
    """A part that the recorded program was not given any more is no miss, where a thread gets it for an event loop."""
    rest = threading.Event()

    async def ended(wanted: asyncio.Future[str]) -> Any:
        return (await asyncio.gather(wanted, return_exceptions=True))[0]

    def pieces() -> Iterator[str]:
        yield "a"
        assert rest.wait(LIMIT)
        yield "b"

    def run(mode: str) -> Any:
        async def program(chunks: Iterator[str]) -> tuple[str, asyncio.Future[str]]:
            loop = asyncio.get_running_loop()
            first = await loop.run_in_executor(None, next, chunks)
            wanted = loop.run_in_executor(None, next, chunks)
            await asyncio.wait([wanted], timeout=0.05)  # it comes neither in the recording nor in a replay
            return first, wanted

        with asyncio.Runner() as runner:
            with use_cassette("c", mode=mode):
                first, wanted = runner.run(program(stream("model", pieces)))
                assert (first, wanted.done()) == ("a", False)
            rest.set()
            return runner.run(asyncio.wait_for(ended(wanted), LIMIT))

    assert run("all") == "b"
    assert isinstance(run("none"), asyncio.CancelledError)


def test_closed_early_and_asked_whole(world: World) -> None:
    """A stream may be read less far than it was recorded; a plain call cannot be answered by half a stream."""
    with use_cassette("s", mode="once"), closing(stream("m", lambda: world.pieces("m", PIECES))) as chunks:
        read = [next(chunks), next(chunks)]
    with use_cassette("s"), closing(stream("m", lambda: world.pieces("m", PIECES))) as chunks:
        assert next(chunks) == read[0]
    with pytest.raises(CassetteMissError, match="after 2 chunks"), use_cassette("s"):
        call("m", lambda: "real", CHAT)


def test_never_started(world: World) -> None:
    """A stream that nobody reads from is not executed, and not recorded."""
    with use_cassette("s", mode="once"):
        stream("m", lambda: world.pieces("m", PIECES))
        world.tool("other")
    assert world.reached == ["other"]
    assert [entry.name for entry in open_cassette("cassettes/s.yaml").entries] == ["other"]


def test_broken_at_once(world: World) -> None:
    """A call that fails before there is a stream is recorded too, plain and async."""

    def refuse() -> Iterator[str]:
        raise PermissionError("no")

    def arefuse() -> AsyncIterator[str]:
        raise PermissionError("no")

    async def read() -> None:
        async for _ in astream("m", arefuse, n=2):
            pass

    for mode in ("once", "none"):
        with use_cassette("s", mode=mode):
            with pytest.raises(PermissionError):
                list(stream("m", refuse, n=1))
            with pytest.raises(PermissionError):
                asyncio.run(read())
    assert len(open_cassette("cassettes/s.yaml").entries) == 2


async def test_error_of_the_async_reader(world: World) -> None:
    """What the reader throws into an async stream is not the error of the stream: it is a stream closed early."""
    async with use_cassette("s", mode="once"):
        chunks: Any = astream("m", lambda: world.apieces("m", PIECES))
        await anext(chunks)
        with pytest.raises(KeyError):
            await chunks.athrow(KeyError("mine"))
    assert (recorded().ended, recorded().error) == ("closed", None)


@pytest.mark.parametrize("interruption", [KeyboardInterrupt, SystemExit])
def test_interruption_is_no_outcome(world: World, interruption: type[BaseException]) -> None:
    """A stream that ends because the program does leaves no record."""
    with use_cassette("s", mode="once", on_error="keep"):
        world.tool("other")
        with pytest.raises(interruption):
            list(stream("m", lambda: world.pieces("m", PIECES, interruption())))
    assert [entry.name for entry in open_cassette("cassettes/s.yaml").entries] == ["other"]


async def test_cancelled_while_waiting(world: World) -> None:
    """A stream that is cancelled while it waits for a chunk is kept so far, and leaves its context as it was."""
    waiting = asyncio.Event()

    async def stuck() -> AsyncIterator[str]:
        yield "one"
        waiting.set()
        await asyncio.Event().wait()

    async def read() -> None:
        async for _ in astream("m", stuck):
            pass

    async with use_cassette("s", mode="once", on_error="keep"):
        task = asyncio.create_task(read())
        await waiting.wait()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        world.tool("other")
    cut, other = open_cassette("cassettes/s.yaml").interactions()
    assert (cut.outcome.status, cut.outcome.chunks, other.name) == ("cancelled", ["one"], "other")


async def test_abandoned(world: World) -> None:
    """An async stream that its reader just leaves is part of the recording, although nobody has closed it yet."""

    async def first() -> str:
        async for chunk in astream("m", lambda: world.apieces("m", PIECES)):
            return str(chunk)
        return ""

    async with use_cassette("s", mode="once"):
        held = astream("m", lambda: world.apieces("held", PIECES), n=2)
        read = [await first(), await anext(held)]
    async with use_cassette("s"):
        held = astream("m", lambda: world.apieces("held", PIECES), n=2)
        assert [await first(), await anext(held)] == read
    del held
    gc.collect()
    await asyncio.sleep(0)  # lets the event loop close what was abandoned
    assert world.reached == ["m", "held"]
    assert [i.outcome.ended for i in open_cassette("cassettes/s.yaml").interactions()] == ["closed", "closed"]


def test_shapes_answer_each_other(world: World) -> None:
    """A recorded stream answers a plain call, a recorded value answers a stream, sync and async alike."""

    async def collect() -> list[str]:
        return [chunk async for chunk in astream("m", lambda: world.apieces("m", PIECES))]

    async def answer() -> str:
        return "never"

    with use_cassette("s", mode="once"):
        chunks = list(stream("m", lambda: world.pieces("m", PIECES)))
    with use_cassette("s"):
        assert call("m", lambda: "never", CHAT) == "".join(chunks)
    with use_cassette("s"):
        assert asyncio.run(acall("m", answer, CHAT)) == "".join(chunks)
    with use_cassette("s"):
        assert asyncio.run(collect()) == chunks
    with use_cassette("s", mode="all"):
        call("m", lambda: "a b c", CHAT)
    with use_cassette("s"):
        assert list(stream("m", lambda: world.pieces("m", PIECES))) == ["a", "b", "c"]


def test_recorded_at_arrival(world: World) -> None:
    """What the reader does to a chunk does not change the recording, and replayed chunks are nobody else's."""
    chunks: list[dict[str, list[int]]] = [{"n": [1]}, {"n": [2]}]

    def read() -> list[dict[str, list[int]]]:
        read = []
        for chunk in stream("m", lambda: iter(chunks), Boundary("chat")):
            read.append({"n": list(chunk["n"])})
            chunk["n"].append(99)
        return read

    with use_cassette("s", mode="once"):
        first = read()
    for _ in range(2):
        with use_cassette("s"):
            assert read() == first == [{"n": [1]}, {"n": [2]}]


def test_unrecordable_chunk(world: World) -> None:
    """A chunk without a codec fails at its arrival, closes the real stream, and cannot be swallowed."""

    def bad() -> Iterator[Any]:
        try:
            yield object()
        finally:
            world.closed.append("bad")

    with pytest.raises(UnrecordableValueError, match=r"builtins\.object") as caught, use_cassette("s", mode="once"):
        with pytest.raises(UnrecordableValueError):
            list(stream("m", bad))
        assert world.closed == ["bad"]
    assert caught.value.where == "$"


def test_usage_and_times(world: World) -> None:
    """The tokens of the whole stream and the time of each chunk are recorded."""
    counting = Boundary("chat", join="".join, usage=lambda text: Usage(output_tokens=len(text)))
    with use_cassette("s", mode="once"):
        list(stream("m", lambda: iter(PIECES), counting))
    assert recorded().usage == Usage(output_tokens=len("".join(PIECES)))
    (timing,) = open_cassette("cassettes/s.yaml").header.volatile.timings.values()
    assert len(timing.offsets_ms) == 3
    assert timing.offsets_ms == sorted(timing.offsets_ms)
    assert timing.duration_ms >= timing.offsets_ms[-1]


def test_a_stub_in_the_place_of_a_provider_has_no_usage() -> None:
    """What is of another type than the values of its family is recorded and replayed, without a count of its tokens."""
    counting = Boundary("chat", join=lambda chunks: chunks[0].joined, usage=lambda value: value.usage)
    for mode in ("all", "none"):
        with use_cassette("s", mode=mode):
            assert list(stream("m", lambda: iter(PIECES), counting)) == list(PIECES)
            assert call("plain", lambda: "text", counting) == "text"
    assert [interaction.outcome.usage for interaction in open_cassette("cassettes/s.yaml").interactions()] == [None] * 2


@pytest.mark.parametrize("streamed", [True, False])
def test_what_does_not_fit_is_latched(*, streamed: bool) -> None:
    """A recording that a boundary cannot turn into the shape that is asked for fails the session, even if eaten."""

    def unfit(_: Any) -> Any:
        raise UnreadableValueError("$", "it does not fit")

    def ask(boundary: Boundary, *, whole: bool) -> Any:
        return call("m", lambda: "ab", boundary) if whole else list(stream("m", lambda: iter("ab"), boundary))

    with use_cassette("s", mode="once"):
        ask(Boundary("chat"), whole=not streamed)
    with pytest.raises(UnreadableValueError, match="it does not fit"), use_cassette("s"), suppress(Exception):
        ask(Boundary("chat", join=unfit, split=unfit), whole=streamed)


def test_coroutine_dropped_midway(world: World) -> None:
    """A task that dies with its loop in the middle of a call leaves the context of others alone."""

    class Never:
        def __await__(self) -> Iterator[None]:
            yield None

    async def real() -> str:
        await Never()
        return "never"

    elsewhere = copy_context()

    def other_work() -> str:
        coroutine: Any = acall("m", real)
        elsewhere.run(coroutine.send, None)
        del coroutine  # is closed here, in another context than the one that it ran in
        gc.collect()
        return world.tool("inner")

    with use_cassette("s", mode="once", on_error="keep"):
        call("outer", other_work)
        assert executing() is None
    parents = [(i.name, i.parent) for i in open_cassette("cassettes/s.yaml").interactions()]
    assert parents == [("outer", None), ("inner", 1)]
