"""Concurrent calls that are awaited are answered in the order in which they were answered when they were recorded."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

from agenttape_core import open_cassette, use_cassette
from agenttape_core.integration import (
    Boundary,
    aintercept,
    aintercept_stream,
    current_branch,
    current_session,
    enter_branch,
)

CHAT = Boundary("chat", join="".join, split=lambda text: text.split(" "))


async def ask(name: str, real: Callable[[], Awaitable[str]]) -> str:
    """Make a call of a name."""
    session = current_session()
    assert session is not None
    answer: str = await aintercept(session.cross(CHAT, name, {"ask": name}), real)
    return answer


async def gone() -> str:
    """Refuse to be executed."""
    raise AssertionError("was executed")


async def together(order: list[str], ends: list[str], *, real: bool = True) -> list[str]:
    """Ask in one order, be answered in another one, and return the order in which answers came."""
    came: list[str] = []
    events = {name: asyncio.Event() for name in order}

    async def one(name: str) -> None:
        async def answer() -> str:
            await events[name].wait()
            return name

        said = await ask(name, answer if real else gone)
        came.append(said)
        after = ends.index(name) + 1
        if after < len(ends):
            events[ends[after]].set()

    events[ends[0]].set()
    await asyncio.gather(*(one(name) for name in order))
    return came


def keeping(path: Path, mode: str, run: Callable[[], Awaitable[Any]], *, keeps: bool = True) -> Any:
    """Run in a session that keeps turns."""

    async def main() -> Any:
        with use_cassette(path, mode=mode) as session:
            if keeps:
                session.turns.keep()
            return await run()

    return asyncio.run(main())


@pytest.mark.parametrize("ends", ["cba", "bca", "abc"])
def test_answers_come_in_the_recorded_order(ends: str, tmp_path: Path) -> None:
    """Who overtook whom in the recording does it again, though no answer takes any time."""
    path = tmp_path / "turns.yaml"
    assert keeping(path, "once", lambda: together(list("abc"), list(ends))) == list(ends)
    assert keeping(path, "none", lambda: together(list("abc"), list(ends), real=False)) == list(ends)


def test_the_order_is_a_volatile_fact(tmp_path: Path) -> None:
    """It stands in the header beside the times; the records do not depend on it."""
    keeping(tmp_path / "one.yaml", "once", lambda: together(list("abc"), list("cba")))
    keeping(tmp_path / "two.yaml", "once", lambda: together(list("abc"), list("bca")))
    one, two = open_cassette(tmp_path / "one.yaml"), open_cassette(tmp_path / "two.yaml")
    assert [[a.split("~")[0] for a in group] for group in one.header.volatile.turns] == [["c", "b", "a"]]
    assert [[a.split("~")[0] for a in group] for group in two.header.volatile.turns] == [["b", "c", "a"]]
    assert list(one.records()) == list(two.records())


def test_where_order_does_not_matter_none_is_kept(tmp_path: Path) -> None:
    """Without anybody to ask for it, a file says nothing of turns."""
    keeping(tmp_path / "none.yaml", "once", lambda: together(list("ab"), list("ba")), keeps=False)
    assert open_cassette(tmp_path / "none.yaml").header.volatile.turns == []
    assert "turns" not in (tmp_path / "none.yaml").read_text()


async def one_after_the_other(*, real: bool) -> list[str]:
    """Ask twice."""

    async def answer() -> str:
        return "x"

    return [await ask(name, answer if real else gone) for name in "ab"]


def test_calls_one_after_the_other_have_no_turns(tmp_path: Path) -> None:
    """Only calls that overlapped are put in order."""
    keeping(tmp_path / "row.yaml", "once", lambda: one_after_the_other(real=True))
    assert open_cassette(tmp_path / "row.yaml").header.volatile.turns == []


def test_a_call_that_is_no_longer_made_is_not_waited_for(tmp_path: Path) -> None:
    """A run that leaves out the faster call goes on when that would have ended at the latest."""
    path = tmp_path / "left_out.yaml"
    keeping(path, "once", lambda: together(list("ab"), list("ba")))

    async def only_a() -> str:
        with use_cassette(path, unused="ignore"):
            branch = current_branch()
            assert branch is not None

            async def first() -> str:
                return await ask("a", gone)

            enter_branch(branch)
            (said,) = await asyncio.gather(first())
            return said

    assert asyncio.run(only_a()) == "a"


def test_streams_end_in_their_turn(tmp_path: Path) -> None:
    """A stream that ended later than another call does so again."""
    path = tmp_path / "streams.yaml"

    async def program(*, real: bool) -> list[str]:
        ended = asyncio.Event()
        came: list[str] = []

        async def words() -> AsyncIterator[str]:
            assert real
            yield "one"
            await ended.wait()
            yield " two"

        async def stream() -> None:
            session = current_session()
            assert session is not None
            said = [w async for w in aintercept_stream(session.cross(CHAT, "stream", {"ask": "stream"}), words)]
            came.append("".join(said))

        async def call() -> None:
            async def answer() -> str:
                return "call"

            came.append(await ask("call", answer if real else gone))
            ended.set()

        await asyncio.gather(stream(), call())
        return came

    assert keeping(path, "once", lambda: program(real=True)) == ["call", "one two"]
    assert keeping(path, "none", lambda: program(real=False)) == ["call", "one two"]
