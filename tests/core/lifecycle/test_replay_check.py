"""A decorated function that has recorded is called again at once, and a difference is reported with its cause."""

from __future__ import annotations

import asyncio
import itertools
import os
import warnings
from collections.abc import Callable
from pathlib import Path

import pytest

from agenttape_core import boundary, use_cassette
from agenttape_core.errors import ConfigurationError, RecordingDoesNotReplayWarning, VerificationError

from ..session.world import World


@pytest.fixture
def world(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> World:
    """Give a world, in a folder of its own."""
    monkeypatch.chdir(tmp_path)
    return World()


def test_what_replays(world: World) -> None:
    """A function that does the same again is called once more where it records, and only there; its tools never are."""
    calls = []

    @use_cassette("c", mode="once", check_replay="fail")
    def run(name: str) -> str:
        calls.append(name)
        with use_cassette("inner", mode="all"):
            return world.tool(name)

    assert [run("a"), run("a")] == ["a 1", "a 2"]  # the inner session records in each call, and not in the check
    assert calls == ["a"] * 3


@boundary("tool")
def look_up(name: str) -> str:
    """Look something up."""
    return f"about {name}"


def drawn(world: World) -> str:
    """Ask something else each time."""
    return look_up(os.urandom(4).hex())


NUMBERS = itertools.count()


def counted(world: World) -> dict[str, object]:
    """Return something else each time."""
    return {"key": "sk-proj-" + "a1B2" * 12, "answer": [world.tool("a"), f"number {next(NUMBERS)} of many"]}


def cached(world: World, seen: list[str] = []) -> str:  # noqa: B006 - what the first run leaves
    """Ask once in a process."""
    if not seen:
        seen.append(world.tool("a"))
    return seen[0]


@pytest.mark.parametrize(
    ("function", "cause"),
    [
        (drawn, r"CassetteMissError: \w+ was called with a request (?s:.)*differs"),
        (
            counted,
            r"result.answer\[1\]\n    recorded  number \[-\d-\] of many\n    replayed  number \{\+\d\+\} of many$",
        ),
        (cached, "UnusedInteractionsError: .*0 of the 1 recorded"),
    ],
    ids=["miss", "result", "unused"],
)
@pytest.mark.parametrize("is_async", [False, True], ids=["sync", "async"])
def test_what_does_not(world: World, function: Callable[[World], object], cause: str, is_async: bool) -> None:
    """A difference is a warning at the call, or an error, which has no remedy that would not help."""

    def called(check_replay: bool | str) -> object:
        cached.__defaults__[0].clear()  # type: ignore[index]
        around = use_cassette("c", mode="all", check_replay=check_replay)  # type: ignore[arg-type]
        if not is_async:
            return around(function)(world)

        @around
        async def run() -> object:
            await asyncio.sleep(0)
            return function(world)

        return asyncio.run(run())

    with pytest.warns(RecordingDoesNotReplayWarning, match=rf"c.yaml does not replay\n  {cause}") as found:
        assert called(check_replay=True)
    assert "record everything again" not in str(found[0].message)
    assert is_async or found[0].filename == __file__
    with pytest.raises(VerificationError, match="does not replay"):
        called(check_replay="fail")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert called(check_replay=False)


@pytest.mark.usefixtures("project")
def test_a_block_is_refused() -> None:
    """A block cannot be run again, and says what to do instead."""
    with pytest.raises(ConfigurationError, match=r"(?s)can't run again.*decorate.*agenttape record --check-replay"):
        use_cassette("c", mode="once", check_replay=True).__enter__()
    with pytest.raises(ConfigurationError, match="expected true, false or 'fail'"):
        use_cassette("c", mode="once", check_replay="always").__enter__()  # type: ignore[arg-type]
    with use_cassette("c", mode="once", check_replay=False):
        pass
