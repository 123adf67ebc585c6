"""The four adapters over the description of a call, without a framework."""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from agenttape_core import use_cassette
from agenttape_core.errors import UnreadableValueError
from agenttape_core.integration import (
    Boundary,
    Call,
    SessionCall,
    async_generator,
    coroutine,
    current_session,
    executing,
    generator,
    plain,
)

CALL = Boundary("call")


def real(what: str) -> str:
    """Return a text."""
    return f"{what}!"


async def real_coroutine(what: str) -> str:
    """Return a text, awaited."""
    return f"{what}!"


def real_generator(what: str) -> Iterator[str]:
    """Yield a text twice."""
    yield what
    yield f"{what}!"


async def real_async_generator(what: str) -> AsyncIterator[str]:
    """Yield a text twice, asynchronously."""
    yield what
    yield f"{what}!"


async def collected(stream: AsyncIterator[Any]) -> list[Any]:
    """Return the items of an async stream."""
    return [item async for item in stream]


Ask = Callable[[Callable[..., Any]], Any]
SHAPES: dict[str, tuple[Any, Callable[..., Any], Ask, Any]] = {
    "plain": (plain, real, lambda call: call("a"), "a!"),
    "coroutine": (coroutine, real_coroutine, lambda call: asyncio.run(call("a")), "a!"),
    "generator": (generator, real_generator, lambda call: list(call("a")), ["a", "a!"]),
    "async generator": (
        async_generator,
        real_async_generator,
        lambda call: asyncio.run(collected(call("a"))),
        ["a", "a!"],
    ),
}
every_shape = pytest.mark.parametrize("shape", SHAPES)


def begun(what: str) -> SessionCall | None:
    """Begin a call in the current session."""
    session = current_session()
    return session.cross(CALL, "ask", {"what": what}) if session is not None else None


def taped(shape: str, **special: Any) -> Callable[..., Any]:
    """Return the function of a shape, taped."""
    adapter, function, _, _ = SHAPES[shape]

    def describe(what: str) -> Call:
        return Call(begun(what), partial(function, what), **special)

    wrapped: Callable[..., Any] = adapter(function, describe)
    return wrapped


def asked_twice(shape: str, path: Path, call: Callable[..., Any]) -> list[Any]:
    """Return the answers of a call, recorded and replayed."""
    answers = []
    for mode in ("all", "none"):
        with use_cassette(path / "c.yaml", mode=mode):
            answers.append(SHAPES[shape][2](call))
    return answers


@every_shape
def test_shape_is_kept(shape: str, tmp_path: Path) -> None:
    """A taped function has the shape of the real one; outside a session it only calls it, inside it is recorded."""
    _, function, ask, expected = SHAPES[shape]
    call = taped(shape)
    tests = (inspect.iscoroutinefunction, inspect.isgeneratorfunction, inspect.isasyncgenfunction)
    assert [test(call) for test in tests] == [test(function) for test in tests]
    assert (call.__name__, call.__doc__, ask(call)) == (function.__name__, function.__doc__, expected)
    assert asked_twice(shape, tmp_path, call) == [expected, expected]


@every_shape
def test_pack_and_unpack(shape: str, tmp_path: Path) -> None:
    """A value is recorded packed; a real call returns the value itself, a replayed one the unpacked recording."""
    packed = []

    def pack(value: str) -> list[str]:
        packed.append(value)
        return [value]

    call = taped(shape, pack=pack, unpack=lambda recorded: (recorded[0],))
    live, replayed = asked_twice(shape, tmp_path, call)
    expected = SHAPES[shape][3]
    assert live == expected
    assert replayed == ([(item,) for item in expected] if isinstance(expected, list) else (expected,))
    assert packed == (expected if isinstance(expected, list) else [expected])


@every_shape
def test_recording_that_cannot_be_unpacked_fails_the_session(shape: str, tmp_path: Path) -> None:
    """An error of unpacking is the cassette's, so it ends the session even if the caller swallows it."""

    def unpack(_: Any) -> Any:
        raise UnreadableValueError("str", "it was packed in another way")

    call = taped(shape, unpack=unpack)
    with use_cassette(tmp_path / "c.yaml", mode="all"):
        SHAPES[shape][2](call)
    ended = pytest.raises(UnreadableValueError, match="another way")
    with ended, use_cassette(tmp_path / "c.yaml"), pytest.raises(UnreadableValueError):
        SHAPES[shape][2](call)


