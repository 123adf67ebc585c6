"""Generators as boundaries: read to the end, left early, broken, spoken to; with what they return."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Generator, Iterator
from contextlib import aclosing, closing
from typing import Any

import pytest

from agenttape_core import boundary, open_cassette, use_cassette
from agenttape_core.errors import CassetteMissError, UnreadableValueError, UnrecordableValueError
from agenttape_core.integration import executing


class World:
    """Streams three chunks; no two are equal. Notes what happened to its streams."""

    def __init__(self) -> None:
        self.chunks = 0
        self.events: list[str] = []

    def stream(self, error: str | None = None) -> Generator[str, Any, dict[str, int]]:
        """Stream, then break if told so."""
        self.events.append("begun")
        try:
            for _ in range(3):
                self.chunks += 1
                yield f"chunk {self.chunks}"
            if error is not None:
                raise TimeoutError(error)
        finally:
            self.events.append("ended")
        return {"tokens": self.chunks}

    async def astream(self, error: str | None = None) -> AsyncGenerator[str, Any]:
        """Stream likewise."""
        with closing(self.stream(error)) as chunks:
            for chunk in chunks:
                yield chunk


pytestmark = pytest.mark.usefixtures("project")


@pytest.fixture
def world() -> World:
    """What lies outside."""
    return World()


async def advanced(reading: Any, way: str = "__{}next__", *given: Any) -> Any:
    """Read from a generator of either shape, send to it, throw into it or close it; say what one that ends returns."""
    try:
        if isinstance(reading, AsyncIterator):
            return await getattr(reading, way.format("a"))(*given)
        return getattr(reading, way.format(""))(*given)
    except (StopIteration, StopAsyncIteration) as stop:
        return f"returned {getattr(stop, 'value', None)}"


def recorded() -> Any:
    """Return the only recorded outcome."""
    (interaction,) = open_cassette("cassettes/c.yaml").interactions()
    return interaction.outcome


Read = Callable[..., list[str]]


@pytest.fixture(params=["generator", "async generator"])
def read(request: pytest.FixtureRequest, world: World) -> Read:
    """Read some chunks of the taped stream and close it, or all: what is said here once is true of both shapes."""
    stream: Any = boundary("chat")(world.stream)
    astream: Any = boundary("chat")(world.astream)

    def read(how_many: int | None = None, error: str | None = None) -> list[str]:
        chunks: list[str] = []
        with closing(stream(error)) as reading:
            for chunk in reading:
                chunks.append(chunk)
                if len(chunks) == how_many:
                    break
        return chunks

    async def aread(how_many: int | None = None, error: str | None = None) -> list[str]:
        chunks: list[str] = []
        async with aclosing(astream(error)) as reading:
            async for chunk in reading:
                chunks.append(chunk)
                if len(chunks) == how_many:
                    break
        return chunks

    return read if request.param == "generator" else lambda *args: asyncio.run(aread(*args))


def test_read_to_the_end(world: World, read: Read) -> None:
    """Each chunk is recorded, and comes again."""
    with use_cassette("c", mode="once"):
        first = read()
    assert (recorded().status, recorded().ended) == ("streamed", "exhausted")
    with use_cassette("c"):
        assert read() == first == ["chunk 1", "chunk 2", "chunk 3"]
    assert world.events == ["begun", "ended"]


def test_closed_early(world: World, read: Read) -> None:
    """A stream that its reader leaves is closed at once, and recorded as far as it was read."""
    with use_cassette("c", mode="once") as session:
        assert read(2) == ["chunk 1", "chunk 2"]
        assert world.events == ["begun", "ended"]
        assert [interaction.outcome.ended for interaction in session.interactions] == ["closed"]
    with use_cassette("c"):
        assert read(2) == ["chunk 1", "chunk 2"]
    with pytest.raises(CassetteMissError, match="closed by its reader after 2 chunks"), use_cassette("c"):
        read()


def test_broken_midway(world: World, read: Read) -> None:
    """A stream that breaks gives its chunks and then its error, each time."""
    for mode in ("once", "none"):
        with use_cassette("c", mode=mode), pytest.raises(TimeoutError, match="slow"):
            read(None, "slow")
    assert (recorded().ended, len(recorded().chunks)) == ("raised", 3)
    assert world.events == ["begun", "ended"]


def test_begins_when_first_read(world: World) -> None:
    """A generator crosses when it is first advanced: what is made and not read is not recorded."""
    stream = boundary("chat")(world.stream)
    with use_cassette("c", mode="once") as session:
        waiting, unread = stream(), stream()
        assert session.report.recorded == ()
        list(waiting)
        assert len(session.report.recorded) == 1
        unread.close()
    assert world.events == ["begun", "ended"]


def test_left_open_at_the_end_of_the_session(world: World) -> None:
    """A stream that is still read when the session ends is recorded as closed."""
    with closing(boundary("chat")(world.stream)()) as reading:
        with use_cassette("c", mode="once"):
            next(reading)
        assert recorded().ended == "closed"


def test_returned_value(world: World) -> None:
    """What a generator returns is returned on replay, with its type."""

    def summary(stream: Callable[[], Generator[str, Any, Any]]) -> Generator[str, Any, Any]:
        return (yield from stream())

    def total(reading: Generator[str, Any, Any]) -> Any:
        while True:
            try:
                next(reading)
            except StopIteration as stop:
                return stop.value

    with use_cassette("c", mode="once"):
        assert total(boundary("chat")(world.stream)()) == {"tokens": 3}
    with use_cassette("c"):
        assert total(summary(boundary("chat")(world.stream))) == {"tokens": 3}
    assert recorded().chunks[-1] == {"$return": {"tokens": 3}}
    assert world.events == ["begun", "ended"]


def test_a_chunk_that_looks_like_a_returned_value() -> None:
    """A chunk of the user's own with the mark of a returned value stays a chunk."""

    @boundary
    def stream() -> Iterator[dict[str, int]]:
        yield {"$return": 1}

    for mode in ("once", "none"):
        with use_cassette("c", mode=mode):
            assert list(stream()) == [{"$return": 1}]


