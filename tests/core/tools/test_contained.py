"""Tools that replay a program to learn something: sessions that the program opens itself only replay there."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from agenttape_core import Variation, awhat_if, boundary, returns, use_cassette, what_if
from agenttape_core.experiments import orders, program_of
from agenttape_core.experiments.update import plan, update

OUTER, INNER = Path("cassettes/outer.yaml"), Path("cassettes/inner.yaml")
SAID = "cassettes/inner.yaml: search was called with a request that isn't in the cassette"


class Desk:
    """A program with a session of its own, and whatever it really did."""

    def __init__(self) -> None:
        self.searched: list[str] = []
        self.word = "dune"
        self.mode: Any = "all"

        @boundary("tool")
        def search(word: str) -> str:
            self.searched.append(word)
            return f"found {word}"

        @boundary("chat")
        def ask(prompt: str) -> str:
            return f"I read: {prompt}"

        self._search, self._ask = search, ask

    def inner(self) -> str:
        """The part with a session of its own."""
        with use_cassette("inner", mode=self.mode):
            return self._search(self.word)

    def strict(self) -> str:
        """The program; it ends with the part."""
        return self._ask(self.inner() and "it")

    def lenient(self) -> str:
        """The program; it goes on without the part, whatever came of that."""
        try:
            self.inner()
        except BaseException:
            self.searched.append("caught")
        return self._ask("it")


@pytest.fixture
def desk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Desk:
    """The program, recorded; its part asks for something else since."""
    monkeypatch.chdir(tmp_path)
    desk = Desk()
    with use_cassette("outer", mode="all"):
        desk.lenient()
    desk.searched.clear()
    desk.word = "emma"
    return desk


def replayed(function: Callable[[], Any]) -> str:
    """Replay as faults, why, minimise and triage do, and return how the run left the recorded world."""
    return program_of(function).run(Variation(OUTER)).left or "it stayed"


TOOLS: dict[str, Callable[[Callable[[], Any]], str]] = {
    "what_if": lambda function: str(what_if(OUTER, function, {"ask": returns("no")})),
    "explore": lambda function: str(orders(function, OUTER)),
    "plan": lambda function: "\n".join(plan(function, OUTER).lines()),
    "program": replayed,
}


@pytest.mark.parametrize("mode", ["all", "once", "new_episodes", "update"])
@pytest.mark.parametrize("tool", TOOLS)
def test_nothing_is_executed(tool: str, mode: str, desk: Desk) -> None:
    """A session of the program that would record is replayed; its miss is told, also if the program catches it."""
    before, desk.mode = INNER.read_bytes(), mode
    assert SAID in TOOLS[tool](desk.lenient)
    assert set(desk.searched) == {"caught"}
    TOOLS[tool](desk.strict)
    assert set(desk.searched) == {"caught"}
    assert INNER.read_bytes() == before


@pytest.mark.parametrize("tool", TOOLS)
def test_a_part_that_replays_is_no_news(tool: str, desk: Desk) -> None:
    """Where the part asks for what it recorded, it is replayed, and nothing is told; afterwards it records again."""
    desk.word = "dune"
    assert "inner" not in TOOLS[tool](desk.lenient)
    assert desk.searched == []
    desk.inner()
    assert desk.searched == ["dune"]


def test_accounts_have_it_as_data(desk: Desk) -> None:
    """The account of a change and the plan of an update name the failures in their plain data."""
    found = what_if(OUTER, desk.lenient, {"ask": returns("no")})
    assert (found.to_dict()["failed"], found.is_same) == ([SAID], False)
    planned = plan(desk.lenient, OUTER)
    assert (planned.to_dict()["failed"], planned.is_clean) == ((SAID,), True)
    assert str(planned) == "1 call, none changed, 1 other session failed"


def test_a_heal_of_what_is_clean(desk: Desk) -> None:
    """Where nothing has changed, an update executes nothing, in the part neither."""
    desk.word = "dune"
    assert update(desk.strict, OUTER).is_clean
    assert desk.searched == []


async def test_overlapping_replays(desk: Desk) -> None:
    """Two replays at once, of which the first ends first, leave the process as it was."""
    ended = asyncio.Event()

    async def first() -> str:
        return desk.lenient()

    async def second() -> str:
        await asyncio.wait_for(ended.wait(), 30)
        return desk.lenient()

    other = asyncio.create_task(awhat_if(OUTER, second, {"ask": returns("no")}))
    await asyncio.sleep(0)
    assert (await awhat_if(OUTER, first, {"ask": returns("no")})).failed == (SAID,)
    ended.set()
    assert SAID in (await other).failed
    assert set(desk.searched) == {"caught"}
    desk.inner()
    assert desk.searched[-1] == "emma"