@every_shape
def test_contexts(shape: str, tmp_path: Path) -> None:
    """`around` is entered for each call, `executing` only where the real call is made; both are left."""
    seen: list[str] = []
    function = SHAPES[shape][1]

    @contextmanager
    def around() -> Iterator[None]:
        seen.append("around")
        yield
        seen.append("left")

    @contextmanager
    def execution() -> Iterator[Callable[[], Any]]:
        seen.append("executing" if executing() is not None else "too early")
        yield partial(function, "b")

    call = taped(shape, around=around, executing=execution)
    answers = asked_twice(shape, tmp_path, call)
    assert answers[0] == answers[1] == (["b", "b!"] if isinstance(answers[0], list) else "b!")
    assert seen == ["around", "executing", "left", "around", "left"]
    SHAPES[shape][2](call)
    assert len(seen) == 5, "outside a session there is no call to be around"


@every_shape
def test_serving_goes_through_the_framework(shape: str, tmp_path: Path) -> None:
    """A framework may put something around the serving of a call, and nothing around the real one."""
    replayed: list[str] = []

    def replaying(replay_call: Callable[[], Any]) -> Any:
        replayed.append(shape)
        return replay_call()

    answers = asked_twice(shape, tmp_path, taped(shape, replaying=replaying))
    assert (answers[0] == answers[1], replayed) == (True, [shape])


@pytest.mark.parametrize("shape", ["plain", "coroutine"])
def test_effects_are_repeated(shape: str, tmp_path: Path) -> None:
    """The effects of a call are repeated where it is replayed, by the function for its shape."""
    repeated: list[Any] = []

    async def aapply(effect: Any) -> None:
        repeated.append(("awaited", effect))

    @contextmanager
    def execution() -> Iterator[Callable[[], Any]]:
        session_call = executing()
        assert session_call is not None
        session_call.effected("written")
        yield partial(SHAPES[shape][1], "a")

    call = taped(shape, executing=execution, apply=lambda effect: repeated.append(("called", effect)), aapply=aapply)
    asked_twice(shape, tmp_path, call)
    assert repeated == [("called" if shape == "plain" else "awaited", "written")]


@pytest.mark.parametrize("shape", ["generator", "async generator"])
def test_replayed_chunks_are_announced(shape: str, tmp_path: Path) -> None:
    """Each chunk that is replayed is announced before its reader gets it; a real stream announces its own."""
    announced: list[str] = []

    async def announce(chunk: str) -> None:
        announced.append(chunk)

    asked_twice(shape, tmp_path, taped(shape, on_chunk=announced.append if shape == "generator" else announce))
    assert announced == ["a", "a!"]


@pytest.mark.parametrize("packed", [False, True])
def test_streams_closed_early(tmp_path: Path, *, packed: bool) -> None:
    """A stream that its reader closes is recorded as closed, and the real one is closed at once."""
    closed: list[str] = []

    def once() -> Iterator[str]:
        try:
            yield "a"
            yield "b"
        finally:
            closed.append("plain")

    async def aonce() -> AsyncIterator[str]:
        try:
            yield "a"
            yield "b"
        finally:
            closed.append("async")

    special: dict[str, Any] = {"pack": lambda chunk: [chunk]} if packed else {}
    stream = generator(once, lambda: Call(begun("a"), once, **special))
    astream = async_generator(aonce, lambda: Call(begun("b"), aonce, **special))

    async def read_one() -> str:
        chunks = astream()
        try:
            return await anext(chunks)
        finally:
            await chunks.aclose()
            assert closed == ["plain", "async"]

    with use_cassette(tmp_path / "c.yaml", mode="all") as cassette:
        chunks = stream()
        assert next(chunks) == "a"
        chunks.close()
        assert closed == ["plain"]
        assert asyncio.run(read_one()) == "a"
    assert [interaction.outcome.ended for interaction in cassette.interactions] == ["closed", "closed"]