@pytest.mark.parametrize("name", ["stream", "astream"])
async def test_sending_is_refused(world: World, name: str) -> None:
    """What is sent into a stream would be part of the request: it is refused, in a replay too, and not swallowed."""
    stream = boundary("chat", name="talk")(getattr(world, name))
    with use_cassette("c", mode="once"):
        await advanced(stream())
    for mode in ("all", "none"):
        with (
            pytest.raises(UnrecordableValueError, match="talk is recorded in one direction"),
            use_cassette("c", mode=mode),
        ):
            reading = stream()
            await advanced(reading)
            with pytest.raises(UnrecordableValueError):
                await advanced(reading, "{}send", "more")


def test_error_of_the_reader(world: World) -> None:
    """What its reader throws into a stream ends it, as a closed one, and comes back."""
    stream = boundary("chat")(world.stream)
    with use_cassette("c", mode="once"):
        reading = stream()
        next(reading)
        with pytest.raises(KeyError, match="mine"):
            reading.throw(KeyError("mine"))
    assert (recorded().ended, recorded().error, world.events) == ("closed", None, ["begun", "ended"])


# -- outside a session -----------------------------------------------------------------------------------------


def echo(log: list[str]) -> Generator[str, str, str]:
    """Answer what is sent and what is thrown."""
    heard = "nothing"
    while heard != "stop":
        try:
            heard = yield f"heard {heard}"
        except ValueError as error:
            heard = f"error {error}"
        except GeneratorExit:
            log.append("closed")
            raise
    return "stopped"


async def aecho(log: list[str]) -> AsyncGenerator[str, str]:
    """Answer likewise; it has no value to return."""
    heard = "nothing"
    while heard != "stop":
        try:
            heard = yield f"heard {heard}"
        except ValueError as error:
            heard = f"error {error}"
        except GeneratorExit:
            log.append("closed")
            raise


@pytest.mark.parametrize(("function", "end"), [(echo, "returned stopped"), (aecho, "returned None")])
async def test_untouched_outside_a_session(function: Callable[[list[str]], Any], end: str) -> None:
    """Without a session a generator can be sent to, thrown into and closed, and returns its value."""
    log: list[str] = []
    reading = boundary(function)(log)
    assert await advanced(reading) == "heard nothing"
    assert await advanced(reading, "{}send", "one") == "heard one"
    assert await advanced(reading, "{}throw", ValueError("two")) == "heard error two"
    assert await advanced(reading, "{}send", "stop") == end
    reading = boundary(function)(log)
    await advanced(reading)
    with pytest.raises(KeyError):
        await advanced(reading, "{}throw", KeyError("mine"))
    reading = boundary(function)(log)
    await advanced(reading)
    await advanced(reading, "{}close")
    assert log == ["closed"]


# -- nesting, and other shapes ---------------------------------------------------------------------------------


def test_children_of_a_stream(world: World) -> None:
    """What the real stream calls is recorded inside it; what its reader calls between two chunks is not."""

    @boundary("tool")
    def tool(who: str) -> str:
        return who

    @boundary("chat")
    def stream() -> Iterator[str]:
        yield tool("stream")
        yield "end"

    for mode in ("once", "none"):
        with use_cassette("c", mode=mode):
            for chunk in stream():
                assert executing() is None
                tool(f"reader of {chunk}")
    rows = [(row.name, row.parent is not None) for row in open_cassette("cassettes/c.yaml").entries]
    assert sorted(rows) == [("stream", False), ("tool", False), ("tool", False), ("tool", True)]


def test_generator_becomes_async(world: World) -> None:
    """A recording serves the function after it has become async."""
    with use_cassette("c", mode="once"):
        chunks = list(boundary("chat", name="m")(world.stream)())

    @boundary("chat", name="m")
    async def m(error: str | None = None) -> AsyncIterator[str]:
        yield "real"

    async def main() -> list[str]:
        return [chunk async for chunk in m()]

    with use_cassette("c"):
        assert asyncio.run(main()) == chunks


def test_stream_and_list(world: World) -> None:
    """A stream serves a plain function as the list of its chunks, and a list serves a generator; nothing else does."""
    stream = boundary("chat", name="m")(world.stream)

    def whole(value: Any) -> Any:
        def m(error: str | None = None) -> Any:
            return value

        return boundary("chat", name="m")(m)

    with use_cassette("c", mode="once"):
        chunks = list(stream())
    with use_cassette("c"):
        assert whole([])() == chunks
    with use_cassette("c", mode="all"):
        whole(["a", "b"])()
    with use_cassette("c"):
        assert list(stream()) == ["a", "b"]
    with use_cassette("c", mode="all"):
        whole("ab")()
    with pytest.raises(UnreadableValueError, match="a generator asks for it"), use_cassette("c"):
        list(stream())
